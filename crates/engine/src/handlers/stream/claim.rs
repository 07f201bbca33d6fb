//! `XCLAIM` and `XAUTOCLAIM`.

use tidemill_store::value::stream::{Consumer, Group, Pending, Stream, StreamEdit, StreamId};

use super::deliver::{StreamGroup, change, consumer_event, find_group, see, unix_ms};
use super::id;
use super::journal::GroupNames;
use super::pending::no_group;
use super::pieces::write_entry;
use crate::access::context::Cx;
use crate::access::options::is;
use crate::access::outcome::Outcome;
use crate::error::CommandError;
use crate::memory;
use tidemill_resp::number::parse_integer;

/// Most entries that `XAUTOCLAIM` can be asked for.
const COUNT_MAX: i64 = i64::MAX / 16;

/// Pending entries that it looks at for each that it is asked for.
const LOOKS_PER_ENTRY: usize = 10;

/// Changes that a claim makes to the pending entries that it gets.
#[derive(Clone, Copy, Debug)]
struct Claim {
    now_ms: i64,
    idle_ms_min: i64,
    delivered_at_ms: i64,
    delivery_count: Option<u64>,
    /// Makes pending what is not.
    is_forced: bool,
    /// Ids are answered alone, and do not count as deliveries.
    just_ids: bool,
}

/// Fate of a pending entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claimed {
    /// The consumer has it.
    Now(Pending),
    /// It was removed, as its entry is no longer there.
    Gone(Pending),
    /// Nothing changed.
    No,
}

impl Claim {
    /// Claims an entry for a consumer.
    fn claim(
        &self,
        edit: &mut StreamEdit<'_>,
        (stream, group): StreamGroup<'_>,
        consumer: Consumer,
        id: StreamId,
    ) -> Claimed {
        let old = edit.view().pending(group.number, id);
        if !stream.contains(id) {
            return match edit.remove_pending(group.number, id) {
                Some(pending) => Claimed::Gone(pending),
                None => Claimed::No,
            };
        }
        let is_idle = |old: &Pending| {
            self.idle_ms_min == 0
                || self.now_ms.wrapping_sub(old.delivered_at_ms) >= self.idle_ms_min
        };
        let count_before = match old {
            Some(old) if is_idle(&old) => old.delivery_count,
            None if self.is_forced => 1,
            _ => return Claimed::No,
        };
        let counted = count_before.wrapping_add(u64::from(!self.just_ids));
        let pending = Pending {
            consumer: consumer.number,
            delivered_at_ms: self.delivered_at_ms,
            delivery_count: self.delivery_count.unwrap_or(counted),
        };
        edit.set_pending(group.number, id, pending);
        Claimed::Now(pending)
    }
}

/// Outcome of a claim for all ids.
struct Outcomes {
    entries: Vec<(StreamId, Claimed)>,
    group: Group,
}

impl Outcomes {
    fn claimed(&self) -> impl Iterator<Item = StreamId> {
        let is_claimed = |claimed: Claimed| matches!(claimed, Claimed::Now(_));
        self.entries.iter().filter(move |(_, claimed)| is_claimed(*claimed)).map(|&(id, _)| id)
    }

    fn gone(&self) -> impl Iterator<Item = StreamId> {
        let is_gone = |claimed: Claimed| matches!(claimed, Claimed::Gone(_));
        self.entries.iter().filter(move |(_, claimed)| is_gone(*claimed)).map(|&(id, _)| id)
    }

    /// Journals what became of the entries.
    fn propagate(
        &self,
        cx: &mut Cx<'_, '_>,
        names: GroupNames<'_>,
        stream: Stream<'_>,
        consumer: &[u8],
    ) {
        for &(id, claimed) in &self.entries {
            let (owner, pending) = match claimed {
                Claimed::Now(pending) => (consumer, pending),
                Claimed::Gone(pending) => (stream.consumer_name(pending.consumer), pending),
                Claimed::No => continue,
            };
            names.pending(cx, owner, (id, pending), self.group.last_id);
        }
    }

