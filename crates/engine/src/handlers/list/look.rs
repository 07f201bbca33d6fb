//! Looking at lists.

use tidemill_resp::number::parse_integer;
use tidemill_store::value::list::List;

use super::pieces::ListElements;
use crate::access::context::Cx;
use crate::access::options::clamp_list_range;
use crate::access::options::{integer, is};
use crate::access::outcome::Outcome;
use crate::error::CommandError;
use crate::long_reply::LongReply;
use crate::memory;

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Front,
    Back,
}

impl End {
    /// The end that `LEFT` or `RIGHT` means.
    pub(super) fn parse(argument: &[u8]) -> Result<End, CommandError> {
        match () {
            () if is(argument, "LEFT") => Ok(End::Front),
            () if is(argument, "RIGHT") => Ok(End::Back),
            () => Err(CommandError::Syntax),
        }
    }

    pub(super) fn word(self) -> &'static [u8] {
        match self {
            End::Front => b"LEFT",
            End::Back => b"RIGHT",
        }
    }
}

/// The position that an index means, counted from the back when negative.
pub(super) fn position(index: i64, length: u64) -> Option<u64> {
    let position = if index < 0 { length as i64 + index } else { index };
    u64::try_from(position).ok().filter(|&position| position < length)
}

pub(super) fn llen(cx: &mut Cx<'_, '_>) -> Outcome {
    let length = cx.read_as::<List<'_>>(cx.arg(1))?.map_or(0, |list| list.len());
    cx.reply.integer(length as i64);
    Ok(())
}

pub(super) fn lindex(cx: &mut Cx<'_, '_>) -> Outcome {
    let list = cx.read_as::<List<'_>>(cx.arg(1))?;
    let Some(list) = list else {
        cx.reply.null();
        return Ok(());
    };
    let index = integer(cx.arg(2))?;
    match position(index, list.len()).and_then(|position| list.get(position)) {
        Some(element) => cx.reply.bulk(element),
        None => cx.reply.null(),
    }
    Ok(())
}

pub(super) fn lrange(cx: &mut Cx<'_, '_>) -> Outcome {
    let (start, stop) = (integer(cx.arg(2))?, integer(cx.arg(3))?);
    let range = cx.read_as::<List<'_>>(cx.arg(1))?.and_then(|list| {
        clamp_list_range(start, stop, list.len()).map(|(start, stop)| (list, start, stop + 1))
    });
    let Some((list, start, end)) = range else {
        cx.reply.array(0);
        return Ok(());
    };
    let version = cx.pin(cx.arg(1), end - start, (list.len(), list.bytes()))?;
    cx.reply.array((end - start) as usize);
    if let Some(version) = version {
        return cx.answer_in_pieces(LongReply::new(
            version,
            ListElements { from: End::Front },
            start..end,
        ));
    }
    list.range(start, end).for_each(|element| cx.reply.bulk(element));
    Ok(())
}

struct PositionOptions {
    rank: i64,
    count: Option<u64>,
    compared_max: u64,
}

fn position_options(cx: &Cx<'_, '_>) -> Result<PositionOptions, CommandError> {
    let mut options = PositionOptions { rank: 1, count: None, compared_max: 0 };
    let mut index = 3;
    while index < cx.args.len() {
        let option = cx.arg(index);
        if index + 1 == cx.args.len() {
            return Err(CommandError::Syntax);
        }
        let value = cx.arg(index + 1);
        if is(option, "RANK") {
            options.rank = integer(value)?;
            if options.rank == i64::MIN {
                return Err("ERR value is out of range, value must between -9223372036854775807 \
                            and 9223372036854775807"
                    .into());
            }
            if options.rank == 0 {
                return Err("ERR RANK can't be zero: use 1 to start from the first match, 2 from \
                            the second ... or use negative to start from the end of the list"
                    .into());
            }
        } else if is(option, "COUNT") {
            options.count = Some(not_negative(value, "ERR COUNT can't be negative")?);
        } else if is(option, "MAXLEN") {
            options.compared_max = not_negative(value, "ERR MAXLEN can't be negative")?;
        } else {
            return Err(CommandError::Syntax);
        }
        index += 2;
    }
    Ok(options)
}

fn not_negative(argument: &[u8], error: &'static str) -> Result<u64, CommandError> {
    parse_integer(argument)
        .and_then(|value| u64::try_from(value).ok())
        .ok_or(CommandError::from(error))
}

/// Positions of an element, from the end that the rank says.
fn matches(
    list: List<'_>,
    element: &[u8],
    options: &PositionOptions,
) -> Result<Vec<u64>, CommandError> {
    let compared_max = if options.compared_max == 0 { u64::MAX } else { options.compared_max };
    let wanted = match options.count {
        None => 1,
        Some(0) => usize::MAX,
        Some(count) => count as usize,
    };
    let skipped = options.rank.unsigned_abs() as usize - 1;
    let is_match = |&(_, other): &(u64, &[u8])| other == element;
    let length = list.len();
    if options.rank > 0 {
        let elements = (0..length).zip(list.iter()).take(compared_max as usize);
        let found = elements.filter(is_match).skip(skipped).take(wanted);
        memory::collect(found.map(|(index, _)| index))
    } else {
        let backwards = (0..length).rev().zip(list.iter_back_from(length - 1));
        let elements = backwards.take(compared_max as usize);
        let found = elements.filter(is_match).skip(skipped).take(wanted);
        memory::collect(found.map(|(index, _)| index))
    }
}

pub(super) fn lpos(cx: &mut Cx<'_, '_>) -> Outcome {
    let options = position_options(cx)?;
    let list = cx.read_as::<List<'_>>(cx.arg(1))?;
    let found = list.map_or(Ok(Vec::new()), |list| matches(list, cx.arg(2), &options))?;
    match (options.count, found.first()) {
        (Some(_), _) => {
            cx.reply.array(found.len());
            found.iter().for_each(|&index| cx.reply.integer(index as i64));
        }
        (None, Some(&index)) => cx.reply.integer(index as i64),
        (None, None) => cx.reply.null(),
    }
    Ok(())
}
