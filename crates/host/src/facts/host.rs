//! A host with everything the rules ask, and the record of what they asked.

use std::fmt;
use std::time::Duration;

use super::sample::{Growth, Sample};
use super::server::Server;
use crate::cgroup::Membership;
use crate::placement::{Allowed, Placement, PlacementError, PlacementOptions, plan};
use crate::topology::{Topology, TopologyError};
use crate::{ReadError, Refusal, Root};

/// Directory of a capture that keeps its second sample.
pub(crate) const SECOND: &str = "/second";

/// Subject and manner of an inspection.
#[derive(Clone, Debug)]
pub struct Inspect {
    /// The server, when one was named or captured.
    pub server: Option<Server>,
    /// Time between the two samples on a running machine; zero takes one sample.
    pub interval: Duration,
    /// Wishes about placement.
    pub placement: PlacementOptions,
    /// True if the machine runs clients rather than servers.
    pub is_client: bool,
    /// True if throughput counts more than latency.
    pub prefers_throughput: bool,
}

impl Default for Inspect {
    fn default() -> Self {
        Self {
            server: None,
            interval: Duration::ZERO,
            placement: PlacementOptions::default(),
            is_client: false,
            prefers_throughput: false,
        }
    }
}

/// A host at one moment.
#[derive(Debug)]
pub struct Host<'a> {
    /// Root that files are read from.
    pub root: &'a Root,
    /// Its shape, or why it is unknown.
    pub topology: Result<Topology, TopologyError>,
    /// The plan for it, or why there is none.
    pub placement: Result<Placement, HostError>,
    /// CPUs and memory that the server, or this process, may use.
    pub allowed: Allowed,
    /// Its control groups.
    pub groups: Membership,
    /// Requested inspection.
    pub inspect: Inspect,
    first: Sample,
    second: Option<Sample>,
}

/// Reason that there is no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostError {
    /// The machine could not be read.
    Topology(TopologyError),
    /// The wishes do not fit it.
    Placement(PlacementError),
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topology(error) => error.fmt(f),
            Self::Placement(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for HostError {}

impl<'a> Host<'a> {
    /// Reads a host. Sleeps for the interval between the samples on a running machine.
    pub fn read(root: &'a Root, inspect: Inspect) -> Self {
        let pid = inspect.server.as_ref().and_then(|server| server.pid);
        let process = pid.map_or("self".to_owned(), |pid| pid.to_string());
        let groups = Membership::read(root, &process);
        let allowed = Allowed::of_process(root, &process);
        let topology = Topology::read(root);
        let more = counter_files(root, &groups, pid);
        let first = Sample::read(root, &more);
        let second = second_sample(root, inspect.interval, &more);
        let placement = match &topology {
            Err(error) => Err(HostError::Topology(error.clone())),
            Ok(topology) => {
                // The server's present mask is a finding, not a limit: the plan is for its next
                // start.
                let limits = Allowed { mask: None, ..allowed.clone() };
                plan(topology, &limits, &inspect.placement).map_err(HostError::Placement)
            }
        };
        Self { root, topology, placement, allowed, groups, inspect, first, second }
    }

    /// The inspected server.
    pub fn server(&self) -> Option<&Server> {
        self.inspect.server.as_ref()
    }

    /// The server's process number.
    pub fn pid(&self) -> Option<u32> {
        self.server().and_then(|server| server.pid)
    }

    /// True if two samples were taken.
    pub fn has_two_samples(&self) -> bool {
        self.second.is_some()
    }

    /// The samples, for a capture.
    pub fn samples(&self) -> (&Sample, Option<&Sample>) {
        (&self.first, self.second.as_ref())
    }
}

/// Counter files of the server's threads and control groups.
fn counter_files(root: &Root, groups: &Membership, pid: Option<u32>) -> Vec<String> {
    let directories = groups.directories("cpu").into_iter();
    let mut files: Vec<String> = directories.map(|(path, _)| format!("{path}/cpu.stat")).collect();
    if let Some(pid) = pid {
        let threads = root.names(&format!("/proc/{pid}/task")).unwrap_or_default();
        files.extend(threads.iter().map(|thread| format!("/proc/{pid}/task/{thread}/status")));
    }
    files
}

fn second_sample(root: &Root, interval: Duration, more: &[String]) -> Option<Sample> {
    if root.is_live() {
        if interval.is_zero() {
            return None;
        }
        std::thread::sleep(interval);
        return Some(Sample::read(root, more));
    }
    let directory = root.directory().join(SECOND.trim_start_matches('/'));
    let second = Root::open(&directory).ok()?;
    let sample = Sample::read(&second, more);
    (!sample.is_empty()).then_some(sample)
}

/// A kernel setting that may not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Knob {
    /// Its text.
    Value(String),
    /// The kernel has none: the directory it would be in is there, the file is not.
    Absent,
}

