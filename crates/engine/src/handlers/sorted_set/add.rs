//! `ZADD` and `ZINCRBY`.

use tidemill_resp::number::parse_double;
use tidemill_store::value::sorted_set::{SortedSet, SortedSetEdit};
use tidemill_store::{Encoding, Kind};

use super::encoding::{Limits, encoding};
use crate::access::context::Cx;
use crate::access::options::is;
use crate::access::outcome::Outcome;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;
use crate::memory;

/// Options of `ZADD`.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::handlers) struct Options {
    pub(in crate::handlers) if_absent: bool,
    pub(in crate::handlers) if_present: bool,
    if_greater: bool,
    if_less: bool,
    /// The reply counts members whose score changed, too.
    pub(in crate::handlers) counts_updates: bool,
    is_increment: bool,
}

impl Options {
    /// None but whether a score is added to the present one.
    pub(super) fn of_increment(is_increment: bool) -> Options {
        Options { is_increment, ..Options::default() }
    }

    /// Reads the options, and returns the index of the first argument behind them.
    fn parse(cx: &Cx<'_, '_>) -> (Options, usize) {
        let mut options = Options::default();
        let mut index = 2;
        while index < cx.args.len() {
            let argument = cx.arg(index);
            match () {
                () if is(argument, "NX") => options.if_absent = true,
                () if is(argument, "XX") => options.if_present = true,
                () if is(argument, "GT") => options.if_greater = true,
                () if is(argument, "LT") => options.if_less = true,
                () if is(argument, "CH") => options.counts_updates = true,
                () if is(argument, "INCR") => options.is_increment = true,
                () => break,
            }
            index += 1;
        }
        (options, index)
    }

    /// Fails if the options contradict each other, or do not fit the number of pairs.
    fn check(self, pair_count: usize) -> Result<(), CommandError> {
        if self.if_absent && self.if_present {
            return Err("ERR XX and NX options at the same time are not compatible".into());
        }
        let compares = self.if_greater || self.if_less;
        if self.if_absent && compares || self.if_greater && self.if_less {
            return Err("ERR GT, LT, and/or NX options at the same time are not compatible".into());
        }
        if self.is_increment && pair_count > 1 {
            return Err("ERR INCR option supports a single increment-element pair".into());
        }
        Ok(())
    }

    /// New score of a member; none if the options leave it as it is.
    fn score(self, old: Option<f64>, given: f64) -> Result<Option<f64>, CommandError> {
        let Some(old) = old else { return Ok((!self.if_present).then_some(given)) };
        if self.if_absent {
            return Ok(None);
        }
        let score = if self.is_increment { old + given } else { given };
        if score.is_nan() {
            return Err("ERR resulting score is not a number (NaN)".into());
        }
        let is_refused = self.if_less && score >= old || self.if_greater && score <= old;
        Ok((!is_refused).then_some(score))
    }
}

/// Score and member as they are given.
pub(in crate::handlers) type Pair<'a> = (f64, &'a [u8]);

/// A sorted set to which members are added.
pub(super) struct Addition {
    options: Options,
    limits: Limits,
    pub(super) is_skiplist: bool,
    pub(super) added_count: u64,
    updated_count: u64,
    /// Score of the last member, if the options let it have the given one.
    pub(super) score: Option<f64>,
}

