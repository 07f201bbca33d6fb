//! Writes the keys before a run, and removes them after it; looks first whether others are there.

use std::sync::atomic::Ordering;

use crate::load::cluster::Cluster;
use crate::load::control::{Control, Reply};
use crate::load::keys::Random;
use crate::load::settings::Endpoint;
use crate::load::values::Slab;
use crate::load::{Settings, Stop};

/// Requests sent before their replies are waited for.
const IN_FLIGHT: u64 = 256;

/// Writes every key once, so that reads find something. Blocks; one connection per server,
/// pipelined. `stop` ends it behind the requests that are on their way, without an error.
///
/// # Errors
/// When a server cannot be reached or refuses a write.
pub(crate) fn write_all_keys(settings: &Settings, stop: &Stop) -> Result<(), String> {
    let slab = Slab::new(&settings.values, &settings.keys, settings.seeds.run, settings.verify);
    let mut random = Random::new(settings.seeds.run);
    // Relaxed: nothing but the flag is read.
    let is_stopped = || stop.load(Ordering::Relaxed);
    for_each_key(settings, is_stopped, |control, number, key| {
        let value = slab.bytes(slab.draw(number, &mut random));
        control.send(&[b"SET".as_slice(), key, value])
    })
    .map_err(|error| format!("preload: {error}"))
}

/// Removes every key of the range. Blocks like `write_all_keys`; `UNLINK`, so that the server frees
/// large values beside its work.
///
/// # Errors
/// When a server cannot be reached or refuses.
pub(crate) fn remove_all_keys(settings: &Settings) -> Result<(), String> {
    // A signal ends the load, not the clean-up behind it.
    let goes_on = || false;
    for_each_key(settings, goes_on, |control, _, key| control.send(&[b"UNLINK".as_slice(), key]))
        .map_err(|error| format!("clean-up: {error}"))
}

/// Warning before a load on a server elsewhere that holds keys already: they may belong to others.
/// Blocks.
pub(crate) fn foreign_keys_warning(settings: &Settings) -> Option<String> {
    let target = &settings.target;
    if target.is_local() {
        return None;
    }
    // An unreachable server is reported by the load itself.
    let endpoints = endpoints(settings).ok()?.0;
    let count = |endpoint: &Endpoint| {
        let reply = Control::connect_to(target, endpoint)?.call(&["DBSIZE"])?;
        Ok(if let Reply::Integer(count) = reply { count.max(0) } else { 0 })
    };
    let counts = endpoints.iter().map(count).collect::<std::io::Result<Vec<i64>>>().ok()?;
    let keys = counts.into_iter().fold(0, i64::saturating_add);
    let (endpoint, prefix) = (&target.endpoint, &settings.keys.prefix);
    (keys > 0).then(|| {
        format!(
            "WARNING: {endpoint} is not this machine and holds {keys} keys; keys named \
                 {prefix}* will be overwritten"
        )
    })
}

/// Endpoints that hold the keys: the server, or the masters of the cluster with their slots.
fn endpoints(settings: &Settings) -> std::io::Result<(Vec<Endpoint>, Option<Cluster>)> {
    let target = &settings.target;
    if !target.cluster {
        return Ok((vec![target.endpoint.clone()], None));
    }
    let cluster = Cluster::discover(target, &settings.keys.prefix)?;
    Ok((cluster.nodes(), Some(cluster)))
}

/// Sends a request for each key and waits for the replies; looks at `is_stopped` before each batch.
fn for_each_key(
    settings: &Settings,
    is_stopped: impl Fn() -> bool,
    mut send: impl FnMut(&mut Control, u64, &[u8]) -> std::io::Result<()>,
) -> Result<(), String> {
    let target = &settings.target;
    let keys = &settings.keys;
    let (endpoints, cluster) = endpoints(settings).map_err(|error| error.to_string())?;
    let mut controls = endpoints
        .iter()
        .map(|endpoint| Control::connect_to(target, endpoint).map(|control| (control, 0)))
        .collect::<std::io::Result<Vec<(Control, u64)>>>()
        .map_err(|error| error.to_string())?;
    let mut waiting = 0;
    for number in keys.minimum..=keys.maximum {
        if waiting == 0 && is_stopped() {
            return Ok(());
        }
        let node = match &cluster {
            None => 0,
            Some(cluster) => cluster.node_of(number).ok_or("a slot is served by nobody")?,
        };
        let (control, sent) = &mut controls[node];
        let key = format!("{}{number}", keys.prefix);
        send(control, number, key.as_bytes()).map_err(|error| error.to_string())?;
        *sent += 1;
        waiting += 1;
        if waiting == IN_FLIGHT || number == keys.maximum {
            receive_all(&mut controls)?;
            waiting = 0;
        }
    }
    Ok(())
}

fn receive_all(controls: &mut [(Control, u64)]) -> Result<(), String> {
    for (control, sent) in controls {
        for _ in 0..std::mem::take(sent) {
            if let Reply::Error(text) = control.receive().map_err(|error| error.to_string())? {
                return Err(text);
            }
        }
    }
    Ok(())
}
