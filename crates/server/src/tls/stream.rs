//! TLS of a connection whose handshake is over.
//!
//! Ciphertext is read into a buffer of the worker and decrypted there; replies are encrypted into
//! another and written once. A connection keeps only what is incomplete: the beginning of a record
//! that has not arrived whole, and ciphertext that its socket did not take.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus,
};
use tidemill_resp::encode::ReplyBuffer;

use super::certificate::PeerNames;
use crate::limits::{READ_BYTES, TLS_RECORD_BYTES_MAX, TLS_SENT_BYTES_MAX, TLS_WRITTEN_BYTES};
use crate::output::Sent;
use crate::transport;

/// True while no socket takes ciphertext, for tests.
static ARE_SOCKETS_FULL: AtomicBool = AtomicBool::new(false);

/// Lets sockets take no ciphertext from now on, or take it again, for tests.
pub(crate) fn fill_sockets(are_full: bool) {
    // Relaxed: a switch, which orders nothing.
    ARE_SOCKETS_FULL.store(are_full, Ordering::Relaxed);
}

/// Buffers of a worker for the connections that speak TLS. No memory until there is one.
#[derive(Debug, Default)]
pub(crate) struct TlsBuffers {
    incoming: Vec<u8>,
    /// Replies in several pieces, one behind the other.
    plain: Vec<u8>,
    outgoing: Vec<u8>,
}

/// TLS of one connection.
pub(crate) struct TlsStream {
    session: UnbufferedServerConnection,
    /// Beginning of a record.
    partial: Vec<u8>,
    /// Ciphertext that the socket did not take.
    unsent: Vec<u8>,
    /// Number of bytes at its front that the socket took.
    sent: usize,
    is_input_over: bool,
}

/// Result of a handshake.
#[derive(Debug)]
pub(crate) struct Established {
    pub(crate) stream: TlsStream,
    /// Names in the client's certificate.
    pub(crate) names: PeerNames,
    /// Requests that arrived right behind the handshake.
    pub(crate) early: Vec<u8>,
}

/// Without keys.
impl fmt::Debug for TlsStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TlsStream")
            .field("partial_bytes", &self.partial.len())
            .field("unsent_bytes", &self.unsent_bytes())
            .field("is_input_over", &self.is_input_over)
            .finish_non_exhaustive()
    }
}

/// Appends a message of the protocol to `outgoing`.
pub(super) fn encode(
    message: &mut EncodeTlsData<'_, ServerConnectionData>,
    outgoing: &mut Vec<u8>,
) {
    // The first call tells the size.
    if let Err(EncodeError::InsufficientSize(missing)) = message.encode(&mut []) {
        let start = outgoing.len();
        outgoing.resize(start + missing.required_size, 0);
        // It has room, and was not encoded.
        let _ = message.encode(&mut outgoing[start..]);
    }
}

impl TlsStream {
    /// The stream behind a handshake, which left ciphertext: `partial` and `unsent`.
    pub(super) fn new(
        session: UnbufferedServerConnection,
        partial: Vec<u8>,
        unsent: Vec<u8>,
        is_input_over: bool,
    ) -> TlsStream {
        TlsStream { session, partial, unsent, sent: 0, is_input_over }
    }

