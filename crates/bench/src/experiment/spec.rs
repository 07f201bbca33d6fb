//! The file that declares an experiment.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::experiment::fault::{Fault, Step, describe_error};
use crate::experiment::metrics::METRICS;
use crate::limits::{BLOCKS_MAX, IDLE_CONNECTIONS_MAX, INSTANCES_MAX, SUBSCRIBERS_MAX};
use crate::load::command::split_words;
use crate::secrets::{hide, hide_in_flags, hide_in_variable};

/// Names of arms that no user may take: the repeated baseline.
pub const AA_ARM: &str = "A/A";

/// File that `tidemill experiment init` writes.
pub const TEMPLATE: &str = r#"# An experiment: each arm once per block, shuffled, on a new server.
name = "my-experiment"
description = "what is asked"
blocks = 10          # at least 6 for a verdict
threshold = 0.02     # differences below 2 % are not worth having
aa = true            # run the first arm twice per block: shows what differences mean nothing
# marks = true       # saves and changes of role in the time series; asks INFO ten times a second
# seed = 1           # of the order; recorded in any case
primary = ["ops_per_second", "get_p99_ms"]   # the metrics that get verdicts

# The first arm is the baseline. {port}, {tls_port}, {socket} and {directory} (empty, removed
# afterwards) stand for what the runner chose.
[[arm]]
name = "redis"
server = "redis-server --port {port} --bind 127.0.0.1 --save '' --appendonly no"

