//! Long replies of sorted sets, piece by piece.

use std::ops::Range;

use tidemill_store::Version;
use tidemill_store::hash::Seed;
use tidemill_store::value::sorted_set::{Item, SortedSet};

use super::range::Shape;
use crate::long_reply::{Elements, Piece};

/// Members of a range of ranks.
#[derive(Debug)]
pub(super) struct SortedSetElements {
    /// Rank of the first member that is answered.
    first: u64,
    is_descending: bool,
    shape: Shape,
}

impl SortedSetElements {
    pub(super) fn of(ranks: Range<u64>, is_descending: bool, shape: Shape) -> SortedSetElements {
        let first = if is_descending { ranks.end.saturating_sub(1) } else { ranks.start };
        SortedSetElements { first, is_descending, shape }
    }

    /// Members at some positions of the reply.
    pub(super) fn items<'g>(
        &self,
        set: SortedSet<'g>,
        positions: Range<u64>,
    ) -> impl Iterator<Item = Item<'g>> + use<'g> {
        let count = (positions.end - positions.start) as usize;
        let (ascending, descending) = if self.is_descending {
            (None, Some(set.iter_back_from(self.first.saturating_sub(positions.start))))
        } else {
            (Some(set.iter_from(self.first + positions.start)), None)
        };
        ascending.into_iter().flatten().chain(descending.into_iter().flatten()).take(count)
    }
}

impl Elements for SortedSetElements {
    fn write(
        &self,
        version: &Version,
        seed: &Seed,
        positions: Range<u64>,
        piece: &mut Piece<'_>,
    ) -> u64 {
        let set = version.view::<SortedSet<'_>>(seed).expect("a sorted set was pinned");
        let mut count = 0;
        for item in self.items(set, positions) {
            self.shape.write(piece.reply, item);
            count += 1;
            if piece.is_full() {
                break;
            }
        }
        count
    }
}
