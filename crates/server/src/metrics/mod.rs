//! `/metrics` over HTTP, for Prometheus. Off unless `metrics-port` is set.
//!
//! One thread per address answers one scrape at a time, off the workers' way: the figures are those that `INFO` shows,
//! and reading them costs a worker nothing. The thread is a member of the keyspace: inside its gate while it reads. It is no web server: `GET /metrics`, one request per connection, a deadline
//! for each.

mod exposition;
mod figures;
mod http;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;

use tidemill_engine::shared::Shared;
use tidemill_rcu::{Domain, Flavour};

use crate::limits::METRICS_RETRY;

/// Begins to listen.
///
/// # Errors
///
/// When the address cannot be had.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address)
}

/// Starts the thread that answers on `listener`; it ends with the process.
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
        loop {
            // Offline while it waits: the grace periods of the workers must not wait for a scrape.
            let accepted = member.offline(|| match listener.accept() {
                Ok((stream, _)) => http::read_request(&stream).map(|request| (stream, request)),
                Err(error) => {
                    log::debug!("metrics: {error}");
                    // Too many open files pass; until then the same error would come at once.
                    thread::sleep(METRICS_RETRY);
                    None
                }
            });
            let Some((stream, request)) = accepted else { continue };
            let body = match request {
                http::Request::Metrics => member.inside(|member| figures::render(&shared, member)),
                _ => String::new(),
            };
            member.offline(|| http::answer(&stream, request, &body));
        }
    };
    thread::Builder::new().name("metrics".into()).spawn(body).map(drop)
}
