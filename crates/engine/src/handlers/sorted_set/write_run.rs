//! Scores that are set in a run.

use tidemill_resp::number::parse_double;
use tidemill_store::value::sorted_set::SortedSet;
use tidemill_store::{Encoding, EntryRef, Kind};

use super::add::{Addition, Options};
use super::encoding::{Limits, encoding};
use crate::access::context::Cx;
use crate::access::write_run::WriteRun;
use crate::commit::Event;

/// `ZADD` without options, and `ZINCRBY`, of one member.
pub(super) fn add(cx: &mut Cx<'_, '_>, run: &mut WriteRun<'_>) {
    let limits = Limits::of(cx);
    let edit = cx.edit(run.key());
    let Ok(old) = edit.entry_of(Kind::SortedSet) else { return };
    let old = old.map(EntryRef::encoding);
    let mut is_skiplist = old == Some(Encoding::Skiplist);
    let mut changes = 0;
    let published = edit.change::<SortedSet<'_>, ()>(Event::SILENT, |set| {
        while let Some(call) = run.next_call()
            && call.args.len() == 4
            // An option is no score.
            && let Some(score) = parse_double(call.args.get(2))
        {
            let is_increment = call.command.name == "zincrby";
            let pair = (score, call.args.get(3));
            let options = Options::of_increment(is_increment);
            let mut addition = Addition::new(options, limits, is_skiplist, &[pair]);
            if addition.add(set, &pair).is_err() {
                break;
            }
            is_skiplist = addition.is_skiplist;
            changes += addition.change_count();
            match addition.score.filter(|_| is_increment) {
                Some(score) => run.reply.double(score),
                None => run.reply.integer(addition.added_count as i64),
            }
            run.end_call(addition.change_count());
        }
        Ok((changes > 0).then(|| (encoding(is_skiplist), ())))
    });
    debug_assert!(published.is_ok(), "a run makes no error");
    // Valkey makes room before it looks for the members.
    if changes == 0 && old.is_some_and(|old| old != encoding(is_skiplist)) {
        cx.edit(run.key()).set_encoding(encoding(is_skiplist));
    }
}
