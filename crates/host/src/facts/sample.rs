//! Counters read twice.

use std::collections::BTreeMap;

use crate::{ReadError, Root};

/// The text of all counter files at one moment.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    texts: BTreeMap<String, Result<String, ReadError>>,
}

/// Movement of a counter between two samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// It grew by the first number; the second is the total.
    Grew(u64, u64),
    /// It stood still at this total.
    Still(u64),
    /// There is one sample only, with this total.
    Once(u64),
}

/// Counter files of the whole machine.
const MACHINE: &[&str] = &[
    "/proc/stat",
    "/proc/vmstat",
    "/proc/net/netstat",
    "/proc/net/softnet_stat",
    "/proc/softirqs",
    "/proc/interrupts",
];

impl Sample {
    /// Reads the machine's counters and `more` files.
    pub fn read(root: &Root, more: &[String]) -> Self {
        let paths = MACHINE.iter().map(|path| (*path).to_owned()).chain(more.iter().cloned());
        Self { texts: paths.map(|path| (path.clone(), root.text(&path))).collect() }
    }

    /// True if anything could be read.
    pub fn is_empty(&self) -> bool {
        self.texts.values().all(Result::is_err)
    }

    pub(super) fn text(&self, path: &str) -> Option<&Result<String, ReadError>> {
        self.texts.get(path)
    }

    /// Paths and texts that could be read.
    pub fn readable(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts
            .iter()
            .filter_map(|(path, text)| Some((path.as_str(), text.as_ref().ok()?.as_str())))
    }
}

impl Growth {
    /// Compares two readings; a counter that went down (a group was made anew) counts as still.
    pub fn between(first: u64, second: Option<u64>) -> Self {
        match second {
            None => Self::Once(first),
            Some(second) if second > first => Self::Grew(second - first, second),
            Some(second) => Self::Still(second),
        }
    }

    /// True if it grew; `None` with one sample only, unless the counter never counted at all.
    pub fn grows(self) -> Option<bool> {
        match self {
            Self::Grew(..) => Some(true),
            Self::Still(_) | Self::Once(0) => Some(false),
            Self::Once(_) => None,
        }
    }

    /// The latest total.
    pub fn total(self) -> u64 {
        match self {
            Self::Grew(_, total) | Self::Still(total) | Self::Once(total) => total,
        }
    }
}

impl std::fmt::Display for Growth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Grew(by, total) => write!(f, "{total}, grew by {by}"),
            Self::Still(total) => write!(f, "{total}, still"),
            Self::Once(total) => write!(f, "{total}, one sample"),
        }
    }
}
