//! The listeners, and how `CONFIG SET bind` and `port` move them while the server runs.
//!
//! There is one per address, and all workers accept from each. (With one per worker and
//! `SO_REUSEPORT` the kernel chooses the worker that is to accept, and a client that it sends to a
//! worker inside a long command waits for the command's end.) Moving them stops those that go by
//! `shutdown`, which acts on the socket itself: once CONFIG SET has answered, no client can connect
//! to an old address, although the workers let go of their sockets only at their next boundaries.
//! Connections that were accepted before stay.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidemill_engine::config::ServerConfig;
use tidemill_engine::system_error::reason;

use crate::listen::{self, Listener, SocketFile};
use crate::options::{bind_addresses, bind_host};

/// The listeners, which all workers share.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    unix: Option<Arc<Listener>>,
    socket_file: Option<SocketFile>,
    places: Mutex<Vec<BoundAddress>>,
    /// False until clients are accepted: before that they wait in the kernel's queue.
    is_accepting: AtomicBool,
}

/// A TCP address, and the listener there.
#[derive(Debug)]
struct BoundAddress {
    address: SocketAddr,
    listener: Arc<Listener>,
}

/// A port to listen at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Port {
    number: u16,
    is_tls: bool,
}

/// A `bind` with its addresses, of which the first that can be had is taken.
struct Bind<'t> {
    host: &'t str,
    port: Port,
    is_optional: bool,
    addresses: Vec<SocketAddr>,
}

/// An address was refused; the log says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    port: u16,
    is_tls: bool,
}

impl Listeners {
    /// Begins to listen at all addresses of the configuration. Blocks while names are looked up.
    ///
    /// # Errors
    ///
    /// Text for the operator.
    pub(crate) fn open(options: &ServerConfig) -> Result<Listeners, String> {
        let failed = |Refused { port, is_tls }| {
            let kind = if is_tls { "tls" } else { "tcp" };
            format!("Failed listening on port {port} ({kind}), aborting.")
        };
        let mut listeners = Listeners::default();
        listeners.move_to(options).map_err(failed)?;
        if let Some(path) = &options.unix_socket {
            let failed =
                |error| format!("Failed opening Unix socket: bind: {path}: {}", reason(&error));
            let path = Path::new(path);
            let socket_file = SocketFile::at(path).map_err(failed)?;
            let listener = listen::unix(path, options).map_err(failed)?;
            listeners.unix = Some(Arc::new(listener));
            listeners.socket_file = Some(socket_file);
        }
        if listeners.all().is_empty() {
            return Err("Configured to not listen anywhere, exiting.".into());
        }
        Ok(listeners)
    }

    fn places(&self) -> MutexGuard<'_, Vec<BoundAddress>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The TCP addresses now, and whether clients speak TLS there.
    pub(crate) fn addresses(&self) -> Vec<(SocketAddr, bool)> {
        self.places().iter().map(|place| (place.address, place.listener.is_tls)).collect()
    }

    /// Removes the file of the Unix socket, if there is one, wherever the process is by now.
    pub(crate) fn remove_socket_file(&self) {
        if let Some(file) = &self.socket_file {
            log::info!("Removing the unix socket file.");
            file.remove();
        }
    }

    /// Lets workers accept clients from now on. They see it when they take the configuration again.
    pub(crate) fn begin_accepting(&self) {
        // Relaxed: the version of the configuration, which is raised behind it, orders it.
        self.is_accepting.store(true, Ordering::Relaxed);
    }

    /// The listeners that workers accept from; none before clients are accepted.
    pub(crate) fn accepting(&self) -> Vec<Arc<Listener>> {
        // Relaxed: see `begin_accepting`.
        if self.is_accepting.load(Ordering::Relaxed) { self.all() } else { Vec::new() }
    }

    /// The listeners, of which all are bound.
    pub(crate) fn all(&self) -> Vec<Arc<Listener>> {
        let unix = self.unix.iter().map(Arc::clone);
        unix.chain(self.places().iter().map(|place| Arc::clone(&place.listener))).collect()
    }

