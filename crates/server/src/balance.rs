//! Choice of the connections that leave an overloaded worker.
//!
//! New connections go where the fewest are, which says nothing about what they will ask for. So
//! each worker measures the share of time in which it had something to do, and one that has been
//! busy for several ticks hands connections to the least busy one: as many as even the two out; or,
//! when one connection alone is more than that, this one, so that its neighbours get a worker back.
//! A connection whose worker would be as busy as the one it left stays: it would only move to and
//! fro.

use crate::limits::{BALANCE_MARGIN_PERMILLE, BALANCE_TICKS, BUSY_PERMILLE, TICK_MS};

/// Busy time of a worker, tick by tick.
#[derive(Debug, Default)]
pub(crate) struct Load {
    /// End of the last wait for events, in monotonic microseconds.
    busy_from_us: u64,
    next_tick_us: u64,
    idle_us: u64,
    since_us: u64,
    /// Commands executed up to the last iteration.
    commands: u64,
    busy_ticks: u32,
}

impl Load {
    /// Load of a worker that begins its first iteration.
    pub(crate) fn begin(&mut self, now_us: u64) {
        self.busy_from_us = now_us;
    }

    /// Duration of the iteration that ends with a wait for events, in microseconds.
    pub(crate) fn busy_us(&self, now_us: u64) -> u64 {
        now_us - self.busy_from_us
    }

    /// Commands of the iteration that ends, by their number so far; that may begin anew.
    pub(crate) fn commands(&mut self, so_far: u64) -> u64 {
        let before = std::mem::replace(&mut self.commands, so_far);
        so_far.checked_sub(before).unwrap_or(so_far)
    }

    /// Ends a wait for events that began at `waited_from_us`. `is_idle` says that nothing else is
    /// to do: a worker that waits for the end of a throttle is not idle.
    #[inline]
    pub(crate) fn end_wait(&mut self, waited_from_us: u64, now_us: u64, is_idle: bool) {
        self.busy_from_us = now_us;
        if is_idle {
            self.idle_us += now_us - waited_from_us;
        }
    }

    /// True once per tick, at the first call after its beginning.
    #[inline]
    pub(crate) fn begins_tick(&mut self, now_us: u64) -> bool {
        let is_due = now_us >= self.next_tick_us;
        if is_due {
            self.next_tick_us = now_us + TICK_MS * 1000;
        }
        is_due
    }

    /// Ends a tick: the permille of it in which the worker was busy.
    pub(crate) fn tick(&mut self, now_us: u64) -> u32 {
        let elapsed_us = now_us.saturating_sub(self.since_us).max(1);
        let busy_us = elapsed_us.saturating_sub(self.idle_us);
        self.since_us = now_us;
        self.idle_us = 0;
        let permille = (busy_us * 1000 / elapsed_us) as u32;
        self.busy_ticks = if permille >= BUSY_PERMILLE { self.busy_ticks + 1 } else { 0 };
        permille
    }

    /// True in the tick whose work decides which connections leave. The others are not measured:
    /// the clock is read for each event.
    pub(crate) fn is_measuring(&self) -> bool {
        self.busy_ticks + 1 == BALANCE_TICKS
    }

    /// True if the worker has been busy for [`BALANCE_TICKS`] and connections should leave. The
    /// count then begins again.
    pub(crate) fn is_overloaded(&mut self) -> bool {
        let is_overloaded = self.busy_ticks >= BALANCE_TICKS;
        if is_overloaded {
            self.busy_ticks = 0;
        }
        is_overloaded
    }
}

/// Work that a connection asks of its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Demand {
    /// The connection, as its worker knows it.
    pub(crate) index: usize,
    /// Microseconds spent on it in the measured tick.
    pub(crate) work: u64,
    pub(crate) is_movable: bool,
}

