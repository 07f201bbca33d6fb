//! The limit of open files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for everything but connections, in a server started by us too.
const RESERVE: u64 = 512;

/// Raises the soft limit to the hard one if this number of connections needs it; processes started
/// later inherit it.
///
/// # Errors
/// Says what is missing when the hard limit is too low.
pub(crate) fn make_room(connections: u64) -> Result<(), String> {
    let wanted = connections.saturating_add(RESERVE);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|files| files >= wanted) {
        return Ok(());
    }
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // Refused only if the limits changed meanwhile; the check below says what is left.
    let _ = setrlimit(Resource::Nofile, raised);
    match getrlimit(Resource::Nofile).current {
        Some(files) if files < wanted => Err(format!(
            "{connections} connections need {wanted} open files, the limit is {files} (ulimit -Hn)"
        )),
        _ => Ok(()),
    }
}
