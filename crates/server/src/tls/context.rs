//! Keys, certificates and parameters in force.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tidemill_engine::config::{ClientCertificates, TlsConfig};

use super::certificate::CertificateFacts;
use super::client_verifier::ClientVerifier;
use super::files::{Fingerprint, TlsFiles};
use super::sessions::SessionCache;
use super::suites;

/// Keys, certificates and parameters of handshakes. Immutable: a change makes another.
pub(crate) struct TlsContext {
    pub(super) server: Arc<ServerConfig>,
    pub(crate) certificate: CertificateFacts,
    /// Of the authority that expires first.
    pub(crate) authority: Option<CertificateFacts>,
    /// Of the certificate of outgoing connections.
    pub(crate) outgoing: Option<CertificateFacts>,
    pub(super) fingerprint: Fingerprint,
}

/// Without keys.
impl fmt::Debug for TlsContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TlsContext")
            .field("certificate", &self.certificate)
            .field("authority", &self.authority)
            .field("outgoing", &self.outgoing)
            .finish_non_exhaustive()
    }
}

impl TlsContext {
    /// Reads the files and judges them as Valkey does: certificates that are not valid now are
    /// refused. Blocks.
    ///
    /// # Errors
    ///
    /// Text for the operator.
    pub(crate) fn load(config: &TlsConfig) -> Result<TlsContext, String> {
        TlsContext::new(config, &TlsFiles::read(config)?)
    }

    pub(super) fn new(config: &TlsConfig, files: &TlsFiles) -> Result<TlsContext, String> {
        let now_s = UnixTime::now().as_secs() as i64;
        let chain = files.certificates()?;
        let certificate = CertificateFacts::of(&chain[0])?;
        if !certificate.is_valid_at(now_s) {
            return Err(
                "Server TLS certificate is invalid: it has expired, or is of the future".into()
            );
        }
        let authorities = files.authorities(config)?;
        let facts: Result<Vec<_>, _> = authorities.iter().map(CertificateFacts::of).collect();
        let facts = facts?;
        if facts.iter().any(|authority| !authority.is_valid_at(now_s)) {
            return Err("One or more loaded CA certificates are invalid: they have expired, or \
                        are of the future"
                .into());
        }
        let outgoing = files.outgoing_certificates()?;
        let outgoing = outgoing.first().map(CertificateFacts::of).transpose()?;
        let mut server = server_config(config, &authorities)?
            .with_single_cert(chain, files.key(config.key_password.as_deref())?)
            .map_err(|error| format!("Failed to load certificate and private key: {error}"))?;
        server.ignore_client_order = config.prefers_own_ciphers;
        if config.keeps_sessions {
            let kept = Duration::from_secs(config.session_seconds.into());
            server.session_storage = Arc::new(SessionCache::new(config.sessions_max, kept));
        } else {
            server.session_storage = Arc::new(NoServerSessionStorage {});
            server.send_tls13_tickets = 0;
        }
        Ok(TlsContext {
            server: Arc::new(server),
            certificate,
            authority: facts.into_iter().min_by_key(|authority| authority.not_after_s),
            outgoing,
            fingerprint: files.fingerprint(),
        })
    }
}

/// Parameters of handshakes, up to the server's certificate.
fn server_config(
    config: &TlsConfig,
    authorities: &[CertificateDer<'static>],
) -> Result<rustls::ConfigBuilder<ServerConfig, rustls::server::WantsServerCert>, String> {
    let provider = Arc::new(CryptoProvider {
        cipher_suites: suites::cipher_suites(&config.ciphers, &config.cipher_suites)?,
        ..ring::default_provider()
    });
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&suites::versions(&config.protocols)?)
        .map_err(|error| error.to_string())?;
    if config.client_certificates == ClientCertificates::None {
        return Ok(builder.with_no_client_auth());
    }
    if authorities.is_empty() {
        return Err("Either tls-ca-cert-file or tls-ca-cert-dir must be specified, with a \
                    certificate, when tls-auth-clients is enabled!"
            .into());
    }
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        let added = roots.add(authority.clone());
        added.map_err(|error| format!("Failed to configure CA certificate(s): {error}"))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let verifier = match config.client_certificates {
        ClientCertificates::Optional => verifier.allow_unauthenticated(),
        _ => verifier,
    };
    let paths = verifier.build().map_err(|error| error.to_string())?;
    let verifier = ClientVerifier::new(paths, authorities);
    Ok(builder.with_client_cert_verifier(Arc::new(verifier)))
}
