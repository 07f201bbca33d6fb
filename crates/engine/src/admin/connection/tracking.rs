//! `CLIENT TRACKING` and its kin: clients that keep copies of keys are told when these change.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use crate::access::options::{integer, is};
use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;
use crate::error::{CommandError, until_nul};
use crate::limits::PREFIX_BYTES;
use crate::pubsub::receivers::Tracking;
use crate::slots::tracked::Tracker;
use crate::worker::session::{SessionTracking, TrackingMode};

/// Prefixes by which a client is told changes.
type Prefixes = BTreeSet<Arc<[u8]>>;

/// Options of `CLIENT TRACKING`.
#[derive(Default)]
struct Options<'a> {
    redirect: u64,
    mode: TrackingMode,
    prefixes: Vec<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(cx: &SessionCx<'_, 'a>) -> Result<Options<'a>, CommandError> {
        let mut options = Options::default();
        let mut index = 3;
        while index < cx.args.len() {
            let option = cx.arg(index);
            let has_value = index + 1 < cx.args.len();
            match () {
                () if is(option, "REDIRECT") && has_value => {
                    index += 1;
                    if options.redirect != 0 {
                        let error = "ERR A client can only redirect to a single other client";
                        return Err(error.into());
                    }
                    let id = integer(cx.arg(index))?.cast_unsigned();
                    if cx.shared.clients.find(id).is_none() {
                        let error = "ERR The client ID you want redirect to does not exist";
                        return Err(error.into());
                    }
                    options.redirect = id;
                }
                () if is(option, "PREFIX") && has_value => {
                    index += 1;
                    options.prefixes.push(cx.arg(index));
                }
                () if is(option, "BCAST") => options.mode.is_broadcast = true,
                () if is(option, "OPTIN") => options.mode.is_opt_in = true,
                () if is(option, "OPTOUT") => options.mode.is_opt_out = true,
                () if is(option, "NOLOOP") => options.mode.is_noloop = true,
                () => return Err(CommandError::Syntax),
            }
            index += 1;
        }
        Ok(options)
    }

    /// Compares the options with each other and with how the client tracks by now.
    fn check(&self, former: Option<TrackingMode>, present: &Prefixes) -> Result<(), CommandError> {
        let mode = self.mode;
        let by_former = former.unwrap_or_default();
        let error = if !mode.is_broadcast && !self.prefixes.is_empty() {
            "ERR PREFIX option requires BCAST mode to be enabled"
        } else if former.is_some_and(|former| former.is_broadcast != mode.is_broadcast) {
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and \
             then re-enabling it with a different mode."
        } else if mode.is_broadcast && (mode.is_opt_in || mode.is_opt_out) {
            "ERR OPTIN and OPTOUT are not compatible with BCAST"
        } else if mode.is_opt_in && mode.is_opt_out {
            "ERR You can't specify both OPTIN mode and OPTOUT mode"
        } else if mode.is_opt_in && by_former.is_opt_out || mode.is_opt_out && by_former.is_opt_in {
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and \
             then re-enabling it with a different mode."
        } else {
            return check_overlaps(&self.prefixes, present);
        };
        Err(error.into())
    }

    /// Prefixes that come to the present ones.
    fn added(&self, present: &Prefixes) -> Vec<&'a [u8]> {
        let all: &[&[u8]] = &[b""];
        let given = match self.mode.is_broadcast {
            false => &[],
            true if self.prefixes.is_empty() => all,
            true => &self.prefixes,
        };
        given.iter().copied().filter(|&prefix| !present.contains(prefix)).collect()
    }
}

/// Refuses prefixes of which one is the beginning of another: a change would be told twice.
fn check_overlaps(prefixes: &[&[u8]], present: &Prefixes) -> Result<(), CommandError> {
    let of_present = prefixes.iter().enumerate().find_map(|(index, prefix)| {
        overlapping(present, prefix).map(|present| (index, Arc::clone(present)))
    });
    let of_given = first_overlap(prefixes);
    let (index, other, kind): (usize, &[u8], _) = match (&of_present, of_given) {
        (Some((index, other)), given) if given.is_none_or(|(one, _)| *index <= one) => {
            (*index, other, "an existing")
        }
        (_, Some((one, other))) => (one, prefixes[other], "another provided"),
        (_, None) => return Ok(()),
    };
    let mut text = b"ERR Prefix '".to_vec();
    text.extend_from_slice(until_nul(prefixes[index]));
    text.extend_from_slice(format!("' overlaps with {kind} prefix '").as_bytes());
    text.extend_from_slice(until_nul(other));
    text.extend_from_slice(b"'. Prefixes for a single client must not overlap.");
    Err(CommandError::Bytes(text))
}

