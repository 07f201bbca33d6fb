//! Writes the keys before a run.

use crate::load::Settings;
use crate::load::control::{Control, Reply};
use crate::load::keys::Random;
use crate::load::values::Slab;

/// Writes every key once, so that reads find something. Blocks; one connection, pipelined.
///
/// # Errors
/// When the server cannot be reached or refuses a write.
pub(crate) fn write_all_keys(settings: &Settings) -> Result<(), String> {
    const IN_FLIGHT: u64 = 256;
    let slab = Slab::new(&settings.values, &settings.keys, settings.seeds.run, settings.verify);
    let mut random = Random::new(settings.seeds.run);
    let mut control = Control::connect(&settings.target).map_err(|error| error.to_string())?;
    let keys = &settings.keys;
    let mut waiting = 0;
    for number in keys.minimum..=keys.maximum {
        let key = format!("{}{number}", keys.prefix);
        let value = slab.bytes(slab.draw(number, &mut random));
        control
            .send(&[b"SET".as_slice(), key.as_bytes(), value])
            .map_err(|error| error.to_string())?;
        waiting += 1;
        if waiting == IN_FLIGHT || number == keys.maximum {
            for _ in 0..waiting {
                let reply = control.receive().map_err(|error| error.to_string())?;
                if let Reply::Error(text) = reply {
                    return Err(format!("preload: {text}"));
                }
            }
            waiting = 0;
        }
    }
    Ok(())
}
