//! TLS against a real redis-server that wants client certificates.

#![allow(clippy::unwrap_used)] // A helper that fails fails its test.

use std::process::ExitCode;

use crate::common::{REDIS, Scratch, Server, doubts};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// An authority, and a certificate for 127.0.0.1 and `redis.test` that server and client share.
fn write_certificates(directory: &std::path::Path) {
    let authority_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    // OpenSSL takes a certificate with its issuer's name for a self-signed one.
    params.distinguished_name.push(DnType::CommonName, "test authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(params, authority_key);
    let key = KeyPair::generate().unwrap();
    let names = ["127.0.0.1", "redis.test"].map(String::from);
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
    std::fs::write(directory.join("ca.pem"), authority.pem()).unwrap();
    std::fs::write(directory.join("cert.pem"), certificate.pem()).unwrap();
    std::fs::write(directory.join("key.pem"), key.serialize_pem()).unwrap();
}

fn start(name: &str, auth_clients: &str) -> Server {
    let scratch = Scratch::new(&format!("tls-{name}"));
    write_certificates(&scratch.0);
    let options = |port: u16| {
        let words = format!(
            "--port 0 --tls-port {port} --tls-auth-clients {auth_clients} --tls-cert-file cert.pem \
             --tls-key-file key.pem --tls-ca-cert-file ca.pem"
        );
        words.split(' ').map(str::to_owned).collect()
    };
    // Debian's: Valkey's wheel is built without TLS.
    Server::start_on(REDIS, scratch, options)
}

#[test]
fn loads_run_over_tls_with_client_certificates() {
    let redis = start("clients", "yes");
    let tls = "--tls --cert {dir}/cert.pem --key {dir}/key.pem --cacert {dir}/ca.pem";
    for words in [
        "-n 2000",
        "-n 2000 --pipeline 64 --tls-protocols TLSv1.2",
        "-n 2000 --pipeline 64 --tls-protocols TLSv1.3 --verify --preload --key-maximum 500 -R",
        // Replies far beyond one TLS record and beyond the receive buffer.
        "-n 60 --pipeline 8 -d 700000 --ratio 1:1 --key-maximum 5 --verify --preload",
        "--test-time 0.3 --rate 2000",
        "-n 500 --sni redis.test",
    ] {
        assert_eq!(redis.bench(&format!("-c 3 {tls} {words}")), ExitCode::SUCCESS, "{words}");
        assert_eq!(doubts(&redis.file("out.txt")), [""; 0], "{words}");
    }
    // Without a certificate of its own the client is refused.
    assert_eq!(redis.bench("-c 3 -n 10 --tls --cacert {dir}/ca.pem"), ExitCode::from(3));
}

#[test]
fn a_server_certificate_must_be_signed_and_for_the_name() {
    let redis = start("names", "no");
    let uri = format!("-u rediss://127.0.0.1:{}", redis.port);
    for (words, code) in [
        ("--tls --cacert {dir}/ca.pem", 0),
        ("--tls --cacert {dir}/ca.pem --sni another.test", 3),
        // Signed by an authority unknown to the system.
        ("--tls", 3),
        ("--tls --tls-skip-verify", 0),
        ("--tls --tls-skip-verify --sni another.test", 0),
        (&format!("{uri} --cacert {{dir}}/ca.pem"), 0),
        // Not TLS at all: the server closes.
        ("", 1),
        ("--tls --cacert {dir}/missing.pem", 2),
        ("--tls --cacert {dir}/key.pem", 2),
        ("--tls --tls-skip-verify --cert {dir}/cert.pem", 2),
        ("--tls --tls-skip-verify --tls-protocols SSLv3", 2),
        ("--tls --tls-skip-verify -S /tmp/redis.sock", 2),
    ] {
        assert_eq!(redis.bench(&format!("-c 3 -n 10 {words}")), ExitCode::from(code), "{words}");
    }
}
