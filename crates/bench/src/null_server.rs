//! A server that does nothing: one nil per request, no parsing beyond counting.
//!
//! Against it a load generator shows its own cost (`--calibrate`, `make bench-client`). One thread,
//! one epoll instance; requests are counted with the same scanner that counts replies, because a
//! request is an array of strings.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::event::{Timespec, epoll};

use crate::limits::RECEIVE_BUFFER_BYTES;
use crate::load::scan::Scanner;

const NIL: &[u8] = b"$-1\r\n";
const LISTENER: u64 = u64::MAX;

/// A running server; dropping it stops its thread.
#[derive(Debug)]
pub struct NullServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NullServer {
    /// Listens on a loopback port of the system's choice.
    ///
    /// # Errors
    /// What the system says.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("null-server".into()).spawn(move || {
            if let Err(error) = serve(&listener, &stopped) {
                eprintln!("null server: {error}");
            }
        })?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        // Relaxed: nothing but the flag is read.
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Client {
    stream: TcpStream,
    scanner: Scanner,
    kept: Vec<u8>,
    unsent: Vec<u8>,
}

fn serve(listener: &TcpListener, stop: &AtomicBool) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut clients: HashMap<u64, Client> = HashMap::new();
    let mut buffer = vec![0; RECEIVE_BUFFER_BYTES];
    let mut events = Vec::with_capacity(256);
    let tick = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    while !stop.load(Ordering::Relaxed) {
        match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&tick)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events.drain(..) {
            let (token, ready) = (event.data.u64(), event.flags);
            if token == LISTENER {
                accept(listener, &epoll, &mut clients)?;
            } else if let Some(client) = clients.get_mut(&token)
                && answer(client, &mut buffer).is_err()
            {
                clients.remove(&token);
            } else if let Some(client) = clients.get(&token) {
                let mut flags = epoll::EventFlags::IN;
                if !client.unsent.is_empty() {
                    flags = epoll::EventFlags::OUT;
                }
                if ready.contains(epoll::EventFlags::OUT) || !client.unsent.is_empty() {
                    let data = epoll::EventData::new_u64(token);
                    epoll::modify(&epoll, &client.stream, data, flags)?;
                }
            }
        }
    }
    Ok(())
}

fn accept(
    listener: &TcpListener,
    epoll: &std::os::fd::OwnedFd,
    clients: &mut HashMap<u64, Client>,
) -> io::Result<()> {
    while let Ok((stream, _)) = listener.accept() {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let token = stream.as_raw_fd() as u64;
        epoll::add(epoll, &stream, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?;
        let scanner = Scanner::default();
        clients.insert(token, Client { stream, scanner, kept: Vec::new(), unsent: Vec::new() });
    }
    Ok(())
}

/// Reads once and answers; an error closes the connection.
fn answer(client: &mut Client, buffer: &mut [u8]) -> io::Result<()> {
    if client.unsent.is_empty() {
        let kept = client.kept.len();
        if kept * 2 > buffer.len() {
            return Err(io::Error::other("a line without an end"));
        }
        buffer[..kept].copy_from_slice(&client.kept);
        let count = match client.stream.read(&mut buffer[kept..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        let length = kept + count;
        let unsent = &mut client.unsent;
        let used = client
            .scanner
            .scan(&buffer[..length], false, |_| unsent.extend_from_slice(NIL))
            .map_err(io::Error::other)?;
        client.kept.clear();
        client.kept.extend_from_slice(&buffer[used..length]);
    }
    match client.stream.write(&client.unsent) {
        Ok(count) => {
            client.unsent.drain(..count);
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        Err(error) => Err(error),
    }
}
