//! Single bits.

use tidemill_resp::number::parse_integer;
use tidemill_store::{Kind, StringValue};

use crate::access::context::Cx;
use crate::access::outcome::Outcome;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;
use crate::handlers::string;

const OFFSET_ERROR: &str = "ERR bit offset is not an integer or out of range";

pub(super) const SETBIT_EVENT: Event = Event::new(EventClass::STRING, "setbit");

/// A bit offset; with `#` before it, it counts fields of `field_bits` bits.
pub(super) fn parse_offset(
    cx: &Cx<'_, '_>,
    argument: &[u8],
    field_bits: Option<u64>,
) -> Result<u64, CommandError> {
    let (digits, factor) = match (argument.split_first(), field_bits) {
        (Some((b'#', digits)), Some(bits)) => (digits, bits),
        _ => (argument, 1),
    };
    parse_integer(digits)
        .and_then(|offset| u64::try_from(offset).ok())
        .and_then(|offset| offset.checked_mul(factor))
        .filter(|offset| offset >> 3 < cx.string_bytes_max())
        .ok_or(CommandError::from(OFFSET_ERROR))
}

/// The byte at an index; zero beyond the end.
pub(super) fn byte_at(value: Option<StringValue<'_>>, index: u64) -> u8 {
    match value {
        Some(StringValue::Plain(bytes)) => bytes.get(index as usize).copied().unwrap_or(0),
        Some(StringValue::Chunks(text)) => text.get(index).unwrap_or(0),
        None => 0,
    }
}

pub(super) fn getbit(cx: &mut Cx<'_, '_>) -> Outcome {
    let offset = parse_offset(cx, cx.arg(2), None)?;
    let value = cx.read_string(cx.arg(1))?;
    let bit = byte_at(value, offset / 8) >> (7 - offset % 8) & 1;
    cx.reply.integer(i64::from(bit));
    Ok(())
}

pub(super) fn setbit(cx: &mut Cx<'_, '_>) -> Outcome {
    let key = cx.arg(1);
    let offset = parse_offset(cx, cx.arg(2), None)?;
    let on = match parse_integer(cx.arg(3)) {
        Some(bit @ (0 | 1)) => bit as u8,
        _ => return Err("ERR bit is not an integer or out of range".into()),
    };
    let value = cx.edit(key).entry_of(Kind::String)?.and_then(|entry| entry.string());
    let (index, shift) = (offset / 8, 7 - offset % 8);
    let old = byte_at(value, index);
    let is_change = old >> shift & 1 != on || value.is_none_or(|value| value.len() <= index);
    if is_change {
        let new = old & !(1 << shift) | on << shift;
        string::write(cx, key, index, &[new], SETBIT_EVENT)?;
    } else {
        string::make_raw(cx, key)?;
    }
    cx.reply.integer(i64::from(old >> shift & 1));
    Ok(())
}
