//! Connections that subscribe to a channel and read what comes, beside a load that publishes.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::experiment::idle::hold_open;

const SUBSCRIBE: &[u8] = b"*2\r\n$9\r\nSUBSCRIBE\r\n$7\r\nfan-out\r\n";
const SUBSCRIBED: &[u8] = b"*3\r\n$9\r\nsubscribe\r\n$7\r\nfan-out\r\n:1\r\n";
/// Longest sleep, so that the end is noticed without a message too.
const SLEEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Subscribers with a thread that reads for all of them, ended with the value.
pub(super) struct Subscribers {
    is_over: Arc<AtomicBool>,
    received_bytes: Arc<AtomicU64>,
    lost_count: Arc<AtomicU64>,
    /// Time of the first bytes: the load takes its time to connect and to prepare.
    began: Arc<OnceLock<Instant>>,
    reader: Option<JoinHandle<()>>,
}

impl Subscribers {
    /// Connects and subscribes. Blocks until the server has confirmed all.
    ///
    /// # Errors
    /// When the system or the server refuses one.
    pub fn start(port: u16, count: u64) -> io::Result<Self> {
        let mut streams = hold_open(port, count)?;
        for stream in &mut streams {
            stream.write_all(SUBSCRIBE)?;
        }
        for stream in &mut streams {
            let mut answer = [0; SUBSCRIBED.len()];
            stream.read_exact(&mut answer)?;
            if answer != SUBSCRIBED {
                return Err(io::Error::other("a subscriber was refused"));
            }
            stream.set_nonblocking(true)?;
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let received_bytes = Arc::new(AtomicU64::new(0));
        let lost_count = Arc::new(AtomicU64::new(0));
        let began = Arc::new(OnceLock::new());
        let (over, received) = (Arc::clone(&is_over), Arc::clone(&received_bytes));
        let (lost, first) = (Arc::clone(&lost_count), Arc::clone(&began));
        let reader = std::thread::Builder::new().name("subscribers".into()).spawn(move || {
            read_all(&mut streams, &over, &received, &first);
            lost.store(count - streams.len() as u64, Ordering::Relaxed);
        })?;
        Ok(Self { is_over, received_bytes, lost_count, began, reader: Some(reader) })
    }

    /// Bytes per second since the first came, together; 0 while there are none.
    pub fn bytes_per_second(&self) -> f64 {
        let Some(began) = self.began.get() else { return 0.0 };
        let seconds = began.elapsed().as_secs_f64().max(1e-9);
        self.received_bytes.load(Ordering::Relaxed) as f64 / seconds
    }
}

impl Subscribers {
    /// Ends the reading. Subscribers that the server cut off before.
    pub fn end(&mut self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        self.lost_count.load(Ordering::Relaxed)
    }
}

impl Drop for Subscribers {
    fn drop(&mut self) {
        self.end();
    }
}

/// Reads until it is over; a subscriber that was cut off is left out from then on.
fn read_all(
    streams: &mut Vec<TcpStream>,
    is_over: &AtomicBool,
    received_bytes: &AtomicU64,
    began: &OnceLock<Instant>,
) {
    let mut buffer = vec![0; 256 * 1024];
    while !is_over.load(Ordering::Relaxed) && !streams.is_empty() {
        let mut fds: Vec<PollFd<'_>> = streams
            .iter()
            .map(|stream| PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::IN))
            .collect();
        if poll(&mut fds, Some(&SLEEP)).is_err_and(|error| error != rustix::io::Errno::INTR) {
            return;
        }
        let is_ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut ready = is_ready.into_iter();
        streams.retain_mut(|stream| {
            if !ready.next().unwrap_or(false) {
                return true;
            }
            match stream.read(&mut buffer) {
                Ok(0) => false,
                Ok(count) => {
                    began.get_or_init(Instant::now);
                    received_bytes.fetch_add(count as u64, Ordering::Relaxed);
                    true
                }
                Err(error) => {
                    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
                }
            }
        });
    }
}