[[arm]]
name = "valkey"
server = "valkey-server --port {port} --bind 127.0.0.1 --save '' --appendonly no"
# cpus = "{core0}"               # bind the server: a list, or {cpuN}, {coreN}, {othersN}, {nodeN}
# instances = 2                  # so many servers and loads side by side; cpus = "{core0};{core1}"
# idle_connections = 1000        # held open beside the load
# subscribers = 100              # to the channel fan-out, read beside the load
# requires = { redis_mode = "standalone" }   # of INFO; otherwise the arm is skipped
# needs = "test -e /dev/kvm"     # a shell command; what it says on stderr is the reason to skip
# apply = "sysctl -qw a.b=1"     # with revert: changes the machine; needs --change-machine
# revert = "sysctl -qw a.b=0"
# program = "./measure {address} {pid} {seconds} {flags}"  # prints {"ops_per_second": 1.5} last
# environment = { MALLOC_CONF = "thp:always" }
# address = "host:port"          # instead of server: one that runs already
# client = "-S {socket}"         # more flags of tidemill bench for this arm
# settings = { "net.core.busy_poll" = "50" }   # or a path of /sys; undone; needs --change-machine

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
    /// Question that the experiment answers.
    #[serde(default)]
    pub description: String,
    /// Repetitions.
    #[serde(default = "default_blocks")]
    pub blocks: usize,
    /// Smallest difference worth having, as a fraction.
    #[serde(default = "default_threshold")]
    pub threshold: f64,
    /// True if the baseline is run twice per block.
    #[serde(default = "yes")]
    pub aa: bool,
    /// True if what happens at the server is marked in the time series.
    #[serde(default)]
    pub marks: bool,
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
    /// Connections that subscribe to the channel `fan-out` and read beside the load.
    #[serde(default)]
    pub subscribers: u64,
    /// Fields of the server's INFO that must have these values for the arm to be what it says.
    #[serde(default)]
    pub requires: BTreeMap<String, String>,
    /// A program that measures instead of `tidemill bench`: its last line is a JSON object of
    /// metrics.
    pub program: Option<String>,
    /// Settings of the kernel while the arm is measured: names as sysctl has them, or paths, with
    /// values.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
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
            subscribers: 0,
            requires: BTreeMap::new(),
            program: None,
            settings: BTreeMap::new(),
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
    /// The key that is wrong, or none for the arm as a whole, and why.
    pub(crate) fn check(&self) -> Result<(), (Option<&'static str>, String)> {
        let wrong = |key, text: &str| Err((key, text.to_string()));
        match (&self.server, &self.address, &self.program) {
            (Some(_), Some(_), _) => {
                return wrong(Some("address"), "exactly one of server and address");
            }
            (None, None, None) => return wrong(None, "neither server nor address nor program"),
            _ => {}
        }
        for (key, line) in [("server", &self.server), ("program", &self.program)] {
            let words = line.as_deref().map(split_words).transpose();
            if words.map_err(|error| (Some(key), error))?.is_some_and(|words| words.is_empty()) {
                return wrong(Some(key), "an empty command");
            }
        }
        if self.program.is_none() && self.address.as_ref().is_some_and(|text| place(text).is_none())
        {
            return wrong(Some("address"), "not host:port");
        }
        match (&self.apply, &self.revert) {
            (Some(_), None) => return wrong(Some("apply"), "apply and revert belong together"),
            (None, Some(_)) => return wrong(Some("revert"), "apply and revert belong together"),
            _ => {}
        }
        if !(1..=INSTANCES_MAX).contains(&self.instances) {
            return Err((Some("instances"), format!("must be 1 to {INSTANCES_MAX}")));
        }
        if self.idle_connections > IDLE_CONNECTIONS_MAX {
            return Err((Some("idle_connections"), format!("at most {IDLE_CONNECTIONS_MAX}")));
        }
        if self.subscribers > SUBSCRIBERS_MAX {
            return Err((Some("subscribers"), format!("at most {SUBSCRIBERS_MAX}")));
        }
        let needing_server = [
            ("instances", self.instances > 1),
            ("cpus", self.cpus.is_some()),
            ("idle_connections", self.idle_connections > 0),
            ("subscribers", self.subscribers > 0),
            ("requires", !self.requires.is_empty()),
        ];
        match needing_server.iter().find(|entry| entry.1 && self.server.is_none()) {
            Some(&(key, _)) => wrong(Some(key), "needs a server to start"),
            None if self.program.is_some() && self.instances > 1 => {
                wrong(Some("instances"), "a program measures one instance")
            }
            None => Ok(()),
        }
    }

    fn without_secrets(&self) -> Self {
        let hidden = |line: &Option<String>| line.as_deref().map(hide);
        let environment = self.environment.iter();
        Self {
            server: hidden(&self.server),
            address: hidden(&self.address),
            environment: environment
                .map(|(name, value)| (name.clone(), hide_in_variable(name, value)))
                .collect(),
            program: hidden(&self.program),
            apply: hidden(&self.apply),
            revert: hidden(&self.revert),
            client: hide_in_flags(&self.client),
            needs: hidden(&self.needs),
            ..self.clone()
        }
    }
}

/// Host and port of an arm's address.
pub(super) fn place(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    Some((host, port.parse().ok()?))
}

