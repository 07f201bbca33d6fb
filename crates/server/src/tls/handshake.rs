//! One handshake: bytes of a socket go into a session until it is a stream.

use std::fmt;

use rustix::io::Errno;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};

use super::certificate::PeerNames;
use super::context::TlsContext;
use super::stream::{Established, TlsStream, encode, tell_input_over};
use crate::handover::Accepted;
use crate::limits::HANDSHAKE_INPUT_BYTES_MAX;
use crate::transport;

/// Answer to a client that does not speak TLS.
const NOT_TLS: &[u8] = b"-ERR This port speaks TLS only\r\n";

/// A client's handshake.
pub(super) struct Handshake {
    pub(super) accepted: Accepted,
    session: UnbufferedServerConnection,
    /// Ciphertext that is not consumed yet.
    incoming: Vec<u8>,
    /// Messages that the socket has not taken.
    outgoing: Vec<u8>,
    /// Requests that arrived right behind the handshake.
    early: Vec<u8>,
    is_input_over: bool,
}

/// Reason why a handshake has ended without a connection.
#[derive(Debug)]
pub(super) enum HandshakeError {
    /// The client has gone, or its connection has failed.
    Gone,
    NotTls,
    /// It sent more than a handshake takes.
    TooLong,
    Tls(rustls::Error),
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandshakeError::Gone => formatter.write_str("the client has closed the connection"),
            HandshakeError::NotTls => formatter.write_str("the client does not speak TLS"),
            HandshakeError::TooLong => formatter.write_str("the client's handshake is too long"),
            HandshakeError::Tls(error) => error.fmt(formatter),
        }
    }
}

impl Handshake {
    /// Begins a handshake with the keys and parameters of `context`.
    pub(super) fn new(
        accepted: Accepted,
        context: &TlsContext,
    ) -> Result<Handshake, rustls::Error> {
        Ok(Handshake {
            accepted,
            session: UnbufferedServerConnection::new(context.server.clone())?,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            early: Vec::new(),
            is_input_over: false,
        })
    }

    /// Does what the socket allows: reads once, `scratch` at most, and answers. Returns true once
    /// the handshake is complete.
    pub(super) fn advance(&mut self, scratch: &mut [u8]) -> Result<bool, HandshakeError> {
        match transport::read(&self.accepted.socket, &mut *scratch) {
            Ok(0) => return Err(HandshakeError::Gone),
            Ok(count) => self.incoming.extend_from_slice(&scratch[..count]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => return Err(HandshakeError::Gone),
        }
        if self.incoming.len() > HANDSHAKE_INPUT_BYTES_MAX {
            return Err(HandshakeError::TooLong);
        }
        let begins_as_text = |first: &u8| first.is_ascii_graphic() || first.is_ascii_whitespace();
        if self.session.is_handshaking()
            && self.outgoing.is_empty()
            && self.session.protocol_version().is_none()
            && self.incoming.first().is_some_and(begins_as_text)
        {
            // It is closed in any case.
            let _ = transport::write(&self.accepted.socket, NOT_TLS);
            return Err(HandshakeError::NotTls);
        }
        let processed = self.process();
        // An alert too: it tells the client what is wrong.
        self.send()?;
        processed.map_err(HandshakeError::Tls)?;
        let is_complete = !self.session.is_handshaking();
        if self.is_input_over && !is_complete { Err(HandshakeError::Gone) } else { Ok(is_complete) }
    }

    /// True if the socket did not take all messages.
    pub(super) fn has_unsent(&self) -> bool {
        !self.outgoing.is_empty()
    }

    fn process(&mut self) -> Result<(), rustls::Error> {
        let Handshake { session, incoming, outgoing, early, is_input_over, .. } = self;
        let mut consumed = 0;
        let mut result = Ok(());
        loop {
            // After an error nothing more is consumed: only its alert is taken out.
            let rest = if result.is_ok() { &mut incoming[consumed..] } else { &mut [][..] };
            let UnbufferedStatus { mut discard, state, .. } = session.process_tls_records(rest);
            match state {
                Ok(ConnectionState::EncodeTlsData(mut message)) => encode(&mut message, outgoing),
                Ok(ConnectionState::TransmitTlsData(message)) => message.done(),
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(Ok(record)) = traffic.next_record() {
                        early.extend_from_slice(record.payload);
                        discard += record.discard;
                    }
                }
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    *is_input_over = true;
                    consumed = incoming.len();
                    break;
                }
                Err(error) if result.is_ok() => result = Err(error),
                _ => {
                    consumed += discard;
                    break;
                }
            }
            consumed += discard;
        }
        incoming.drain(..consumed.min(incoming.len()));
        result
    }

    fn send(&mut self) -> Result<(), HandshakeError> {
        while !self.outgoing.is_empty() {
            match transport::write(&self.accepted.socket, &self.outgoing) {
                Ok(count) => {
                    self.outgoing.drain(..count);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(_) => return Err(HandshakeError::Gone),
            }
        }
        Ok(())
    }

    /// The accepted connection with its stream, once the handshake is complete.
    pub(super) fn into_accepted(self) -> Accepted {
        let Handshake { accepted, session, incoming, outgoing, early, is_input_over } = self;
        if is_input_over {
            tell_input_over(&accepted.socket);
        }
        let certificate = session.peer_certificates().and_then(<[_]>::first);
        let names = certificate.map(PeerNames::of).unwrap_or_default();
        let stream = TlsStream::new(session, incoming, outgoing, is_input_over);
        Accepted { tls: Some(Box::new(Established { stream, names, early })), ..accepted }
    }
}
