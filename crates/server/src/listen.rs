//! Listening sockets.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, Shutdown, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};
use tidemill_engine::config::ServerConfig;
use tidemill_engine::system_error::reason;

/// Origin of a connection.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    Tcp { peer: String, local: String, is_loopback: bool },
    Unix { path: String },
}

/// The kernel's own bound on connections that wait at a socket to be accepted.
const QUEUE_BOUND: &str = "/proc/sys/net/core/somaxconn";

/// Logs a warning when the kernel lets fewer connections wait than `backlog` asks for.
pub(crate) fn warn_of_short_queue(backlog: i32) {
    // If the bound cannot be read, nothing is known to be wrong.
    let bound = fs::read_to_string(QUEUE_BOUND).ok().and_then(|text| text.trim().parse().ok());
    if let Some(bound @ 1..) = bound.filter(|&bound: &i32| bound < backlog) {
        log::warn!(
            "WARNING: The TCP backlog setting of {backlog} cannot be enforced because \
             {QUEUE_BOUND} is set to the lower value of {bound}."
        );
    }
}

/// A listening socket, from which all workers accept.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: OwnedFd,
    pub(crate) unix_path: Option<String>,
    /// Clients speak TLS.
    pub(crate) is_tls: bool,
}

fn tcp_socket(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    Ok(socket)
}

/// Listener at a TCP address, which it has for itself alone meanwhile.
pub(crate) fn tcp(address: SocketAddr, is_tls: bool, backlog: i32) -> io::Result<Listener> {
    let socket = tcp_socket(address)?;
    net::bind(&socket, &address)?;
    net::listen(&socket, backlog)?;
    Ok(Listener { socket, unix_path: None, is_tls })
}

/// Listener at the first of some TCP addresses that can be had, and that address; the last error if
/// there is none.
pub(crate) fn first_tcp(
    addresses: &[SocketAddr],
    is_tls: bool,
    backlog: i32,
) -> io::Result<(SocketAddr, Listener)> {
    let mut failure = io::Error::from(Errno::ADDRNOTAVAIL);
    for &address in addresses {
        match tcp(address, is_tls, backlog) {
            Ok(listener) => return Ok((address, listener)),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// True if an error at an address behind `-` is passed over.
pub(crate) fn is_missing(error: &io::Error) -> bool {
    let missing =
        [Errno::ADDRNOTAVAIL, Errno::AFNOSUPPORT, Errno::PROTONOSUPPORT, Errno::NOPROTOOPT];
    Errno::from_io_error(error).is_some_and(|errno| missing.contains(&errno))
}

fn unix_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// Removes the socket that a server which is gone left at a path. Anything but a socket belongs to
/// another program, and stays; binding tells of it.
///
/// # Errors
///
/// The address is in use, or it cannot be known.
fn remove_abandoned(path: &Path, address: &SocketAddrUnix) -> io::Result<()> {
    match net::connect(&unix_socket()?, address) {
        // Again: a server listens, and its queue is full.
        Ok(()) | Err(Errno::AGAIN) => Err(io::Error::from(Errno::ADDRINUSE)),
        Err(Errno::CONNREFUSED) => {
            let is_socket = fs::metadata(path).is_ok_and(|found| found.file_type().is_socket());
            match if is_socket { fs::remove_file(path) } else { Ok(()) } {
                // Removed meanwhile, by another server that starts.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                removed => removed,
            }
        }
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The listener at a Unix socket, with the group and permissions of a configuration.
pub(crate) fn unix(path: &Path, options: &ServerConfig) -> io::Result<Listener> {
    let address = SocketAddrUnix::new(path)?;
    remove_abandoned(path, &address)?;
    let socket = unix_socket()?;
    net::bind(&socket, &address)?;
    if let Some(name) = &options.unix_socket_group {
        std::os::unix::fs::chown(path, None, Some(group(name)?))?;
    }
    if let Some(mode) = options.unix_socket_permissions {
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    }
    net::listen(&socket, options.tcp_backlog)?;
    Ok(Listener { socket, unix_path: Some(path.display().to_string()), is_tls: false })
}

/// File of a Unix socket, to be removed by the server that made it. Its directory is an open one:
/// the path may be relative to a directory that the process has left, or have become another's.
#[derive(Debug)]
pub(crate) struct SocketFile {
    directory: OwnedFd,
    name: OsString,
}

impl SocketFile {
    /// The file at a path, which need not be there yet.
    ///
    /// # Errors
    ///
    /// There is no such directory, or none that may be entered.
    pub(crate) fn at(path: &Path) -> io::Result<SocketFile> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(parent.unwrap_or(Path::new(".")), flags, Mode::empty())?;
        let name = path.file_name().unwrap_or_default().to_owned();
        Ok(SocketFile { directory, name })
    }

    /// Removes the file. Absent already is as good.
    pub(crate) fn remove(&self) {
        let removed = rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::empty());
        if let Err(error) = removed
            && error != Errno::NOENT
        {
            let name = self.name.display();
            log::warn!("The unix socket file {name} stays behind: {}", reason(&error.into()));
        }
    }
}

/// Number of a group, by its name in `/etc/group` or as a number.
pub(crate) fn group(name: &str) -> io::Result<u32> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let groups = fs::read_to_string("/etc/group")?;
    group_in(&groups, name).ok_or_else(|| io::Error::other(format!("there is no group '{name}'")))
}

/// Number of a group in the contents of `/etc/group`.
fn group_in(groups: &str, name: &str) -> Option<u32> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
    })
}

