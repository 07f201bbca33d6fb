//! Reading hashes. Fields whose time is over are not there.

use tidemill_store::value::hash::{Entry, Hash};
use tidemill_store::{Encoding, EntryRef, Kind, SlotNumber};

use super::pieces::HashElements;
use crate::access::context::Cx;
use crate::access::options::{ScanOptions, parse_cursor};
use crate::access::outcome::Outcome;
use crate::error::CommandError;
use crate::expiry_clock::ExpiryClock;
use crate::glob;
use crate::long_reply::LongReply;
use crate::memory;

/// A field's value and expiry.
type FoundField<'g> = (&'g [u8], Option<u64>);

/// The hash under a key with the clock that its fields are judged by. What needs the context
/// judges: it notes what it finds expired.
pub(super) struct Reading<'g> {
    hash: Hash<'g>,
    slot: SlotNumber,
    clock: ExpiryClock,
}

impl<'g> Reading<'g> {
    /// Reads the hash under a key.
    pub(super) fn of(cx: &mut Cx<'_, 'g>, key: &[u8]) -> Result<Option<Reading<'g>>, CommandError> {
        let Some(hash) = cx.read_as::<Hash<'_>>(key)? else { return Ok(None) };
        Ok(Some(Reading::of_found(cx, key, hash)))
    }

    /// Reads a hash that was just found under a key.
    fn of_found(cx: &mut Cx<'_, 'g>, key: &[u8], hash: Hash<'g>) -> Reading<'g> {
        // The clock comes behind the lookup: a field that somebody has found expired in an older
        // version is expired in this one too.
        let (slot, clock) = (cx.key_hash(key).slot, cx.clock_of(key));
        Reading { hash, slot, clock }
    }

    fn is_alive(&self, expires_at_ms: Option<u64>) -> bool {
        !expires_at_ms.is_some_and(|at_ms| self.clock.has_passed(at_ms))
    }

    /// A field, if it is there and its time is not over.
    pub(super) fn get(&self, cx: &mut Cx<'_, 'g>, field: &[u8]) -> Option<FoundField<'g>> {
        let found = self.hash.get(field)?;
        if let Some(at_ms) = found.expires_at_ms
            && self.clock.has_passed(at_ms)
        {
            cx.found_expired(self.slot, at_ms);
            return None;
        }
        Some((found.value, found.expires_at_ms))
    }

    /// True if fields have expired; notes it.
    fn has_dead(&self, cx: &mut Cx<'_, 'g>) -> bool {
        let has_dead =
            self.hash.first_expiry().is_some_and(|first_ms| self.clock.has_passed(first_ms));
        if has_dead {
            cx.found_expired(self.slot, self.clock.last_passed_ms());
        }
        has_dead
    }

    fn len(&self, cx: &mut Cx<'_, 'g>) -> u64 {
        let mut dead_count = 0;
        if self.has_dead(cx) {
            self.hash.due(self.clock.last_passed_ms(), |_| {
                dead_count += 1;
                true
            });
        }
        self.hash.len() - dead_count
    }

    /// Live fields, by index.
    ///
    /// # Errors
    ///
    /// [`CommandError::NoMemory`].
    pub(super) fn living(&self, cx: &mut Cx<'_, 'g>) -> Result<Living<'_, 'g>, CommandError> {
        let living = self.has_dead(cx).then(|| memory::collect(self.entries())).transpose()?;
        Ok(Living { hash: &self.hash, living })
    }

    /// Live fields. To be noted by [`Reading::has_dead`] or [`Reading::len`].
    fn entries(&self) -> impl Iterator<Item = Entry<'g>> {
        self.hash.iter().filter(|entry| self.is_alive(entry.expires_at_ms))
    }
}

/// Live fields of a hash, by index.
pub(super) struct Living<'h, 'g> {
    hash: &'h Hash<'g>,
    /// The list of it, when some is not.
    living: Option<Vec<Entry<'g>>>,
}

impl<'g> Living<'_, 'g> {
    pub(super) fn len(&self) -> u64 {
        self.living.as_ref().map_or(self.hash.len(), |living| living.len() as u64)
    }

    /// The entry at an index below [`len`](Living::len).
    pub(super) fn nth(&self, index: u64) -> Option<Entry<'g>> {
        match &self.living {
            Some(living) => living.get(index as usize).copied(),
            None => self.hash.nth(index),
        }
    }
}

/// The value of a field, if the entry, which was just found, is a hash and has it.
pub(crate) fn field_value<'g>(
    cx: &mut Cx<'_, 'g>,
    entry: EntryRef<'g>,
    field: &[u8],
) -> Option<&'g [u8]> {
    let hash = entry.view::<Hash<'_>>(cx.seed())?;
    let reading =
        Reading { hash, slot: SlotNumber::of_key(entry.key()), clock: cx.clock_of(entry.key()) };
    reading.get(cx, field).map(|(value, _)| value)
}

