//! Ranges of ranks, of scores and of members.

use std::ops::Range;

use tidemill_store::value::sorted_set::SortedSet;

use crate::access::options::{clamp_list_range, integer};
use crate::error::CommandError;

/// Bound of a range of scores.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScoreBound {
    score: f64,
    is_exclusive: bool,
}

impl ScoreBound {
    /// Reads a bound: a number up to a zero byte, behind `(` if it is exclusive. Nothing is 0,
    /// and a number that is too large is infinite.
    fn parse(text: &[u8]) -> Result<ScoreBound, CommandError> {
        let text = text.split(|&byte| byte == 0).next().unwrap_or(text);
        let exclusive = text.strip_prefix(b"(");
        let number = std::str::from_utf8(exclusive.unwrap_or(text)).unwrap_or("?");
        let score: f64 = if number.is_empty() { 0.0 } else { number.parse().unwrap_or(f64::NAN) };
        if score.is_nan() {
            return Err("ERR min or max is not a float".into());
        }
        Ok(ScoreBound { score, is_exclusive: exclusive.is_some() })
    }
}

/// Bound of a range of members.
#[derive(Clone, Copy, Debug)]
pub(super) enum MemberBound<'a> {
    /// `-`: before all members.
    BeforeAll,
    /// `+`: behind all members.
    BehindAll,
    /// `[member`.
    Inclusive(&'a [u8]),
    /// `(member`.
    Exclusive(&'a [u8]),
}

impl<'a> MemberBound<'a> {
    fn parse(text: &'a [u8]) -> Result<MemberBound<'a>, CommandError> {
        match text {
            b"-" => Ok(MemberBound::BeforeAll),
            b"+" => Ok(MemberBound::BehindAll),
            [b'[', member @ ..] => Ok(MemberBound::Inclusive(member)),
            [b'(', member @ ..] => Ok(MemberBound::Exclusive(member)),
            _ => Err("ERR min or max not valid string range item".into()),
        }
    }
}

/// Range of members of a sorted set.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bounds<'a> {
    /// Ranks from `start` to `stop`, counted from the end when negative.
    Ranks { start: i64, stop: i64 },
    /// Scores from `min` to `max`.
    Scores { min: ScoreBound, max: ScoreBound },
    /// Members from `min` to `max`, where scores are equal.
    Members { min: MemberBound<'a>, max: MemberBound<'a> },
}

/// Order of what a range is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Rank,
    Score,
    Member,
}

impl<'a> Bounds<'a> {
    /// Reads the two bounds, the lower one first.
    pub(super) fn parse(by: By, min: &'a [u8], max: &'a [u8]) -> Result<Bounds<'a>, CommandError> {
        Ok(match by {
            By::Rank => Bounds::Ranks { start: integer(min)?, stop: integer(max)? },
            By::Score => {
                Bounds::Scores { min: ScoreBound::parse(min)?, max: ScoreBound::parse(max)? }
            }
            By::Member => {
                Bounds::Members { min: MemberBound::parse(min)?, max: MemberBound::parse(max)? }
            }
        })
    }

    /// Ranks of the members within; of a descending range those of ranks are counted from the last
    /// member.
    pub(super) fn ranks(self, set: SortedSet<'_>, is_descending: bool) -> Range<u64> {
        let len = set.len();
        let (start, end) = match self {
            Bounds::Ranks { start, stop } => match clamp_list_range(start, stop, len) {
                Some((start, stop)) if is_descending => (len - 1 - stop, len - start),
                Some((start, stop)) => (start, stop + 1),
                None => (0, 0),
            },
            Bounds::Scores { min, max } => (scores_below(set, min), scores_up_to(set, max)),
            Bounds::Members { min, max } => (members_below(set, min), members_up_to(set, max)),
        };
        start..end.max(start)
    }
}

fn scores_below(set: SortedSet<'_>, min: ScoreBound) -> u64 {
    if min.is_exclusive { set.count_up_to(min.score) } else { set.count_below(min.score) }
}

fn scores_up_to(set: SortedSet<'_>, max: ScoreBound) -> u64 {
    if max.is_exclusive { set.count_below(max.score) } else { set.count_up_to(max.score) }
}

fn members_below(set: SortedSet<'_>, min: MemberBound<'_>) -> u64 {
    match min {
        MemberBound::BeforeAll => 0,
        MemberBound::BehindAll => set.len(),
        MemberBound::Inclusive(member) => set.members_below(member),
        MemberBound::Exclusive(member) => set.members_up_to(member),
    }
}

fn members_up_to(set: SortedSet<'_>, max: MemberBound<'_>) -> u64 {
    match max {
        MemberBound::BeforeAll => 0,
        MemberBound::BehindAll => set.len(),
        MemberBound::Inclusive(member) => set.members_up_to(member),
        MemberBound::Exclusive(member) => set.members_below(member),
    }
}