impl Addition {
    /// The number of arguments counts, as many members as they may be in the end.
    pub(super) fn new(
        options: Options,
        limits: Limits,
        was_skiplist: bool,
        pairs: &[Pair<'_>],
    ) -> Addition {
        let is_exceeded = |(_, member): &Pair<'_>| limits.are_exceeded(pairs.len() as u64, member);
        let is_skiplist = was_skiplist || pairs.iter().any(is_exceeded);
        Addition { options, limits, is_skiplist, added_count: 0, updated_count: 0, score: None }
    }

    pub(super) fn add(
        &mut self,
        set: &mut SortedSetEdit<'_>,
        &(given, member): &Pair<'_>,
    ) -> Result<(), CommandError> {
        let len = set.len();
        let mut failure = None;
        set.update(member, |old| {
            let score = match self.options.score(old, given) {
                Ok(score) => score,
                Err(error) => {
                    failure = Some(error);
                    return None;
                }
            };
            self.score = score;
            let score = score?;
            match old {
                None => {
                    self.added_count += 1;
                    self.is_skiplist |= self.limits.are_exceeded(len + 1, member);
                }
                Some(old) => self.updated_count += u64::from(old != score),
            }
            // A listpack keeps a score as text, and has one zero.
            Some(if self.is_skiplist { score } else { score + 0.0 })
        });
        failure.map_or(Ok(()), Err)
    }

    pub(super) fn change_count(&self) -> u64 {
        self.added_count + self.updated_count
    }

    fn encoding(&self) -> Encoding {
        encoding(self.is_skiplist)
    }
}

fn add(
    cx: &mut Cx<'_, '_>,
    key: &[u8],
    options: Options,
    pairs: &[Pair<'_>],
) -> Result<Addition, CommandError> {
    let (limits, room) = (Limits::of(cx), cx.room());
    let edit = cx.edit(key);
    let old = edit.entry_of(Kind::SortedSet)?;
    if let Some(entry) = old {
        room.check_edit(entry, pairs.len() as u64)?;
    }
    let was_skiplist = old.is_some_and(|entry| entry.encoding() == Encoding::Skiplist);
    let mut addition = Addition::new(options, limits, was_skiplist, pairs);
    let name = if options.is_increment { "zincr" } else { "zadd" };
    let changed =
        edit.change::<SortedSet<'_>, _>(Event::new(EventClass::SORTED_SET, name), |set| {
            pairs.iter().try_for_each(|pair| addition.add(set, pair))?;
            Ok((addition.change_count() > 0).then(|| (addition.encoding(), ())))
        });
    if addition.change_count() > 0 {
        cx.count_changes(addition.change_count());
    } else if old.is_some_and(|entry| entry.encoding() != addition.encoding()) {
        // As in Valkey, which makes room before it looks for the members.
        cx.edit(key).set_encoding(addition.encoding());
    }
    changed?;
    Ok(addition)
}

fn score_argument(text: &[u8]) -> Result<f64, CommandError> {
    parse_double(text).ok_or(CommandError::NotAFloat)
}

pub(super) fn zadd(cx: &mut Cx<'_, '_>) -> Outcome {
    let (options, first) = Options::parse(cx);
    let args = cx.args;
    let count = args.len() - first;
    if count == 0 || !count.is_multiple_of(2) {
        return Err(CommandError::Syntax.into());
    }
    options.check(count / 2)?;
    let mut pairs = memory::with_capacity(count / 2)?;
    for index in (first..args.len()).step_by(2) {
        pairs.push((score_argument(args.get(index))?, args.get(index + 1)));
    }
    add_and_answer(cx, args.get(1), options, &pairs)
}

/// Adds members and answers as `ZADD` does.
pub(in crate::handlers) fn add_and_answer(
    cx: &mut Cx<'_, '_>,
    key: &[u8],
    options: Options,
    pairs: &[Pair<'_>],
) -> Outcome {
    let addition = add(cx, key, options, pairs)?;
    match addition.score {
        Some(score) if options.is_increment => cx.reply.double(score),
        None if options.is_increment => cx.reply.null(),
        _ if options.counts_updates => cx.reply.integer(addition.change_count() as i64),
        _ => cx.reply.integer(addition.added_count as i64),
    }
    Ok(())
}

pub(super) fn zincrby(cx: &mut Cx<'_, '_>) -> Outcome {
    // As in `ZADD`, an option is no increment.
    if Options::parse(cx).1 > 2 {
        return Err(CommandError::Syntax.into());
    }
    let options = Options::of_increment(true);
    let (key, member) = (cx.arg(1), cx.arg(3));
    let pair = (score_argument(cx.arg(2))?, member);
    let addition = add(cx, key, options, &[pair])?;
    cx.reply.double(addition.score.unwrap_or(0.0));
    Ok(())
}
