//! `BITFIELD` and `BITFIELD_RO`: integers of any width.
//!
//! All operations of one command see each other's changes and are published as one: changed bytes
//! are gathered beside the string first.

use std::collections::BTreeMap;

use tidemill_resp::number::parse_integer;
use tidemill_resp::request::ArgumentView;
use tidemill_store::{Kind, StringValue};

use super::bit::{SETBIT_EVENT, byte_at, parse_offset};
use crate::access::context::Cx;
use crate::access::options::{integer, is};
use crate::access::outcome::Outcome;
use crate::command::KeyFlags;
use crate::commit::Event;
use crate::error::CommandError;
use crate::handlers::string;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

#[derive(Clone, Copy)]
struct FieldType {
    is_signed: bool,
    bits: u32,
}

#[derive(Clone, Copy)]
enum Action {
    Read,
    Set(i64),
    Add(i64),
}

#[derive(Clone, Copy)]
struct Operation {
    field: FieldType,
    offset: u64,
    action: Action,
    overflow: Overflow,
}

impl FieldType {
    fn parse(argument: &[u8]) -> Result<FieldType, CommandError> {
        const ERROR: &str = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 \
                             is not supported but i64 is.";
        let (sign, digits) = argument.split_first().ok_or(ERROR)?;
        let is_signed = match sign {
            b'i' => true,
            b'u' => false,
            _ => return Err(ERROR.into()),
        };
        let bits = parse_integer(digits).ok_or(ERROR)?;
        let most = if is_signed { 64 } else { 63 };
        if !(1..=most).contains(&bits) {
            return Err(ERROR.into());
        }
        Ok(FieldType { is_signed, bits: bits as u32 })
    }

    /// The field's value from its bits.
    fn value(self, raw: u64) -> i64 {
        let shift = 64 - self.bits;
        if self.is_signed { (raw << shift) as i64 >> shift } else { raw as i64 }
    }

    fn least(self) -> i128 {
        if self.is_signed { -(1 << (self.bits - 1)) } else { 0 }
    }

    fn most(self) -> i128 {
        if self.is_signed { (1 << (self.bits - 1)) - 1 } else { (1 << self.bits) - 1 }
    }

    /// True if a value is so far below the field that Valkey's distance to the largest one wraps
    /// around: it saturates to the largest one then.
    fn saturates_upwards(self, value: i128) -> bool {
        self.is_signed && self.bits < 64 && self.most() - value > i128::from(i64::MAX)
    }

    /// Value of the field after it was given `value`; none when that is refused.
    fn fit(self, value: i128, overflow: Overflow) -> Option<i64> {
        if (self.least()..=self.most()).contains(&value) {
            return Some(value as i64);
        }
        match overflow {
            Overflow::Wrap => Some(self.value(value as u64 & (u64::MAX >> (64 - self.bits)))),
            Overflow::Saturate => Some(value.clamp(self.least(), self.most()) as i64),
            Overflow::Fail => None,
        }
    }
}

fn operations(cx: &Cx<'_, '_>) -> Result<Vec<Operation>, CommandError> {
    let mut operations = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut index = 2;
    while index < cx.args.len() {
        let word = cx.arg(index);
        let left = cx.args.len() - index - 1;
        if is(word, "OVERFLOW") && left >= 1 {
            overflow = match cx.arg(index + 1) {
                kind if is(kind, "WRAP") => Overflow::Wrap,
                kind if is(kind, "SAT") => Overflow::Saturate,
                kind if is(kind, "FAIL") => Overflow::Fail,
                _ => return Err("ERR Invalid OVERFLOW type specified".into()),
            };
            index += 2;
            continue;
        }
        let is_read = is(word, "GET");
        let needed = if is_read { 2 } else { 3 };
        if left < needed || !(is_read || is(word, "SET") || is(word, "INCRBY")) {
            return Err(CommandError::Syntax);
        }
        let field = FieldType::parse(cx.arg(index + 1))?;
        let offset = parse_offset(cx, cx.arg(index + 2), Some(u64::from(field.bits)))?;
        let action = match () {
            () if is_read => Action::Read,
            () if is(word, "SET") => Action::Set(integer(cx.arg(index + 3))?),
            () => Action::Add(integer(cx.arg(index + 3))?),
        };
        operations.push(Operation { field, offset, action, overflow });
        index += 1 + needed;
    }
    Ok(operations)
}

/// A string with changes that are not published yet.
struct Draft<'g> {
    value: Option<StringValue<'g>>,
    changed: BTreeMap<u64, u8>,
    /// Number of writes that were not refused.
    accepted_count: u64,
    /// A field got another value, even if it got the old one back.
    new_value_count: u64,
}

