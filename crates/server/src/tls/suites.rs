//! Versions and cipher suites by the names that configurations use.

use rustls::crypto::CipherSuiteCommon;
use rustls::crypto::ring::cipher_suite as suites;
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion, Tls12CipherSuite};

/// A suite of TLS 1.2.
struct Suite {
    /// OpenSSL's name of it.
    name: &'static str,
    /// Words by which OpenSSL's lists choose it, beside [`ALL`].
    words: &'static [&'static str],
    suite: SupportedCipherSuite,
}

/// Words that choose every suite there is here.
const ALL: &[&str] =
    &["ALL", "DEFAULT", "HIGH", "ECDHE", "EECDH", "kECDHE", "kEECDH", "AEAD", "TLSv1.2"];

/// Suite of TLS 1.2 for connections of any length, as OpenSSL has it. rustls ends a connection with
/// AES-GCM behind 2^24 records, which are as many replies: TLS 1.2 has no change of keys here. Each
/// record has a number of its own as its nonce, of 64 bits.
const fn of_any_length(suite: SupportedCipherSuite) -> Tls12CipherSuite {
    let SupportedCipherSuite::Tls12(suite) = suite else { panic!("a suite of TLS 1.2") };
    let CipherSuiteCommon { suite: id, hash_provider, .. } = suite.common;
    Tls12CipherSuite {
        common: CipherSuiteCommon { suite: id, hash_provider, confidentiality_limit: u64::MAX },
        prf_provider: suite.prf_provider,
        kx: suite.kx,
        sign: suite.sign,
        aead_alg: suite.aead_alg,
    }
}

static ECDSA_AES_256: Tls12CipherSuite =
    of_any_length(suites::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384);
static ECDSA_AES_128: Tls12CipherSuite =
    of_any_length(suites::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256);
static RSA_AES_256: Tls12CipherSuite = of_any_length(suites::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384);
static RSA_AES_128: Tls12CipherSuite = of_any_length(suites::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256);

/// Suites of TLS 1.2 in the server's order.
const SUITES: &[Suite] = &[
    Suite {
        name: "ECDHE-ECDSA-AES256-GCM-SHA384",
        words: &["ECDSA", "aECDSA", "AES", "AES256", "AESGCM", "SHA384"],
        suite: SupportedCipherSuite::Tls12(&ECDSA_AES_256),
    },
    Suite {
        name: "ECDHE-ECDSA-AES128-GCM-SHA256",
        words: &["ECDSA", "aECDSA", "AES", "AES128", "AESGCM", "SHA256"],
        suite: SupportedCipherSuite::Tls12(&ECDSA_AES_128),
    },
    Suite {
        name: "ECDHE-ECDSA-CHACHA20-POLY1305",
        words: &["ECDSA", "aECDSA", "CHACHA20"],
        suite: suites::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    },
    Suite {
        name: "ECDHE-RSA-AES256-GCM-SHA384",
        words: &["aRSA", "AES", "AES256", "AESGCM", "SHA384"],
        suite: SupportedCipherSuite::Tls12(&RSA_AES_256),
    },
    Suite {
        name: "ECDHE-RSA-AES128-GCM-SHA256",
        words: &["aRSA", "AES", "AES128", "AESGCM", "SHA256"],
        suite: SupportedCipherSuite::Tls12(&RSA_AES_128),
    },
    Suite {
        name: "ECDHE-RSA-CHACHA20-POLY1305",
        words: &["aRSA", "CHACHA20"],
        suite: suites::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    },
];

/// Suites of TLS 1.3 in the server's order.
const SUITES_OF_TLS13: &[(&str, SupportedCipherSuite)] = &[
    ("TLS_AES_256_GCM_SHA384", suites::TLS13_AES_256_GCM_SHA384),
    ("TLS_CHACHA20_POLY1305_SHA256", suites::TLS13_CHACHA20_POLY1305_SHA256),
    ("TLS_AES_128_GCM_SHA256", suites::TLS13_AES_128_GCM_SHA256),
];

/// Suites of TLS 1.3 that OpenSSL has beside those, for small devices.
const SUITES_MISSING: &[&str] = &["TLS_AES_128_CCM_SHA256", "TLS_AES_128_CCM_8_SHA256"];

/// Versions of `tls-protocols`.
///
/// # Errors
///
/// Text for the operator.
pub(super) fn versions(words: &[String]) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let version = |word: &String| match word.to_ascii_lowercase().as_str() {
        "tlsv1.2" => Ok(&TLS12),
        "tlsv1.3" => Ok(&TLS13),
        "tlsv1" | "tlsv1.1" => {
            Err(format!("tls-protocols: {word} is not offered: TLSv1.2 and TLSv1.3 are"))
        }
        _ => Err("Invalid tls-protocols specified. Use a combination of 'TLSv1.2' and \
                  'TLSv1.3'."
            .into()),
    };
    let versions: Vec<_> = words.iter().map(version).collect::<Result<_, _>>()?;
    Ok(if versions.is_empty() { vec![&TLS13, &TLS12] } else { versions })
}

