//! The doctor's rules: what to look at, when it matters, what to do.
//!
//! A rule is one constant: its number, why it matters, the effect its source measured, and a
//! function from a [`Probe`] to a [`Judgement`]. Reports, plans, exit status and documents derive
//! from [`RULES`]. Rules change nothing; the [`Change`]s they propose are written by
//! [`crate::tune`].
//!
//! A rule that cannot read what it needs returns the [`ReadError`] and the verdict becomes *cannot
//! tell*; absence alone never makes a machine healthy.

mod change;
mod cpu;
#[cfg(test)]
mod golden;
mod memory;
mod network;
mod process;
mod steering;
#[cfg(test)]
mod tests;
mod tuners;

use std::fmt;

pub use change::{Change, Persistence};
pub(crate) use network::{UNSUPPORTED, is_loopback};

use crate::facts::{Host, HostError, Probe};
use crate::placement::Placement;
use crate::topology::{Topology, TopologyError};
use crate::{ReadError, Refusal};

/// Verdict of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// The rule has no subject here.
    NotApplicable,
    /// Something needed could not be read.
    CannotTell,
    /// Better otherwise, or worth an experiment.
    Advice,
    /// Harm is happening or certain.
    Problem,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::NotApplicable => "not applicable",
            Self::CannotTell => "cannot tell",
            Self::Advice => "advice",
            Self::Problem => "problem",
        })
    }
}

/// Requirements for carrying out the advice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Root's rights.
    pub root: bool,
    /// A restart of the server.
    pub restart: bool,
    /// The owner of the host below the container or virtual machine.
    pub host_owner: bool,
}

/// One rule of the doctor.
pub struct Rule {
    /// `R1` to `R27`, or a word for settings of the server itself.
    pub id: &'static str,
    /// A few words.
    pub title: &'static str,
    /// Order among findings of the same verdict: the higher, the earlier. Throttling has the
    /// highest.
    pub harm: u8,
    /// Reason that it matters.
    pub why: &'static str,
    /// Effect that its source measured; empty when it measured nothing.
    pub effect: &'static str,
    judge: fn(&mut Probe<'_>) -> Outcome,
}

type Outcome = Result<Judgement, Untold>;

/// Reason that a rule cannot tell.
#[derive(Debug)]
enum Untold {
    /// A file could not be read, or not be understood.
    Unread(ReadError),
    /// The machine's shape is not known, or no plan fits it.
    Unplanned(HostError),
}

impl Untold {
    fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Unread(error)
            | Self::Unplanned(HostError::Topology(TopologyError::NoCpuDirectory(error))) => {
                Some(error.refusal)
            }
            Self::Unplanned(_) => None,
        }
    }
}

impl From<ReadError> for Untold {
    fn from(error: ReadError) -> Self {
        Self::Unread(error)
    }
}

impl fmt::Display for Untold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unread(error) => error.fmt(f),
            Self::Unplanned(error) => error.fmt(f),
        }
    }
}

/// The machine's shape.
fn topology<'a>(probe: &Probe<'a>) -> Result<&'a Topology, Untold> {
    let topology = probe.host.topology.as_ref();
    topology.map_err(|error| Untold::Unplanned(HostError::Topology(error.clone())))
}

/// The plan for the machine.
fn placement<'a>(probe: &Probe<'a>) -> Result<&'a Placement, Untold> {
    probe.host.placement.as_ref().map_err(|error| Untold::Unplanned(error.clone()))
}

/// Finding of a rule about one host.
#[derive(Clone, Debug)]
pub struct Judgement {
    verdict: Verdict,
    summary: String,
    action: String,
    needs: Needs,
    changes: Vec<Change>,
}

/// A judgement with its rule and evidence.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The rule's id.
    pub id: &'static str,
    /// The rule's title.
    pub title: &'static str,
    /// The rule's harm.
    pub harm: u8,
    /// The verdict.
    pub verdict: Verdict,
    /// Summary of the facts, in one line.
    pub summary: String,
    /// Reason that it cannot be told, where reading was refused.
    pub refusal: Option<Refusal>,
    /// Texts that were read.
    pub evidence: Vec<String>,
    /// Reason that it matters.
    pub why: &'static str,
    /// The effect its source measured.
    pub effect: &'static str,
    /// Advice; empty when there is none.
    pub action: String,
    /// Requirements of the advice.
    pub needs: Needs,
    /// The writes that would do it.
    pub changes: Vec<Change>,
}

impl Judgement {
    fn new(verdict: Verdict, summary: impl Into<String>) -> Self {
        Self {
            verdict,
            summary: summary.into(),
            action: String::new(),
            needs: Needs::default(),
            changes: Vec::new(),
        }
    }

    fn ok(summary: impl Into<String>) -> Self {
        Self::new(Verdict::Ok, summary)
    }

    fn not_applicable(summary: impl Into<String>) -> Self {
        Self::new(Verdict::NotApplicable, summary)
    }

    fn cannot_tell(summary: impl Into<String>) -> Self {
        Self::new(Verdict::CannotTell, summary)
    }

    fn advice(summary: impl Into<String>) -> Self {
        Self::new(Verdict::Advice, summary)
    }

    fn problem(summary: impl Into<String>) -> Self {
        Self::new(Verdict::Problem, summary)
    }

    fn so(mut self, action: impl Into<String>) -> Self {
        self.action = action.into();
        self
    }

    fn changing(mut self, changes: Vec<Change>) -> Self {
        self.needs.root = !changes.is_empty();
        self.changes = changes;
        self
    }

    fn with_root(mut self) -> Self {
        self.needs.root = true;
        self
    }

    fn with_restart(mut self) -> Self {
        self.needs.restart = true;
        self
    }

    fn by_host_owner(mut self) -> Self {
        self.needs.host_owner = true;
        self
    }
}

impl Rule {
    /// Judges a host by this rule.
    pub fn judge(&self, host: &Host<'_>) -> Finding {
        let mut probe = Probe::new(host);
        let outcome = match host.inspect.is_client && SERVERS_ONLY.contains(&self.id) {
            true => Ok(Judgement::not_applicable("about servers; clients run here")),
            false => (self.judge)(&mut probe),
        };
        let refusal = outcome.as_ref().err().and_then(Untold::refusal);
        let judgement = outcome.unwrap_or_else(|error| Judgement::cannot_tell(error.to_string()));
        Finding {
            id: self.id,
            title: self.title,
            harm: self.harm,
            verdict: judgement.verdict,
            summary: judgement.summary,
            refusal,
            evidence: probe.evidence,
            why: self.why,
            effect: self.effect,
            action: judgement.action,
            needs: judgement.needs,
            changes: judgement.changes,
        }
    }
}

/// Every rule, in the order of the numbers.
pub const RULES: &[&[Rule]] =
    &[memory::RULES, network::RULES, cpu::RULES, process::RULES, tuners::RULES];

/// Rules without a meaning for machines that run clients: they neither fork nor accept.
const SERVERS_ONLY: &[&str] = &["R2", "R7"];

/// All rules one after the other.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    RULES.iter().copied().flatten()
}

/// Judges a host by every rule, most harmful first.
pub fn examine(host: &Host<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = all().map(|rule| rule.judge(host)).collect();
    findings.sort_by_key(|finding| std::cmp::Reverse((finding.verdict, finding.harm)));
    findings
}
