//! The file that declares an experiment.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Names of arms that no user may take: the repeated baseline.
pub const AA_ARM: &str = "A/A";

/// What `tidemill experiment init` writes.
pub const TEMPLATE: &str = r#"# An experiment: every arm once per block, in random order, each with a fresh server.
name = "my-experiment"
description = "what is asked"
blocks = 10          # at least 6 for a verdict
threshold = 0.02     # differences below 2 % are not worth having
aa = true            # run the first arm twice per block: shows what differences mean nothing
# seed = 1           # of the order; recorded in any case
primary = ["ops_per_second", "get_p99_ms"]   # the metrics that get verdicts

# The first arm is the baseline. {port} and {socket} stand for what the runner chose.
[[arm]]
name = "redis"
server = "redis-server --port {port} --bind 127.0.0.1 --save '' --appendonly no"

[[arm]]
name = "valkey"
server = "valkey-server --port {port} --bind 127.0.0.1 --save '' --appendonly no"
# cpus = "{core0}"               # bind the server: a list, or {cpuN}, {coreN}, {othersN}, {nodeN}
# instances = 2                  # so many servers and loads side by side; cpus = "{core0};{core1}"
# idle_connections = 1000        # held open beside the load
# requires = { redis_mode = "standalone" }   # of INFO; otherwise the arm is skipped
# needs = "test -e /dev/kvm"     # a shell command; what it says on stderr is the reason to skip
# apply = "sysctl -qw a.b=1"     # with revert: changes the machine; needs --change-machine
# revert = "sysctl -qw a.b=0"
# program = "./measure {address} {pid} {seconds} {flags}"  # prints {"ops_per_second": 1.5} at its end
# environment = { MALLOC_CONF = "thp:always" }
# address = "host:port"          # instead of server: one that runs already
# client = "-S {socket}"         # more flags of tidemill bench for this arm

# Flags of `tidemill bench`. Several loads are allowed; each is compared by itself.
[[load]]
name = "mixed"
flags = "-t 1 -c 50 --test-time 10 --warmup 5 --preload --key-maximum 100000 --distinct-client-seed"
"#;

fn yes() -> bool {
    true
}

fn one() -> usize {
    1
}

fn one_second() -> f64 {
    1.0
}

fn default_blocks() -> usize {
    10
}

fn default_threshold() -> f64 {
    0.02
}

fn default_primary() -> Vec<String> {
    ["ops_per_second", "get_p99_ms"].map(String::from).into()
}

/// An experiment.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Name, also of the report.
    pub name: String,
    /// What is asked.
    #[serde(default)]
    pub description: String,
    /// Repetitions.
    #[serde(default = "default_blocks")]
    pub blocks: usize,
    /// Smallest difference worth having, as a fraction.
    #[serde(default = "default_threshold")]
    pub threshold: f64,
    /// Whether the baseline is run twice per block.
    #[serde(default = "yes")]
    pub aa: bool,
    /// Seed of the order; drawn when absent.
    pub seed: Option<u64>,
    /// Metrics that get verdicts.
    #[serde(default = "default_primary")]
    pub primary: Vec<String>,
    /// Arms, the baseline first.
    #[serde(rename = "arm")]
    pub arms: Vec<Arm>,
    /// Loads.
    #[serde(rename = "load")]
    pub loads: Vec<Load>,
}

/// A variant.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// Name in the report.
    pub name: String,
    /// Command that starts the server.
    pub server: Option<String>,
    /// A server that runs already.
    pub address: Option<String>,
    /// Variables for the server.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// CPUs for the server; lists for several instances are divided by `;` and used in turn.
    pub cpus: Option<String>,
    /// Servers started side by side; each gets the load, and their results are added.
    #[serde(default = "one")]
    pub instances: usize,
    /// Connections that are held open beside the load and do nothing.
    #[serde(default)]
    pub idle_connections: u64,
    /// Fields of the server's INFO that must have these values for the arm to be what it says.
    #[serde(default)]
    pub requires: BTreeMap<String, String>,
    /// A program that measures instead of `tidemill bench`: its last line is a JSON object of metrics.
    pub program: Option<String>,
    /// A shell command that changes the machine for the arm; needs `revert`.
    pub apply: Option<String>,
    /// Undoes `apply`, also when it was made half way.
    pub revert: Option<String>,
    /// Further flags for the client.
    #[serde(default)]
    pub client: String,
    /// A shell command that must succeed for the arm to run here.
    pub needs: Option<String>,
}

