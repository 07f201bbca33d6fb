//! When a sorted set is called a listpack or a skip list.

use tidemill_store::Encoding;

use crate::access::context::Cx;

/// Sizes up to which a sorted set calls itself `listpack`.
#[derive(Clone, Copy, Debug)]
pub(in crate::handlers) struct Limits {
    pub(super) entries_max: u64,
    value_bytes_max: usize,
}

impl Limits {
    pub(in crate::handlers) fn of(cx: &Cx<'_, '_>) -> Limits {
        let settings = cx.settings();
        Limits {
            entries_max: settings.sorted_set_listpack_entries_max,
            value_bytes_max: settings.sorted_set_listpack_value_bytes_max,
        }
    }

    /// True if a set that is about to have `count` members with this one among them is too large.
    pub(in crate::handlers) fn are_exceeded(self, count: u64, member: &[u8]) -> bool {
        count > self.entries_max || member.len() > self.value_bytes_max
    }
}

pub(super) fn encoding(is_skiplist: bool) -> Encoding {
    if is_skiplist { Encoding::Skiplist } else { Encoding::Listpack }
}
