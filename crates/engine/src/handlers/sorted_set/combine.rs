//! Unions, intersections and differences of sorted sets, and of sets, whose members have score 1.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use tidemill_resp::number::parse_double;
use tidemill_store::EntryRef;
use tidemill_store::hash::Seed;
use tidemill_store::value::set::Member;
use tidemill_store::value::sorted_set::Item;

use super::encoding::Limits;
use super::range::Shape;
use super::sift::{Kept, sift};
use super::source::{Aggregate, Input, Scored, Source};
use super::store::store;
use crate::access::context::Cx;
use crate::access::options::{integer, is};
use crate::access::outcome::Outcome;
use crate::error::CommandError;
use crate::handlers::set::{Table, WALKED_PER_LOOKUP, texts_of};
use crate::memory;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Union,
    Intersection,
    Difference,
}

impl Operation {
    /// Operation of a command, by its name, with the event of what it stores.
    fn of_command(name: &str) -> (Operation, &'static str) {
        match name {
            "zunion" | "zunionstore" => (Operation::Union, "zunionstore"),
            "zdiff" | "zdiffstore" => (Operation::Difference, "zdiffstore"),
            _ => (Operation::Intersection, "zinterstore"),
        }
    }
}

/// Options behind the keys.
struct Options {
    aggregate: Aggregate,
    with_scores: bool,
    /// Members that are counted at most.
    limit: u64,
}

/// Sources and options of a command.
struct Request<'g> {
    operation: Operation,
    event: &'static str,
    sources: Vec<Source<'g>>,
    options: Options,
}

impl<'g> Request<'g> {
    /// Reads the arguments from the number of keys on, at `index`, and the keys.
    fn read(
        cx: &mut Cx<'_, 'g>,
        index: usize,
        find: fn(&mut Cx<'_, 'g>, &'g [u8]) -> Option<EntryRef<'g>>,
    ) -> Result<Request<'g>, CommandError> {
        let (operation, event) = Operation::of_command(cx.command.name);
        let key_count = integer(cx.arg(index))?;
        if key_count < 1 {
            return Err(CommandError::err(format_args!(
                "at least 1 input key is needed for '{}' command",
                cx.command.name
            )));
        }
        let first = index + 1;
        let behind = usize::try_from(key_count).ok().and_then(|count| count.checked_add(first));
        let behind = behind.filter(|&end| end <= cx.args.len()).ok_or(CommandError::Syntax)?;
        let mut sources = memory::with_capacity(behind - first)?;
        for index in first..behind {
            let entry = find(cx, cx.arg(index));
            let input = entry.map(|entry| Input::of(entry, cx.seed())).transpose()?;
            sources.push(Source { input, weight: 1.0 });
        }
        let options = Options { aggregate: Aggregate::Sum, with_scores: false, limit: u64::MAX };
        let mut request = Request { operation, event, sources, options };
        request.parse_options(cx, behind)?;
        Ok(request)
    }

    /// Reads the options from argument `index` on.
    fn parse_options(&mut self, cx: &Cx<'_, '_>, mut index: usize) -> Result<(), CommandError> {
        let name = cx.command.name;
        let is_counted = name == "zintercard";
        let is_weighted = self.operation != Operation::Difference && !is_counted;
        let is_answered = !is_counted && !name.ends_with("store");
        while index < cx.args.len() {
            let (option, left) = (cx.arg(index), cx.args.len() - index - 1);
            if is_weighted && is(option, "WEIGHTS") && left >= self.sources.len() {
                for source in &mut self.sources {
                    index += 1;
                    let weight = parse_double(cx.arg(index));
                    source.weight = weight.ok_or("ERR weight value is not a float")?;
                }
            } else if is_weighted && is(option, "AGGREGATE") && left >= 1 {
                index += 1;
                self.options.aggregate = Aggregate::parse(cx.arg(index))?;
            } else if is_answered && is(option, "WITHSCORES") {
                self.options.with_scores = true;
            } else if is_counted && is(option, "LIMIT") && left >= 1 {
                index += 1;
                let limit = integer(cx.arg(index)).ok().and_then(|limit| u64::try_from(limit).ok());
                let limit = limit.ok_or("ERR LIMIT can't be negative")?;
                self.options.limit = if limit == 0 { u64::MAX } else { limit };
            } else {
                return Err(CommandError::Syntax);
            }
            index += 1;
        }
        Ok(())
    }