/// The first of the present prefixes that a prefix begins with, or that begins with it.
fn overlapping<'p>(present: &'p Prefixes, prefix: &[u8]) -> Option<&'p Arc<[u8]>> {
    // The empty one alone may be present beside others: given by itself, it is not compared.
    if let Some(empty) = present.get::<[u8]>(b"") {
        return Some(empty);
    }
    let behind = (Bound::Included(prefix), Bound::Unbounded);
    let longer = present.range::<[u8], _>(behind).next();
    if let Some(longer) = longer.filter(|longer| longer.starts_with(prefix)) {
        return Some(longer);
    }
    // None of the present is the beginning of another: one that begins the prefix is the next
    // before it.
    let before = (Bound::Unbounded, Bound::Excluded(prefix));
    let shorter = present.range::<[u8], _>(before).next_back();
    shorter.filter(|shorter| prefix.starts_with(shorter))
}

/// The first of the prefixes that overlaps with a later one, and the first such.
fn first_overlap(prefixes: &[&[u8]]) -> Option<(usize, usize)> {
    let mut sorted: Vec<usize> = (0..prefixes.len()).collect();
    sorted.sort_by_key(|&index| prefixes[index]);
    // Prefixes that begin with each other follow each other, the shortest first.
    let mut first: Option<usize> = None;
    let mut beginning: Option<usize> = None;
    for &index in &sorted {
        match beginning {
            Some(shorter) if prefixes[index].starts_with(prefixes[shorter]) => {
                let lower = index.min(shorter);
                first = Some(first.map_or(lower, |first| first.min(lower)));
            }
            _ => beginning = Some(index),
        }
    }
    let one = first?;
    let overlaps =
        |other: &[u8]| other.starts_with(prefixes[one]) || prefixes[one].starts_with(other);
    let other = (one + 1..prefixes.len()).find(|&index| overlaps(prefixes[index]))?;
    Some((one, other))
}

pub(super) fn tracking(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let options = Options::parse(cx)?;
    match () {
        () if is(cx.arg(2), "ON") => {
            let former = cx.session.tracking.as_ref().map(|tracking| tracking.mode);
            let (told, none) = (cx.worker.receivers.tracking(cx.session.id()), Prefixes::new());
            let present = told.map_or(&none, |told| &told.prefixes);
            options.check(former, present)?;
            let added = options.added(present);
            let prefix_count = present.len() + added.len();
            begin(cx, &options, &added, prefix_count);
        }
        () if is(cx.arg(2), "OFF") => cx.worker.end_tracking(cx.shared, cx.session),
        () => return Err(CommandError::Syntax.into()),
    }
    cx.reply.ok();
    Ok(())
}

/// `prefix_count`: of all prefixes, with those that are added.
fn begin(cx: &mut SessionCx<'_, '_>, options: &Options<'_>, added: &[&[u8]], prefix_count: usize) {
    let (id, worker) = (cx.session.id(), cx.worker.index);
    let prefixes = &cx.shared.tracking.prefixes;
    let prefixes = added.iter().map(|prefix| prefixes.add(prefix, worker)).collect();
    let bytes = (prefix_count * PREFIX_BYTES) as u64;
    let (mode, redirect) = (options.mode, options.redirect);
    cx.session.client.note_tracking(Some(mode.is_broadcast), redirect, bytes);
    match &mut cx.session.tracking {
        Some(tracking) => tracking.mode = mode,
        place => {
            cx.shared.tracking.add_client();
            let tracker = Tracker::new(id, worker);
            *place = Some(Box::new(SessionTracking {
                tracker,
                mode,
                is_caching_given: false,
                keeps_caching: true,
            }));
        }
    }
    cx.session.may_have_pushes = true;
    cx.worker.begin_changes(id, mode.is_noloop);
    let told = Tracking { redirect, is_noloop: mode.is_noloop, prefixes };
    cx.worker.receivers.set_tracking((id, cx.reply.protocol()), Some(told));
}

