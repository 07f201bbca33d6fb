//! What the server reads of its configuration, in the types that it works with.

use std::net::IpAddr;

use tidemill_engine::config::{Configuration, ServerConfig};
use tidemill_host::CpuSet;
use tidemill_host::placement::PlacementOptions;

/// The RCU flavour of the keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlavourName {
    Qsbr,
    Memb,
    Mb,
    Bp,
    Signal,
}

/// The flavour that the configuration names.
pub(crate) fn flavour(config: &ServerConfig) -> FlavourName {
    match config.rcu_flavour.as_str() {
        "memb" => FlavourName::Memb,
        "mb" => FlavourName::Mb,
        "bp" => FlavourName::Bp,
        "signal" => FlavourName::Signal,
        _ => FlavourName::Qsbr,
    }
}

/// What the configuration says about placement.
///
/// # Errors
///
/// A list of CPUs that is none.
pub(crate) fn placement(configuration: &Configuration) -> Result<PlacementOptions, String> {
    let config = configuration.server();
    let list = |name: &str| cpus(name, configuration.value(name).unwrap_or(""));
    Ok(PlacementOptions {
        mode: config.cpu_placement.parse()?,
        worker_count: Some(config.worker_threads).filter(|&count| count > 0),
        workers_per_core: config.workers_per_core,
        server_cpus: list("server-cpulist")?,
        background_cpus: list("bio-cpulist")?,
        snapshot_cpus: list("bgsave-cpulist")?,
        journal_rewrite_cpus: list("aof-rewrite-cpulist")?,
        ..PlacementOptions::default()
    })
}

fn cpus(name: &str, text: &str) -> Result<Option<CpuSet>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    CpuSet::parse_list(text).map(Some).map_err(|error| format!("{name} '{text}': {error}"))
}

/// The address of a `bind`, and whether it may be missing on this host (a leading `-`).
pub(crate) fn bind_address(text: &str) -> Result<(IpAddr, bool), String> {
    let (text, optional) = match text.strip_prefix('-') {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let address = match text {
        "*" => "0.0.0.0",
        "::*" => "::",
        text => text,
    };
    let parsed = address.parse().map_err(|_| format!("bind: '{text}' is not an IP address"))?;
    Ok((parsed, optional))
}
