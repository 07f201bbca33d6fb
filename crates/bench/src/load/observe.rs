//! The server's own cost over a run: from `/proc` when it is here, from `INFO` otherwise.

use crate::load::control::Control;
use crate::load::settings::{Endpoint, Settings};
use crate::process::{ProcessUsage, listener_of_path, listener_of_port};
use crate::report::ServerUsage;

/// A reading taken before or after a run.
#[derive(Debug)]
pub struct Observation {
    process: Option<ProcessUsage>,
    remote: Option<(f64, f64)>,
}

/// The server's process: the one given, or the one that listens where we connect.
pub fn server_pid(settings: &Settings, given: Option<u32>) -> Option<u32> {
    if given.is_some() || !settings.target.is_local() {
        return given;
    }
    match &settings.target.endpoint {
        Endpoint::Tcp(_, port) => listener_of_port(*port),
        Endpoint::Unix(path) => listener_of_path(path),
    }
}

impl Observation {
    /// Looks at the server now. A server that does not answer `INFO` is simply not known.
    pub fn take(settings: &Settings, pid: Option<u32>) -> Self {
        let process = pid.and_then(ProcessUsage::read);
        let remote = if process.is_some() { None } else { remote_cpu(settings) };
        Self { process, remote }
    }

    /// What was used between the two.
    pub fn until(&self, end: &Observation) -> ServerUsage {
        match (&self.process, &end.process, self.remote, end.remote) {
            (Some(start), Some(end), ..) if start.pid == end.pid => {
                ServerUsage::Local(end.since(start))
            }
            (_, _, Some(start), Some(end)) => ServerUsage::Remote(end.0 - start.0, end.1 - start.1),
            _ => ServerUsage::Unknown,
        }
    }
}

fn remote_cpu(settings: &Settings) -> Option<(f64, f64)> {
    let mut control = Control::connect(&settings.target).ok()?;
    let mut seconds = |field| control.info("cpu", field).ok()??.parse::<f64>().ok();
    Some((seconds("used_cpu_user")?, seconds("used_cpu_sys")?))
}
