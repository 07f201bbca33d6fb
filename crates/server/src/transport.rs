//! A connection's way to its client: a socket, with or without TLS on it.
//!
//! Two operations, and what they leave: [`receive`](Transport::receive) and
//! [`send`](Transport::send) have the results of the system calls whether or not there is TLS, so
//! that nothing above knows of it. A socket without TLS costs a look at one word.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::buffer::Buffer;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use tidemill_resp::encode::ReplyBuffer;

use crate::output::{self, Sent};
use crate::tls::stream::{TlsBuffers, TlsStream};

/// Reads once from a socket.
///
/// `recv` and `send` leave out what the kernel does for files of any kind: they take 10 % and 4 %
/// less CPU than `read` and `write` of a socket (60 bytes, Linux 6.18).
#[inline]
pub(crate) fn read<B: Buffer<u8>>(socket: impl AsFd, into: B) -> Result<B::Output, Errno> {
    rustix::net::recv(socket, into, RecvFlags::empty()).map(|(output, _)| output)
}

/// Writes once to a socket; returns the number of bytes that it took.
#[inline]
pub(crate) fn write(socket: impl AsFd, bytes: &[u8]) -> Result<usize, Errno> {
    rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)
}

/// A socket and its TLS, if any.
#[derive(Debug)]
pub(crate) struct Transport {
    socket: OwnedFd,
    tls: Option<Box<TlsStream>>,
}

impl Transport {
    pub(crate) fn new(socket: OwnedFd, tls: Option<Box<TlsStream>>) -> Transport {
        Transport { socket, tls }
    }

    /// True if requests must be read by [`receive`](Self::receive), not into memory of a
    /// connection's own.
    #[inline]
    pub(crate) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Reads once from the socket, at most `bytes_max`, into `into`, which has room for
    /// [`READ_BYTES`](crate::limits::READ_BYTES). With TLS it returns the number of decrypted
    /// bytes, which may exceed `bytes_max` by a record.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        into: &mut [u8],
        bytes_max: usize,
        buffers: &mut TlsBuffers,
    ) -> Result<usize, Errno> {
        match &mut self.tls {
            None => read(&self.socket, &mut into[..bytes_max]),
            Some(tls) => tls.receive(&self.socket, into, bytes_max, buffers),
        }
    }

    /// Sends as much of `output` as the socket takes, in one system call if it takes all. Does not
    /// block.
    #[inline]
    pub(crate) fn send(&mut self, output: &mut ReplyBuffer, buffers: &mut TlsBuffers) -> Sent {
        match &mut self.tls {
            None => output::send(&self.socket, output),
            Some(tls) => tls.send(&self.socket, output, buffers),
        }
    }

    /// Number of bytes that the socket has not taken, beside the replies of its connection.
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.tls.as_ref().map_or(0, |tls| tls.unsent_bytes())
    }

    /// Drops those bytes.
    pub(crate) fn drop_unsent(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.drop_unsent();
        }
    }

    /// Memory beside the value itself.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.tls.as_ref().map_or(0, |tls| tls.memory_bytes())
    }

    /// Says goodbye, if the protocol has words for it, before the socket is closed.
    pub(crate) fn send_last(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_last(&self.socket);
        }
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
