//! `ZRANGE`, `ZRANGESTORE`, and the older forms, which have the options fixed.

use std::ops::Range;

use tidemill_resp::encode::{Protocol, ReplyBuffer};
use tidemill_store::value::sorted_set::{Item, SortedSet};
use tidemill_store::{Encoding, Kind};

use super::bounds::{Bounds, By};
use super::encoding::Limits;
use super::pieces::SortedSetElements;
use super::store::store;
use crate::access::context::Cx;
use crate::access::options::{integer, is};
use crate::access::outcome::Outcome;
use crate::error::CommandError;
use crate::long_reply::LongReply;
use crate::memory;

/// Options of a range.
#[derive(Clone, Copy, Debug)]
struct Options {
    by: By,
    is_descending: bool,
    with_scores: bool,
    /// Members left out at the start. When negative, as many are answered from the end at most, and
    /// of a listpack none.
    offset: i64,
    /// Members answered at most; all when negative.
    count: i64,
}

impl Options {
    /// Reads the options from argument `index` on, behind the bounds. Each is known to `ZRANGE`; of
    /// its forms, the name says the order and the direction.
    fn parse(cx: &Cx<'_, '_>, mut index: usize) -> Result<Options, CommandError> {
        let form = cx.command.name;
        let is_stored = form == "zrangestore";
        let (mut by, mut is_descending) = match form {
            "zrange" | "zrangestore" => (None, false),
            "zrevrange" => (Some(By::Rank), true),
            "zrangebyscore" => (Some(By::Score), false),
            "zrevrangebyscore" => (Some(By::Score), true),
            "zrangebylex" => (Some(By::Member), false),
            _ => (Some(By::Member), true),
        };
        let is_general = by.is_none();
        let (mut with_scores, mut offset, mut count) = (false, 0, -1);
        while index < cx.args.len() {
            let option = cx.arg(index);
            if !is_stored && is(option, "WITHSCORES") {
                with_scores = true;
            } else if is(option, "LIMIT") && index + 2 < cx.args.len() {
                offset = integer(cx.arg(index + 1))?;
                count = integer(cx.arg(index + 2))?;
                index += 2;
            } else if is_general && !is_descending && is(option, "REV") {
                is_descending = true;
            } else if by.is_none() && is(option, "BYLEX") {
                by = Some(By::Member);
            } else if by.is_none() && is(option, "BYSCORE") {
                by = Some(By::Score);
            } else {
                return Err(CommandError::Syntax);
            }
            index += 1;
        }
        let by = by.unwrap_or(By::Rank);
        if count != -1 && by == By::Rank {
            return Err("ERR syntax error, LIMIT is only supported in combination with either \
                        BYSCORE or BYLEX"
                .into());
        }
        if with_scores && by == By::Member {
            return Err(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX".into()
            );
        }
        Ok(Options { by, is_descending, with_scores, offset, count })
    }

    /// Reads the bounds of a range, as it is walked.
    fn bounds<'a>(self, start: &'a [u8], stop: &'a [u8]) -> Result<Bounds<'a>, CommandError> {
        if self.is_descending && self.by != By::Rank {
            return Bounds::parse(self.by, stop, start);
        }
        Bounds::parse(self.by, start, stop)
    }

    /// Ranks that the limit leaves of a range.
    fn limited(self, ranks: Range<u64>, encoding: Encoding) -> Range<u64> {
        let len = ranks.end - ranks.start;
        if self.by == By::Rank {
            return ranks;
        }
        let skipped = match u64::try_from(self.offset) {
            Ok(offset) => offset.min(len),
            Err(_) if encoding == Encoding::Skiplist => {
                len.checked_sub(self.offset.unsigned_abs()).unwrap_or(len)
            }
            Err(_) => len,
        };
        let count = u64::try_from(self.count).unwrap_or(u64::MAX).min(len - skipped);
        if self.is_descending {
            let end = ranks.end - skipped;
            end - count..end
        } else {
            let start = ranks.start + skipped;
            start..start + count
        }
    }
}

/// Form in which members are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Without their scores.
    Members,
    /// Member and score one after the other.
    Flat,
    /// Member and score as a pair.
    Pairs,
}

impl Shape {
    /// Shape of members with scores, which RESP3 has as pairs.
    pub(super) fn with_scores(cx: &Cx<'_, '_>) -> Shape {
        if cx.protocol() == Protocol::Resp3 { Shape::Pairs } else { Shape::Flat }
    }

    /// Number of elements of the array that `count` members are answered in.
    pub(super) fn len(self, count: u64) -> usize {
        count as usize * if self == Shape::Flat { 2 } else { 1 }
    }

    pub(super) fn write(self, reply: &mut ReplyBuffer, item: Item<'_>) {
        if self == Shape::Pairs {
            reply.array(2);
        }
        reply.bulk(item.member);
        if self != Shape::Members {
            reply.double(item.score);
        }
    }
}

/// All forms of `ZRANGE` that answer members.
pub(super) fn zrange(cx: &mut Cx<'_, '_>) -> Outcome {
    let options = Options::parse(cx, 4)?;
    let bounds = options.bounds(cx.arg(2), cx.arg(3))?;
    let entry = cx.read_kind(cx.arg(1), Kind::SortedSet)?;
    let set = entry.and_then(|entry| Some((entry, entry.view::<SortedSet<'_>>(cx.seed())?)));
    let Some((entry, set)) = set else {
        cx.reply.array(0);
        return Ok(());
    };
    let ranks = options.limited(bounds.ranks(set, options.is_descending), entry.encoding());
    let count = ranks.end - ranks.start;
    let version = cx.pin(cx.arg(1), count, (set.len(), set.bytes()))?;
    let shape = if options.with_scores { Shape::with_scores(cx) } else { Shape::Members };
    cx.reply.array(shape.len(count));
    let elements = SortedSetElements::of(ranks, options.is_descending, shape);
    if let Some(version) = version {
        return cx.answer_in_pieces(LongReply::new(version, elements, 0..count));
    }
    elements.items(set, 0..count).for_each(|item| shape.write(cx.reply, item));
    Ok(())
}

pub(super) fn zrangestore(cx: &mut Cx<'_, '_>) -> Outcome {
    let options = Options::parse(cx, 5)?;
    let bounds = options.bounds(cx.arg(3), cx.arg(4))?;
    let limits = Limits::of(cx);
    let (seed, source) = (cx.seed(), cx.arg(2));
    let entry = cx.source(source);
    if entry.is_some_and(|entry| entry.kind() != Kind::SortedSet) {
        return Err(CommandError::WrongType.into());
    }
    let mut items = Vec::new();
    let mut is_skiplist = false;
    if let Some(entry) = entry
        && let Some(set) = entry.view::<SortedSet<'_>>(seed)
    {
        let ranks = options.limited(bounds.ranks(set, options.is_descending), entry.encoding());
        let count = ranks.end - ranks.start;
        cx.check_work(count)?;
        let elements = SortedSetElements::of(ranks, options.is_descending, Shape::Members);
        items = memory::collect(elements.items(set, 0..count))?;
        // The length of a range of ranks is known before it is walked.
        is_skiplist = options.by == By::Rank && count > limits.entries_max;
    }
    for (item, count) in items.iter_mut().zip(1..) {
        is_skiplist |= limits.are_exceeded(count, item.member);
        if !is_skiplist {
            // A listpack has one zero.
            item.score += 0.0;
        }
    }
    store(cx, cx.arg(1), items, is_skiplist, "zrangestore")
}