impl Default for Arm {
    /// One instance of nothing.
    fn default() -> Self {
        Self {
            name: String::new(),
            server: None,
            address: None,
            environment: BTreeMap::new(),
            cpus: None,
            instances: 1,
            idle_connections: 0,
            requires: BTreeMap::new(),
            program: None,
            apply: None,
            revert: None,
            client: String::new(),
            needs: None,
        }
    }
}

/// A load.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Name in the report.
    pub name: String,
    /// Flags of `tidemill bench`, or of the arms' programs.
    pub flags: String,
    /// Length of a run for programs, in seconds.
    #[serde(default = "one_second")]
    pub seconds: f64,
}

impl Arm {
    fn check(&self) -> Result<(), &'static str> {
        match (&self.server, &self.address, &self.program) {
            (Some(_), Some(_), _) => return Err("exactly one of server and address"),
            (None, None, None) => return Err("neither server nor address nor program"),
            _ => {}
        }
        if self.apply.is_some() != self.revert.is_some() {
            return Err("apply and revert belong together");
        }
        if !(1..=1024).contains(&self.instances) {
            return Err("instances: 1 to 1024");
        }
        if self.server.is_none() && (self.instances > 1 || self.cpus.is_some()) {
            return Err("instances and cpus need a server to start");
        }
        if self.server.is_none() && (self.idle_connections > 0 || !self.requires.is_empty()) {
            return Err("idle_connections and requires need a server to start");
        }
        if self.program.is_some() && self.instances > 1 {
            return Err("a program measures one instance");
        }
        Ok(())
    }
}

impl Spec {
    /// Reads a file's text.
    ///
    /// # Errors
    /// With line and column where the text is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let spec: Self = toml::from_str(text).map_err(|error| {
            let place = error.span().map_or(String::new(), |span| {
                let before = &text[..span.start.min(text.len())];
                let line = before.matches('\n').count() + 1;
                let column = before.len() - before.rfind('\n').map_or(0, |at| at + 1) + 1;
                format!("line {line}, column {column}: ")
            });
            format!("{place}{}", error.message())
        })?;
        spec.check()?;
        Ok(spec)
    }

    fn check(&self) -> Result<(), String> {
        if self.blocks == 0 || self.blocks > 10_000 {
            return Err("blocks: must be 1 to 10000".into());
        }
        if !(0.0..1.0).contains(&self.threshold) {
            return Err("threshold: a fraction, 0.02 for 2 %".into());
        }
        if self.arms.is_empty() || self.loads.is_empty() {
            return Err("at least one [[arm]] and one [[load]] are needed".into());
        }
        let mut names: Vec<&str> = self.arms.iter().map(|arm| arm.name.as_str()).collect();
        names.push(AA_ARM);
        names.sort_unstable();
        if names.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(format!("arm names must differ from each other and from {AA_ARM}"));
        }
        for arm in &self.arms {
            arm.check().map_err(|error| format!("arm {:?}: {error}", arm.name))?;
        }
        for metric in &self.primary {
            if !super::analysis::METRICS.iter().any(|known| known.name == metric) {
                return Err(format!("primary: unknown metric {metric:?}"));
            }
        }
        Ok(())
    }

    /// Checks the flags of every load with every arm.
    ///
    /// # Errors
    /// Names arm and load.
    pub fn check_flags(&self) -> Result<(), String> {
        for load in &self.loads {
            for arm in self.arms.iter().filter(|arm| arm.program.is_none()) {
                crate::cli::settings::settings_from_words(&format!(
                    "{} {}",
                    load.flags, arm.client
                ))
                .map_err(|error| format!("arm {}, load {}: {error}", arm.name, load.name))?;
            }
        }
        Ok(())
    }

    /// The arms that are run: with the repeated baseline at the end, if asked for.
    pub fn arms_to_run(&self) -> Vec<Arm> {
        let mut arms = self.arms.clone();
        if self.aa {
            arms.push(Arm { name: AA_ARM.into(), ..self.arms[0].clone() });
        }
        arms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_valid() {
        let spec = Spec::parse(TEMPLATE).unwrap();
        assert_eq!(spec.arms_to_run().len(), 3);
    }

    #[test]
    fn errors_name_line_and_column() {
        let text = TEMPLATE.replace("blocks = 10 ", "blocks = \"ten\"");
        let error = Spec::parse(&text).unwrap_err();
        assert!(error.starts_with("line 4, column 10: "), "{error}");
        assert!(Spec::parse(&TEMPLATE.replace("aa =", "bb =")).unwrap_err().contains("line 6"));
        assert!(Spec::parse(&TEMPLATE.replace("\"valkey\"", "\"redis\"")).is_err());
        assert!(Spec::parse(&TEMPLATE.replace("get_p99_ms", "speed")).is_err());
    }
}