    fn reply(&self, cx: &mut Cx<'_, '_>, stream: Stream<'_>, just_ids: bool) {
        cx.reply.array(self.claimed().count());
        for id in self.claimed() {
            match stream.get(id).filter(|_| !just_ids) {
                Some(entry) => write_entry(cx.reply, &entry),
                None => id::reply(cx.reply, id),
            }
        }
    }
}

/// Claims entries for a consumer, which is made if there is none, until some number of them was
/// claimed or is gone.
fn claim_all(
    cx: &mut Cx<'_, '_>,
    names: GroupNames<'_>,
    (stream, group): StreamGroup<'_>,
    name: &[u8],
    claim: &Claim,
    (ids, count_max): (&mut dyn Iterator<Item = StreamId>, usize),
) -> Result<Outcomes, CommandError> {
    let before = stream.group(names.group);
    let event = consumer_event(stream, group.number, name);
    let entries = change(cx, names.key, event, |edit| {
        if before != Some(group) {
            edit.set_group(names.group, group);
        }
        let (consumer, _) = see(edit, group.number, name, claim.now_ms);
        let mut entries = Vec::new();
        let mut is_active = false;
        while entries.len() < count_max
            && let Some(id) = ids.next()
        {
            let claimed = claim.claim(edit, (stream, group), consumer, id);
            is_active |= matches!(claimed, Claimed::Now(_));
            if claimed != Claimed::No {
                memory::push(&mut entries, (id, claimed))?;
            }
        }
        if is_active {
            edit.set_consumer(name, Consumer { active_at_ms: claim.now_ms, ..consumer });
        }
        Ok::<_, CommandError>(entries)
    })??;
    cx.propagate_nothing();
    let outcomes = Outcomes { entries, group };
    if event.is_some() {
        names.consumer(cx, name);
    }
    outcomes.propagate(cx, names, stream, name);
    let mut changes = outcomes.entries.len() as u64 + u64::from(event.is_some());
    if outcomes.entries.is_empty() && before != Some(group) {
        names.last_id(cx, &group);
        changes += 1;
    }
    cx.set_changes(changes);
    Ok(outcomes)
}

/// An option's value, with an error of its own.
fn value_of(text: &[u8], what: &str, command: &str) -> Result<i64, CommandError> {
    parse_integer(text)
        .ok_or_else(|| CommandError::err(format_args!("Invalid {what} argument for {command}")))
}

pub(super) fn xclaim(cx: &mut Cx<'_, '_>) -> Outcome {
    let names = GroupNames { key: cx.arg(1), group: cx.arg(2) };
    let (stream, group) = find_group(cx, names)?.ok_or_else(|| no_group(names))?;
    let args = cx.args;
    let idle_ms_min = value_of(args.get(4), "min-idle-time", "XCLAIM")?.max(0);
    let ids_end = (5..args.len()).find(|&index| id::strict(args.get(index)).is_err());
    let ids_end = ids_end.unwrap_or(args.len());
    let now_ms = unix_ms(cx);
    let mut claim = Claim {
        now_ms,
        idle_ms_min,
        delivered_at_ms: now_ms,
        delivery_count: None,
        is_forced: false,
        just_ids: false,
    };
    let last_id = claim_options(cx, ids_end, &mut claim)?;
    let group = Group { last_id: group.last_id.max(last_id), ..group };
    let ids = id::all((5..ids_end).map(|index| args.get(index)))?;
    let ids = &mut ids.into_iter();
    let outcomes = claim_all(cx, names, (stream, group), cx.arg(3), &claim, (ids, usize::MAX))?;
    outcomes.reply(cx, stream, claim.just_ids);
    Ok(())
}

