//! Judgement of clients' certificates: the paths that webpki finds, and authorities that connect
//! themselves.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::certificate::may_connect_itself;

/// Verifier of clients' certificates.
///
/// A self-signed certificate that is among the authorities is taken of a client, as OpenSSL does:
/// who tries TLS out makes one certificate for the server, its authority and its clients. webpki
/// finds no path for it, since an authority is no end of one.
#[derive(Debug)]
pub(super) struct ClientVerifier {
    /// Judge of all other certificates, and of signatures.
    paths: Arc<dyn ClientCertVerifier>,
    authorities: Vec<CertificateDer<'static>>,
}

impl ClientVerifier {
    pub(super) fn new(
        paths: Arc<dyn ClientCertVerifier>,
        authorities: &[CertificateDer<'static>],
    ) -> ClientVerifier {
        ClientVerifier { paths, authorities: authorities.to_vec() }
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.paths.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.paths.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.paths.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.paths.verify_client_cert(certificate, intermediates, now).or_else(|error| {
            let is_authority = self.authorities.iter().any(|authority| authority == certificate);
            if is_authority && may_connect_itself(certificate, now.as_secs() as i64) {
                return Ok(ClientCertVerified::assertion());
            }
            Err(error)
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.paths.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.paths.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.paths.supported_verify_schemes()
    }
}