impl Spec {
    /// Reads a file's text and checks all of it, the flags of the loads too.
    ///
    /// # Errors
    /// With line and column where the text is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let spec: Self = toml::from_str(text).map_err(|error| describe_error(&error, text))?;
        spec.check().and_then(|()| spec.check_flags()).map_err(|fault| fault.describe(text))?;
        Ok(spec)
    }

    fn check(&self) -> Result<(), Fault> {
        use Step::{Index, Key};
        if !(1..=BLOCKS_MAX).contains(&self.blocks) {
            return Err(Fault::new(&[Key("blocks")], format!("blocks: must be 1 to {BLOCKS_MAX}")));
        }
        if !(0.0..1.0).contains(&self.threshold) {
            return Err(Fault::new(&[Key("threshold")], "threshold: a fraction, 0.02 for 2 %"));
        }
        for (key, count) in [("arm", self.arms.len()), ("load", self.loads.len())] {
            if count == 0 {
                return Err(Fault::new(&[Key(key)], format!("at least one [[{key}]] is needed")));
            }
        }
        let arm_names = self.arms.iter().map(|arm| arm.name.as_str());
        if let Some(index) = repeated(std::iter::once(AA_ARM).chain(arm_names)) {
            let text = format!("names of arms must differ from each other and from {AA_ARM}");
            return Err(Fault::new(&[Key("arm"), Index(index - 1), Key("name")], text));
        }
        // The journal tells runs apart by the names of arm and load.
        if let Some(index) = repeated(self.loads.iter().map(|load| load.name.as_str())) {
            let text = "names of loads must differ from each other";
            return Err(Fault::new(&[Key("load"), Index(index), Key("name")], text));
        }
        for (index, arm) in self.arms.iter().enumerate() {
            arm.check().map_err(|(key, text)| {
                let path = [Key("arm"), Index(index), Key(key.unwrap_or_default())];
                let key = key.map_or(String::new(), |key| format!("{key}: "));
                Fault::new(&path, format!("arm {:?}: {key}{text}", arm.name))
            })?;
        }
        for (index, load) in self.loads.iter().enumerate() {
            if !(load.seconds > 0.0 && load.seconds < 1e6) {
                let path = [Key("load"), Index(index), Key("seconds")];
                return Err(Fault::new(
                    &path,
                    format!("load {:?}: seconds: must be above 0", load.name),
                ));
            }
        }
        for (index, metric) in self.primary.iter().enumerate() {
            if !METRICS.iter().any(|known| known.name == metric) {
                let text = format!("primary: unknown metric {metric:?}");
                return Err(Fault::new(&[Key("primary"), Index(index)], text));
            }
        }
        Ok(())
    }

    /// Checks the flags of every load, alone and with those of every arm.
    ///
    /// # Errors
    /// Names load and arm.
    pub(crate) fn check_flags(&self) -> Result<(), Fault> {
        use Step::{Index, Key};
        let check = |flags: &str| crate::cli::settings::settings_from_words(flags);
        let loaded = || self.arms.iter().enumerate().filter(|(_, arm)| arm.program.is_none());
        for (number, load) in self.loads.iter().enumerate() {
            if loaded().next().is_none() {
                break;
            }
            check(&load.flags).map_err(|error| {
                let path = [Key("load"), Index(number), Key("flags")];
                Fault::new(&path, format!("load {:?}: {error}", load.name))
            })?;
            for (index, arm) in loaded() {
                check(&format!("{} {}", load.flags, arm.client)).map_err(|error| {
                    let path = [Key("arm"), Index(index), Key("client")];
                    Fault::new(&path, format!("arm {:?}, load {:?}: {error}", arm.name, load.name))
                })?;
            }
        }
        Ok(())
    }

    /// The same without the passwords in its command lines: what journal and reports hold.
    pub(super) fn without_secrets(&self) -> Self {
        let load = |load: &Load| Load { flags: hide_in_flags(&load.flags), ..load.clone() };
        Self {
            arms: self.arms.iter().map(Arm::without_secrets).collect(),
            loads: self.loads.iter().map(load).collect(),
            ..self.clone()
        }
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

/// The first position whose name stood before.
fn repeated<'a>(names: impl Iterator<Item = &'a str>) -> Option<usize> {
    let mut seen = std::collections::BTreeSet::new();
    names.into_iter().position(|name| !seen.insert(name))
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
        // Text of the template, its replacement; line, column and words of the error.
        let wrong = [
            ("blocks = 10 ", "blocks = \"ten\"", "line 4, column 10: "),
            ("blocks = 10 ", "blocks = 0", "line 4, column 10: blocks"),
            ("blocks = 10 ", "blocks = 10001", "line 4, column 10: blocks"),
            ("blocks = 10 ", "blocks = ", "line 4, column "),
            ("threshold = 0.02 ", "threshold = nan", "line 5, column 13: threshold"),
            ("aa = true", "bb = true", "line 6, column 1: "),
            ("get_p99_ms", "speed", "line 9, column 30: primary: unknown metric \"speed\""),
            ("name = \"valkey\"", "name = \"redis\"", "line 18, column 8: names of arms"),
            ("name = \"valkey\"", "name = \"A/A\"", "line 18, column 8: names of arms"),
            ("server = \"valkey", "serve = \"valkey", "line 19, column 1: "),
            ("server = \"valkey-server", "server = \"valkey-server 'x", "line 19, column 10: "),
            ("server = \"valkey", "address = \"valkey", "line 19, column 11: "),
            ("# cpus = ", "revert = ", "line 20, column 10: "),
            ("# instances = 2 ", "instances = 1025", "line 21, column 13: "),
            ("# idle_connections = 1000 ", "idle_connections = 9000000000", "line 22, column 20: "),
            ("# address = ", "address = ", "line 30, column 11: "),
            ("# client = \"-S {socket}", "client = \"--pipeline 0", "line 31, column 10: "),
            ("flags = \"-t 1", "flags = \"-t 0", "line 37, column 9: load \"mixed\": --threads"),
            ("name = \"mixed\"", "name = \"ö\"\nseconds = -1", "line 37, column 11: "),
            ("name = \"mixed\"", "name = \"ö\", seconds = 1", "line 36, column 11: "),
        ];
        for (known, other, begin) in wrong {
            let text = TEMPLATE.replacen(known, other, 1);
            assert_ne!(text, TEMPLATE, "{known}");
            let error = Spec::parse(&text).unwrap_err();
            assert!(error.starts_with(begin), "{other}: {error}");
        }
        let twice = format!("{TEMPLATE}[[load]]\nname = \"mixed\"\nflags = \"\"\n");
        assert!(Spec::parse(&twice).unwrap_err().starts_with("line 39, column 8: names of loads"));
        // A missing key has the place of the table that lacks it, or the beginning.
        let bare = "name = \"x\"\narm = []\nload = []\n";
        assert!(
            Spec::parse(bare).unwrap_err().starts_with("line 2, column 7: at least one [[arm]]")
        );
        let idle = TEMPLATE.replace("server = ", "# server = ");
        let error = Spec::parse(&idle).unwrap_err();
        assert!(error.starts_with("line 13, column 1: arm \"redis\": neither"), "{error}");
    }

    #[test]
    fn any_text_is_read_without_a_panic() {
        let mut random = crate::load::keys::Random::new(8);
        let below = |random: &mut crate::load::keys::Random, span: usize| {
            crate::load::keys::below(random, span as u64) as usize
        };
        for _ in 0..3_000 {
            let mut bytes = TEMPLATE.replace("# ", "").into_bytes();
            for _ in 0..3 {
                let at = below(&mut random, bytes.len());
                let other = b"\"'[]{}=#\n\xc3\xb69-.e"[below(&mut random, 15)];
                bytes[at] = other;
            }
            bytes.truncate(below(&mut random, 2 * bytes.len()));
            let _ = Spec::parse(&String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn passwords_are_not_recorded() {
        let text = TEMPLATE
            .replace("--port {port}", "--port {port} --requirepass s3cr3t")
            .replace(
                "# environment = { MALLOC_CONF",
                "environment = { REDISCLI_AUTH = \"s3cr3t\", MALLOC_CONF",
            )
            .replace("# client = \"", "client = \"-as3cr3t ")
            .replace("# needs = \"test", "needs = \"redis-cli -a s3cr3t && test")
            .replace("-t 1 -c 50", "-t 1 -u redis://:s3cr3t@h -c 50");
        let spec = Spec::parse(&text).unwrap();
        assert_eq!(serde_json::to_string(&spec).unwrap().matches("s3cr3t").count(), 6);
        let recorded = serde_json::to_string(&spec.without_secrets()).unwrap();
        assert!(!recorded.contains("s3cr3t"), "{recorded}");
        assert!(recorded.contains("thp:always") && recorded.contains("-c 50"), "{recorded}");
    }
}
