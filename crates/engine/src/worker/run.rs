//! Commands that ran between two readings of the clock, which share the time between them.

use crate::command::CommandId;
use crate::limits::INNER_COMMANDS_PER_TIMED;

/// Commands that ran since the clock was read last.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// When the connection's turn began.
    turn_start_ns: u64,
    pub(crate) start_ns: u64,
    /// Duration of the commands between the last two readings of the clock, ns.
    pub(crate) last_ns: u64,
    /// With each command, the index of its request in the batch.
    pub(crate) ran: Vec<(CommandId, usize)>,
    /// The index of the request that is executed now.
    pub(crate) request: usize,
    /// Bytes of replies in this turn that are counted for hot keys, while these are measured.
    pub(crate) reply_bytes: usize,
}

impl Run {
    /// Begins anew at a time in monotonic nanoseconds.
    pub(crate) fn begin(&mut self, now_ns: u64) {
        self.start_ns = now_ns;
        self.ran.clear();
    }

    /// A connection's turn begins, at a time in monotonic nanoseconds.
    pub(crate) fn begin_turn(&mut self, now_ns: u64) {
        self.turn_start_ns = now_ns;
        self.reply_bytes = 0;
    }

    /// Nanoseconds from the beginning of the last turn to its last reading of the clock.
    pub(crate) fn turn_ns(&self) -> u64 {
        self.start_ns.saturating_sub(self.turn_start_ns)
    }

    /// True if a turn of `turn_ns_max` nanoseconds has no room for another command like the last
    /// one, which was timed alone.
    pub(crate) fn fills_turn(&self, turn_ns_max: u64) -> bool {
        self.turn_ns() + self.last_ns > turn_ns_max
    }

    /// The time since it began, for the command that runs; it begins anew. Nothing when other
    /// commands share that time.
    pub(crate) fn take_elapsed_ns(&mut self, now_ns: u64) -> u64 {
        if !self.ran.is_empty() {
            return 0;
        }
        let start_ns = std::mem::replace(&mut self.start_ns, now_ns);
        now_ns.saturating_sub(start_ns)
    }

    /// Nanoseconds since it began or the last one ended.
    pub(crate) fn elapsed_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.start_ns)
    }

    /// When it began or the last one ended, in monotonic microseconds.
    pub(crate) fn start_us(&self) -> u64 {
        self.start_ns / 1000
    }

    /// The command of the present request ran.
    #[inline]
    pub(crate) fn note(&mut self, id: CommandId) {
        self.ran.push((id, self.request));
    }
}

/// Times of brief commands within scripts: one of several is timed and counts for the others.
#[derive(Debug, Default)]
pub(crate) struct InnerTimes {
    /// Commands until the next one is timed.
    untimed: u32,
    /// Time of the last one, ns.
    pub(crate) last_ns: u64,
}

impl InnerTimes {
    /// True if the next command is one that is timed.
    #[inline]
    pub(crate) fn samples(&mut self) -> bool {
        let is_timed = self.untimed == 0;
        self.untimed = if is_timed { INNER_COMMANDS_PER_TIMED - 1 } else { self.untimed - 1 };
        is_timed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_full_when_another_command_like_the_last_would_outlast_it() {
        let mut run = Run::default();
        run.begin_turn(1_000);
        (run.start_ns, run.last_ns) = (1_400, 400);
        assert!(run.fills_turn(799));
        assert!(!run.fills_turn(800), "one more of 400 just fits");
        (run.start_ns, run.last_ns) = (1_790, 10);
        assert!(!run.fills_turn(800), "short ones follow a long one");
    }

    #[test]
    fn one_of_several_brief_commands_of_scripts_is_timed_from_the_first_on() {
        let mut times = InnerTimes::default();
        let timed: Vec<bool> = (0..2 * INNER_COMMANDS_PER_TIMED).map(|_| times.samples()).collect();
        assert_eq!(timed.iter().filter(|is_timed| **is_timed).count(), 2);
        assert!(timed[0] && timed[INNER_COMMANDS_PER_TIMED as usize]);
    }
}
