//! `DEBUG DIGEST` and `DIGEST-VALUE`: checksums of data, equal to Valkey's for equal data, by which
//! tests compare servers.
//!
//! `DEBUG DIGEST` is no read of one moment: each slot is read as it is when its turn comes, and a
//! collection that is being changed may be read in part before the change and in part after it.

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA1_OUTPUT_LEN, digest};
use tidemill_resp::number::format_double_in_short_digits;
use tidemill_store::hash::Seed;
use tidemill_store::value::hash::Hash;
use tidemill_store::value::list::List;
use tidemill_store::value::set::{Member, Set};
use tidemill_store::value::sorted_set::SortedSet;
use tidemill_store::value::stream::{FieldValue, Stream, StreamEntry};
use tidemill_store::{EntryRef, Kind, Section, SlotNumber};

use crate::access::expiry::SlotJudge;
use crate::access::locks::LockSet;
use crate::access::outcome::{Outcome, Stop};
use crate::access::session_context::SessionCx;
use crate::error::CommandError;
use crate::memory;

/// SHA-1 sums, put together.
#[derive(Clone, Copy, Default)]
struct Digest([u8; SHA1_OUTPUT_LEN]);

impl Digest {
    /// Takes in bytes whose place among others does not count.
    fn add(&mut self, bytes: &[u8]) {
        let sum = digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes);
        self.0.iter_mut().zip(sum.as_ref()).for_each(|(byte, other)| *byte ^= other);
    }

    /// Takes in bytes that come behind all that it has.
    fn append(&mut self, bytes: &[u8]) {
        self.add(bytes);
        let sum = digest(&SHA1_FOR_LEGACY_USE_ONLY, &self.0);
        self.0.copy_from_slice(sum.as_ref());
    }

    /// Takes in two values that belong together.
    fn add_pair(&mut self, first: &[u8], second: &[u8]) {
        let mut pair = Digest::default();
        pair.append(first);
        pair.append(second);
        self.add(&pair.0);
    }

    /// Takes in type, value and the presence of an expiry.
    fn append_value(&mut self, entry: EntryRef<'_>, seed: &Seed) -> Result<(), CommandError> {
        self.append(&type_number(entry.kind()).to_be_bytes());
        if let Some(string) = entry.string() {
            self.append(&memory::copy(string)?);
        } else if let Some(list) = entry.view::<List<'_>>(seed) {
            list.iter().for_each(|element| self.append(element));
        } else if let Some(set) = entry.view::<Set<'_>>(seed) {
            set.iter().for_each(|member| match member {
                Member::String(text) => self.add(text),
                Member::Integer(value) => self.add(value.to_string().as_bytes()),
            });
        } else if let Some(set) = entry.view::<SortedSet<'_>>(seed) {
            for item in set.iter() {
                let score = format_double_in_short_digits(item.score);
                self.add_pair(item.member, score.as_str().as_bytes());
            }
        } else if let Some(hash) = entry.view::<Hash<'_>>(seed) {
            hash.iter().for_each(|field| self.add_pair(field.field, field.value));
        } else if let Some(stream) = entry.view::<Stream<'_>>(seed) {
            stream.iter_from(0).for_each(|entry| self.append_entry(&entry));
        }
        if entry.expires_at_ms().is_some() {
            self.add(b"!!expire!!");
        }
        Ok(())
    }

    /// Takes in an entry of a stream, behind those before it.
    fn append_entry(&mut self, entry: &StreamEntry<'_>) {
        self.append(format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
        for (name, value) in entry.fields() {
            self.append(name);
            match value {
                FieldValue::Text(text) => self.append(text),
                FieldValue::Integer(value) => self.append(value.to_string().as_bytes()),
            }
        }
    }

    fn text(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Number of a type in Valkey, which has one for modules before that of streams.
fn type_number(kind: Kind) -> u32 {
    match kind {
        Kind::Stream => 6,
        other => other as u32,
    }
}

/// The data of all databases.
pub(super) fn whole(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let shared = cx.shared;
    let mut digest = Digest::default();
    for database in shared.keyspace.written(0..usize::MAX) {
        let mut key_count = 0;
        cx.reader.section(&mut |section| key_count = shared.keyspace.key_count(database, section));
        if key_count > 0 {
            digest.append(&(database as u32).to_be_bytes());
            add_database(cx, database, &mut digest)?;
        }
    }
    cx.reply.simple_string(&digest.text());
    Ok(())
}

fn add_database(
    cx: &mut SessionCx<'_, '_>,
    database: usize,
    digest: &mut Digest,
) -> Result<(), CommandError> {
    let (shared, mut next) = (cx.shared, Some(0));
    while let Some(from) = next {
        let mut outcome = Ok(());
        cx.reader.section(&mut |section| {
            let slot = shared.keyspace.next_nonempty_slot(database, from, section);
            next = slot.map(|slot| slot.index() + 1);
            let Some(slot) = slot else { return };
            let word = shared.keyspace.word(slot);
            let judge = SlotJudge::unlocked(shared, cx.worker, (word, word.load()));
            let mut entries = shared.keyspace.entries(database, slot, section);
            outcome = entries.try_for_each(|entry| match judge.is_over(entry) {
                true => Ok(()),
                false => add_entry(entry, shared.keyspace.seed(), digest),
            });
        });
        outcome?;
        cx.reader.quiescent();
    }
    Ok(())
}

fn add_entry(entry: EntryRef<'_>, seed: &Seed, digest: &mut Digest) -> Result<(), CommandError> {
    let mut own = Digest::default();
    own.append(entry.key());
    own.append_value(entry, seed)?;
    digest.add(&own.0);
    Ok(())
}

/// The value under each key; zeros where there is none.
pub(super) fn values(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let keys = cx.args.iter().skip(2);
    let digests = keys.map(|key| value(cx, key)).collect::<Result<Vec<Digest>, Box<Stop>>>()?;
    cx.reply.array(digests.len());
    digests.into_iter().for_each(|digest| cx.reply.simple_string(&digest.text()));
    Ok(())
}

/// The value under a key, of one moment: read under the lock when the slot changed meanwhile. A
/// unit waits for no slot: it has those of its own changes, and another's change may be half seen.
fn value(cx: &mut SessionCx<'_, '_>, key: &[u8]) -> Result<Digest, Box<Stop>> {
    let slot = SlotNumber::of_key(key);
    let word = cx.shared.keyspace.word(slot);
    let before = word.load();
    let digest = value_now(cx, key)?;
    if cx.unit.is_some() || before.is_unchanged(word.load_after()) {
        return Ok(digest);
    }
    let _locks = LockSet::one(cx.shared, slot).map_err(Stop::wait)?;
    Ok(value_now(cx, key)?)
}

fn value_now(cx: &mut SessionCx<'_, '_>, key: &[u8]) -> Result<Digest, CommandError> {
    let (shared, database, worker) = (cx.shared, cx.session.database, &*cx.worker);
    let key_hash = shared.keyspace.key_hash(key);
    let mut outcome = Ok(Digest::default());
    cx.reader.section(&mut |section: Section<'_>| {
        let word = shared.keyspace.word(key_hash.slot);
        let judge = SlotJudge::unlocked(shared, worker, (word, word.load()));
        let Some(entry) = shared.keyspace.find(database, key_hash, key, section) else { return };
        let mut digest = Digest::default();
        if !judge.is_over(entry) {
            let added = digest.append_value(entry, shared.keyspace.seed());
            outcome = added.map(|()| digest);
        }
    });
    outcome
}
