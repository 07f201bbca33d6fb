//! Dates, serial numbers and names in certificates: what rustls judges, but does not show.

use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

/// Longest common name that is looked at, in bytes; a longer one is cut, as in Valkey.
const COMMON_NAME_BYTES_MAX: usize = 255;

/// Validity and serial number of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CertificateFacts {
    /// Hexadecimal digits, as OpenSSL prints them.
    pub(crate) serial: String,
    /// Unix time in seconds from which it is valid.
    not_before_s: i64,
    /// Unix time in seconds after which it is not.
    pub(crate) not_after_s: i64,
}

impl CertificateFacts {
    /// Facts of a certificate.
    ///
    /// # Errors
    ///
    /// When it is none.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Result<CertificateFacts, String> {
        parse(certificate).map(|parsed| CertificateFacts::of_parsed(&parsed))
    }

    fn of_parsed(parsed: &X509Certificate<'_>) -> CertificateFacts {
        let digits = parsed.raw_serial().iter().map(|byte| format!("{byte:02X}"));
        CertificateFacts {
            serial: digits.collect(),
            not_before_s: parsed.validity().not_before.timestamp(),
            not_after_s: parsed.validity().not_after.timestamp(),
        }
    }

    /// True if it is valid at a Unix time in seconds.
    pub(super) fn is_valid_at(&self, now_s: i64) -> bool {
        (self.not_before_s..=self.not_after_s).contains(&now_s)
    }
}

/// True if a certificate that is trusted as an authority may be that of a client itself, at a Unix
/// time in seconds: it is its own issuer, valid, and of the uses that OpenSSL demands of clients
/// where it names any.
pub(super) fn may_connect_itself(certificate: &CertificateDer<'_>, now_s: i64) -> bool {
    let Ok(parsed) = parse(certificate) else { return false };
    let is_valid = CertificateFacts::of_parsed(&parsed).is_valid_at(now_s);
    let is_own_issuer = parsed.subject().as_raw() == parsed.issuer().as_raw();
    // An extension that cannot be read is no permission.
    let (Ok(extended), Ok(uses)) = (parsed.extended_key_usage(), parsed.key_usage()) else {
        return false;
    };
    let is_for_clients = extended.is_none_or(|extension| extension.value.client_auth);
    let signs = uses.is_none_or(|extension| {
        extension.value.digital_signature() || extension.value.key_agreement()
    });
    is_valid && is_own_issuer && is_for_clients && signs
}

fn parse<'c>(certificate: &'c CertificateDer<'_>) -> Result<X509Certificate<'c>, String> {
    match X509Certificate::from_der(certificate) {
        Ok((_, parsed)) => Ok(parsed),
        Err(error) => Err(format!("no X.509 certificate: {error}")),
    }
}

/// Names in a client's certificate by which a user may be found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeerNames {
    /// Common name of the subject, none or one.
    pub(crate) common_name: Vec<Vec<u8>>,
    /// URIs among the alternative names.
    pub(crate) uris: Vec<Vec<u8>>,
}

impl PeerNames {
    /// Names in a certificate that was judged before. One with a NUL byte stays whole: no user has
    /// such a name, and what ends there would be another one.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> PeerNames {
        let Ok(parsed) = parse(certificate) else { return PeerNames::default() };
        let is_name = |name: &&[u8]| !name.is_empty();
        let common_name = parsed.subject().iter_common_name().next();
        let common_name = common_name.map(|name| name.attr_value().data);
        let cut = |name: &[u8]| match name.contains(&0) {
            true => name.to_vec(),
            false => name[..name.len().min(COMMON_NAME_BYTES_MAX)].to_vec(),
        };
        let alternatives = parsed.subject_alternative_name().ok().flatten();
        let uris = alternatives.iter().flat_map(|names| &names.value.general_names);
        let uris = uris.filter_map(|name| match name {
            GeneralName::URI(uri) => Some(uri.as_bytes()),
            _ => None,
        });
        PeerNames {
            common_name: common_name.filter(is_name).map(cut).into_iter().collect(),
            uris: uris.filter(is_name).map(<[u8]>::to_vec).collect(),
        }
    }
}
