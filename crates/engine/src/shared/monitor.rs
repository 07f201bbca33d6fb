//! `MONITOR`: sessions that see every command.
//!
//! The worker that runs a command posts its line into the lanes of the workers that own monitors.
//! Thus a monitor sees the commands of one worker, and with them those of one client, in the order
//! in which they ran; between workers the lines' times tell.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::pubsub::lanes::{Delivery, Lanes};
use crate::shared::clients::Client;

/// The sessions that watch.
#[derive(Debug, Default)]
pub struct Monitors {
    clients: Mutex<Vec<Arc<Client>>>,
    count: AtomicUsize,
}

impl Monitors {
    /// True if there is a monitor.
    #[must_use]
    #[inline]
    pub fn is_watched(&self) -> bool {
        // Relaxed: a command that runs while MONITOR begins may be seen or not. One that a client
        // sends after MONITOR was answered is seen: the answer went through the kernel, which
        // orders the store before the load.
        self.count.load(Ordering::Relaxed) > 0
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Client>>)) {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut clients);
        // Relaxed: as in `is_watched`.
        self.count.store(clients.len(), Ordering::Relaxed);
    }

    /// A client watches from now on.
    pub fn add(&self, client: &Arc<Client>) {
        self.change(|clients| clients.push(Arc::clone(client)));
    }

    /// A client watches no more.
    pub fn remove(&self, id: u64) {
        self.change(|clients| clients.retain(|client| client.id != id));
    }

    /// Sends a line to all that watch.
    pub fn send(&self, lanes: &Lanes, line: &Bytes) {
        for client in self.clients.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // It does not move while it watches.
            lanes.post(client.owner(), Delivery::Line { session: client.id, bytes: line.clone() });
        }
    }
}

/// The line about one command of a client at an address. Only the path of a Unix socket has port 0.
pub fn line<'a>(
    unix_us: u64,
    database: usize,
    source: &str,
    arguments: impl Iterator<Item = &'a [u8]>,
) -> Vec<u8> {
    let mut line = Vec::new();
    let (seconds, us) = (unix_us / 1_000_000, unix_us % 1_000_000);
    // Writing into a vector cannot fail, here and below.
    let _ = match source.strip_suffix(":0").filter(|path| *path != "?") {
        Some(path) => write!(line, "+{seconds}.{us:06} [{database} unix:{path}]"),
        None => write!(line, "+{seconds}.{us:06} [{database} {source}]"),
    };
    for argument in arguments {
        line.push(b' ');
        quote(&mut line, argument);
    }
    line.extend_from_slice(b"\r\n");
    line
}

/// Writes bytes in quotes, with escapes for what is not printable ASCII.
pub fn quote(into: &mut Vec<u8>, bytes: &[u8]) {
    into.push(b'"');
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => into.extend_from_slice(&[b'\\', byte]),
            b'\n' => into.extend_from_slice(b"\\n"),
            b'\r' => into.extend_from_slice(b"\\r"),
            b'\t' => into.extend_from_slice(b"\\t"),
            0x07 => into.extend_from_slice(b"\\a"),
            0x08 => into.extend_from_slice(b"\\b"),
            b' '..=b'~' => into.push(byte),
            _ => {
                let _ = write!(into, "\\x{byte:02x}");
            }
        }
    }
    into.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_valkeys() {
        let arguments = [&b"SET"[..], b"\x00\x07\x08\x1b\xff\t\r k", b"'", b"x\"y\\z\n"];
        assert_eq!(
            line(1_795_262_090_000_740, 3, "127.0.0.1:43066", arguments.into_iter()),
            b"+1795262090.000740 [3 127.0.0.1:43066] \"SET\" \"\\x00\\a\\b\\x1b\\xff\\t\\r k\" \
              \"'\" \"x\\\"y\\\\z\\n\"\r\n"
        );
        let of_unix = line(1_000_000, 0, "/tmp/a.sock:0", std::iter::empty());
        assert_eq!(of_unix, b"+1.000000 [0 unix:/tmp/a.sock]\r\n");
    }
}