/// Suites of both versions, by `tls-ciphers` and `tls-ciphersuites`.
///
/// # Errors
///
/// Text for the operator.
pub(super) fn cipher_suites(
    ciphers: &str,
    suites_of_tls13: &str,
) -> Result<Vec<SupportedCipherSuite>, String> {
    let mut chosen = chosen_of_tls13(suites_of_tls13)?;
    let list = if ciphers.is_empty() { "DEFAULT" } else { ciphers };
    chosen.extend(chosen_of_tls12(list).into_iter().map(|index| SUITES[index].suite));
    match chosen.iter().any(|suite| suite.tls13().is_none()) {
        true => Ok(chosen),
        false => Err(format!("Failed to configure ciphers: {ciphers}")),
    }
}

fn chosen_of_tls13(list: &str) -> Result<Vec<SupportedCipherSuite>, String> {
    if list.is_empty() {
        return Ok(SUITES_OF_TLS13.iter().map(|&(_, suite)| suite).collect());
    }
    let mut chosen = Vec::new();
    for word in list.split(':') {
        match SUITES_OF_TLS13.iter().find(|(name, _)| *name == word) {
            Some(&(_, suite)) => chosen.push(suite),
            None if SUITES_MISSING.contains(&word) => {}
            None => return Err(format!("Failed to configure ciphersuites: {list}")),
        }
    }
    if chosen.is_empty() {
        Err(format!("No ciphersuite is offered of: {list}"))
    } else {
        Ok(chosen)
    }
}

/// Indices of the suites that a list of OpenSSL's chooses, in the order of preference. As there,
/// words that choose nothing are passed over.
fn chosen_of_tls12(list: &str) -> Vec<usize> {
    let mut chosen: Vec<usize> = Vec::new();
    let mut banned: Vec<usize> = Vec::new();
    for word in list.split([':', ',', ' ']) {
        let (action, rest) = match word.split_at_checked(1) {
            Some((action @ ("!" | "-" | "+"), rest)) => (action, rest),
            _ => ("", word),
        };
        let is_matching = |suite: &Suite| {
            rest.split('+').all(|part| {
                suite.name == part || ALL.contains(&part) || suite.words.contains(&part)
            })
        };
        let matching: Vec<usize> =
            (0..SUITES.len()).filter(|&index| is_matching(&SUITES[index])).collect();
        if action.is_empty() {
            let is_new = |index: &usize| !chosen.contains(index) && !banned.contains(index);
            let new: Vec<usize> = matching.into_iter().filter(is_new).collect();
            chosen.extend(new);
            continue;
        }
        let moved: Vec<usize> = chosen.extract_if(.., |index| matching.contains(index)).collect();
        match action {
            "+" => chosen.extend(moved),
            "!" => banned.extend(matching),
            _ => {}
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<&'static str> {
        chosen_of_tls12(list).into_iter().map(|index| SUITES[index].name).collect()
    }

    #[test]
    fn no_suite_of_tls_12_ends_a_connection_by_its_length() {
        for suite in SUITES {
            let SupportedCipherSuite::Tls12(of_tls12) = suite.suite else { panic!("TLS 1.2") };
            assert_eq!(of_tls12.common.confidentiality_limit, u64::MAX, "{}", suite.name);
        }
    }

    #[test]
    fn lists_of_openssl_choose_as_there() {
        let all: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
        assert_eq!(names("DEFAULT"), all);
        assert_eq!(names("DEFAULT:!MEDIUM"), all);
        assert_eq!(names("HIGH:!aNULL:!MD5:@STRENGTH"), all);
        assert_eq!(names("ECDHE-RSA-AES128-GCM-SHA256"), ["ECDHE-RSA-AES128-GCM-SHA256"]);
        assert_eq!(
            names("ECDHE+AESGCM:!aECDSA"),
            ["ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES128-GCM-SHA256"]
        );
        assert_eq!(names("CHACHA20,-aRSA"), ["ECDHE-ECDSA-CHACHA20-POLY1305"]);
        assert_eq!(names("ALL:+CHACHA20")[4..], [all[2], all[5]]);
        assert_eq!(names("!AES:ALL"), [all[2], all[5]], "banned for good");
        assert_eq!(names("-AES:ALL"), all, "taken out before it was in");
        assert!(names("AES128-SHA").is_empty() && names("").is_empty() && names("+").is_empty());
    }

    #[test]
    fn what_is_not_offered_is_refused() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<String>>();
        assert_eq!(versions(&[]).map(|all| all.len()), Ok(2));
        assert_eq!(versions(&words("tlsv1.3")).map(|all| all.len()), Ok(1));
        assert!(versions(&words("TLSv1.1 TLSv1.2")).is_err() && versions(&words("SSLv3")).is_err());
        assert_eq!(cipher_suites("", "").map(|all| all.len()), Ok(9));
        assert!(cipher_suites("RC4-MD5", "").is_err());
        let one = cipher_suites("aRSA", "TLS_AES_128_GCM_SHA256:TLS_AES_128_CCM_SHA256");
        assert_eq!(one.map(|all| all.len()), Ok(4));
        assert!(cipher_suites("", "TLS_AES_128_CCM_SHA256").is_err());
        assert!(cipher_suites("", "TLS_NONE").is_err());
    }
}