/// One rule's view of a host; keeps its readings as evidence.
#[derive(Debug)]
pub struct Probe<'a> {
    /// The host.
    pub host: &'a Host<'a>,
    /// `path: value` for each reading, in order.
    pub evidence: Vec<String>,
}

impl<'a> Probe<'a> {
    /// A view without evidence.
    pub fn new(host: &'a Host<'a>) -> Self {
        Self { host, evidence: Vec::new() }
    }

    /// Adds a line of evidence.
    pub fn note(&mut self, line: impl Into<String>) {
        let line = line.into();
        if !self.evidence.contains(&line) {
            self.evidence.push(line);
        }
    }

    /// A file's text; long ones are quoted in part.
    ///
    /// # Errors
    /// The refusal.
    pub fn text(&mut self, path: &str) -> Result<String, ReadError> {
        let text = self.host.root.text(path)?;
        let line = text.lines().next().unwrap_or("").chars().take(100).collect::<String>();
        self.note(format!("{path}: {line}"));
        Ok(text)
    }

    /// A number in a file.
    ///
    /// # Errors
    /// The refusal, or `Malformed`.
    pub fn number(&mut self, path: &str) -> Result<i64, ReadError> {
        self.text(path)?.trim().parse().map_err(|_| ReadError::malformed(path))
    }

    /// A setting the kernel may lack. Absent only when the directory it would be in can be seen:
    /// otherwise nobody can tell, as in a capture without that directory or a container without
    /// sysfs.
    ///
    /// # Errors
    /// The refusal; `Absent` when the directory is missing, too.
    pub fn knob(&mut self, path: &str) -> Result<Knob, ReadError> {
        match self.text(path) {
            Ok(text) => Ok(Knob::Value(text)),
            Err(error) if error.refusal == Refusal::Absent && self.can_see_parent(path) => {
                self.note(format!("{path}: absent"));
                Ok(Knob::Absent)
            }
            Err(error) => Err(error),
        }
    }

    fn can_see_parent(&self, path: &str) -> bool {
        path.rsplit_once('/').is_some_and(|(parent, _)| self.host.root.names(parent).is_ok())
    }

    /// A numeric setting the kernel may lack.
    ///
    /// # Errors
    /// As [`Probe::knob`], or `Malformed`.
    pub fn numeric_knob(&mut self, path: &str) -> Result<Option<i64>, ReadError> {
        match self.knob(path)? {
            Knob::Absent => Ok(None),
            Knob::Value(text) => {
                text.trim().parse().map(Some).map_err(|_| ReadError::malformed(path))
            }
        }
    }

    /// The selected word of a setting like `always [madvise] never`.
    ///
    /// # Errors
    /// As [`Probe::knob`]; `Malformed` when no word is in brackets.
    pub fn choice(&mut self, path: &str) -> Result<Option<String>, ReadError> {
        match self.knob(path)? {
            Knob::Absent => Ok(None),
            Knob::Value(text) => {
                let selected = text.split(['[', ']']).nth(1).map(str::to_owned);
                selected.map(Some).ok_or_else(|| ReadError::malformed(path))
            }
        }
    }

    /// Both samples of a file; one of a live machine without an interval, and of a capture without
    /// a second.
    ///
    /// # Errors
    /// The refusal of the first reading.
    pub fn samples(&self, path: &str) -> Result<(&'a str, Option<&'a str>), ReadError> {
        let absent =
            ReadError { path: path.to_owned(), refusal: Refusal::Absent, errno: libc::ENOENT };
        let first = self.host.first.text(path).ok_or(absent)?.as_ref().map_err(Clone::clone)?;
        let second = self.host.second.as_ref().and_then(|sample| sample.text(path)?.as_ref().ok());
        Ok((first, second.map(String::as_str)))
    }

    /// Movement of a counter, computed by `count` from a sampled file.
    ///
    /// # Errors
    /// The refusal of the first reading; `Malformed` when `count` finds nothing.
    pub fn growth(
        &mut self,
        path: &str,
        name: &str,
        count: impl Fn(&str) -> Option<u64>,
    ) -> Result<Growth, ReadError> {
        let (first, second) = self.samples(path)?;
        let first = count(first).ok_or_else(|| ReadError::malformed(path))?;
        let growth = Growth::between(first, second.and_then(count));
        self.note(format!("{path} {name}: {growth}"));
        Ok(growth)
    }
}
