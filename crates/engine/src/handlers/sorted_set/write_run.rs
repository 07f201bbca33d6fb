//! Members that join and leave a sorted set, or get other scores, in a run.

use tidemill_resp::number::parse_double;
use tidemill_store::value::sorted_set::{SortedSet, SortedSetEdit};
use tidemill_store::{Encoding, EntryRef, Kind};

use super::add::{Addition, Options};
use super::encoding::{Limits, encoding};
use crate::access::context::Cx;
use crate::access::write_run::{RunCall, WriteRun};
use crate::commit::Event;

/// `ZADD` without options and `ZINCRBY`, of one member, and `ZREM`.
pub(super) fn add_and_remove(cx: &mut Cx<'_, '_>, run: &mut WriteRun<'_>) {
    let (limits, room) = (Limits::of(cx), cx.room());
    let edit = cx.edit(run.key());
    let Ok(old) = edit.entry_of(Kind::SortedSet) else { return };
    let is_skiplist = |entry: EntryRef<'_>| entry.encoding() == Encoding::Skiplist;
    let mut state = State { limits, is_skiplist: old.is_some_and(is_skiplist) };
    let mut changes = 0;
    let published = edit.change::<SortedSet<'_>, ()>(Event::SILENT, |set| {
        while let Some(call) = run.next_call() {
            let count = call.args.len() as u64 - 2;
            if old.is_some_and(|entry| room.check_edit(entry, count).is_err()) {
                break;
            }
            let Some(done) = state.carry_out(call, set) else { break };
            changes += done.changes;
            match done.score {
                Some(score) => run.reply.double(score),
                None => run.reply.integer(done.count as i64),
            }
            run.end_call(done.changes);
            if set.is_empty() {
                // The set that a later command makes has no expiry, and an encoding of its own.
                break;
            }
        }
        Ok((changes > 0).then(|| (encoding(state.is_skiplist), ())))
    });
    debug_assert!(published.is_ok(), "a run makes no error");
    // Valkey makes room before it looks for the members.
    if changes == 0 && old.is_some_and(|old| is_skiplist(old) != state.is_skiplist) {
        cx.edit(run.key()).set_encoding(encoding(state.is_skiplist));
    }
}

/// Encoding of the set within a run, and the limits of it.
struct State {
    limits: Limits,
    is_skiplist: bool,
}

/// A command that was applied.
struct Done {
    changes: u64,
    /// Number of members that it added or removed.
    count: u64,
    /// New score, where that is the reply.
    score: Option<f64>,
}

impl State {
    /// Applies a command; none, and nothing is changed, of one that is not for a run.
    fn carry_out(&mut self, call: RunCall<'_>, set: &mut SortedSetEdit<'_>) -> Option<Done> {
        if call.command.name == "zrem" {
            let members = call.args.iter().skip(2);
            let count = members.filter(|member| set.remove(member).is_some()).count() as u64;
            return Some(Done { changes: count, count, score: None });
        }
        if call.args.len() != 4 {
            return None;
        }
        // An option is no score.
        let pair = (parse_double(call.args.get(2))?, call.args.get(3));
        let is_increment = call.command.name == "zincrby";
        let options = Options::of_increment(is_increment);
        let mut addition = Addition::new(options, self.limits, self.is_skiplist, &[pair]);
        addition.add(set, &pair).ok()?;
        self.is_skiplist = addition.is_skiplist;
        let score = addition.score.filter(|_| is_increment);
        Some(Done { changes: addition.change_count(), count: addition.added_count, score })
    }
}
