//! A server that does nothing: one nil per request, no parsing beyond counting.
//!
//! Against it a load generator shows its own cost (`--calibrate`, `make bench-client`). Each thread
//! has an epoll instance; the first one accepts and deals the connections out, so that load threads
//! find the same server however many they are. Requests are counted with the same scanner that
//! counts replies, because a request is an array of strings.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{Timespec, epoll};
use tidemill_host::output::note;

use crate::limits::RECEIVE_BUFFER_BYTES;
use crate::load::scan::Scanner;

const NIL: &[u8] = b"$-1\r\n";
const LISTENER: u64 = u64::MAX;

/// A running server; dropping it stops its threads.
#[derive(Debug)]
pub struct NullServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl NullServer {
    /// Listens on a loopback port of the system's choice, with `threads` threads, at least one.
    ///
    /// # Errors
    /// The system's error.
    pub fn start(threads: u32) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let places: io::Result<Vec<Place>> = (0..threads.max(1)).map(|_| Place::new()).collect();
        let places: Arc<[Place]> = places?.into();
        let flags = epoll::EventFlags::IN;
        epoll::add(&places[0].epoll, &listener, epoll::EventData::new_u64(LISTENER), flags)?;
        let mut server = Self { address, stop: Arc::default(), threads: Vec::new() };
        let mut listener = Some(listener);
        for own in 0..places.len() {
            let (places, stop) = (places.clone(), server.stop.clone());
            let dealer = listener.take().map(|listener| Dealer { listener, next: 0 });
            let name = format!("null-server-{own}");
            server.threads.push(std::thread::Builder::new().name(name).spawn(move || {
                if let Err(error) = serve(&places, own, dealer, &stop) {
                    note(format_args!("null server: {error}"));
                }
            })?);
        }
        Ok(server)
    }

    /// Address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        // Relaxed: nothing but the flag is read.
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[derive(Debug)]
struct Client {
    stream: TcpStream,
    scanner: Scanner,
    kept: Vec<u8>,
    unsent: Vec<u8>,
}

/// Poller that a thread waits on, and the connections dealt to it that it has not taken over.
#[derive(Debug)]
struct Place {
    epoll: OwnedFd,
    dealt: Mutex<HashMap<u64, TcpStream>>,
}

impl Place {
    fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, dealt: Mutex::default() })
    }

    fn take(&self, token: u64) -> Option<Client> {
        let stream = self.dealt.lock().unwrap_or_else(PoisonError::into_inner).remove(&token)?;
        let scanner = Scanner::default();
        Some(Client { stream, scanner, kept: Vec::new(), unsent: Vec::new() })
    }
}

/// Acceptor of connections, which deals them to the threads.
struct Dealer {
    listener: TcpListener,
    next: usize,
}

impl Dealer {
    fn deal(&mut self, places: &[Place]) -> io::Result<()> {
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let place = &places[self.next % places.len()];
            self.next += 1;
            let token = stream.as_raw_fd() as u64;
            // The lock is held until the stream is in the map: its first event may come at once.
            let mut dealt = place.dealt.lock().unwrap_or_else(PoisonError::into_inner);
            let data = epoll::EventData::new_u64(token);
            epoll::add(&place.epoll, &stream, data, epoll::EventFlags::IN)?;
            dealt.insert(token, stream);
        }
        Ok(())
    }
}

fn serve(
    places: &[Place],
    own: usize,
    mut dealer: Option<Dealer>,
    stop: &AtomicBool,
) -> io::Result<()> {
    let place = &places[own];
    let epoll = &place.epoll;
    let mut clients: HashMap<u64, Client> = HashMap::new();
    let mut buffer = vec![0; RECEIVE_BUFFER_BYTES];
    let mut events = Vec::with_capacity(256);
    let tick = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    while !stop.load(Ordering::Relaxed) {
        match epoll::wait(epoll, rustix::buffer::spare_capacity(&mut events), Some(&tick)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events.drain(..) {
            let (token, ready) = (event.data.u64(), event.flags);
            if token == LISTENER {
                if let Some(dealer) = &mut dealer {
                    dealer.deal(places)?;
                }
                continue;
            }
            if let Some(client) = place.take(token) {
                clients.insert(token, client);
            }
            if let Some(client) = clients.get_mut(&token)
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
                    epoll::modify(epoll, &client.stream, data, flags)?;
                }
            }
        }
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

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A helper that fails fails its test.
mod tests {
    use super::*;

    #[test]
    fn every_thread_answers_every_request_of_its_connections() {
        let server = NullServer::start(3).unwrap();
        let mut streams: Vec<TcpStream> =
            (0..7).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
        // A request and a half, then the rest of the second.
        let requests = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".repeat(2);
        for part in [&requests[..31], &requests[31..]] {
            for stream in &mut streams {
                stream.write_all(part).unwrap();
            }
        }
        for stream in &mut streams {
            let mut replies = [0; 2 * NIL.len()];
            stream.read_exact(&mut replies).unwrap();
            assert_eq!(replies, NIL.repeat(2)[..]);
        }
        // Dropping the server ends its threads, whose connections are still open.
        drop(server);
        let mut rest = Vec::new();
        streams[0].read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty());
    }
}
