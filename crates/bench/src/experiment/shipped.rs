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
        &[$(Shipped {
            name: $name,
            text: include_str!(concat!("../../experiments/", $name, ".toml")),
        }),*]
    };
}

/// All of them, by name.
pub fn shipped() -> &'static [Shipped] {
    shipped!(
        "appendfsync",
        "eviction",
        "fan-out",
        "implicit-pipelining",
        "instances",
        "large-values",
        "maxclients",
        "membarrier",
        "pinning",
        "pipelining",
        "preemption",
        "quiescent-state",
        "rcu-flavours",
        "read-scripts",
        "rps",
        "servers",
        "snapshot",
        "threads-affinity",
        "thp",
        "tls",
        "unix-socket",
        "value-size",
        "wakeup-coalescing",
        "workers",
    )
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
            let page = format!("../../docs/experiments/{}.md", experiment.name);
            assert!(std::path::Path::new(&page).exists(), "{page}");
            // Enough blocks for Holm to let one difference be significant.
            let comparisons = (spec.arms.len() - 1) * spec.primary.len() * spec.loads.len();
            let smallest = 2.0 * 0.5f64.powi(spec.blocks as i32) * comparisons as f64;
            assert!(smallest < 0.05, "{}: {comparisons} in {}", spec.name, spec.blocks);
        }
    }
}