    /// Listens at the TCP addresses of another configuration, and nowhere else. Blocks while names
    /// are looked up.
    ///
    /// # Errors
    ///
    /// [`Refused`]: then the server listens where it did before, but connections that were not
    /// accepted yet may be lost.
    pub(crate) fn move_to(&self, options: &ServerConfig) -> Result<(), Refused> {
        let binds = binds(options)?;
        let mut places = self.places();
        let stays = |place: &BoundAddress| binds.iter().any(|bind| bind.is_at(place));
        let (mut kept, leaving): (Vec<BoundAddress>, Vec<BoundAddress>) =
            places.drain(..).partition(stays);
        // An address and its wildcard exclude each other at one port, so the old one has to make
        // room.
        let (in_the_way, elsewhere): (Vec<BoundAddress>, Vec<BoundAddress>) = leaving
            .into_iter()
            .partition(|place| ports(options).any(|port| port.number == place.address.port()));
        in_the_way.iter().for_each(|place| place.listener.stop());
        // In the order of the `bind`s, and whether each was there before.
        let mut next: Vec<(BoundAddress, bool)> = Vec::new();
        let opened = binds.iter().try_for_each(|bind| {
            if let Some(index) = kept.iter().position(|place| bind.is_at(place)) {
                next.push((kept.swap_remove(index), true));
                return Ok(());
            }
            open_one(bind, options).map(|place| next.extend(place.map(|place| (place, false))))
        });
        match opened {
            Ok(()) => {
                elsewhere.iter().chain(&kept).for_each(|place| place.listener.stop());
                *places = next.into_iter().map(|(place, _)| place).collect();
            }
            Err(_) => {
                // New listeners go first: one may be in the way of an old one that comes back.
                next.retain(|(_, was_there)| *was_there);
                in_the_way.iter().for_each(|place| place.resume(options.tcp_backlog));
                let old = next.into_iter().map(|(place, _)| place);
                *places = old.chain(kept).chain(in_the_way).chain(elsewhere).collect();
            }
        }
        opened
    }
}

/// Listens at the first address of a `bind` that can be had; at none if it may be missing here.
fn open_one(bind: &Bind<'_>, options: &ServerConfig) -> Result<Option<BoundAddress>, Refused> {
    match listen::first_tcp(&bind.addresses, bind.port.is_tls, options.tcp_backlog) {
        Ok((address, listener)) => Ok(Some(BoundAddress { address, listener: Arc::new(listener) })),
        Err(error) => {
            let refused = refuse(bind.host, bind.port, "bind: ", &error);
            if bind.is_optional && listen::is_missing(&error) { Ok(None) } else { Err(refused) }
        }
    }
}

/// The ports of a configuration.
fn ports(options: &ServerConfig) -> impl Iterator<Item = Port> {
    let ports = [(options.port, false), (options.tls_port, true)];
    let ports = ports.into_iter().filter(|&(number, _)| number != 0);
    ports.map(|(number, is_tls)| Port { number, is_tls })
}

/// The `bind`s of a configuration with their addresses, at each port.
fn binds(options: &ServerConfig) -> Result<Vec<Bind<'_>>, Refused> {
    let look_up = |text, port: Port| {
        let (host, is_optional) = bind_host(text);
        let addresses = bind_addresses(host, port.number);
        let addresses = addresses.map_err(|error| refuse(host, port, "", &error))?;
        Ok(Bind { host, port, is_optional, addresses })
    };
    let all = ports(options).flat_map(|port| options.bind.iter().map(move |text| (text, port)));
    all.map(|(text, port)| look_up(text, port)).collect()
}

impl Bind<'_> {
    /// True if a listener is at one of its addresses and of its kind.
    fn is_at(&self, place: &BoundAddress) -> bool {
        place.listener.is_tls == self.port.is_tls && self.addresses.contains(&place.address)
    }
}