/// The field of a command that reads one.
fn one_field<'g>(cx: &mut Cx<'_, 'g>) -> Result<Option<FoundField<'g>>, CommandError> {
    let Some(hash) = Reading::of(cx, cx.arg(1))? else { return Ok(None) };
    cx.reads_one_leaf();
    Ok(hash.get(cx, cx.arg(2)))
}

pub(super) fn hget(cx: &mut Cx<'_, '_>) -> Outcome {
    let found = one_field(cx)?;
    match found {
        Some((value, _)) => cx.reply.bulk(value),
        None => cx.reply.null(),
    }
    Ok(())
}

pub(super) fn hmget(cx: &mut Cx<'_, '_>) -> Outcome {
    let hash = Reading::of(cx, cx.arg(1))?;
    let args = cx.args;
    cx.reply.array(args.len() - 2);
    for field in args.iter().skip(2) {
        match hash.as_ref().and_then(|hash| hash.get(cx, field)) {
            Some((value, _)) => cx.reply.bulk(value),
            None => cx.reply.null(),
        }
    }
    Ok(())
}

/// `HGETALL`, `HKEYS` and `HVALS`.
pub(super) fn hgetall(cx: &mut Cx<'_, '_>) -> Outcome {
    let (with_fields, with_values) = match cx.command.name {
        "hkeys" => (true, false),
        "hvals" => (false, true),
        _ => (true, true),
    };
    let hash = Reading::of(cx, cx.arg(1))?;
    let version = match &hash {
        Some(hash) => {
            let length = hash.hash.len();
            cx.pin(cx.arg(1), length, (length, hash.hash.bytes()))?
        }
        None => None,
    };
    let count = hash.as_ref().map_or(0, |hash| hash.len(cx)) as usize;
    if with_fields && with_values {
        cx.reply.map(count);
    } else {
        cx.reply.array(count);
    }
    if let (Some(version), Some(hash)) = (version, &hash) {
        let elements = HashElements { with_fields, with_values, clock: hash.clock };
        return cx.answer_in_pieces(LongReply::new(version, elements, 0..hash.hash.len()));
    }
    for entry in hash.iter().flat_map(Reading::entries) {
        if with_fields {
            cx.reply.bulk(entry.field);
        }
        if with_values {
            cx.reply.bulk(entry.value);
        }
    }
    Ok(())
}

/// `HLEN`: as in Valkey, fields whose time is over count until they are deleted.
pub(super) fn hlen(cx: &mut Cx<'_, '_>) -> Outcome {
    let length = Reading::of(cx, cx.arg(1))?.map_or(0, |hash| hash.hash.len());
    cx.reply.integer(length as i64);
    Ok(())
}

pub(super) fn hstrlen(cx: &mut Cx<'_, '_>) -> Outcome {
    let found = one_field(cx)?;
    cx.reply.integer(found.map_or(0, |(value, _)| value.len()) as i64);
    Ok(())
}

pub(super) fn hexists(cx: &mut Cx<'_, '_>) -> Outcome {
    let found = one_field(cx)?;
    cx.reply.integer(i64::from(found.is_some()));
    Ok(())
}

pub(super) fn hscan(cx: &mut Cx<'_, '_>) -> Outcome {
    let cursor = parse_cursor(cx.arg(2))?;
    let key = cx.arg(1);
    let entry = cx.read_kind(key, Kind::Hash)?;
    let Some((entry, hash)) =
        entry.and_then(|entry| Some((entry, entry.view::<Hash<'_>>(cx.seed())?)))
    else {
        // Without a hash nobody looks at the options.
        cx.reply.array(2);
        cx.reply.bulk("0");
        cx.reply.array(0);
        return Ok(());
    };
    let ScanOptions { pattern, count, names_only } = ScanOptions::parse(cx.args, Some("NOVALUES"))?;
    let mut found: Vec<Entry<'_>> = Vec::new();
    let mut noted = Ok(());
    let hash = Reading::of_found(cx, key, hash);
    hash.has_dead(cx);
    let visit = |entry| {
        let Entry { field, expires_at_ms, .. } = entry;
        let is_wanted = pattern.is_none_or(|pattern| glob::matches(pattern, field, false));
        if is_wanted && hash.is_alive(expires_at_ms) && noted.is_ok() {
            noted = memory::push(&mut found, entry);
        }
    };
    let next = match entry.encoding() {
        Encoding::Hashtable => hash.hash.scan(cursor, count, visit),
        // A small encoding is walked in one step, as in Valkey.
        _ => {
            hash.hash.iter().for_each(visit);
            0
        }
    };
    noted?;
    cx.reply.array(2);
    cx.reply.bulk(next.to_string());
    cx.reply.array(found.len() * if names_only { 1 } else { 2 });
    for entry in found {
        cx.reply.bulk(entry.field);
        if !names_only {
            cx.reply.bulk(entry.value);
        }
    }
    Ok(())
}
