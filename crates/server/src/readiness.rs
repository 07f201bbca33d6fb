//! Start as it is told: before and once the server takes commands.

use std::net::SocketAddr;

use tidemill_engine::config::ServerConfig;
use tidemill_host::placement::{GivenUp, Placement};

use crate::process::supervisor::Supervisor;

/// Addresses and supervisor of a server that is about to be ready.
#[derive(Debug)]
pub(crate) struct Readiness {
    /// Addresses, and whether clients speak TLS there.
    addresses: Vec<(SocketAddr, bool)>,
    unix_socket: Option<String>,
    supervisor: Supervisor,
}

impl Readiness {
    pub(crate) fn new(
        addresses: Vec<(SocketAddr, bool)>,
        config: &ServerConfig,
        supervisor: Supervisor,
    ) -> Readiness {
        Readiness { addresses, unix_socket: config.unix_socket.clone(), supervisor }
    }

    /// Tells the log and the supervisor that commands are taken.
    pub(crate) fn tell(&self) {
        for (address, is_tls) in &self.addresses {
            let kind = if *is_tls { "tls" } else { "tcp" };
            log::info!("Ready to accept connections {kind} {address}");
        }
        if let Some(path) = &self.unix_socket {
            log::info!("Ready to accept connections unix {path}");
        }
        if let Some((address, _)) = self.addresses.iter().find(|(_, is_tls)| !is_tls) {
            log::info!("  try: redis-cli -h {} -p {} ping", address.ip(), address.port());
        }
        self.supervisor.tell_ready();
    }
}

/// Tells the log how the server is set up, before it takes commands.
pub(crate) fn announce(options: &ServerConfig, placement: &Placement, is_saved: bool) {
    log::info!("{} worker(s), placement {}", placement.workers.len(), placement.mode);
    for reason in &placement.reasons {
        log::debug!("  {reason}");
    }
    if let Some(advice) = small_host_advice(placement) {
        log::info!("{advice}");
    }
    if !is_saved && !options.append_only.is_enabled {
        log::info!("No persistence is configured: a restart loses all data");
    }
}

/// Advice to an operator where other work runs on the workers' CPUs; none where the server has CPUs
/// of its own.
fn small_host_advice(placement: &Placement) -> Option<String> {
    let interrupts = placement.given_up.contains(&GivenUp::SeparateInterrupts);
    let others = match (interrupts, placement.is_background_low_priority) {
        (false, false) => return None,
        (true, true) => "interrupts and background threads",
        (true, false) => "interrupts",
        (false, true) => "background threads",
    };
    Some(format!(
        "Too few CPUs: {others} share those of the workers. For steadier latency give the server \
         more cores than workers (details: loglevel verbose, or `tidemill tune plan`)"
    ))
}
