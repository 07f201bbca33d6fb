//! Connections that are lost, renewed, or new in a cluster.
//!
//! Connecting blocks the thread, its other connections included: their latencies show it. That is
//! the price of a hot loop that knows only connected sockets.

use std::io;
use std::time::Duration;

use rustix::event::epoll;

use crate::limits::{RECONNECT_PAUSE, RECONNECT_PAUSE_MAX};
use crate::load::connection::Connection;
use crate::load::worker::{ConnectionResult, Lost, Worker};

impl Worker<'_> {
    /// Takes a broken connection out of the load; it is made again later if the settings say so.
    pub(super) fn lose(&mut self, index: usize, reason: &str) {
        let Some(mut connection) = self.connections[index].take() else { return };
        // A descriptor that is closed leaves the set by itself; this only makes it explicit.
        let _ = epoll::delete(&self.epoll, &connection.stream);
        let pending = connection.pending.len() as u64;
        self.in_flight -= pending;
        self.alive -= 1;
        self.trouble.connections_lost += 1;
        self.trouble.requests_lost += pending;
        self.trouble.note(|| reason.into());
        connection.forget_pending();
        if let Some(cluster) = &self.shared.cluster {
            cluster.suspect();
        }
        if self.shared.settings.reconnect.on_error && self.is_issuing() {
            self.wait_to_reconnect(index, connection);
        } else {
            self.give_up(index, &connection);
        }
    }

    /// Its scheduled requests will not be sent.
    pub(super) fn give_up(&mut self, index: usize, connection: &Connection) {
        self.backlog -= connection.intended.len() as u64;
        self.trouble.unsent += connection.intended.len() as u64;
        self.results[index] =
            ConnectionResult { issued: connection.issued, completed: connection.completed };
    }

    fn wait_to_reconnect(&mut self, index: usize, connection: Connection) {
        let factor = self.shared.settings.reconnect.backoff_factor.max(1.0);
        let stretch = factor.powi(connection.attempts.min(1_000) as i32);
        let pause =
            (RECONNECT_PAUSE.as_secs_f64() * stretch).min(RECONNECT_PAUSE_MAX.as_secs_f64());
        let at_ns = self.now_ns() + Duration::from_secs_f64(pause).as_nanos() as u64;
        self.lost.push(Lost { index, at_ns, connection });
    }

    /// Makes the connections again whose time has come.
    pub(super) fn reconnect_due(&mut self, now_ns: u64) {
        let due = |lost: &Lost| lost.at_ns <= now_ns;
        while let Some(place) = self.lost.iter().position(due) {
            let Lost { index, mut connection, .. } = self.lost.swap_remove(place);
            match self.reopen(&mut connection, index) {
                Ok(()) => {
                    self.connections[index] = Some(connection);
                    self.alive += 1;
                    self.trouble.reconnects += 1;
                    self.refill(index, self.now_ns());
                }
                Err(error) => {
                    connection.attempts += 1;
                    self.trouble.note(|| error.to_string());
                    let allowed = self.shared.settings.reconnect.attempts_max;
                    if allowed > 0 && connection.attempts >= allowed {
                        self.give_up(index, &connection);
                    } else {
                        self.wait_to_reconnect(index, connection);
                    }
                }
            }
        }
    }

    /// Goes on over a new socket; nothing may be on its way. Whether it went well.
    pub(super) fn renew(&mut self, index: usize) -> bool {
        let Some(mut connection) = self.connections[index].take() else { return false };
        let _ = epoll::delete(&self.epoll, &connection.stream);
        let result = self.reopen(&mut connection, index);
        self.connections[index] = Some(connection);
        match result {
            Ok(()) => self.trouble.reconnects += 1,
            Err(error) => self.lose(index, &error.to_string()),
        }
        self.connections[index].is_some()
    }

    fn reopen(&self, connection: &mut Connection, index: usize) -> io::Result<()> {
        let stream = self.shared.open_stream(&connection.endpoint)?;
        stream.set_nonblocking()?;
        let data = epoll::EventData::new_u64(index as u64);
        epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN)?;
        connection.replace_stream(stream);
        Ok(())
    }

    /// Cluster: reads the map again when it is stale, and connects the clients to masters that came
    /// to be known since.
    pub(super) fn follow_cluster(&mut self) {
        let shared = self.shared;
        let Some(cluster) = shared.cluster.as_ref().filter(|_| self.is_issuing()) else { return };
        cluster.refresh(&shared.settings.target);
        let nodes = cluster.nodes();
        for (node, endpoint) in nodes.iter().enumerate().skip(self.known_nodes) {
            for client in 0..shared.settings.connections {
                let number = self.index as u64 * u64::from(shared.settings.connections);
                let number = number + u64::from(client);
                let limit = shared.request_limit(node, nodes.len());
                let opened = shared.open(number, endpoint, Some(node as u16), limit);
                if let Err(error) = opened.and_then(|connection| self.join(connection)) {
                    self.trouble.connections_lost += 1;
                    self.trouble.note(|| format!("{endpoint}: {error}"));
                }
            }
        }
        self.known_nodes = nodes.len();
    }

    fn join(&mut self, connection: Connection) -> io::Result<()> {
        let index = self.connections.len();
        connection.stream.set_nonblocking()?;
        let data = epoll::EventData::new_u64(index as u64);
        epoll::add(&self.epoll, &connection.stream, data, epoll::EventFlags::IN)?;
        self.connections.push(Some(connection));
        self.results.push(ConnectionResult::default());
        self.alive += 1;
        self.active = self.connections.len();
        self.refill(index, self.now_ns());
        Ok(())
    }
}
