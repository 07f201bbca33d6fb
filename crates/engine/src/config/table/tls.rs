//! Directives of TLS.

use super::super::directive::Directive;
use super::builders::{I32, PORT, choice, flag, integer, secret, text};

const OUTGOING: &str =
    "the only connections that the server opens are those of MIGRATE, without TLS";

pub(super) const DIRECTIVES: &[Directive] = &[
    integer("tls-port", "0", 0, PORT, "Port for TLS, beside `port` or instead of it; 0 for none."),
    text("tls-cert-file", "", "Certificate of the server and its chain, PEM.").reread(),
    text("tls-key-file", "", "Private key of that certificate, PEM.").reread(),
    secret("tls-key-file-pass", "Password of the key file, PKCS#8 encrypted by PBES2.").reread(),
    text(
        "tls-ca-cert-file",
        "",
        "Certificates of the authorities that clients' certificates come from, PEM.",
    )
    .reread(),
    text("tls-ca-cert-dir", "", "Directory of such certificates, a file each.").reread(),
    choice(
        "tls-auth-clients",
        "yes",
        &["no", "yes", "optional"],
        "Whether clients need a certificate.",
    ),
    choice(
        "tls-auth-clients-user",
        "off",
        &["CN", "URI", "off"],
        "Field of a client's certificate that names its user.",
    ),
    text(
        "tls-protocols",
        "",
        "Versions, `TLSv1.2`, `TLSv1.3` or both; empty for both. Older versions are refused.",
    )
    .reread(),
    text(
        "tls-ciphers",
        "",
        "Cipher suites of TLS 1.2 as OpenSSL's list; of those, the six with forward secrecy and \
         authenticated encryption are offered.",
    )
    .reread(),
    text("tls-ciphersuites", "", "Cipher suites of TLS 1.3, separated by colons.").reread(),
    flag("tls-prefer-server-ciphers", false, "The server's order of cipher suites counts."),
    flag("tls-session-caching", true, "Clients may resume sessions."),
    integer("tls-session-cache-size", "20480", 0, I32, "Most sessions kept; 0 for 1,048,576."),
    integer("tls-session-cache-timeout", "300", 0, I32, "Seconds a session is kept."),
    integer(
        "tls-auto-reload-interval",
        "0",
        0,
        I32,
        "Seconds between looks whether the files have changed; 0 never looks.",
    ),
    integer(
        "max-new-tls-connections-per-cycle",
        "1",
        1,
        1000,
        "TLS connections accepted per loop.",
    )
    .without_effect("threads of their own do the handshakes"),
    text("tls-dh-params-file", "", "Diffie-Hellman parameters.")
        .without_effect("no cipher suite here uses them"),
    text(
        "tls-client-cert-file",
        "",
        "Certificate for outgoing connections, PEM. None of them speaks TLS: `INFO tls` tells when \
         it expires.",
    )
    .reread(),
    text("tls-client-key-file", "", "Key for outgoing connections.").without_effect(OUTGOING),
    secret("tls-client-key-file-pass", "Password of that key.").without_effect(OUTGOING),
    flag("tls-cluster", false, "TLS between nodes.").without_effect("there is no cluster mode"),
    flag("tls-replication", false, "TLS to the primary.")
        .without_effect("there is no replication: nothing goes to a primary, encrypted or not"),
];
