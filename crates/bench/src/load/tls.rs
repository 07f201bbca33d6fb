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
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore,
    SignatureScheme,
};

use crate::limits::TLS_READ_BYTES;

/// Options of the command line about TLS.
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

/// TLS configuration: made once, shared by all connections.
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
        let verifier = Arc::new(ServerVerifier::new(options, provider)?);
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
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

/// Certificates of `--cacert`; none without it.
fn authorities(options: &TlsOptions) -> Result<Vec<CertificateDer<'static>>, String> {
    options.authorities.as_ref().map_or(Ok(Vec::new()), |path| certificates("--cacert", path))
}

/// Roots of paths: the authorities that were given, otherwise those of the system.
fn roots(
    options: &TlsOptions,
    authorities: &[CertificateDer<'static>],
) -> Result<RootCertStore, String> {
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
    for authority in authorities {
        let added = store.add(authority.clone());
        added.map_err(|error| format!("--cacert: {}: {error}", path.display()))?;
    }
    Ok(store)
}

/// Verifier of the server's certificate. Signatures of the handshake are checked in any case.
#[derive(Debug)]
struct ServerVerifier {
    /// Judge of paths; none with `--tls-skip-verify`.
    paths: Option<Arc<WebPkiServerVerifier>>,
    /// Certificates of `--cacert`. One of them is taken of the server itself, as OpenSSL does;
    /// webpki finds no path for it where it is that of an authority.
    authorities: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl ServerVerifier {
    fn new(options: &TlsOptions, provider: Arc<CryptoProvider>) -> Result<Self, String> {
        if options.skip_verify {
            return Ok(Self { paths: None, authorities: Vec::new(), provider });
        }
        let authorities = authorities(options)?;
        let roots = Arc::new(roots(options, &authorities)?);
        let paths = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
        let paths = paths.build().map_err(|error| format!("--tls: {error}"))?;
        Ok(Self { paths: Some(paths), authorities, provider })
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(paths) = &self.paths else { return Ok(ServerCertVerified::assertion()) };
        match paths.verify_server_cert(certificate, intermediates, name, ocsp_response, now) {
            // Not one that has expired or of an unknown issuer: these have errors of their own.
            Err(rustls::Error::InvalidCertificate(CertificateError::Other(_)))
                if self.authorities.iter().any(|authority| authority == certificate) =>
            {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            judged => judged,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// State of the socket after its last read.
#[derive(Clone, Copy)]
enum Asked {
    Full,
    Drained,
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
    /// True if another `receive` would find bytes although the socket is not readable.
    pub(super) fn holds_plaintext(&self) -> bool {
        self.holds_plaintext
    }

    /// Reads decrypted bytes until the socket seems empty or the buffer is full; `WouldBlock` when
    /// there are none, 0 at the end of the stream.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        // Decrypted bytes of the last call come first; then the socket is asked.
        let mut asked = if self.holds_plaintext { Asked::Full } else { self.ask_socket()? };
        self.holds_plaintext = false;
        loop {
            match self.session.reader().read(&mut buffer[filled..]) {
                // The end, or no room; what arrived before the end is handed over first.
                Ok(0) => return Ok(filled),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => match asked {
                    Asked::Full => {
                        asked = self.ask_socket().or_else(|error| match filled {
                            0 => Err(error),
                            // It comes again with the next event.
                            _ => Ok(Asked::Drained),
                        })?
                    }
                    Asked::Drained if filled > 0 => return Ok(filled),
                    Asked::Drained => return Err(error),
                },
                Err(error) if filled == 0 => return Err(error),
                Err(_) => return Ok(filled),
            }
            if filled == buffer.len() {
                self.holds_plaintext = true;
                return Ok(filled);
            }
        }
    }

    /// Reads the socket once and decrypts. A read that was not full found everything there was.
    fn ask_socket(&mut self) -> io::Result<Asked> {
        // An end without close_notify is told by the reader.
        let count = self.session.read_tls(&mut self.socket)?;
        self.session.process_new_packets().map_err(io::Error::other)?;
        Ok(if count < TLS_READ_BYTES { Asked::Drained } else { Asked::Full })
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

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::KeyPair;
    use rustls::{ServerConfig, ServerConnection};
    use std::net::TcpListener;

    #[test]
    fn nothing_stays_in_the_session_when_the_buffer_is_smaller_than_a_record() {
        let key = KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_string()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut session = ServerConnection::new(Arc::new(config)).unwrap();
            let mut stream = rustls::Stream::new(&mut session, &mut socket);
            stream.read_exact(&mut [0; 4]).unwrap();
            stream.write_all(&[b'x'; 10_000]).unwrap();
            // Open until the client is done, so that its end is not what shows it the bytes.
            let _ = stream.read(&mut [0; 1]);
        });
        let tls = Tls::new(&TlsOptions { skip_verify: true, ..TlsOptions::default() }).unwrap();
        let socket = TcpStream::connect(address).unwrap();
        let mut stream = tls.wrap(socket, "127.0.0.1").unwrap();
        stream.write_all(b"PING").unwrap();
        let mut received = 0;
        while received < 10_000 {
            // One readiness event: what the poller tells, then what it cannot see.
            stream.socket.peek(&mut [0; 1]).unwrap();
            stream.socket.set_nonblocking(true).unwrap();
            loop {
                match stream.receive(&mut [0; 7]) {
                    Ok(count) => received += count,
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                }
                if !stream.holds_plaintext() {
                    break;
                }
            }
            stream.socket.set_nonblocking(false).unwrap();
            stream.socket.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        }
        assert_eq!(received, 10_000);
        drop(stream);
        server.join().unwrap();
    }

    #[test]
    fn a_certificate_of_cacert_is_trusted_itself_for_its_names_and_its_time() {
        let key = KeyPair::generate().unwrap();
        let certificate = |year| {
            let mut params = rcgen::CertificateParams::new(vec!["localhost".to_string()]).unwrap();
            params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            params.not_before = rcgen::date_time_ymd(year, 1, 1);
            params.not_after = rcgen::date_time_ymd(year + 10, 1, 1);
            params.self_signed(&key).unwrap()
        };
        let (own, other) = (certificate(2020), certificate(2021));
        let path = std::env::temp_dir().join(format!("tidemill-cacert-{}", std::process::id()));
        std::fs::write(&path, own.pem()).unwrap();
        let options = TlsOptions { authorities: Some(path.clone()), ..TlsOptions::default() };
        let verifier = ServerVerifier::new(&options, Arc::new(ring::default_provider())).unwrap();
        std::fs::remove_file(path).unwrap();
        let is_trusted = |certificate: &rcgen::Certificate, name: &'static str, year: u64| {
            let name = ServerName::try_from(name).unwrap();
            let seconds = (year - 1970) * 365 * 24 * 3600 + 30 * 24 * 3600;
            let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
            verifier.verify_server_cert(certificate.der(), &[], &name, &[], now).is_ok()
        };
        assert!(is_trusted(&own, "localhost", 2025));
        assert!(!is_trusted(&own, "elsewhere", 2025));
        assert!(!is_trusted(&own, "localhost", 2035), "it has expired");
        assert!(!is_trusted(&own, "localhost", 2015), "it is of the future");
        assert!(!is_trusted(&other, "localhost", 2025));
    }
}
