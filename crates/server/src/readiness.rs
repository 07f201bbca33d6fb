//! Readiness: what is told once the server takes commands.

use std::net::SocketAddr;

use tidemill_engine::config::ServerConfig;

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
