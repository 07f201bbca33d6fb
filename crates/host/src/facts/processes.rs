//! Running programs, by the names the kernel keeps, and the systemd unit of one.

use crate::{ReadError, Refusal, Root};

/// File of a capture that keeps the names of the programs that ran.
pub(crate) const CAPTURED_PROCESSES: &str = "/tidemill/processes";

/// The names of the programs that run, sorted, each once. A capture tells them in a file of its
/// own, or shows its processes.
///
/// # Errors
/// The refusal when neither can be read.
pub fn process_names(root: &Root) -> Result<Vec<String>, ReadError> {
    if !root.is_live()
        && let Ok(text) = root.text(CAPTURED_PROCESSES)
    {
        return Ok(text.lines().map(str::to_owned).collect());
    }
    let processes = root.names("/proc")?;
    let numbers = processes.iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    let names = numbers.filter_map(|pid| root.text(&format!("/proc/{pid}/comm")).ok());
    let mut names: Vec<String> = names.collect();
    if names.is_empty() {
        let path = CAPTURED_PROCESSES.to_owned();
        return Err(ReadError { path, refusal: Refusal::Absent, errno: libc::ENOENT });
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// True if a program of this name runs.
///
/// # Errors
/// As [`process_names`].
pub fn runs(root: &Root, program: &str) -> Result<bool, ReadError> {
    Ok(process_names(root)?.iter().any(|name| name == program))
}

/// The systemd service a process belongs to, such as `valkey-server.service`; `None` when it
/// belongs to none.
pub fn unit_of(root: &Root, pid: u32) -> Option<String> {
    let groups = root.text(&format!("/proc/{pid}/cgroup")).ok()?;
    let paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let mut system = paths.filter(|path| path.starts_with("/system.slice/"));
    let service = system.find_map(|path| path.split('/').rfind(|part| part.ends_with(".service")));
    service.map(str::to_owned)
}
