//! Process that listens on a port, and its addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::{ReadError, Root};

/// State of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";

#[derive(Clone, Debug, PartialEq, Eq)]
struct Listener {
    address: SocketAddr,
    inode: u64,
}

/// A process that listens on a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    /// The process; `None` when its descriptors may not be looked at, or the port is another host's
    /// forwarded.
    pub pid: Option<u32>,
    /// Address at which it can be reached from this host.
    pub address: SocketAddr,
}

/// Listener on a TCP port of this network namespace; `None` when there is none.
///
/// # Errors
/// The refusal of `/proc/net/tcp`.
pub fn listening(root: &Root, port: u16) -> Result<Option<Listening>, ReadError> {
    let listeners = listeners(root)?;
    let Some(listener) = listeners.into_iter().find(|listener| listener.address.port() == port)
    else {
        return Ok(None);
    };
    let pid = process_holding(root, listener.inode)?;
    Ok(Some(Listening { pid, address: reachable(listener.address) }))
}

/// The address of the lowest TCP port a process listens on; `None` when it listens on none that can
/// be seen.
///
/// # Errors
/// The refusal of `/proc/net/tcp` or of the process's descriptors.
pub fn address_of(root: &Root, pid: u32) -> Result<Option<SocketAddr>, ReadError> {
    let inodes = sockets_of(root, pid)?;
    let own = listeners(root)?.into_iter().filter(|listener| inodes.contains(&listener.inode));
    let lowest = own.min_by_key(|listener| (listener.address.port(), listener.address.is_ipv6()));
    Ok(lowest.map(|listener| reachable(listener.address)))
}

fn listeners(root: &Root) -> Result<Vec<Listener>, ReadError> {
    // The kernel lists listening sockets first, so that the head is enough however many connections
    // there are.
    let mut listeners = parse(&root.head("/proc/net/tcp")?);
    // Absent where IPv6 is switched off.
    listeners.extend(parse(&root.head("/proc/net/tcp6").unwrap_or_default()));
    Ok(listeners)
}

fn parse(table: &str) -> Vec<Listener> {
    let rows = table.lines().skip(1).filter_map(|row| {
        let fields: Vec<&str> = row.split_whitespace().collect();
        if *fields.get(3)? != LISTEN {
            return None;
        }
        let (host, port) = fields.get(1)?.split_once(':')?;
        let port = u16::from_str_radix(port, 16).ok()?;
        Some(Listener {
            address: SocketAddr::new(host_address(host)?, port),
            inode: fields.get(9)?.parse().ok()?,
        })
    });
    rows.collect()
}

/// Addresses are printed as words in the machine's own byte order.
fn host_address(text: &str) -> Option<IpAddr> {
    if !text.is_ascii() {
        return None;
    }
    let words: Option<Vec<u32>> = (0..text.len() / 8)
        .map(|index| u32::from_str_radix(text.get(index * 8..index * 8 + 8)?, 16).ok())
        .collect();
    let bytes: Vec<u8> = words?.into_iter().flat_map(u32::to_ne_bytes).collect();
    match bytes.len() {
        4 => Some(IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?))),
        16 => Some(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?))),
        _ => None,
    }
}

/// A socket bound to every address is reached over the loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    };
    SocketAddr::new(ip, address.port())
}

fn process_holding(root: &Root, inode: u64) -> Result<Option<u32>, ReadError> {
    let names = root.names("/proc")?;
    let mut processes = names.iter().filter_map(|name| name.parse::<u32>().ok());
    // Processes of other users, and those that just ended, cannot be looked into.
    Ok(processes.find(|&pid| sockets_of(root, pid).is_ok_and(|inodes| inodes.contains(&inode))))
}

fn sockets_of(root: &Root, pid: u32) -> Result<Vec<u64>, ReadError> {
    let directory = format!("/proc/{pid}/fd");
    let names = root.names(&directory)?;
    let links = names.iter().filter_map(|name| root.link_name(&format!("{directory}/{name}")));
    let inodes =
        links.filter_map(|link| link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
    Ok(inodes.collect())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::testing::tree;

    #[test]
    fn the_process_behind_a_port_of_this_machine_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let found = listening(&Root::live(), address.port()).unwrap().unwrap();
        assert_eq!(found, Listening { pid: Some(std::process::id()), address });
        // The port of a connection: as long as that is open, no other process listens there.
        let connected = TcpStream::connect(address).unwrap();
        let port = connected.local_addr().unwrap().port();
        assert_eq!(listening(&Root::live(), port).unwrap(), None);
    }

    #[test]
    fn addresses_of_both_families_are_read_and_nonsense_is_passed_over() {
        let word = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
        let (four, zero) = (word([127, 0, 0, 1]), word([0; 4]));
        let row =
            |address: &str, inode: u64| format!("0: {address}:18EB 0:0 0A 0:0 0:0 0 0 0 {inode}\n");
        let table = format!("head\n{}zz\n0: é:1 x 0A\n{}", row(&four, 7), row(&zero.repeat(4), 8));
        let (_directory, root) = tree(&[("proc/net/tcp", &table)]);
        let found: Vec<String> =
            listeners(&root).unwrap().iter().map(|l| reachable(l.address).to_string()).collect();
        assert_eq!(found, ["127.0.0.1:6379", "[::1]:6379"]);
        assert_eq!(listening(&root, 6379).unwrap().unwrap().pid, None);
        assert_eq!(listening(&root, 6380).unwrap(), None);
    }

    #[test]
    fn a_listener_is_found_however_many_connections_there_are() {
        let row = |state: &str| format!("0: 0100007F:18EB 0:0 {state} 0:0 0:0 0 0 0 7\n");
        let connections = usize::try_from(crate::limits::FILE_BYTES_MAX).unwrap() / row("01").len();
        let table = format!("head\n{}{}", row("0A"), row("01").repeat(connections + 9));
        let (_directory, root) = tree(&[("proc/net/tcp", &table)]);
        assert_eq!(listening(&root, 6379).unwrap().unwrap().address.port(), 6379);
    }
}
