//! `DEBUG POPULATE`: many keys at once, for tests.

use std::ops::RangeInclusive;

use tidemill_rdb::value::ValueEncoding;
use tidemill_resp::number::parse_integer;

use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;
use crate::admin::alone::alone;
use crate::commit::EventClass;
use crate::error::CommandError;
use crate::limits::ELEMENT_OVERHEAD_BYTES;
use crate::memory::{self, Room};
use crate::saving::Present;
use crate::stored::{KeyDraft, KeySpec};

/// Keys that are made in one read section.
const KEYS_PER_SECTION: u64 = 1024;

/// A number of keys or bytes.
fn number(argument: &[u8]) -> Result<u64, CommandError> {
    const NUMBERS: RangeInclusive<i64> = 0..=i64::MAX;
    let number = parse_integer(argument).filter(|number| NUMBERS.contains(number));
    let number = number.ok_or("ERR value is out of range, must be positive")?;
    Ok(number.unsigned_abs())
}

/// Makes strings under numbered keys with all others stopped, as loading a file does: no record,
/// no change for `save`. Keys that are there stay as they are.
pub(super) fn populate(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let count = number(cx.arg(2))?;
    let prefix: &[u8] = if cx.args.len() > 3 { cx.arg(3) } else { b"key" };
    let size = if cx.args.len() > 4 { number(cx.arg(4))? } else { 0 };
    if cx.unit.as_ref().is_some_and(|unit| unit.slots().len() > 0) {
        let error = "ERR DEBUG POPULATE is not supported in a transaction that names keys";
        return Err(error.into());
    }
    alone(cx, |cx, _, _| {
        for first in (0..count).step_by(KEYS_PER_SECTION as usize) {
            let numbers = first..count.min(first + KEYS_PER_SECTION);
            make(cx, prefix, size, numbers)?;
            cx.reader.quiescent();
        }
        Ok::<(), CommandError>(())
    })??;
    cx.reply.ok();
    Ok(())
}

fn make(
    cx: &mut SessionCx<'_, '_>,
    prefix: &[u8],
    size: u64,
    numbers: std::ops::Range<u64>,
) -> Result<(), CommandError> {
    let (shared, database, worker) = (cx.shared, cx.session.database, &*cx.worker);
    let count = numbers.end - numbers.start;
    let key_bytes = prefix.len() as u64 + ELEMENT_OVERHEAD_BYTES;
    Room::of(shared).check(size.saturating_add(key_bytes).saturating_mul(count))?;
    let (clock, tells) = (worker.expiry_clock(shared), worker.settings.publishes(EventClass::NEW));
    let mut outcome = Ok(());
    cx.reader.section(&mut |section| {
        for number in numbers.clone() {
            let name = match memory::concat(&[prefix, format!(":{number}").as_bytes()]) {
                Ok(name) => name,
                Err(error) => return outcome = Err(error),
            };
            let value = match value(number, size) {
                Ok(value) => value,
                Err(error) => return outcome = Err(error),
            };
            let key_hash = shared.keyspace.key_hash(&name);
            let spec = KeySpec {
                database,
                key_hash,
                stored: ValueEncoding::String,
                expires_at_ms: None,
                idle_s: 0,
                frequency: None,
            };
            let (settings, heap) = (&worker.settings, &worker.heap);
            let key = KeyDraft::string(spec, &name, &value, settings, clock, heap);
            let is_new = matches!(key.put(Present::Kept, shared, section, heap), Ok(None));
            if !is_new {
                continue;
            }
            let mut lock = shared.keyspace.try_lock(key_hash.slot).expect("nobody else runs");
            if let Some(side) = lock.side_if_any() {
                side.touch(database, &name);
            }
            if tells {
                worker.publish_event(shared, database, &name, "new");
            }
        }
    });
    outcome
}

/// `value:<number>`, cut off or filled up with zeros to a size that is not 0.
fn value(number: u64, size: u64) -> Result<Vec<u8>, CommandError> {
    let text = format!("value:{number}");
    if size == 0 {
        return Ok(text.into_bytes());
    }
    let size = usize::try_from(size).map_err(|_| CommandError::NoMemory(size))?;
    let mut value = memory::with_capacity(size)?;
    value.extend_from_slice(&text.as_bytes()[..text.len().min(size)]);
    value.resize(size, 0);
    Ok(value)
}
