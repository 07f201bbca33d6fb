//! Connections that are held open and do nothing, so that their cost shows in those that work.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// Connections per source address: the ephemeral ports of one are about 28,000.
const PER_SOURCE: u64 = 20_000;
/// The first of their ports on addresses that only we use.
const FIRST_PORT: u16 = 10_000;
/// Connected before the first of them is waited for; below the usual backlog of 511.
const BATCH: usize = 256;
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// Connects `count` sockets to a server on this machine and has each answer one PING, so that all
/// of them are accepted. Sources are 127.0.0.1, then other loopback addresses, which Redis accepts
/// with `protected-mode no` only.
///
/// # Errors
/// When the system or the server refuses one.
pub(super) fn hold_open(port: u16, count: u64) -> io::Result<Vec<TcpStream>> {
    let mut held = Vec::with_capacity(count as usize);
    let mut asked = 0;
    for number in 0..count {
        held.push(connect(port, number)?);
        if held.len() - asked == BATCH || number + 1 == count {
            for stream in &mut held[asked..] {
                ping(stream)?;
            }
            asked = held.len();
        }
    }
    Ok(held)
}

/// Connection `number`. The first ones get their port as they connect, so that it need only be free
/// for this server. Those from other addresses have ports of their own there, also while an earlier
/// run's connections expire.
fn connect(port: u16, number: u64) -> io::Result<TcpStream> {
    let kind = (AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(kind.0, kind.1, kind.2, None)?;
    let further = number / PER_SOURCE;
    if further > 0 {
        let source = Ipv4Addr::new(127, 0, (1 + further / 256) as u8, further as u8);
        let own_port = FIRST_PORT + (number % PER_SOURCE) as u16;
        rustix::net::sockopt::set_socket_reuseaddr(&socket, true)?;
        rustix::net::bind(&socket, &SocketAddr::from((source, own_port)))?;
    }
    rustix::net::connect(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    Ok(TcpStream::from(socket))
}

fn ping(stream: &mut TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    stream.write_all(b"*1\r\n$4\r\nPING\r\n")?;
    let mut answer = [0; 7];
    stream.read_exact(&mut answer)?;
    if &answer == b"+PONG\r\n" {
        Ok(())
    } else {
        Err(io::Error::other("an idle connection was refused"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn further_connections_have_other_sources_and_their_ports_serve_again_at_once() {
        for number in [0, PER_SOURCE, 700 * PER_SOURCE + 19_999] {
            for _ in 0..3 {
                // Each run has a server on another port.
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let stream = connect(listener.local_addr().unwrap().port(), number).unwrap();
                let (_accepted, peer) = listener.accept().unwrap();
                assert_eq!(peer, stream.local_addr().unwrap());
                assert_eq!(peer.ip() == Ipv4Addr::LOCALHOST, number == 0, "{peer}");
                // The side that hangs up first keeps the port for a while.
                drop(stream);
            }
        }
    }
}
