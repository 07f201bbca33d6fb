//! Connections that come to a worker: accepted at a listener, handed over by another worker, or
//! refused.
//!
//! Coordinates the owners; has no state of its own. Listeners and times of looks are in
//! [`super::arrivals`].

use std::os::fd::AsRawFd;
use std::sync::Arc;

use rustix::io::Errno;
use tidemill_engine::config::CertificateUser;
use tidemill_engine::execute;
use tidemill_engine::shared::clients::ClientOrigin;
use tidemill_engine::system_error::reason;
use tidemill_engine::worker::session::Session;
use tidemill_rcu::Flavour;
use tidemill_resp::encode::{Protocol, ReplyBuffer};

use super::receive::count_read;
use super::{EventLoop, WorkerSpec};
use crate::connection::Connection;
use crate::handover::{Accepted, Arrival, Placed};
use crate::limits::ACCEPTED_MAX;
use crate::listen::Origin;
use crate::protected_mode;
use crate::tls::PeerNames;
use crate::transport::{self, Transport};

impl<F: Flavour> EventLoop<F> {
    /// Makes a connection that was handed to this worker its own.
    pub(super) fn accept_arrival(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::New(accepted) => {
                self.catch_up();
                self.adopt(accepted);
            }
            Arrival::Moved(connection) => self.take_over(*connection),
        }
    }

    /// Takes connections that other workers were given and have not taken, because of a long
    /// command.
    pub(super) fn take_overdue(&mut self) {
        let handover = Arc::clone(&self.spec.handover);
        let now_us = self.spec.shared.clock.monotonic_us();
        for arrival in handover.take_overdue(self.spec.index, now_us) {
            self.accept_arrival(arrival);
        }
        self.arrivals.look_at_others(now_us, handover.has_waiting());
    }

    /// Waits again at listeners that pause. Accepts at the others without having been told to: the
    /// kernel tells one worker of a connection, and a long command may have kept that one from
    /// accepting it.
    pub(super) fn look_at_listeners(&mut self) {
        let paused = self.arrivals.take_paused();
        for listener in self.arrivals.accepting(&paused) {
            self.accept(listener);
        }
        self.arrivals.end_pauses(&self.poll, paused);
    }

    /// Accepts connections; those beyond [`ACCEPTED_MAX`] are announced again.
    pub(super) fn accept(&mut self, listener: usize) {
        for _ in 0..ACCEPTED_MAX {
            self.catch_up();
            let accepted = self.arrivals.accept(listener, self.config.tcp_keepalive_seconds);
            let (socket, origin) = match accepted {
                Some(Ok(accepted)) => accepted,
                Some(Err(error)) => return self.pause_if_exhausted(listener, &error),
                None => return,
            };
            let accepted = Accepted::new(socket, origin);
            if self.arrivals.is_tls(listener) {
                self.begin_handshake(accepted);
                continue;
            }
            let now_us = self.spec.shared.clock.monotonic_us();
            match self.spec.handover.place(self.spec.index, accepted, now_us) {
                Placed::Here(accepted) => self.adopt(accepted),
                Placed::Elsewhere => self.arrivals.hand_over(now_us),
                Placed::TooMany(accepted) => {
                    self.execution.stats(&self.spec.shared).rejected_connections.add(1);
                    let text = b"-ERR max number of clients reached\r\n";
                    // A client that cannot even take this is closed too.
                    let _ = transport::write(&accepted.socket, text);
                }
            }
        }
    }

    /// Passes a connection on to a thread that does its handshake.
    fn begin_handshake(&mut self, accepted: Accepted) {
        let WorkerSpec { handover, reception, shared, .. } = &self.spec;
        if !handover.begin_handshake() {
            // No reply can be sent before the handshake.
            return self.execution.stats(shared).rejected_connections.add(1);
        }
        if !reception.receive(accepted) {
            handover.end_handshake();
        }
    }

    /// Stops accepting until the next tick when the system has no means for another connection: the
    /// one that waits would be announced again at once and without end. After other errors, and
    /// when no client waits, the next event tries again.
    fn pause_if_exhausted(&mut self, listener: usize, error: &std::io::Error) {
        let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
        if !Errno::from_io_error(error).is_some_and(|errno| exhausted.contains(&errno)) {
            return;
        }
        let now_us = self.spec.shared.clock.monotonic_us();
        self.log_lines.warn_exhausted(now_us, &reason(error));
        self.arrivals.pause(&self.poll, listener);
    }

    /// Makes a new connection this worker's own.
    pub(super) fn adopt(&mut self, accepted: Accepted) {
        let Accepted { socket, origin, tls } = accepted;
        let descriptor = socket.as_raw_fd();
        match &origin {
            Origin::Tcp { peer, .. } => log::debug!("Accepted {peer}"),
            Origin::Unix { path } => log::debug!("Accepted connection to {path}"),
        }
        let (stream, names, early) = match tls {
            Some(tls) => (Some(Box::new(tls.stream)), tls.names, tls.early),
            None => (None, PeerNames::default(), Vec::new()),
        };
        let transport = Transport::new(socket, stream);
        let shared = &self.spec.shared;
        let has_password = !shared.users.default_account().user().needs_no_password();
        if protected_mode::refuses(self.config.protected_mode, has_password, &origin) {
            return self.refuse(transport, protected_mode::REFUSAL);
        }
        let (address, local_address) = match origin {
            Origin::Tcp { peer, local, .. } => (peer, local),
            Origin::Unix { path } => (format!("{path}:0"), format!("{path}:0")),
        };
        let origin = ClientOrigin { address, local_address, descriptor };
        let now_ms = self.execution.worker().now_ms();
        let client = shared.clients.register(self.spec.index, origin, now_ms);
        let mut session = Session::new(client, &shared.users);
        self.authenticate_by_certificate(&mut session, &names);
        let now_ms = self.spec.shared.clock.monotonic_us() / 1000;
        if let Some(index) = self.open(Connection::new(transport, session, now_ms))
            && self.connections[index].transport.is_encrypted()
        {
            self.begin_encrypted(index, &early);
        }
    }

    /// Refuses a client that a worker was given, with a text.
    fn refuse(&mut self, mut transport: Transport, text: &str) {
        let EventLoop { spec, execution, tls_buffers, .. } = self;
        execution.stats(&spec.shared).rejected_connections.add(1);
        let mut refusal = ReplyBuffer::new(Protocol::Resp2);
        refusal.raw(text.as_bytes());
        // First, as in `close`.
        spec.handover.ended(spec.index);
        // Closed even if the client does not take it.
        transport.send(&mut refusal, tls_buffers);
        transport.send_last();
    }

    /// Makes the session of a new client act in the name of the user that its certificate names, if
    /// the configuration wants that.
    fn authenticate_by_certificate(&self, session: &mut Session, names: &PeerNames) {
        let names = match self.config.tls.certificate_user {
            CertificateUser::Off => return,
            CertificateUser::CommonName => &names.common_name,
            CertificateUser::Uri => &names.uris,
        };
        let (shared, worker) = (&self.spec.shared, self.execution.worker());
        execute::authenticate_by_certificate(shared, worker, session, names);
    }

    /// Adds a connection; returns its index.
    fn open(&mut self, connection: Connection) -> Option<usize> {
        let EventLoop { spec, poll, execution, connections, .. } = self;
        let shared = &spec.shared;
        let index = connections.next_index();
        if poll.add_connection(&connection.transport, index, connection.interest).is_err() {
            spec.handover.ended(spec.index);
            shared.clients.unregister(connection.session.id());
            return None;
        }
        connections.insert(connection);
        let stats = execution.stats(shared);
        stats.connections_accepted.add(1);
        stats.connections.set(connections.len() as u64);
        Some(index)
    }

    /// Takes up what a handshake has left: requests that came right behind it, and messages of its
    /// own that the socket did not take.
    fn begin_encrypted(&mut self, index: usize, early: &[u8]) {
        if !self.connections[index].input.extend(early) {
            return self.close_for_memory(index);
        }
        if !early.is_empty() {
            let EventLoop { spec, execution, connections, .. } = &*self;
            count_read(execution.stats(&spec.shared), &connections[index], early.len());
            self.scheduler.enqueue(index);
        }
        self.update_interest(index);
    }
}
