//! TLS of clients: files and parameters, handshakes, and the streams behind them.
//!
//! A worker accepts at the TLS port and passes the socket to a thread that does handshakes
//! ([`reception`]): signing with an RSA key takes most of a millisecond, in which a worker would
//! answer hundreds of requests. A connection whose handshake is complete goes to a worker with a
//! [`stream::TlsStream`] and is a client only from then on, so half-open ones are bounded in
//! number, bytes and time apart from clients. Keys, certificates and parameters ([`context`]) are
//! replaced together by CONFIG SET: each handshake takes those in force when it begins.
//!
//! No worker state, no commands: only [`crate::transport`] knows streams.

mod certificate;
mod client_verifier;
pub(crate) mod context;
mod files;
mod handshake;
pub(crate) mod reception;
mod sessions;
pub(crate) mod stream;
mod suites;

pub(crate) use certificate::PeerNames;
