//! TLS of the connections: rustls over a socket that may or may not block.
//!
//! Unlike memtier, the certificate must be for the name that was asked for, not only be signed by
//! an authority; `--sni` gives the name, `--tls-skip-verify` turns all checks off.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

/// What the command line says about TLS.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// Client certificate chain, PEM.
    pub certificate: Option<PathBuf>,
    /// Client private key, PEM.
    pub key: Option<PathBuf>,
    /// Certificates to trust, PEM; the system's when absent.
    pub authorities: Option<PathBuf>,
    /// Accept any server certificate.
    pub skip_verify: bool,
    /// Name for SNI and verification instead of the host.
    pub server_name: Option<String>,
    /// Versions allowed, as memtier names them; empty for all.
    pub versions: Vec<String>,
}

/// How to speak TLS: made once, shared by all connections.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    server_name: Option<ServerName<'static>>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Tls")
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files and prepares the configuration.
    ///
    /// # Errors
    /// Names the file that cannot be read, or what else is wrong.
    pub fn new(options: &TlsOptions) -> Result<Self, String> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone());
        let builder = builder
            .with_protocol_versions(&versions(&options.versions)?)
            .map_err(|error| error.to_string())?;
        let builder = if options.skip_verify {
            let verifier = Arc::new(AcceptAny(provider));
            builder.dangerous().with_custom_certificate_verifier(verifier)
        } else {
            builder.with_root_certificates(authorities(options)?)
        };
        let config = match (&options.certificate, &options.key) {
            (Some(certificate), Some(key_path)) => {
                let chain = certificates("--cert", certificate)?;
                let key = PrivateKeyDer::from_pem_file(key_path)
                    .map_err(|error| format!("--key: {}: {error}", key_path.display()))?;
                let config = builder.with_client_auth_cert(chain, key);
                config.map_err(|error| format!("--cert, --key: {error}"))?
            }
            (None, None) => builder.with_no_client_auth(),
            _ => return Err("--cert and --key belong together".into()),
        };
        let name = |name: &String| {
            ServerName::try_from(name.clone()).map_err(|_| format!("--sni: {name:?} is no name"))
        };
        let server_name = options.server_name.as_ref().map(name).transpose()?;
        Ok(Self { config: Arc::new(config), server_name })
    }

    /// Speaks TLS over a connected, blocking socket. The handshake happens with the first bytes.
    ///
    /// # Errors
    /// When the host is no name that can be verified.
    pub(super) fn wrap(&self, socket: TcpStream, host: &str) -> io::Result<TlsStream> {
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => ServerName::try_from(host.to_string()).map_err(io::Error::other)?,
        };
        let mut session =
            ClientConnection::new(self.config.clone(), name).map_err(io::Error::other)?;
        // The load bounds what it writes by its pipeline; a smaller limit would cut requests.
        session.set_buffer_limit(None);
        Ok(TlsStream { session, socket, holds_plaintext: false })
    }
}

fn versions(names: &[String]) -> Result<Vec<&'static rustls::SupportedProtocolVersion>, String> {
    if names.is_empty() {
        return Ok(rustls::ALL_VERSIONS.to_vec());
    }
    let version = |name: &String| match name.as_str() {
        "TLSv1.2" => Ok(&rustls::version::TLS12),
        "TLSv1.3" => Ok(&rustls::version::TLS13),
        _ => Err(format!("--tls-protocols: {name} is not offered, TLSv1.2 and TLSv1.3 are")),
    };
    names.iter().map(version).collect()
}

fn certificates(
    flag: &str,
    path: &std::path::Path,
) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |error: &dyn fmt::Display| format!("{flag}: {}: {error}", path.display());
    let found = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| wrong(&error))?;
    if found.is_empty() { Err(wrong(&"no certificate")) } else { Ok(found) }
}

fn authorities(options: &TlsOptions) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    let Some(path) = &options.authorities else {
        // Certificates of the system that cannot be parsed are left out, as browsers do.
        store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if store.is_empty() {
            return Err(
                "--tls: the system trusts nobody; give --cacert or --tls-skip-verify".into()
            );
        }
        return Ok(store);
    };
    for certificate in certificates("--cacert", path)? {
        store.add(certificate).map_err(|error| format!("--cacert: {}: {error}", path.display()))?;
    }
    Ok(store)
}

/// `--tls-skip-verify`: any certificate; signatures of the handshake are still checked.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A TLS session over its socket.
#[derive(Debug)]
pub struct TlsStream {
    session: ClientConnection,
    pub(super) socket: TcpStream,
    /// Decrypted bytes may wait in the session, where the poller does not see them.
    holds_plaintext: bool,
}

impl TlsStream {
    /// Whether another `receive` would find bytes although the socket is not readable.
    pub(super) fn holds_plaintext(&self) -> bool {
        self.holds_plaintext
    }

    /// Reads decrypted bytes; `WouldBlock` when there are none, 0 at the end of the stream. Reads
    /// the socket at most once.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.holds_plaintext {
            // An end without close_notify is told by the reader below.
            self.session.read_tls(&mut self.socket)?;
            self.session.process_new_packets().map_err(io::Error::other)?;
        }
        let received = self.session.reader().read(buffer);
        // A full buffer may have left some; one call too many only finds none.
        self.holds_plaintext = matches!(received, Ok(count) if count > 0 && count == buffer.len());
        received
    }

    /// Encrypts bytes for `flush_socket`.
    pub(super) fn encrypt(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.session.writer().write(bytes)
    }

    /// Writes what was encrypted; `WouldBlock` when the socket takes no more.
    pub(super) fn flush_socket(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}

impl Read for TlsStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        rustls::Stream::new(&mut self.session, &mut self.socket).read(buffer)
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        rustls::Stream::new(&mut self.session, &mut self.socket).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        rustls::Stream::new(&mut self.session, &mut self.socket).flush()
    }
}