    /// Members of the result, in no order.
    fn result(self, seed: &Seed) -> Result<Vec<Scored<'g>>, CommandError> {
        match self.operation {
            Operation::Union => self.union(),
            Operation::Intersection => self.intersection(seed),
            Operation::Difference => self.difference(seed),
        }
    }

    /// Sources from the shortest to the longest, equal ones in their order: sums of scores depend
    /// on it.
    fn by_length(&self) -> Result<Vec<Source<'g>>, CommandError> {
        let mut sorted = memory::collect(self.sources.iter().copied().enumerate())?;
        sorted.sort_unstable_by_key(|(position, source)| (source.len(), *position));
        memory::collect(sorted.into_iter().map(|(_, source)| source))
    }

    fn union(self) -> Result<Vec<Scored<'g>>, CommandError> {
        let mut scores: HashMap<Member<'g>, f64> = HashMap::new();
        for source in self.by_length()? {
            for (member, score) in source.iter() {
                let score = source.weigh_first(score);
                let bytes = scores.len() as u64 * size_of::<Scored<'_>>() as u64;
                scores.try_reserve(1).map_err(|_| CommandError::NoMemory(bytes))?;
                match scores.entry(member) {
                    Entry::Vacant(place) => {
                        place.insert(score);
                    }
                    Entry::Occupied(mut all) => {
                        let combined = self.options.aggregate.combine(*all.get(), score);
                        all.insert(combined);
                    }
                }
            }
        }
        memory::collect(scores.into_iter())
    }

    /// Passes members that all sources have to `visit`, some at a time, until that returns false.
    fn intersect(
        &self,
        seed: &Seed,
        visit: impl FnMut(&[Scored<'g>]) -> Result<bool, CommandError>,
    ) -> Result<(), CommandError> {
        let sources = self.by_length()?;
        let Some((shortest, others)) = sources.split_first() else { return Ok(()) };
        let kept = Kept::Common(self.options.aggregate);
        sift(*shortest, others, kept, (seed, self.options.limit), visit)
    }

    fn intersection(self, seed: &Seed) -> Result<Vec<Scored<'g>>, CommandError> {
        let mut all = Vec::new();
        self.intersect(seed, |part| append(&mut all, part))?;
        Ok(all)
    }

    fn difference(self, seed: &Seed) -> Result<Vec<Scored<'g>>, CommandError> {
        let Some((first, others)) = self.sources.split_first() else { return Ok(Vec::new()) };
        let lookups = others.iter().map(Source::len).fold(0, u64::saturating_add);
        // The sieve builds a table of the first set's members for each of the others.
        let sifted = first.len().saturating_mul(others.len() as u64);
        if lookups.saturating_mul(WALKED_PER_LOOKUP) < sifted {
            let mut removed = Table::default();
            for (member, _) in others.iter().flat_map(Source::iter) {
                if first.score(member).is_some() {
                    removed.insert(member, seed)?;
                }
            }
            return memory::collect(
                first.iter().filter(|&(member, _)| !removed.contains(member, seed)),
            );
        }
        let mut all = Vec::new();
        sift(*first, others, Kept::Own, (seed, u64::MAX), |part| append(&mut all, part))?;
        Ok(all)
    }
}

fn append<'g>(all: &mut Vec<Scored<'g>>, part: &[Scored<'g>]) -> Result<bool, CommandError> {
    part.iter().try_for_each(|&scored| memory::push(all, scored))?;
    Ok(true)
}

/// Members as a sorted set has them; `integers` has room for the texts of those that are none.
fn items_of<'t>(
    scored: &'t [Scored<'_>],
    integers: &'t mut Vec<u8>,
) -> Result<Vec<Item<'t>>, CommandError> {
    let members = texts_of(scored.iter().map(|&(member, _)| member), integers)?;
    let scores = scored.iter().map(|&(_, score)| score);
    memory::collect(members.into_iter().zip(scores).map(|(member, score)| Item { member, score }))
}

/// `ZUNION`, `ZINTER` and `ZDIFF`.
pub(super) fn combine(cx: &mut Cx<'_, '_>) -> Outcome {
    let request = Request::read(cx, 1, |cx, key| cx.read(key))?;
    let shape = if request.options.with_scores { Shape::with_scores(cx) } else { Shape::Members };
    let (scored, mut integers) = (request.result(cx.seed())?, Vec::new());
    let mut items = items_of(&scored, &mut integers)?;
    items.sort_unstable_by(|left, right| {
        let by_score = left.score.partial_cmp(&right.score).unwrap_or(Ordering::Equal);
        by_score.then_with(|| left.member.cmp(right.member))
    });
    cx.reply.array(shape.len(items.len() as u64));
    items.into_iter().for_each(|item| shape.write(cx.reply, item));
    Ok(())
}

pub(super) fn zintercard(cx: &mut Cx<'_, '_>) -> Outcome {
    let request = Request::read(cx, 1, |cx, key| cx.read(key))?;
    let (mut count, limit) = (0, request.options.limit);
    request.intersect(cx.seed(), |part| {
        count += part.len() as u64;
        Ok(count < limit)
    })?;
    cx.reply.integer(count.min(limit) as i64);
    Ok(())
}

/// `ZUNIONSTORE`, `ZINTERSTORE` and `ZDIFFSTORE`: the result takes the place of whatever is under
/// the first key; an empty one leaves nothing there.
pub(super) fn combine_and_store(cx: &mut Cx<'_, '_>) -> Outcome {
    let request = Request::read(cx, 2, |cx, key| cx.source(key))?;
    cx.check_work(request.sources.iter().map(Source::len).sum())?;
    let (limits, event) = (Limits::of(cx), request.event);
    let (scored, mut integers) = (request.result(cx.seed())?, Vec::new());
    let mut items = items_of(&scored, &mut integers)?;
    let count = items.len() as u64;
    let is_skiplist = items.iter().any(|item| limits.are_exceeded(count, item.member));
    if !is_skiplist {
        // A listpack has one zero.
        items.iter_mut().for_each(|item| item.score += 0.0);
    }
    store(cx, cx.arg(1), items, is_skiplist, event)
}
