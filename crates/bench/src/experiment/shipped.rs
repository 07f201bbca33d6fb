//! The experiments that come with the binary: their files, compiled in.

/// An experiment that comes with the binary.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// Name for `tidemill experiment run NAME`.
    pub name: &'static str,
    /// Its file.
    pub text: &'static str,
}

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(Shipped { name: $name, text: include_str!(concat!("../../experiments/", $name, ".toml")) }),*]
    };
}

/// All of them, by name.
pub fn shipped() -> &'static [Shipped] {
    shipped!("large-values", "pinning", "pipelining", "servers", "thp", "unix-socket", "value-size",)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::spec::Spec;

    #[test]
    fn every_shipped_file_is_valid_and_named_as_its_file() {
        for experiment in shipped() {
            let spec = Spec::parse(experiment.text)
                .unwrap_or_else(|error| panic!("{}: {error}", experiment.name));
            assert_eq!(spec.name, experiment.name);
            for load in &spec.loads {
                for arm in &spec.arms {
                    let line = format!("{} {}", load.flags, arm.client);
                    crate::cli::settings::settings_from_words(&line)
                        .unwrap_or_else(|error| panic!("{}: {error}", experiment.name));
                }
            }
        }
    }
}
