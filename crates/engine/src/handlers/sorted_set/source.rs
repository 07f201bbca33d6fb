//! Sorted sets and sets that a command combines.

use tidemill_store::EntryRef;
use tidemill_store::hash::Seed;
use tidemill_store::value::set::{Member, Members, Set};
use tidemill_store::value::sorted_set::{Items, SortedSet};

use crate::access::options::is;
use crate::error::CommandError;
use crate::handlers::set::{member_of, with_text};

/// A sorted set or a set. Members are compared as those of sets.
#[derive(Clone, Copy)]
pub(super) enum Input<'g> {
    SortedSet(SortedSet<'g>),
    Set(Set<'g>),
}

impl<'g> Input<'g> {
    pub(super) fn of(entry: EntryRef<'g>, seed: &'g Seed) -> Result<Input<'g>, CommandError> {
        if let Some(set) = entry.view::<SortedSet<'_>>(seed) {
            return Ok(Input::SortedSet(set));
        }
        entry.view::<Set<'_>>(seed).map(Input::Set).ok_or(CommandError::WrongType)
    }

    fn len(self) -> u64 {
        match self {
            Input::SortedSet(set) => set.len(),
            Input::Set(set) => set.len(),
        }
    }

    fn score(self, member: Member<'_>) -> Option<f64> {
        match self {
            Input::SortedSet(set) => with_text(member, |text| set.score(text)),
            Input::Set(set) => set.contains(member).then_some(1.0),
        }
    }

    fn iter(self) -> ScoredMembers<'g> {
        match self {
            Input::SortedSet(set) => ScoredMembers::SortedSet(set.iter()),
            Input::Set(set) => ScoredMembers::Set(set.iter()),
        }
    }
}

/// A member with its score.
pub(super) type Scored<'g> = (Member<'g>, f64);

/// Members of a source with their scores.
pub(super) enum ScoredMembers<'g> {
    SortedSet(Items<'g>),
    Set(Members<'g>),
    None,
}

impl<'g> Iterator for ScoredMembers<'g> {
    type Item = Scored<'g>;

    #[inline]
    fn next(&mut self) -> Option<Scored<'g>> {
        match self {
            ScoredMembers::SortedSet(items) => {
                items.next().map(|item| (member_of(item.member), item.score))
            }
            ScoredMembers::Set(members) => members.next().map(|member| (member, 1.0)),
            ScoredMembers::None => None,
        }
    }
}

/// Value under a key, if there is one, with the factor of its scores.
#[derive(Clone, Copy)]
pub(super) struct Source<'g> {
    pub(super) input: Option<Input<'g>>,
    pub(super) weight: f64,
}

impl<'g> Source<'g> {
    pub(super) fn len(&self) -> u64 {
        self.input.map_or(0, Input::len)
    }

    pub(super) fn score(&self, member: Member<'_>) -> Option<f64> {
        self.input?.score(member)
    }

    pub(super) fn iter(&self) -> ScoredMembers<'g> {
        self.input.map_or(ScoredMembers::None, Input::iter)
    }

    /// The first of the scores that are put together for a member.
    pub(super) fn weigh_first(&self, score: f64) -> f64 {
        zero_if_nan(score * self.weight)
    }
}

fn zero_if_nan(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// Rule by which the scores of a member make one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    pub(super) fn parse(argument: &[u8]) -> Result<Aggregate, CommandError> {
        match () {
            () if is(argument, "SUM") => Ok(Aggregate::Sum),
            () if is(argument, "MIN") => Ok(Aggregate::Min),
            () if is(argument, "MAX") => Ok(Aggregate::Max),
            () => Err(CommandError::Syntax),
        }
    }

    /// `score` may be NaN, which changes no extreme.
    pub(super) fn combine(self, all: f64, score: f64) -> f64 {
        match self {
            Aggregate::Sum => zero_if_nan(all + score),
            Aggregate::Min if score < all => score,
            Aggregate::Max if score > all => score,
            Aggregate::Min | Aggregate::Max => all,
        }
    }
}
