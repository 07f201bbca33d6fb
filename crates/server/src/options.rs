//! Options of the configuration in the types that the server works with.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

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

/// Options of the configuration about placement.
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

/// A `bind`'s host, and whether it may be missing here (a leading `-`).
pub(crate) fn bind_host(text: &str) -> (&str, bool) {
    let (host, is_optional) = text.strip_prefix('-').map_or((text, false), |rest| (rest, true));
    let host = match host {
        "*" => "0.0.0.0",
        "::*" => "::",
        host => host,
    };
    (host, is_optional)
}

/// Addresses of a `bind`'s host. A name is looked up as IPv4 addresses, as in Redis; what has a
/// colon is an IPv6 address with its scope (`fe80::1%eth0`). Blocks while it is looked up.
///
/// # Errors
///
/// When there is no such name, or it has no address of the kind.
pub(crate) fn bind_addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let found = (host, port).to_socket_addrs()?;
    let is_ipv6 = host.contains(':');
    let addresses: Vec<SocketAddr> = found.filter(|found| found.is_ipv6() == is_ipv6).collect();
    if addresses.is_empty() {
        return Err(io::Error::other("the name has no IPv4 address"));
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_address_may_have_a_scope() {
        let found = bind_addresses("fe80::1%lo", 6379).expect("an address of the loopback device");
        assert!(matches!(found[..], [SocketAddr::V6(address)] if address.scope_id() > 0));
        let named = bind_addresses("localhost", 6379).expect("a name that every host has");
        assert!(named.iter().all(SocketAddr::is_ipv4));
    }
}