fn tcp_address(address: SocketAddrAny) -> Option<SocketAddr> {
    SocketAddr::try_from(address).ok()
}

impl Listener {
    /// Stops accepting clients; connections that wait to be accepted are reset. The address stays
    /// bound.
    pub(crate) fn stop(&self) {
        // Refused only when it has stopped already.
        let _ = net::shutdown(&self.socket, Shutdown::Both);
    }

    /// Listens again after [`Listener::stop`].
    pub(crate) fn resume(&self, backlog: i32) -> io::Result<()> {
        Ok(net::listen(&self.socket, backlog)?)
    }

    /// The next connection, if one waits.
    pub(crate) fn accept(&self, keepalive_s: u32) -> io::Result<(OwnedFd, Origin)> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        if let Some(path) = &self.unix_path {
            let socket = net::accept_with(&self.socket, flags)?;
            return Ok((socket, Origin::Unix { path: path.clone() }));
        }
        let (socket, peer) = net::acceptfrom_with(&self.socket, flags)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        if keepalive_s > 0 {
            // Linux refuses more than 32,767 s. The client is served without.
            let _ = set_keepalive(&socket, keepalive_s);
        }
        let peer = peer.and_then(tcp_address);
        let local = net::getsockname(&socket).ok().and_then(tcp_address);
        let text = |address: Option<SocketAddr>| address.map_or("?:0".into(), |at| at.to_string());
        let is_loopback = peer.is_some_and(|peer| match peer.ip() {
            IpAddr::V4(ip) => ip.is_loopback(),
            IpAddr::V6(ip) => ip.is_loopback(),
        });
        Ok((socket, Origin::Tcp { peer: text(peer), local: text(local), is_loopback }))
    }
}

fn set_keepalive(socket: &OwnedFd, idle_s: u32) -> io::Result<()> {
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, Duration::from_secs(u64::from(idle_s)))?;
    // A dead peer is noticed within twice the idle time, as in Redis: three probes in a third of it
    // each.
    sockopt::set_tcp_keepintvl(socket, Duration::from_secs(u64::from((idle_s / 3).max(1))))?;
    sockopt::set_tcp_keepcnt(socket, 3)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use tidemill_engine::config::Configuration;

    use super::*;

    /// Path for a socket that goes away with the value.
    struct SocketPath(PathBuf);

    impl SocketPath {
        fn new(name: &str) -> SocketPath {
            let file = format!("tidemill-{name}-{}", std::process::id());
            SocketPath(std::env::temp_dir().join(file))
        }

        fn listener(&self) -> io::Result<Listener> {
            unix(&self.0, &Configuration::default().server())
        }
    }

    impl Drop for SocketPath {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    #[test]
    fn socket_of_a_server_with_a_full_queue_is_in_use() {
        let path = SocketPath::new("full-queue");
        let address = SocketAddrUnix::new(&path.0).expect("a short path");
        let own = unix_socket().expect("a socket");
        net::bind(&own, &address).expect("the path is free");
        net::listen(&own, 0).expect("it is bound");
        let mut waiting = Vec::new();
        loop {
            let client = unix_socket().expect("a socket");
            if net::connect(&client, &address) == Err(Errno::AGAIN) {
                break;
            }
            waiting.push(client);
        }
        let refused = path.listener().expect_err("the address is in use");
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        drop(net::accept(&own).expect("a client waits"));
        let client = unix_socket().expect("a socket");
        assert_eq!(net::connect(&client, &address), Ok(()), "the server is still reached");
    }

    #[test]
    fn abandoned_socket_is_replaced_and_another_file_is_not() {
        let path = SocketPath::new("abandoned");
        drop(path.listener().expect("the path is free"));
        drop(path.listener().expect("nobody listens there"));
        fs::remove_file(&path.0).expect("the second one is left");
        fs::write(&path.0, "text").expect("the path is free");
        let refused = path.listener().expect_err("a file of another program");
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        assert_eq!(fs::read(&path.0).expect("it stays"), b"text");
    }

    #[test]
    fn groups_are_found_by_their_whole_name() {
        let groups = "root:x:0:\n#www:x:5:\nwww-data:x:33:mill,other\nwww:x:44:\nodd\nbad:x:no:\n";
        let found = ["root", "www", "www-data", "mill", "odd", "bad", ""]
            .map(|name| group_in(groups, name));
        assert_eq!(found, [Some(0), Some(44), Some(33), None, None, None, None]);
    }
}
