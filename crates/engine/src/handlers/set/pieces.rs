//! Long replies of sets, piece by piece.

use std::ops::Range;

use tidemill_store::Version;
use tidemill_store::hash::Seed;
use tidemill_store::value::set::Set;

use super::member::answer;
use crate::long_reply::{Elements, Piece};

/// Members of a set.
#[derive(Debug)]
pub(super) struct SetElements;

impl Elements for SetElements {
    fn write(
        &self,
        version: &Version,
        seed: &Seed,
        positions: Range<u64>,
        piece: &mut Piece<'_>,
    ) -> u64 {
        let set = version.view::<Set<'_>>(seed).expect("a set was pinned");
        let mut count = 0;
        for member in
            set.iter_from(positions.start).take((positions.end - positions.start) as usize)
        {
            answer(piece.reply, member);
            count += 1;
            if piece.is_full() {
                break;
            }
        }
        count
    }
}
