//! When a list is called a listpack and when a quicklist.
//!
//! The names follow the bytes that Valkey's listpack would take, not the layout here. They are
//! counted exactly only near the threshold, and no further than to it: far from it the tree's own
//! size decides.

use tidemill_rdb::encode::NodeLimit;
use tidemill_resp::number::parse_integer;
use tidemill_store::value::list::{List, ListEdit};
use tidemill_store::{Encoding, EntryRef};

/// Bytes of an empty listpack.
const LISTPACK_HEADER_BYTES: u64 = 7;

/// Bytes that a listpack node has at most when it is limited by its count.
const SAFE_BYTES_MAX: u64 = 8192;

/// Bytes of overhead that a quicklist estimates of an element that it adds to a node.
const NODE_ESTIMATE_BYTES: u64 = 8;

/// Limit of `list-max-listpack-size`.
#[derive(Clone, Copy)]
pub(super) struct Limit {
    bytes: u64,
    count: u64,
}

impl Limit {
    pub(super) fn of_setting(size: i64) -> Limit {
        let of_bytes = |bytes| Limit { bytes, count: u64::MAX };
        match size {
            0.. => Limit { bytes: SAFE_BYTES_MAX, count: size.max(1) as u64 },
            -1 => of_bytes(4096),
            -2 => of_bytes(8192),
            -3 => of_bytes(16_384),
            -4 => of_bytes(32_768),
            _ => of_bytes(65_536),
        }
    }

    /// Limit at which a quicklist is a listpack again: half of the other one. A limit by count has
    /// no half of its bytes.
    fn half(self) -> Limit {
        match self.count {
            u64::MAX => Limit { bytes: self.bytes / 2, ..self },
            count => Limit { count: count / 2, ..self },
        }
    }
}

/// Bytes that an element takes in a listpack.
fn element_bytes(element: &[u8]) -> u64 {
    let integer = if element.len() <= 20 { parse_integer(element) } else { None };
    let body = match integer {
        Some(0..=127) => 1,
        Some(-4096..=4095) => 2,
        Some(-32_768..=32_767) => 3,
        Some(-8_388_608..=8_388_607) => 4,
        Some(value) if i32::try_from(value).is_ok() => 5,
        Some(_) => 9,
        None => {
            let length = element.len() as u64;
            length
                + if length < 64 {
                    1
                } else if length < 4096 {
                    2
                } else {
                    5
                }
        }
    };
    let back_length = match body {
        0..=127 => 1,
        128..=16_383 => 2,
        16_384..=2_097_151 => 3,
        _ => 4,
    };
    body + back_length
}

/// True if a listpack of `elements` has at most `bytes_max` bytes. Elements beyond are not read.
fn is_within<'e>(mut elements: impl Iterator<Item = &'e [u8]>, bytes_max: u64) -> bool {
    let Some(left) = bytes_max.checked_sub(LISTPACK_HEADER_BYTES) else { return false };
    elements.try_fold(left, |left, element| left.checked_sub(element_bytes(element))).is_some()
}

/// Bytes that a listpack has at most, of a list of `len` elements that has `allocated_bytes` here.
///
/// An element takes its own bytes in a listpack and two more, and one more for each 60 bytes of it.
/// Here it takes its own bytes and one more at least.
fn listpack_bytes_max(len: u64, allocated_bytes: u64) -> u64 {
    LISTPACK_HEADER_BYTES + allocated_bytes + len + allocated_bytes / 60
}

/// Encoding after elements of `added_bytes` bytes in all were added to `list`, whose encoding is
/// `old`.
pub(super) fn after_addition(
    old: Option<Encoding>,
    list: Option<List<'_>>,
    (added_count, added_bytes): (u64, u64),
    limit: Limit,
) -> Encoding {
    let (len, bytes) = list.map_or((0, 0), |list| (list.len(), list.bytes()));
    let elements = || list.into_iter().flat_map(|list| list.iter());
    let is_within = |bytes_max| is_within(elements(), bytes_max);
    judge_addition(old, (len, bytes), is_within, (added_count, added_bytes), limit)
}

/// As [`after_addition`], before the elements are added to what an edit made of the list so far.
pub(super) fn after_addition_to(
    old: Option<Encoding>,
    list: &mut ListEdit<'_>,
    added: (u64, u64),
    limit: Limit,
) -> Encoding {
    let sizes = (list.len(), list.allocated_bytes());
    judge_addition(old, sizes, |bytes_max| is_within(list.iter(), bytes_max), added, limit)
}

