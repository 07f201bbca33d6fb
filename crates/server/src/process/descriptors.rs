//! Room for as many descriptors as there may be clients.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tidemill_engine::system_error::reason;

/// Descriptors that are not clients: listeners, event loops, files.
const RESERVED_MIN: u64 = 32;

/// Descriptors of one worker: its event loop, its waker and some listeners.
const PER_WORKER: u64 = 6;

/// Raises the limit of open files so that `clients_max` fit, and returns how many clients do.
///
/// # Errors
///
/// Text for the operator when the limit does not even suffice for the server itself.
pub(crate) fn fit_clients(clients_max: usize, worker_count: usize) -> Result<usize, String> {
    let reserved = RESERVED_MIN.max(PER_WORKER * worker_count as u64);
    let wanted = (clients_max as u64).saturating_add(reserved);
    let before = getrlimit(Resource::Nofile);
    // No limit is none that has to be raised.
    let Some(open_max) = before.current.filter(|&open_max| open_max < wanted) else {
        return Ok(clients_max);
    };
    let Some(error) = raise(&before, wanted) else {
        log::info!(
            "Increased maximum number of open files to {wanted} (it was originally set to \
             {open_max})."
        );
        return Ok(clients_max);
    };
    let open_max = getrlimit(Resource::Nofile).current.unwrap_or(wanted);
    if open_max <= reserved {
        return Err(format!(
            "Your current 'ulimit -n' of {open_max} is not enough for the server to start. Please \
             increase your open file limit to at least {wanted}. Exiting."
        ));
    }
    let fitting = open_max - reserved;
    log::warn!(
        "You requested maxclients of {clients_max} requiring at least {wanted} max file \
         descriptors."
    );
    log::warn!("Server can't set maximum open files to {wanted} because of OS error: {error}.");
    log::warn!(
        "Current maximum open files is {open_max}. maxclients has been reduced to {fitting} to \
         compensate for low ulimit. If you need higher maxclients increase 'ulimit -n'."
    );
    Ok(fitting as usize)
}

/// Raises the limit to `wanted`, or else to the highest value allowed; the error is the one that
/// kept it from `wanted`.
fn raise(before: &Rlimit, wanted: u64) -> Option<String> {
    let maximum = before.maximum.map(|maximum| maximum.max(wanted));
    let error = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).err()?;
    // Never refused; if it were, the limit would stay as it is, and the caller looks.
    let _ =
        setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum });
    Some(reason(&error.into()))
}
