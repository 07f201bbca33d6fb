//! Long replies of lists, piece by piece.

use std::ops::Range;

use tidemill_store::Version;
use tidemill_store::hash::Seed;
use tidemill_store::value::list::List;

use super::look::End;
use crate::long_reply::{Elements, Piece};

/// Elements of a list, positions counted from an end.
#[derive(Debug)]
pub(super) struct ListElements {
    pub(super) from: End,
}

impl Elements for ListElements {
    fn write(
        &self,
        version: &Version,
        seed: &Seed,
        positions: Range<u64>,
        piece: &mut Piece<'_>,
    ) -> u64 {
        let list = version.view::<List<'_>>(seed).expect("a list was pinned");
        match self.from {
            End::Front => piece.bulks(list.range(positions.start, positions.end)),
            End::Back => {
                let count = (positions.end - positions.start) as usize;
                piece.bulks(list.iter_back_from(list.len() - 1 - positions.start).take(count))
            }
        }
    }
}
