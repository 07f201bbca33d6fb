//! The server's own cost over a run: from `/proc` when it is here, from `INFO` otherwise.

use crate::hardware::{HardwareUsage, Watch};
use crate::load::control::Control;
use crate::load::settings::{Endpoint, Settings, Target};
use crate::process::{ProcessUsage, listener_of_path, listener_of_port};
use crate::report::ServerUsage;

/// A reading taken before or after a run.
#[derive(Debug)]
pub struct Observation {
    processes: Vec<ProcessUsage>,
    remote: Option<(f64, f64)>,
    /// By process; empty when one of them cannot be watched.
    watches: Vec<Watch>,
}

/// The server's process: the one given, or the one that listens where we connect.
pub fn server_pid(target: &Target) -> Option<u32> {
    match &target.endpoint {
        _ if !target.is_local() => None,
        Endpoint::Tcp(_, port) => listener_of_port(*port),
        Endpoint::Unix(path) => listener_of_path(path),
    }
}

impl Observation {
    /// Looks at the servers now. One that does not answer `INFO` is simply not known; neither are
    /// the nodes of a cluster that are not all on this machine.
    pub fn take(settings: &Settings, pids: &[Option<u32>]) -> Self {
        let read = |pid: &Option<u32>| pid.and_then(ProcessUsage::read);
        let processes: Option<Vec<ProcessUsage>> = pids.iter().map(read).collect();
        let alone = processes.is_none() && pids.len() == 1;
        let remote = if alone { remote_cpu(settings) } else { None };
        Self { processes: processes.unwrap_or_default(), remote, watches: Vec::new() }
    }

    /// Counts what the processes do from now on, where hardware counters are to be had.
    pub fn watching(mut self) -> Self {
        let watches = self.processes.iter().map(|process| Watch::of_process(process.pid));
        self.watches = watches.collect::<Option<_>>().unwrap_or_default();
        self
    }

    /// Counts since `watching`.
    pub fn hardware(&mut self) -> Option<HardwareUsage> {
        HardwareUsage::sum(self.watches.iter_mut().map(Watch::read))
    }

    /// Usage between the two.
    pub fn until(&self, end: &Observation) -> ServerUsage {
        if let (Some(start), Some(end)) = (self.remote, end.remote) {
            return ServerUsage::Remote(end.0 - start.0, end.1 - start.1);
        }
        let pairs = self.processes.iter().zip(&end.processes);
        let used = pairs.map(|(start, end)| match start.pid == end.pid {
            true => ServerUsage::Local(end.since(start)),
            false => ServerUsage::Unknown,
        });
        used.reduce(ServerUsage::plus).unwrap_or(ServerUsage::Unknown)
    }
}

fn remote_cpu(settings: &Settings) -> Option<(f64, f64)> {
    let mut control = Control::connect(&settings.target).ok()?;
    let mut seconds = |field| control.info("cpu", field).ok()??.parse::<f64>().ok();
    Some((seconds("used_cpu_user")?, seconds("used_cpu_sys")?))
}