/// The connections that go from a worker as busy as `own_permille` to one as busy as
/// `other_permille`.
pub(crate) fn leaving(
    own_permille: u32,
    other_permille: u32,
    mut demands: Vec<Demand>,
) -> Vec<usize> {
    let total: u64 = demands.iter().map(|demand| demand.work).sum();
    let gap = own_permille.saturating_sub(other_permille);
    if total == 0 || gap < BALANCE_MARGIN_PERMILLE {
        return Vec::new();
    }
    let share = |demand: &Demand| (demand.work * u64::from(own_permille) / total) as u32;
    demands.retain(|demand| demand.work > 0);
    let is_alone = demands.len() == 1;
    demands.retain(|demand| demand.is_movable);
    demands.sort_unstable_by_key(|demand| std::cmp::Reverse(demand.work));
    let mut rest = gap / 2;
    let mut leaving = Vec::new();
    for demand in &demands {
        if share(demand) <= rest {
            rest -= share(demand);
            leaving.push(demand.index);
        }
    }
    if leaving.is_empty() && !is_alone {
        let hottest = demands.first().filter(|demand| share(demand) < gap);
        leaving.extend(hottest.map(|demand| demand.index));
    }
    leaving
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demands(works: &[u64]) -> Vec<Demand> {
        let demand = |(index, &work)| Demand { index, work, is_movable: true };
        works.iter().enumerate().map(demand).collect()
    }

    #[test]
    fn equal_connections_are_halved() {
        assert_eq!(leaving(1000, 0, demands(&[10, 10, 10, 10])).len(), 2);
        assert_eq!(leaving(1000, 500, demands(&[10, 10, 10, 10])).len(), 1);
    }

    #[test]
    fn a_hot_connection_and_its_neighbours_part() {
        assert_eq!(leaving(1000, 50, demands(&[3, 90, 2, 5])), [3, 0, 2]);
        let mut pinned = demands(&[3, 90, 2, 5]);
        for index in [0, 2, 3] {
            pinned[index].is_movable = false;
        }
        assert_eq!(leaving(1000, 50, pinned), [1]);
    }

    #[test]
    fn connection_that_would_only_move_to_and_fro_stays() {
        assert!(leaving(1000, 0, demands(&[100])).is_empty(), "alone, it gains nothing");
        assert!(leaving(1000, 0, demands(&[100, 0, 0])).is_empty(), "its neighbours are silent");
        assert!(
            leaving(950, 100, demands(&[95, 2])).iter().all(|&index| index != 0),
            "it would fill the other"
        );
        assert!(leaving(1000, 950, demands(&[1, 1, 1, 1])).is_empty(), "both are busy");
        let mut fixed = demands(&[5, 5]);
        fixed.iter_mut().for_each(|demand| demand.is_movable = false);
        assert!(leaving(1000, 0, fixed).is_empty());
    }

    #[test]
    fn one_busy_tick_is_no_overload() {
        let mut load = Load::default();
        let mut now_us = 0;
        let mut tick = |load: &mut Load, idle_us| {
            now_us += 100_000;
            load.end_wait(now_us - idle_us, now_us, true);
            load.tick(now_us)
        };
        for _ in 1..BALANCE_TICKS {
            assert_eq!(tick(&mut load, 0), 1000);
            assert!(!load.is_overloaded());
        }
        assert_eq!(tick(&mut load, 50_000), 500);
        for _ in 0..BALANCE_TICKS {
            assert!(!load.is_overloaded());
            tick(&mut load, 1_000);
        }
        assert!(load.is_overloaded());
        assert!(!load.is_overloaded());
    }

    #[test]
    fn wait_of_a_worker_with_something_to_do_counts_as_busy() {
        let mut load = Load::default();
        load.begin(500);
        assert_eq!(load.busy_us(700), 200);
        load.end_wait(700, 90_700, false);
        assert_eq!(load.busy_us(90_750), 50, "of the last iteration alone");
        let commands = [7, 7, 10, 2].map(|so_far| load.commands(so_far));
        assert_eq!(commands, [7, 0, 3, 2], "the count may be reset");
        load.end_wait(90_750, 100_000, true);
        assert_eq!(load.tick(100_000), 907);
    }

    #[test]
    fn tick_begins_once_and_again_a_tick_later() {
        let mut load = Load::default();
        assert!(load.begins_tick(50) && !load.begins_tick(50));
        assert!(!load.begins_tick(49 + TICK_MS * 1000) && load.begins_tick(50 + TICK_MS * 1000));
    }
}
