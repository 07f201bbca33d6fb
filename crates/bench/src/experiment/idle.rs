//! Connections that are held open and do nothing, so that their cost shows in those that work.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// Connections per source address: the ephemeral ports of one are about 28,000.
const PER_SOURCE: u64 = 20_000;
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
        held.push(connect(port, number / PER_SOURCE)?);
        if held.len() - asked == BATCH || number + 1 == count {
            for stream in &mut held[asked..] {
                ping(stream)?;
            }
            asked = held.len();
        }
    }
    Ok(held)
}

fn connect(port: u16, source: u64) -> io::Result<TcpStream> {
    let kind = (AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(kind.0, kind.1, kind.2, None)?;
    let source = match source {
        0 => Ipv4Addr::LOCALHOST,
        further => Ipv4Addr::new(127, 0, (1 + further / 256) as u8, further as u8),
    };
    rustix::net::bind(&socket, &SocketAddr::from((source, 0)))?;
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
