//! Random numbers of a start: seeds, and what tells this run from others.

use ring::digest;
use tidemill_engine::config::ServerConfig;
use tidemill_store::hash::Seed;

/// A random number.
///
/// # Errors
///
/// Text for the operator.
pub(crate) fn random() -> Result<u64, String> {
    getrandom::u64().map_err(|error| format!("no random numbers from the system: {error}"))
}

/// Seed of the keyspace's hashes: random, or the beginning of the configured text's SHA-256, as in
/// Valkey: a text gives the same seed whatever compiler built the server.
///
/// # Errors
///
/// As [`random`].
pub(crate) fn seed(config: &ServerConfig) -> Result<Seed, String> {
    let Some(text) = &config.hash_seed else { return Ok(Seed::new(random()?, random()?)) };
    let digest = digest::digest(&digest::SHA256, text.as_bytes());
    let part = |index: usize| {
        let bytes = digest.as_ref()[8 * index..][..8].try_into();
        u64::from_le_bytes(bytes.expect("eight of 32 bytes"))
    };
    Ok(Seed::new(part(0), part(1)))
}

/// Forty random digits of base sixteen.
///
/// # Errors
///
/// As [`random`].
pub(crate) fn identity() -> Result<String, String> {
    Ok(format!("{:016x}{:016x}{:08x}", random()?, random()?, random()? as u32))
}

#[cfg(test)]
mod tests {
    use tidemill_engine::config::Configuration;

    use super::{Seed, seed};

    #[test]
    fn a_configured_seed_gives_the_same_hashes_and_others_do_not() {
        let hash = |text: &[u8]| {
            let changes: [(&[u8], &[u8]); 0] = [];
            let configuration = Configuration::default().with_changes(&changes, false);
            let mut config = configuration.expect("nothing is changed").server();
            config.hash_seed = (!text.is_empty()).then(|| String::from_utf8_lossy(text).into());
            tidemill_store::hash::hash(&seed(&config).expect("there are random numbers"), b"key")
        };
        // The digest that `sha256sum` prints.
        let digest = Seed::new(0x59f5_96b9_3e9e_2d98, 0x76f3_de94_d1f4_33e6);
        assert_eq!(hash(b"text"), tidemill_store::hash::hash(&digest, b"key"));
        assert_ne!(hash(b"text"), hash(b"texu"));
        assert_ne!(hash(b""), hash(b""));
    }
}