/// Options of `XCLAIM` behind the ids. Returns the one of `LASTID`.
fn claim_options(
    cx: &Cx<'_, '_>,
    first: usize,
    claim: &mut Claim,
) -> Result<StreamId, CommandError> {
    let args = cx.args;
    let (mut last_id, mut delivered_at_ms) = (StreamId::MIN, -1);
    let mut index = first;
    while index < args.len() {
        let option = args.get(index);
        let value = (index + 1 < args.len()).then(|| args.get(index + 1));
        index += 2;
        match value {
            _ if is(option, "FORCE") => (claim.is_forced, index) = (true, index - 1),
            _ if is(option, "JUSTID") => (claim.just_ids, index) = (true, index - 1),
            Some(value) if is(option, "IDLE") => {
                let idle_ms = value_of(value, "IDLE option", "XCLAIM")?;
                delivered_at_ms = claim.now_ms.wrapping_sub(idle_ms);
            }
            Some(value) if is(option, "TIME") => {
                delivered_at_ms = value_of(value, "TIME option", "XCLAIM")?;
            }
            Some(value) if is(option, "RETRYCOUNT") => {
                let count = value_of(value, "RETRYCOUNT option", "XCLAIM")?;
                claim.delivery_count = u64::try_from(count).ok();
            }
            Some(value) if is(option, "LASTID") => last_id = id::strict(value)?,
            _ => {
                return Err(CommandError::quoting("ERR Unrecognized XCLAIM option '", option, "'"));
            }
        }
    }
    // Times that make no sense are now.
    if (0..=claim.now_ms).contains(&delivered_at_ms) {
        claim.delivered_at_ms = delivered_at_ms;
    }
    Ok(last_id)
}

pub(super) fn xautoclaim(cx: &mut Cx<'_, '_>) -> Outcome {
    let args = cx.args;
    let names = GroupNames { key: cx.arg(1), group: cx.arg(2) };
    // As in Valkey, the key counts as looked up before anything is found wrong.
    let found = find_group(cx, names);
    let idle_ms_min = value_of(args.get(4), "min-idle-time", "XAUTOCLAIM")?.max(0);
    let start = id::start(args.get(5))?;
    let (mut count, mut just_ids) = (100, false);
    let mut index = 6;
    while index < args.len() {
        let option = args.get(index);
        if is(option, "COUNT") && index + 1 < args.len() {
            let given = parse_integer(args.get(index + 1));
            let given = given.filter(|given| (1..=COUNT_MAX).contains(given));
            count = given.ok_or("ERR COUNT must be > 0")? as u64;
            index += 1;
        } else if is(option, "JUSTID") {
            just_ids = true;
        } else {
            return Err(CommandError::Syntax.into());
        }
        index += 1;
    }
    let (stream, group) = found?.ok_or_else(|| no_group(names))?;
    let now_ms = unix_ms(cx);
    let claim = Claim {
        now_ms,
        idle_ms_min,
        delivered_at_ms: now_ms,
        delivery_count: None,
        is_forced: false,
        just_ids,
    };
    let count_max = usize::try_from(count).unwrap_or(usize::MAX);
    let looks = count_max.saturating_mul(LOOKS_PER_ENTRY);
    let mut last = None;
    let pending = stream.pending_from(group.number, start).take(looks);
    let ids = &mut pending.map(|(id, _)| id).inspect(|&id| last = Some(id));
    let outcomes = claim_all(cx, names, (stream, group), cx.arg(3), &claim, (ids, count_max))?;
    let behind = last.and_then(StreamId::next);
    let next = behind.and_then(|behind| stream.pending_from(group.number, behind).next());
    cx.reply.array(3);
    id::reply(cx.reply, next.map_or(StreamId::MIN, |(id, _)| id));
    outcomes.reply(cx, stream, just_ids);
    cx.reply.array(outcomes.gone().count());
    outcomes.gone().for_each(|id| id::reply(cx.reply, id));
    Ok(())
}
