//! `/metrics` over HTTP, for Prometheus. Off unless `metrics-port` is set.
//!
//! One thread per address serves a few clients at once, off the workers' way: the figures are those
//! that `INFO` shows, and reading them costs a worker nothing. The thread is a member of the
//! keyspace, inside its gate while it reads. It is no web server: `GET /metrics`, a bound on
//! connections, and a deadline for each request, each answer and the time in between.

mod client;
mod exposition;
mod figures;
mod http;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tidemill_engine::shared::Shared;
use tidemill_rcu::{Domain, Flavour};

use crate::allocator;
use crate::limits::{METRICS_CLIENTS_MAX, METRICS_RETRY};
use crate::resources::start_thread;
use client::Client;
use http::Request;

/// Starts the thread that answers on `listener`, which does not block; it ends with the process.
///
/// # Errors
///
/// When there is no thread to be had.
pub(crate) fn serve<F: Flavour>(
    listener: TcpListener,
    shared: Arc<Shared>,
    domain: Arc<Domain<F>>,
) -> io::Result<()> {
    let body = move || {
        let mut member = match shared.keyspace.join(&domain) {
            Ok(member) => member,
            Err(error) => return log::error!("metrics: {error}"),
        };
        let mut port = Port {
            listener,
            clients: Vec::new(),
            accepts_from: Instant::now(),
            looked: Instant::now(),
        };
        loop {
            allocator::keep_reserve();
            // Offline while it waits: the grace periods of the workers must not wait for a scrape.
            member.offline(|| port.wait());
            for index in 0..port.clients.len() {
                let Some(parsed) = port.clients[index].request() else { continue };
                let body = match parsed.request {
                    Request::Metrics | Request::MetricsHead => {
                        member.inside(|member| figures::render(&shared, member))
                    }
                    _ => String::new(),
                };
                port.clients[index].answer(parsed, &body, Instant::now());
            }
            port.end_late();
        }
    };
    start_thread("metrics", body).map(drop)
}

/// A listener and its clients, [`METRICS_CLIENTS_MAX`] at most.
#[derive(Debug)]
struct Port {
    listener: TcpListener,
    clients: Vec<Client>,
    /// Time before which nothing is accepted.
    accepts_from: Instant,
    /// Time of the last poll.
    looked: Instant,
}

impl Port {
    /// Waits until a client can go on or its time is over; reads, writes and accepts.
    fn wait(&mut self) {
        let now = Instant::now();
        let pauses = self.accepts_from > now;
        let until = self.clients.iter().map(Client::deadline);
        let until = until.chain(pauses.then_some(self.accepts_from)).min();
        let asks = self.clients.iter().any(Client::may_ask);
        let until = if asks { Some(now) } else { until };
        let wait = until.map(|until| until.saturating_duration_since(now));
        let wait = wait.map(|wait| Timespec {
            tv_sec: wait.as_secs() as i64,
            tv_nsec: i64::from(wait.subsec_nanos()),
        });
        let listening = if pauses { PollFlags::empty() } else { PollFlags::IN };
        let mut watched = vec![PollFd::new(&self.listener, listening)];
        let of_client = |client| PollFd::new(Client::stream(client), Client::interest(client));
        watched.extend(self.clients.iter().map(of_client));
        // Interrupted is as good as nothing: it comes back at once.
        if poll(&mut watched, wait.as_ref()).is_err() {
            return;
        }
        let ready: Vec<bool> = watched.iter().map(|fd| !fd.revents().is_empty()).collect();
        let now = Instant::now();
        self.looked = now;
        let is_called = ready[0] && !pauses;
        for (client, _) in self.clients.iter_mut().zip(&ready[1..]).filter(|(_, ready)| **ready) {
            client.progress(now);
        }
        if is_called {
            self.accept(now);
        }
    }

    /// Takes a connection; the one that loses least makes room.
    fn accept(&mut self, now: Instant) {
        let accepted = self.listener.accept().and_then(|(stream, _)| Client::new(stream, now));
        match accepted {
            Ok(client) => {
                self.clients.retain(|client| !client.is_over());
                if self.clients.len() >= METRICS_CLIENTS_MAX {
                    let ranks = self.clients.iter().map(Client::rank).enumerate();
                    if let Some((index, _)) = ranks.min_by_key(|&(_, rank)| rank) {
                        self.clients.swap_remove(index);
                    }
                }
                self.clients.push(client);
            }
            // It has gone again.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                log::debug!("metrics: {error}");
                // Too many open files pass; until then the same error would come at once.
                self.accepts_from = now + METRICS_RETRY;
            }
        }
    }

    /// Ends those of whom nothing had arrived in time when it was last looked, however long ago
    /// that is by now.
    fn end_late(&mut self) {
        let looked = self.looked;
        self.clients.iter_mut().for_each(|client| client.expire(looked));
        self.clients.retain(|client| !client.is_over());
    }
}
