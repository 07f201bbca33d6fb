//! Room of hash tables that many clients fill for a while: watched, awaited and tracked keys,
//! subscriptions.

use std::collections::HashMap;
use std::hash::Hash;

/// Keys of a table that are moved together to a smaller one at most: it is done under locks.
const MOVED_TOGETHER_MAX: usize = 1024;

/// Room of a table that is not worth giving back: when it is empty, and otherwise.
const EMPTY_TABLE_ROOM: usize = 3;
const SMALL_TABLE_ROOM: usize = 32;

/// Gives the room of a table back once few keys are left in it, in steps that few removals share. A
/// wave of clients would be remembered in all slots otherwise.
#[inline]
pub(crate) fn give_back<K: Eq + Hash, V>(table: &mut HashMap<K, V>) {
    let (count, room) = (table.len(), table.capacity());
    let kept = if count == 0 { EMPTY_TABLE_ROOM } else { 4 * count + SMALL_TABLE_ROOM };
    if count <= MOVED_TOGETHER_MAX && room > kept {
        table.shrink_to(2 * count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_keeps_room_in_proportion_to_its_keys() {
        let mut table: HashMap<usize, usize> = (0..100_000).map(|key| (key, key)).collect();
        for key in 0..100_000 {
            table.remove(&key);
            give_back(&mut table);
            let (count, room) = (table.len(), table.capacity());
            assert!(count > MOVED_TOGETHER_MAX || room <= 4 * count + SMALL_TABLE_ROOM);
        }
        assert!(table.capacity() <= EMPTY_TABLE_ROOM);
    }
}
