//! Commands that a run has executed, and their errors, until the statistics have them.
//!
//! A run that begins anew has executed nothing, nor has one that wrote nothing when its client is
//! gone, so its commands wait while that may happen
//! ([`may_begin_anew`](super::state::RunState::may_begin_anew)), and so do its hits and misses. A
//! run may execute any number of commands meanwhile: those beyond [`COUNTED_TOGETHER_MAX`] are
//! summed up by command and duration. The rejected alternative is to count at once and to take that
//! back: others would see counters go down, and `CONFIG RESETSTAT` may have come between.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::command::CommandId;
use crate::execute::executor::Executor;
use crate::limits::COUNTED_TOGETHER_MAX;
use crate::shared::error_counts::error_code;

/// Leading bits of a duration by which calls are summed up. They are those by which
/// [`TimeHistogram`](crate::telemetry::histogram::TimeHistogram) tells durations apart, so the mean
/// of a sum is in the bucket of each of its calls.
const DURATION_BITS: u32 = 6;

/// Calls of one command whose durations are about the same.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    calls: u64,
    /// Nanoseconds of all of them together.
    ns: u64,
}

/// Properties by which the errors of a run are told apart.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Failure {
    /// Command that failed or was rejected; none where the script called none.
    id: Option<CommandId>,
    was_rejected: bool,
    /// Code of the reply, of which commands know a few.
    code: Vec<u8>,
}

/// Commands that a run has executed and that are not in the statistics.
#[derive(Debug, Default)]
pub(super) struct RanCommands {
    /// The last ones, with the nanoseconds that each took.
    latest: SmallVec<[(CommandId, u64); 2]>,
    /// Those before, by command and duration, in order; few, whatever their number. Most runs have
    /// none, and a list costs those nothing.
    earlier: Vec<((CommandId, u64), Sum)>,
    failures: BTreeMap<Failure, u64>,
}

impl RanCommands {
    /// Adds a command with the nanoseconds that it took.
    pub(super) fn push(&mut self, id: CommandId, elapsed_ns: u64) {
        self.latest.push((id, elapsed_ns));
    }

    /// Adds the error reply of a command, which is added itself.
    #[cold]
    pub(super) fn push_failed(&mut self, id: CommandId, wire: &[u8]) {
        let failure = Failure { id: Some(id), was_rejected: false, code: error_code(wire).into() };
        *self.failures.entry(failure).or_default() += 1;
    }

    /// Adds the error reply of a call that executed no command.
    #[cold]
    pub(super) fn push_rejected(&mut self, id: Option<CommandId>, wire: &[u8]) {
        let failure = Failure { id, was_rejected: true, code: error_code(wire).into() };
        *self.failures.entry(failure).or_default() += 1;
    }

    /// True if the last ones are to be counted or summed up before the next command.
    pub(super) fn is_full(&self) -> bool {
        self.latest.len() >= COUNTED_TOGETHER_MAX
    }

    /// Sums the last ones up, which are not to be counted yet.
    #[cold]
    pub(super) fn sum_up(&mut self) {
        for (id, ns) in self.latest.drain(..) {
            let key = (id, leading_bits(ns));
            let place = self.earlier.binary_search_by_key(&key, |(key, _)| *key);
            let place = place.unwrap_or_else(|place| {
                self.earlier.insert(place, (key, Sum::default()));
                place
            });
            let sum = &mut self.earlier[place].1;
            sum.calls += 1;
            sum.ns += ns;
        }
    }

    /// Counts all of them with their errors, and the lookups of the run.
    pub(super) fn count<E>(&mut self, executor: &mut Executor<'_, '_, E>) {
        self.count_failures(executor);
        executor.count_inner(&self.latest);
        self.latest.clear();
        let earlier = std::mem::take(&mut self.earlier);
        if executor.worker.replays() {
            return;
        }
        let stats = executor.worker.stats(executor.shared);
        for ((id, _), Sum { calls, ns }) in earlier {
            stats.commands_processed.add(calls);
            executor.session.client.commands.add(calls);
            let stats = stats.command(id);
            stats.ran(calls, ns / calls, executor.worker.settings.latency_tracking);
            stats.ns.add(ns % calls);
        }
    }

    fn count_failures<E>(&mut self, executor: &Executor<'_, '_, E>) {
        let stats = executor.worker.stats(executor.shared);
        for (Failure { id, was_rejected, code }, number) in std::mem::take(&mut self.failures) {
            stats.error_replies.add(number);
            executor.shared.count_errors(&code, number);
            match id {
                Some(id) if was_rejected => stats.command(id).rejected.add(number),
                Some(id) => executor.count_failed(id, number),
                None => {}
            }
        }
    }
}

/// A duration without the bits that the histogram does not look at.
fn leading_bits(ns: u64) -> u64 {
    let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(DURATION_BITS);
    ns >> shift << shift
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::histogram::{TimeHistogram, Times};

    #[test]
    fn sums_keep_calls_and_times_in_bounded_memory() {
        let table = crate::execute::commands();
        let ids = [&b"get"[..], b"mget"].map(|name| table.find(name).expect("it is a command"));
        let (exact, summed) = (TimeHistogram::default(), TimeHistogram::default());
        let (mut ran, mut total_ns) = (RanCommands::default(), 0);
        let mut random = 1_u64;
        for number in 0..100 * COUNTED_TOGETHER_MAX {
            // Mostly brief ones, and durations of all magnitudes up to some seconds.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let ns = (random >> 32) >> (number % 32);
            exact.record(ns, 1);
            total_ns += ns;
            if ran.is_full() {
                ran.sum_up();
            }
            ran.push(ids[number % 2], ns);
        }
        assert!(ran.latest.len() <= COUNTED_TOGETHER_MAX);
        ran.sum_up();
        assert!(ran.earlier.len() <= 2 * 32 * 32, "{} sums", ran.earlier.len());
        for &(_, Sum { calls, ns }) in &ran.earlier {
            summed.record(ns / calls, calls);
        }
        let sums = || ran.earlier.iter().map(|(_, sum)| sum);
        assert_eq!(sums().map(|sum| sum.calls).sum::<u64>(), 100 * COUNTED_TOGETHER_MAX as u64);
        assert_eq!(sums().map(|sum| sum.ns).sum::<u64>(), total_ns);
        let [exact, summed] = [exact, summed].map(|times| Times::of([&times].into_iter()));
        for permille in 0..=1000 {
            let percent = f64::from(permille) / 10.0;
            assert_eq!(summed.percentile_ns(percent), exact.percentile_ns(percent), "{percent} %");
        }
    }
}