impl Draft<'_> {
    fn byte(&self, index: u64) -> u8 {
        self.changed.get(&index).copied().unwrap_or_else(|| byte_at(self.value, index))
    }

    fn read(&self, field: FieldType, offset: u64) -> i64 {
        let (first, last) = (offset / 8, (offset + u64::from(field.bits) - 1) / 8);
        let wide =
            (first..=last).fold(0_u128, |wide, index| wide << 8 | u128::from(self.byte(index)));
        let behind = (last + 1) * 8 - offset - u64::from(field.bits);
        field.value((wide >> behind) as u64 & (u64::MAX >> (64 - field.bits)))
    }

    fn write(&mut self, field: FieldType, offset: u64, value: i64) {
        for bit in 0..u64::from(field.bits) {
            let at = offset + bit;
            let on = (value >> (u64::from(field.bits) - 1 - bit) & 1) as u8;
            let shift = 7 - at % 8;
            let byte = self.byte(at / 8) & !(1 << shift) | on << shift;
            self.changed.insert(at / 8, byte);
        }
    }

    /// Runs one operation and returns its reply. A refused one still lets the string grow, as in
    /// Valkey.
    fn run(&mut self, operation: &Operation) -> Option<i64> {
        let Operation { field, offset, action, overflow } = *operation;
        let old = self.read(field, offset);
        let (reply, new) = match action {
            Action::Read => return Some(old),
            Action::Set(value) => {
                let value = if field.is_signed {
                    i128::from(value)
                } else {
                    // Valkey reads the argument of an unsigned field as unsigned.
                    i128::from(value as u64)
                };
                let new = match overflow {
                    Overflow::Saturate if field.saturates_upwards(value) => {
                        Some(field.most() as i64)
                    }
                    _ => field.fit(value, overflow),
                };
                (new.map(|_| old), new)
            }
            Action::Add(amount) => {
                let new = field.fit(i128::from(old) + i128::from(amount), overflow);
                (new, new)
            }
        };
        self.accepted_count += u64::from(new.is_some());
        self.new_value_count += u64::from(new.is_some_and(|new| new != old));
        self.write(field, offset, new.unwrap_or(old));
        reply
    }
}

/// `BITFIELD` and `BITFIELD_RO`.
pub(super) fn bitfield(cx: &mut Cx<'_, '_>) -> Outcome {
    let key = cx.arg(1);
    let operations = operations(cx)?;
    let writes = operations.iter().any(|operation| !matches!(operation.action, Action::Read));
    let is_read_only = cx.command.name == "bitfield_ro";
    if is_read_only && writes {
        return Err("ERR BITFIELD_RO only supports the GET subcommand".into());
    }
    let entry = if is_read_only {
        cx.read_kind(key, Kind::String)?
    } else if writes {
        cx.edit(key).entry_of(Kind::String)?
    } else {
        cx.edit(key).counted().entry_of(Kind::String)?
    };
    let value = entry.and_then(|entry| entry.string());
    let mut draft =
        Draft { value, changed: BTreeMap::new(), accepted_count: 0, new_value_count: 0 };
    cx.reply.array(operations.len());
    for operation in &operations {
        match draft.run(operation) {
            Some(value) => cx.reply.integer(value),
            None => cx.reply.null(),
        }
    }
    let length = value.map_or(0, |value| value.len());
    let grows = draft.changed.last_key_value().is_some_and(|(&last, _)| last >= length);
    if draft.new_value_count > 0 || grows {
        // As in Valkey: of a string that grew, all that was not refused counts. Where all was
        // refused it has grown in silence, but not for the log, as it has in Valkey.
        let count = if grows { draft.accepted_count } else { draft.new_value_count };
        let event = if count > 0 { SETBIT_EVENT } else { Event::SILENT };
        string::write_runs(cx, key, &runs(draft.changed), event)?;
        cx.count_changes(count.max(1));
    } else if writes {
        string::make_raw(cx, key)?;
    }
    Ok(())
}

/// Neighbouring bytes as runs: where each begins, and its bytes.
fn runs(changed: BTreeMap<u64, u8>) -> Vec<(u64, Vec<u8>)> {
    let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
    for (index, byte) in changed {
        match runs.last_mut() {
            Some((start, bytes)) if *start + bytes.len() as u64 == index => bytes.push(byte),
            _ => runs.push((index, vec![byte])),
        }
    }
    runs
}

/// Access of `BITFIELD` to its key: it only reads it when all its operations do.
pub(super) fn key_flags(args: &ArgumentView<'_>) -> KeyFlags {
    let mut index = 2;
    while index < args.len() {
        let width = match args.get(index) {
            operation if is(operation, "GET") => 3,
            operation if is(operation, "OVERFLOW") => 2,
            _ => return KeyFlags::RW | KeyFlags::ACCESS | KeyFlags::UPDATE,
        };
        index += width;
    }
    if index > args.len() {
        return KeyFlags::RW | KeyFlags::ACCESS | KeyFlags::UPDATE;
    }
    KeyFlags::RO | KeyFlags::ACCESS
}
