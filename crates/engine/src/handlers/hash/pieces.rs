//! Long replies of hashes, piece by piece.

use std::ops::Range;

use tidemill_store::Version;
use tidemill_store::hash::Seed;
use tidemill_store::value::hash::Hash;

use crate::expiry_clock::ExpiryClock;
use crate::long_reply::{Elements, Piece};

/// Fields of a hash that have not expired.
#[derive(Debug)]
pub(super) struct HashElements {
    pub(super) with_fields: bool,
    pub(super) with_values: bool,
    /// A field that has expired by it is not there.
    pub(super) clock: ExpiryClock,
}

impl Elements for HashElements {
    fn write(
        &self,
        version: &Version,
        seed: &Seed,
        positions: Range<u64>,
        piece: &mut Piece<'_>,
    ) -> u64 {
        let hash = version.view::<Hash<'_>>(seed).expect("a hash was pinned");
        let mut count = 0;
        for entry in
            hash.iter_from(positions.start).take((positions.end - positions.start) as usize)
        {
            count += 1;
            if entry.expires_at_ms.is_some_and(|at_ms| self.clock.has_passed(at_ms)) {
                continue;
            }
            if self.with_fields {
                piece.reply.bulk(entry.field);
            }
            if self.with_values {
                piece.reply.bulk(entry.value);
            }
            if piece.is_full() {
                break;
            }
        }
        count
    }
}