    /// Number of bytes that the socket has not taken.
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.unsent.len() - self.sent
    }

    /// Drops what the socket has not taken.
    pub(crate) fn drop_unsent(&mut self) {
        (self.unsent, self.sent) = (Vec::new(), 0);
    }

    /// Memory of the connection's own.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<TlsStream>() + self.partial.capacity() + self.unsent.capacity()
    }

    /// Reads once from the socket, at most `bytes_max` bytes, and decrypts whole records into
    /// `into`, which has room for [`READ_BYTES`]. Returns the number of decrypted bytes, 0 at the
    /// end of the input, as a read does.
    ///
    /// # Errors
    ///
    /// `AGAIN` when nothing whole has arrived; any other when the connection has failed.
    pub(crate) fn receive(
        &mut self,
        socket: &OwnedFd,
        into: &mut [u8],
        bytes_max: usize,
        buffers: &mut TlsBuffers,
    ) -> Result<usize, Errno> {
        if self.is_input_over {
            return Ok(0);
        }
        let incoming = &mut buffers.incoming;
        incoming.resize(READ_BYTES, 0);
        let kept = self.partial.len();
        let end_max = (kept + bytes_max).min(READ_BYTES);
        let count = transport::read(socket, &mut incoming[kept..end_max])?;
        if count == 0 {
            self.is_input_over = true;
            return Ok(0);
        }
        incoming[..kept].copy_from_slice(&self.partial);
        let end = kept + count;
        let (consumed, decrypted) = match self.decrypt(&mut incoming[..end], into) {
            Ok(done) => done,
            Err(error) => {
                log::debug!("TLS of a connection has failed: {error}");
                self.send_last(socket);
                return Err(Errno::PROTO);
            }
        };
        if self.is_input_over {
            tell_input_over(socket);
        }
        self.keep_partial(&buffers.incoming[consumed..end])?;
        match decrypted {
            0 if !self.is_input_over => Err(Errno::AGAIN),
            decrypted => Ok(decrypted),
        }
    }

    /// Decrypts whole records of `incoming`; returns the number of bytes they have there, and in
    /// `into`, which is at least as large.
    fn decrypt(
        &mut self,
        incoming: &mut [u8],
        into: &mut [u8],
    ) -> Result<(usize, usize), rustls::Error> {
        let (mut consumed, mut decrypted) = (0, 0);
        loop {
            let UnbufferedStatus { mut discard, state, .. } =
                self.session.process_tls_records(&mut incoming[consumed..]);
            match state? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        let end = decrypted + record.payload.len();
                        into[decrypted..end].copy_from_slice(record.payload);
                        decrypted = end;
                        discard += record.discard;
                    }
                }
                ConnectionState::EncodeTlsData(mut message) => {
                    encode(&mut message, &mut self.unsent);
                }
                // It goes out before everything else.
                ConnectionState::TransmitTlsData(message) => message.done(),
                ConnectionState::PeerClosed | ConnectionState::Closed => {
                    self.is_input_over = true;
                    return Ok((incoming.len(), decrypted));
                }
                // Nothing whole is left.
                _ => return Ok((consumed + discard, decrypted)),
            }
            consumed += discard;
        }
    }

    fn keep_partial(&mut self, rest: &[u8]) -> Result<(), Errno> {
        if rest.is_empty() {
            self.partial = Vec::new();
            return Ok(());
        }
        if rest.len() > TLS_RECORD_BYTES_MAX {
            return Err(Errno::MSGSIZE);
        }
        self.partial.clear();
        self.partial.try_reserve_exact(rest.len()).map_err(|_| Errno::NOMEM)?;
        self.partial.extend_from_slice(rest);
        Ok(())
    }

    /// Sends ciphertext that is left, and as much of `output` as the socket takes, at most
    /// [`TLS_SENT_BYTES_MAX`] at a time. Does not block when the socket does not.
    pub(crate) fn send(
        &mut self,
        socket: &OwnedFd,
        output: &mut ReplyBuffer,
        buffers: &mut TlsBuffers,
    ) -> Sent {
        let mut sent = self.send_unsent(socket);
        let mut left_bytes = TLS_SENT_BYTES_MAX;
        while sent == Sent::All && !output.is_empty() {
            if left_bytes == 0 {
                return Sent::Part;
            }
            let (taken, length) = match self.encrypt(output, buffers) {
                Ok(lengths) => lengths,
                Err(error) => {
                    log::debug!("TLS of a connection has failed: {error}");
                    return Sent::Broken;
                }
            };
            output.advance(taken);
            left_bytes = left_bytes.saturating_sub(taken);
            sent = self.send_fresh(socket, &buffers.outgoing[..length]);
        }
        sent
    }

    /// Encrypts the next [`TLS_WRITTEN_BYTES`] of `output` into the worker's buffer; returns their
    /// number, and that of the encrypted ones.
    fn encrypt(
        &mut self,
        output: &ReplyBuffer,
        buffers: &mut TlsBuffers,
    ) -> Result<(usize, usize), EncryptError> {
        let TlsBuffers { plain, outgoing, .. } = buffers;
        let text = match output.as_single_segment() {
            Some(bytes) => &bytes[..bytes.len().min(TLS_WRITTEN_BYTES)],
            None => {
                plain.clear();
                for segment in output.segments() {
                    let room = TLS_WRITTEN_BYTES - plain.len();
                    plain.extend_from_slice(&segment[..segment.len().min(room)]);
                    if plain.len() == TLS_WRITTEN_BYTES {
                        break;
                    }
                }
                &plain[..]
            }
        };
        // Headers and tags of its records, each of 16 KiB; a message about new keys may precede.
        let room_bytes = text.len() + text.len() / 64 + 512;
        if outgoing.len() < room_bytes {
            outgoing.resize(room_bytes, 0);
        }
        let length = self.write_traffic(|traffic| traffic.encrypt(text, outgoing))?;
        Ok((text.len(), length))
    }

    /// Runs `write` in the state in which application data may be sent.
    fn write_traffic(
        &mut self,
        write: impl FnOnce(
            &mut rustls::unbuffered::WriteTraffic<'_, ServerConnectionData>,
        ) -> Result<usize, EncryptError>,
    ) -> Result<usize, EncryptError> {
        loop {
            match self.session.process_tls_records(&mut []).state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => return write(&mut traffic),
                Ok(ConnectionState::EncodeTlsData(mut message)) => {
                    encode(&mut message, &mut self.unsent);
                }
                Ok(ConnectionState::TransmitTlsData(message)) => message.done(),
                Ok(ConnectionState::PeerClosed) => self.is_input_over = true,
                _ => return Err(EncryptError::EncryptExhausted),
            }
        }
    }

    /// Sends what is left of earlier writes.
    fn send_unsent(&mut self, socket: &OwnedFd) -> Sent {
        if self.unsent.is_empty() {
            return Sent::All;
        }
        let (sent, count) = write(socket, &self.unsent[self.sent..]);
        self.sent += count;
        if sent == Sent::All {
            self.drop_unsent();
        }
        sent
    }

    /// Sends fresh ciphertext behind what is left of earlier writes, and keeps what the socket does
    /// not take.
    fn send_fresh(&mut self, socket: &OwnedFd, ciphertext: &[u8]) -> Sent {
        let (sent, count) = match self.send_unsent(socket) {
            Sent::All => write(socket, ciphertext),
            other => (other, 0),
        };
        if sent == Sent::Part {
            let rest = &ciphertext[count..];
            if self.unsent.try_reserve(rest.len()).is_err() {
                // A gap would be noticed as an attack.
                return Sent::Broken;
            }
            self.unsent.extend_from_slice(rest);
        }
        sent
    }

    /// Says that nothing more is sent, or what was wrong, if the socket takes it at once.
    pub(crate) fn send_last(&mut self, socket: &OwnedFd) {
        if self.unsent_bytes() > 0 {
            return;
        }
        let mut last = [0; 256];
        let closed = self.write_traffic(|traffic| traffic.queue_close_notify(&mut last));
        // The connection ends in any case.
        let _ = self.send_unsent(socket);
        if let Ok(length) = closed {
            let _ = write(socket, &last[..length]);
        }
    }
}

/// Lets the kernel report the end of a client's input, which it does not know of, again and again
/// as if the client had closed its direction.
pub(super) fn tell_input_over(socket: &OwnedFd) {
    // Refused only for a connection that has failed, which the kernel reports anyway.
    let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Read);
}

/// Writes bytes; returns the number of those that were taken.
fn write(socket: &OwnedFd, bytes: &[u8]) -> (Sent, usize) {
    let mut count = 0;
    // Relaxed: as in `fill_sockets`.
    if ARE_SOCKETS_FULL.load(Ordering::Relaxed) {
        return (Sent::Part, 0);
    }
    while count < bytes.len() {
        match transport::write(socket, &bytes[count..]) {
            Ok(taken) => count += taken,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return (Sent::Part, count),
            Err(_) => return (Sent::Broken, count),
        }
    }
    (Sent::All, count)
}
