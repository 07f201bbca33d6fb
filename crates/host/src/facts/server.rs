//! The inspected server process: who it is, and what its INFO and CONFIG say.
//!
//! A running server is asked over its port; a capture holds the answers in `tidemill/info` and
//! `tidemill/config`. Both are kept as plain maps, because each server version has fields of its
//! own.

use std::collections::BTreeMap;

use crate::{ReadError, Root};

/// Files of a capture that keep facts without a file of the host.
pub(crate) const CAPTURED_PID: &str = "/tidemill/pid";
pub(crate) const CAPTURED_INFO: &str = "/tidemill/info";
pub(crate) const CAPTURED_CONFIG: &str = "/tidemill/config";

/// Kind of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Ours: never forks.
    Tidemill,
    /// Valkey.
    Valkey,
    /// Redis.
    Redis,
}

/// Facts about a server that could be inspected.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// Its process; `None` when only the port is known.
    pub pid: Option<u32>,
    /// Fields of INFO; empty when it was not asked or did not answer.
    pub info: BTreeMap<String, String>,
    /// CONFIG parameters; empty when it was not asked or refused.
    pub config: BTreeMap<String, String>,
    /// Reason that INFO or CONFIG are empty.
    pub silence: Option<String>,
}

impl Server {
    /// The server a capture tells about; `None` when it tells about none.
    ///
    /// # Errors
    /// A refusal other than absence.
    pub fn captured(root: &Root) -> Result<Option<Self>, ReadError> {
        let pid: Option<u32> = root.value(CAPTURED_PID).ok();
        let info = root.text(CAPTURED_INFO);
        let config = root.text(CAPTURED_CONFIG);
        if pid.is_none() && info.is_err() && config.is_err() {
            return Ok(None);
        }
        let silence = info.as_ref().err().or(config.as_ref().err()).map(ToString::to_string);
        Ok(Some(Self {
            pid,
            info: parse_info(&info.unwrap_or_default()),
            config: parse_config(&config.unwrap_or_default()),
            silence,
        }))
    }

    /// Kind of the server; `None` when INFO does not say.
    pub fn kind(&self) -> Option<Kind> {
        if self.info.contains_key("tidemill_version") {
            return Some(Kind::Tidemill);
        }
        if self.info.contains_key("valkey_version") {
            return Some(Kind::Valkey);
        }
        self.info.contains_key("redis_version").then_some(Kind::Redis)
    }

    /// True if it forks for snapshots, log rewrites or replicas; `None` if its own answers do not
    /// tell.
    pub fn forks(&self) -> Option<bool> {
        if self.kind()? == Kind::Tidemill {
            return Some(false);
        }
        let forked = self.number("total_forks").is_some_and(|count| count > 0);
        let replicas = self.number("connected_slaves").is_some_and(|count| count > 0);
        let saves = self.config.get("save").is_some_and(|points| !points.is_empty());
        let appends = self.config.get("appendonly").is_some_and(|value| value == "yes");
        let told = !self.config.is_empty();
        if forked || replicas || saves || appends { Some(true) } else { told.then_some(false) }
    }

    /// A numeric field of INFO.
    pub fn number(&self, field: &str) -> Option<u64> {
        self.info.get(field)?.parse().ok()
    }

    /// A numeric CONFIG parameter.
    pub fn setting(&self, parameter: &str) -> Option<u64> {
        self.config.get(parameter)?.parse().ok()
    }
}

/// `field:value` lines.
pub(crate) fn parse_info(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once(':'))
        .map(|(field, value)| (field.to_owned(), value.to_owned()))
        .collect()
}

/// `parameter value` lines, as a capture keeps them.
pub(crate) fn parse_config(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().map(|line| line.split_once(' ').unwrap_or((line, "")));
    pairs.map(|(parameter, value)| (parameter.to_owned(), value.trim().to_owned())).collect()
}