pub(super) fn caching(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let Some(tracking) = &mut cx.session.tracking else {
        return Err(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with \
                    OPTIN or OPTOUT mode enabled"
                .into(),
        );
    };
    let is_given = match () {
        () if is(cx.args.get(2), "YES") => tracking.mode.is_opt_in,
        () if is(cx.args.get(2), "NO") => tracking.mode.is_opt_out,
        () => return Err(CommandError::Syntax.into()),
    };
    if !is_given {
        let error = match () {
            () if is(cx.args.get(2), "YES") => {
                "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."
            }
            () => "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
        };
        return Err(error.into());
    }
    tracking.is_caching_given = true;
    cx.reply.ok();
    Ok(())
}

/// Client that is told in the caller's place; 0 if itself is, -1 if it does not track.
fn redirect(cx: &SessionCx<'_, '_>) -> i64 {
    cx.session.client.redirect().map_or(-1, u64::cast_signed)
}

pub(super) fn getredir(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.reply.integer(redirect(cx));
    Ok(())
}

pub(super) fn trackinginfo(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let flags = flags(cx);
    cx.reply.map(3);
    cx.reply.bulk("flags");
    cx.reply.set(flags.len());
    flags.iter().for_each(|flag| cx.reply.bulk(flag));
    cx.reply.bulk("redirect");
    cx.reply.integer(redirect(cx));
    cx.reply.bulk("prefixes");
    let told = cx.worker.receivers.tracking(cx.session.id());
    let prefixes = told.map(|told| &told.prefixes);
    cx.reply.array(prefixes.map_or(0, BTreeSet::len));
    prefixes.into_iter().flatten().for_each(|prefix| cx.reply.bulk(prefix));
    Ok(())
}

fn flags(cx: &SessionCx<'_, '_>) -> Vec<&'static str> {
    let Some(tracking) = &cx.session.tracking else { return vec!["off"] };
    let SessionTracking { mode, is_caching_given, .. } = &**tracking;
    let all = [
        (true, "on"),
        (mode.is_broadcast, "bcast"),
        (mode.is_opt_in, "optin"),
        (mode.is_opt_in && *is_caching_given, "caching-yes"),
        (mode.is_opt_out, "optout"),
        (mode.is_opt_out && *is_caching_given, "caching-no"),
        (mode.is_noloop, "noloop"),
        (cx.session.client.is_redirect_broken(), "broken_redirect"),
    ];
    all.into_iter().filter(|(is_so, _)| *is_so).map(|(_, flag)| flag).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Valkey finds it: each with each.
    fn by_trying(prefixes: &[&[u8]]) -> Option<(usize, usize)> {
        let overlaps = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
        let pairs = (0..prefixes.len())
            .flat_map(|one| (one + 1..prefixes.len()).map(move |other| (one, other)));
        pairs.into_iter().find(|&(one, other)| overlaps(prefixes[one], prefixes[other]))
    }

    #[test]
    fn first_overlap_is_found_as_by_trying_each() {
        let mut random = fastrand::Rng::with_seed(5);
        for round in 0..20_000 {
            let mut text = |length: usize| -> Vec<u8> {
                (0..random.usize(0..=length)).map(|_| random.u8(b'a'..=b'c')).collect()
            };
            let prefixes: Vec<Vec<u8>> = (0..6).map(|_| text(7)).collect();
            let prefixes: Vec<&[u8]> = prefixes.iter().map(Vec::as_slice).collect();
            assert_eq!(
                first_overlap(&prefixes),
                by_trying(&prefixes),
                "round {round}: {prefixes:?}"
            );
        }
    }

    #[test]
    fn present_prefix_is_found_from_both_sides() {
        let present: Prefixes = [&b"BAR"[..], b"FOO"].into_iter().map(Arc::from).collect();
        let found = |prefix: &[u8]| overlapping(&present, prefix).map(|found| found.to_vec());
        assert_eq!(found(b"FO"), Some(b"FOO".to_vec()));
        assert_eq!(found(b"BARB"), Some(b"BAR".to_vec()));
        assert_eq!(found(b"BAR"), Some(b"BAR".to_vec()));
        assert_eq!(found(b""), Some(b"BAR".to_vec()));
        assert_eq!((found(b"BAS"), found(b"F0")), (None, None));
    }
}
