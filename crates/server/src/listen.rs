//! Listening sockets.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::net::{
    self, AddressFamily, Shutdown, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};
use tidemill_engine::config::ServerConfig;

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

/// The listener at a Unix socket, with the group and permissions of a configuration.
pub(crate) fn unix(path: &Path, options: &ServerConfig) -> io::Result<Listener> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let address = SocketAddrUnix::new(path)?;
    if path.exists() {
        let probe = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        if net::connect(&probe, &address).is_ok() {
            return Err(io::Error::from(rustix::io::Errno::ADDRINUSE));
        }
        // Left behind by a server that is gone. Anything but a socket belongs to another program,
        // and stays.
        if fs::metadata(path)?.file_type().is_socket() {
            fs::remove_file(path)?;
        }
    }
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
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

/// Number of a group, by its name in `/etc/group` or as a number.
fn group(name: &str) -> io::Result<u32> {
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
    use super::group_in;

    #[test]
    fn groups_are_found_by_their_whole_name() {
        let groups = "root:x:0:\n#www:x:5:\nwww-data:x:33:mill,other\nwww:x:44:\nodd\nbad:x:no:\n";
        let found = ["root", "www", "www-data", "mill", "odd", "bad", ""]
            .map(|name| group_in(groups, name));
        assert_eq!(found, [Some(0), Some(44), Some(33), None, None, None, None]);
    }
}
