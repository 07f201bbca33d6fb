//! Replies on their way into a socket.
//!
//! Public because the bench `coroutines` sends as a worker does; nothing else outside of the crate
//! needs it.

use std::io::IoSlice;
use std::os::fd::AsFd;

use rustix::io::Errno;
use tidemill_resp::encode::ReplyBuffer;

use crate::limits::SEGMENTS_MAX;

/// Result of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Nothing is left.
    All,
    /// The socket is full.
    Part,
    /// The connection has failed.
    Broken,
}

/// Sends as much of `output` as the socket takes, in one system call if it takes all. Does not
/// block when the socket does not.
pub fn send(socket: impl AsFd, output: &mut ReplyBuffer) -> Sent {
    while !output.is_empty() {
        let result = match output.as_single_segment() {
            Some(bytes) => rustix::io::write(&socket, bytes),
            None => {
                let segments: Vec<IoSlice<'_>> =
                    output.segments().take(SEGMENTS_MAX).map(IoSlice::new).collect();
                rustix::io::writev(&socket, &segments)
            }
        };
        match result {
            Ok(count) => output.advance(count),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Sent::Part,
            Err(_) => return Sent::Broken,
        }
    }
    Sent::All
}