/// Encoding after an addition to a list with a number of elements and of allocated bytes.
/// `is_within` tells whether a listpack of it has at most some bytes.
fn judge_addition(
    old: Option<Encoding>,
    (len, allocated_bytes): (u64, u64),
    is_within: impl FnOnce(u64) -> bool,
    (added_count, added_bytes): (u64, u64),
    limit: Limit,
) -> Encoding {
    if old == Some(Encoding::Quicklist) {
        return Encoding::Quicklist;
    }
    let fits = len + added_count <= limit.count
        && limit.bytes.checked_sub(added_bytes).is_some_and(|bytes_max| {
            listpack_bytes_max(len, allocated_bytes) <= bytes_max || is_within(bytes_max)
        });
    if fits { Encoding::Listpack } else { Encoding::Quicklist }
}

/// The encoding of what `edit` left of a list after elements were taken out.
pub(super) fn after_removal(old: EntryRef<'_>, edit: &mut ListEdit<'_>, limit: Limit) -> Encoding {
    match old.encoding() {
        Encoding::Listpack => Encoding::Listpack,
        _ => when_smaller(edit, limit),
    }
}

/// The encoding of what `edit` made of a quicklist.
pub(super) fn when_smaller(edit: &mut ListEdit<'_>, limit: Limit) -> Encoding {
    if fits(edit, limit.half()) { Encoding::Listpack } else { Encoding::Quicklist }
}

/// True if a listpack of all elements is within a limit.
fn fits(edit: &mut ListEdit<'_>, limit: Limit) -> bool {
    if edit.len() == 1 && (1..u64::MAX).contains(&limit.count) {
        // Of a single element, a node that is limited by its count does not count the overhead.
        return edit.iter().all(|element| element.len() as u64 <= limit.bytes);
    }
    // Nodes are never so empty, and no integer is so much shorter in a listpack.
    let is_large = edit.allocated_bytes() > 4 * limit.bytes;
    edit.len() <= limit.count && !is_large && is_within(edit.iter(), limit.bytes)
}

/// The encoding of a list that `RESTORE` made, of one node of Valkey's or several.
pub(crate) fn restored_encoding(
    edit: &mut ListEdit<'_>,
    is_one_node: bool,
    listpack_size_max: i64,
) -> Encoding {
    if is_one_node && fits(edit, Limit::of_setting(listpack_size_max)) {
        Encoding::Listpack
    } else {
        Encoding::Quicklist
    }
}

/// Limit of the nodes that `DUMP` makes of a list with an encoding.
pub(crate) fn node_limit(encoding: Encoding, listpack_size_max: i64) -> NodeLimit {
    let Limit { bytes, count } = Limit::of_setting(listpack_size_max);
    match encoding {
        Encoding::Listpack => NodeLimit::ONE_NODE,
        _ => NodeLimit { bytes_max: bytes as usize, element_count_max: count },
    }
}

/// The encoding of a new list that Valkey makes as a quicklist: a listpack if all elements fit into
/// the first node, where the overhead of each is estimated, and that is within the limit.
pub(crate) fn new_encoding<'e>(
    elements: impl Iterator<Item = &'e [u8]>,
    listpack_size_max: i64,
) -> Encoding {
    let limit = Limit::of_setting(listpack_size_max);
    let mut bytes = LISTPACK_HEADER_BYTES;
    for (index, element) in elements.enumerate() {
        let length = element.len() as u64;
        // The first element has a node, but a large one is a node of its own kind.
        let estimate = if index == 0 { length } else { bytes + length + NODE_ESTIMATE_BYTES };
        if estimate > limit.bytes || index as u64 >= limit.count {
            return Encoding::Quicklist;
        }
        bytes += element_bytes(element);
    }
    let is_limited_by_count = limit.count < u64::MAX;
    if is_limited_by_count || bytes <= limit.bytes {
        Encoding::Listpack
    } else {
        Encoding::Quicklist
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_element_takes_more_than_the_most_that_is_counted_for_it() {
        for length in (0..20_000).chain(2_097_100..2_097_200) {
            let most = length + 2 + length / 60;
            assert!(element_bytes(&vec![b'x'; length as usize]) <= most, "{length}");
        }
    }
}
