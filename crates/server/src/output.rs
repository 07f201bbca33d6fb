//! Replies on their way into a socket.
//!
//! Public because the bench `coroutines` sends as a worker does; nothing else outside of the crate
//! needs it.

use std::io::IoSlice;
use std::os::fd::AsFd;

use rustix::io::Errno;
use tidemill_resp::encode::ReplyBuffer;

use crate::limits::{SEGMENTS_MAX, TURN_SENT_BYTES_MAX};
use crate::transport;

/// Result of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Nothing is left.
    All,
    /// The socket is full, or has taken as much as it is sent at a time.
    Part,
    /// The connection has failed.
    Broken,
}

/// Sends as much of `output` as the socket takes, at most [`TURN_SENT_BYTES_MAX`] at a time, in one
/// system call if it takes all. Does not block when the socket does not.
///
/// A client that reads while it is sent leaves the socket room without end: it would be sent all of
/// a long string while its neighbours wait.
pub fn send(socket: impl AsFd, output: &mut ReplyBuffer) -> Sent {
    let mut left_bytes = TURN_SENT_BYTES_MAX;
    while !output.is_empty() {
        if left_bytes == 0 {
            return Sent::Part;
        }
        let result = match output.as_single_segment() {
            Some(bytes) => transport::write(&socket, &bytes[..bytes.len().min(left_bytes)]),
            None => {
                let segments = first_bytes(output.segments().take(SEGMENTS_MAX), left_bytes);
                let segments: Vec<IoSlice<'_>> = segments.map(IoSlice::new).collect();
                rustix::io::writev(&socket, &segments)
            }
        };
        match result {
            Ok(count) => {
                output.advance(count);
                left_bytes -= count;
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Sent::Part,
            Err(_) => return Sent::Broken,
        }
    }
    Sent::All
}

/// The first `left_bytes` bytes of `segments`.
fn first_bytes<'b>(
    segments: impl Iterator<Item = &'b [u8]>,
    mut left_bytes: usize,
) -> impl Iterator<Item = &'b [u8]> {
    segments.map_while(move |segment| {
        let taken = &segment[..segment.len().min(left_bytes)];
        left_bytes -= taken.len();
        (!taken.is_empty()).then_some(taken)
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    use tidemill_resp::encode::Protocol;

    use super::*;

    /// Bytes that a client got which reads while it is sent, and the most that left at a time.
    fn sent_beside_reader(mut output: ReplyBuffer) -> (Vec<u8>, usize) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let mut client = TcpStream::connect(address).expect("it listens");
        let (socket, _) = listener.accept().expect("the client is there");
        socket.set_nonblocking(true).expect("it is a socket");
        let reader = std::thread::spawn(move || {
            let mut received = Vec::new();
            client.read_to_end(&mut received).expect("the server sends until it closes");
            received
        });
        let mut most = 0;
        loop {
            let before = output.len();
            let sent = send(&socket, &mut output);
            most = most.max(before - output.len());
            match sent {
                Sent::All => break,
                Sent::Part => std::thread::yield_now(),
                Sent::Broken => panic!("the client has not gone"),
            }
        }
        drop(socket);
        (reader.join().expect("it got all"), most)
    }

    #[test]
    fn reader_of_a_long_reply_is_sent_a_part_at_a_time() {
        let bytes: Vec<u8> =
            (0..16 * TURN_SENT_BYTES_MAX + 7).map(|index| (index % 251) as u8).collect();
        let mut copied = ReplyBuffer::new(Protocol::Resp2);
        copied.raw(&bytes);
        let mut shared = ReplyBuffer::new(Protocol::Resp2);
        shared.bulk_shared(bytes.clone().into());
        let framed = [format!("${}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat();
        for (output, expected) in [(copied, bytes), (shared, framed)] {
            let (received, most) = sent_beside_reader(output);
            assert!(received == expected);
            assert!(most <= TURN_SENT_BYTES_MAX, "{most} bytes at a time");
        }
    }
}
