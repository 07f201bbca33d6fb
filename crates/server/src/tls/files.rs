//! Files of certificates and keys.

use std::path::{Path, PathBuf};

use pkcs8::{EncryptedPrivateKeyInfoRef, SecretDocument};
use ring::digest;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tidemill_engine::config::TlsConfig;
use tidemill_engine::system_error::reason;

use crate::config::read_file;

/// Contents of the files that the configuration names.
#[derive(Debug)]
pub(super) struct TlsFiles {
    certificate: (PathBuf, Vec<u8>),
    key: (PathBuf, Vec<u8>),
    authorities: Vec<(PathBuf, Vec<u8>)>,
    /// Certificate of outgoing connections, of which `INFO` tells the expiry.
    outgoing: Option<(PathBuf, Vec<u8>)>,
}

/// Fingerprint of the contents of all files.
pub(super) type Fingerprint = [u8; 32];

fn read(path: &Path) -> Result<(PathBuf, Vec<u8>), String> {
    match read_file(path) {
        Ok(contents) => Ok((path.to_owned(), contents)),
        Err(error) => Err(wrong(path, &reason(&error))),
    }
}

fn wrong(path: &Path, what: &dyn std::fmt::Display) -> String {
    format!("{}: {what}", path.display())
}

impl TlsFiles {
    /// Reads the files. Blocks.
    ///
    /// # Errors
    ///
    /// Text for the operator.
    pub(super) fn read(config: &TlsConfig) -> Result<TlsFiles, String> {
        let named = |file: &Option<String>, directive: &str| match file {
            Some(path) => read(Path::new(path)),
            None => Err(format!("No {directive} configured!")),
        };
        let mut authorities = Vec::new();
        if let Some(path) = &config.authorities_file {
            authorities.push(read(Path::new(path))?);
        }
        if let Some(directory) = &config.authorities_directory {
            authorities.extend(read_directory(Path::new(directory))?);
        }
        Ok(TlsFiles {
            certificate: named(&config.certificate_file, "tls-cert-file")?,
            key: named(&config.key_file, "tls-key-file")?,
            authorities,
            outgoing: match &config.outgoing_certificate_file {
                Some(path) => Some(read(Path::new(path))?),
                None => None,
            },
        })
    }

    /// Fingerprint of paths and contents.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        let mut context = digest::Context::new(&digest::SHA256);
        let own = [&self.certificate, &self.key];
        for (path, contents) in own.into_iter().chain(&self.authorities).chain(&self.outgoing) {
            context.update(path.as_os_str().as_encoded_bytes());
            context.update(&contents.len().to_le_bytes());
            context.update(contents);
        }
        context.finish().as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    /// The server's certificate, followed by its chain.
    ///
    /// # Errors
    ///
    /// Text for the operator.
    pub(super) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        some_certificates(&self.certificate)
    }

    /// The certificate of outgoing connections, followed by its chain; none without a file.
    ///
    /// # Errors
    ///
    /// Text for the operator.
    pub(super) fn outgoing_certificates(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        self.outgoing.as_ref().map_or(Ok(Vec::new()), some_certificates)
    }

    /// Certificates of the authorities. The file must have one; in the directory, files without
    /// certificates are passed over.
    ///
    /// # Errors
    ///
    /// Text for the operator.
    pub(super) fn authorities(
        &self,
        config: &TlsConfig,
    ) -> Result<Vec<CertificateDer<'static>>, String> {
        let mut all = Vec::new();
        for (index, (path, contents)) in self.authorities.iter().enumerate() {
            let found = certificates(path, contents)?;
            if found.is_empty() && index == 0 && config.authorities_file.is_some() {
                return Err(wrong(path, &"no certificate"));
            }
            all.extend(found);
        }
        Ok(all)
    }

    /// The private key, decrypted if it has a password.
    ///
    /// # Errors
    ///
    /// Text for the operator.
    pub(super) fn key(&self, password: Option<&str>) -> Result<PrivateKeyDer<'static>, String> {
        let (path, contents) = &self.key;
        let text = std::str::from_utf8(contents).map_err(|_| wrong(path, &"no PEM"))?;
        if text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----") {
            return decrypted_key(text, password).map_err(|what| wrong(path, &what));
        }
        if text.contains("Proc-Type: 4,ENCRYPTED") {
            return Err(wrong(
                path,
                &"the key is encrypted in OpenSSL's old form; `openssl pkcs8 -topk8` converts it",
            ));
        }
        PrivateKeyDer::from_pem_slice(contents).map_err(|error| wrong(path, &error))
    }
}

fn decrypted_key(text: &str, password: Option<&str>) -> Result<PrivateKeyDer<'static>, String> {
    let Some(password) = password else {
        return Err("the key is encrypted, and there is no tls-key-file-pass".into());
    };
    let (_, document) = SecretDocument::from_pem(text).map_err(|error| error.to_string())?;
    let encrypted = EncryptedPrivateKeyInfoRef::try_from(document.as_bytes())
        .map_err(|error| error.to_string())?;
    let key = encrypted.decrypt(password).map_err(|error| {
        format!("the key cannot be decrypted, the password may be wrong: {error}")
    })?;
    Ok(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec()).into())
}

/// Files of a directory in the order of their names.
fn read_directory(directory: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>, String> {
    let entries =
        std::fs::read_dir(directory).map_err(|error| wrong(directory, &reason(&error)))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.is_file());
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

/// Certificates of a file, which must have one.
fn some_certificates(
    (path, contents): &(PathBuf, Vec<u8>),
) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = certificates(path, contents)?;
    if certificates.is_empty() { Err(wrong(path, &"no certificate")) } else { Ok(certificates) }
}

fn certificates(path: &Path, contents: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(contents).collect();
    all.map_err(|error| wrong(path, &error))
}