/// Logs why an address is refused.
fn refuse(host: &str, port: Port, call: &str, error: &io::Error) -> Refused {
    let Port { number: port, is_tls } = port;
    log::warn!(
        "Warning: Could not create server TCP listening socket {host}:{port}: {call}{}",
        reason(error)
    );
    Refused { port, is_tls }
}

impl BoundAddress {
    /// Listens again where it was stopped.
    fn resume(&self, backlog: i32) {
        if let Err(error) = self.listener.resume(backlog) {
            log::error!("Not listening on {} any more: {}", self.address, reason(&error));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use tidemill_engine::config::Configuration;

    use super::*;

    fn free_port() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        listener.local_addr().expect("it is bound").port()
    }

    fn options(bind: &str, port: u16) -> ServerConfig {
        let words = bind.split_whitespace().map(str::to_owned).collect();
        ServerConfig { bind: words, port, ..Configuration::default().server() }
    }

    fn is_open(port: u16) -> bool {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    }

    /// Another process may take a free port before the test does; then all begins anew.
    fn opened() -> (Listeners, u16) {
        loop {
            let port = free_port();
            if let Ok(listeners) = Listeners::open(&options("127.0.0.1", port)) {
                return (listeners, port);
            }
        }
    }

    #[test]
    fn old_addresses_refuse_and_new_ones_accept_at_once() {
        let (listeners, old) = opened();
        // The workers hold theirs until their next boundaries.
        let held = listeners.all();
        let new = loop {
            let port = free_port();
            if listeners.move_to(&options("127.0.0.1", port)).is_ok() {
                break port;
            }
        };
        assert!(!is_open(old) && is_open(new));
        assert_eq!(listeners.addresses(), [(SocketAddr::from(([127, 0, 0, 1], new)), false)]);
        let now = listeners.all();
        assert!(now.len() == 1 && !Arc::ptr_eq(&now[0], &held[0]));
        // Held, so that no other process gets the port meanwhile.
        let _held = listeners.all();
        assert_eq!(listeners.move_to(&options("127.0.0.1", 0)), Ok(()));
        assert!(!is_open(new) && listeners.all().is_empty());
    }

    #[test]
    fn addresses_that_stay_keep_their_sockets() {
        let (listeners, port) = opened();
        let before = listeners.all();
        assert_eq!(listeners.move_to(&options("localhost", port)), Ok(()));
        let after = listeners.all();
        assert!(Arc::ptr_eq(&before[0], &after[0]) && is_open(port));
    }

    #[test]
    fn refused_address_changes_nothing() {
        let (listeners, port) = opened();
        let before = listeners.all();
        let taken = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let taken = taken.local_addr().expect("it is bound").port();
        for wanted in [
            options("127.0.0.1", taken),
            // The second is the first again, which is taken by then; the third no address of this
            // host.
            options("127.0.0.1 127.0.0.1", port),
            options("192.0.2.1", port),
        ] {
            let refused = Refused { port: wanted.port, is_tls: false };
            assert_eq!(listeners.move_to(&wanted), Err(refused), "{:?}", wanted.bind);
            let after = listeners.all();
            assert!(after.len() == 1 && Arc::ptr_eq(&before[0], &after[0]));
            assert!(is_open(port), "{:?}", wanted.bind);
        }
    }

    /// The first address can be had, the second is no address of this host.
    #[test]
    fn refused_address_leaves_no_listener_at_those_before_it() {
        let (listeners, port) = opened();
        let before = listeners.all();
        let is_open_elsewhere = |port| TcpStream::connect(("127.0.0.2", port)).is_ok();
        for (bind, port) in [
            ("127.0.0.2 192.0.2.1", free_port()),
            ("0.0.0.0 192.0.2.1", port),
            ("127.0.0.2 192.0.2.1", port),
        ] {
            assert!(listeners.move_to(&options(bind, port)).is_err(), "{bind} {port}");
            let after = listeners.all();
            assert!(after.len() == 1 && Arc::ptr_eq(&before[0], &after[0]), "{bind} {port}");
            assert!(!is_open_elsewhere(port), "{bind} {port}");
        }
        assert!(is_open(port));
    }
}
