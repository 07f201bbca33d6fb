//! Merge: records of all lanes by number, as one stream.

use crate::journal::RecordNumber;
use crate::lane::{Batch, EffectBytes, Lane};
use crate::limits::SEGMENT_BYTES;
use crate::record::encode;
use crate::segment::SegmentWriter;
use crate::stream::Cursor;

/// The stream's end: the last record in it, and the offset behind that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Number of the last record; 0 before the first one.
    pub number: RecordNumber,
    /// Offset behind its last byte.
    pub offset: u64,
}

/// State of the merge. One thread at a time has it.
#[derive(Debug)]
pub struct Merge {
    /// Batches that were taken out of the lanes, by lane.
    batches: Vec<Batch>,
    merged: RecordNumber,
    writer: SegmentWriter,
    /// Database of the last effect in the stream; none where a reader may begin.
    database: Option<usize>,
    scratch: Vec<u8>,
}

impl Merge {
    pub(crate) fn new(lane_count: usize) -> Merge {
        Merge {
            batches: (0..lane_count).map(|_| Batch::default()).collect(),
            merged: 0,
            writer: SegmentWriter::new(0, SEGMENT_BYTES),
            database: None,
            scratch: Vec::new(),
        }
    }

    /// The stream's end.
    #[must_use]
    pub fn merged(&self) -> Merged {
        Merged { number: self.merged, offset: self.writer.end() }
    }

    /// A cursor at the end of the stream, which begins to read with a `SELECT`.
    pub fn attach(&mut self) -> Cursor {
        self.database = None;
        Cursor::at_end_of(self.writer.last())
    }

    /// Lets the next effect be preceded by a `SELECT`: a reader begins there.
    pub fn begin_anew(&mut self) {
        self.database = None;
    }

    /// Appends to the stream whatever the lanes have of the records up to `last`, and stops at the
    /// first number whose record is not there yet.
    pub(crate) fn drain(&mut self, lanes: &[Lane], last: RecordNumber) -> Merged {
        while self.merged < last {
            let before = self.merged;
            for (index, lane) in lanes.iter().enumerate() {
                if self.batches[index].next_number().is_none() {
                    lane.exchange(&mut self.batches[index]);
                }
                self.take_from(index, last);
            }
            if self.merged == before {
                break;
            }
        }
        self.merged()
    }

    /// Takes records of one lane as long as theirs is the next number.
    fn take_from(&mut self, index: usize, last: RecordNumber) {
        let Merge { batches, merged, writer, database, scratch } = self;
        let batch = &mut batches[index];
        while *merged < last && batch.next_number() == Some(*merged + 1) {
            *merged += 1;
            let (effect_count, is_transaction) = batch.take_record();
            if is_transaction {
                writer.append(b"*1\r\n$5\r\nMULTI\r\n");
            }
            for _ in 0..effect_count {
                let (wanted, bytes) = batch.take_effect();
                if *database != Some(wanted) {
                    *database = Some(wanted);
                    let index = wanted.to_string();
                    scratch.clear();
                    encode(2, [&b"SELECT"[..], index.as_bytes()].into_iter(), scratch);
                    writer.append(scratch);
                }
                match bytes {
                    EffectBytes::Small(bytes) => writer.append(bytes),
                    EffectBytes::Large(bytes) => writer.append_boxed(bytes),
                }
            }
            if is_transaction {
                writer.append(b"*1\r\n$4\r\nEXEC\r\n");
            }
        }
        if batch.next_number().is_none() {
            batch.clear();
        }
        debug_assert!(
            batch.next_number().is_none_or(|number| number > *merged),
            "the numbers of a lane ascend"
        );
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::limits::{IDLE_LANE_BYTES, LARGE_EFFECT_BYTES};
    use crate::record::Record;

    #[test]
    fn a_lane_keeps_little_of_the_memory_of_huge_records() {
        let large = vec![b'x'; LARGE_EFFECT_BYTES];
        let (lanes, mut merge) = ([Lane::new()], Merge::new(1));
        let mut record = Record::default();
        (0..200_000).for_each(|_| record.push(0, [&b"DEL"[..], b"k"]));
        let push = |number, record: &mut Record| lanes[0].push(number, record);
        push(1, &mut record);
        for number in 2..200_000 {
            record.push(0, [&b"DEL"[..], b"k"]);
            push(number, &mut record);
        }
        record.push(0, [&b"SET"[..], b"k", &large]);
        push(200_000, &mut record);
        merge.drain(&lanes, 200_000);
        let kept_bytes = merge.batches[0].buffer_bytes();
        assert!(kept_bytes <= 4 * IDLE_LANE_BYTES, "{kept_bytes} bytes");
    }
}
