//! Lane: what one worker has pushed and the merge has not taken yet.
//!
//! Two buffers: the worker fills one, the merge empties the other, and they are exchanged under a
//! lock. So neither waits for the other's copying: the lock is kept while one record is appended,
//! or while two buffers are exchanged, whichever comes first. A buffer grows when the merge is
//! late; the worker stops before its next write then ([`Lane::is_crowded`]), because under its
//! locks it must not wait.
//!
//! Rejected: a ring of bytes without a lock. It saves the exchange of one uncontended cache line
//! per push, needs a second way for what does not fit, and unsafe code for both.

use crate::journal::RecordNumber;
use crate::limits::{IDLE_LANE_BYTES, LANE_BYTES_MAX};
use crate::primitive::{AtomicUsize, Mutex, Ordering, lock};
use crate::record::{EffectSpan, Record, clear};

/// Records of one worker, by ascending numbers.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    heads: Vec<Head>,
    record: Record,
    /// Positions up to which the merge has taken it.
    taken: Taken,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    number: RecordNumber,
    effect_count: usize,
    is_divisible: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    heads: usize,
    spans: usize,
    bytes: usize,
    large: usize,
}

/// Bytes of an effect that is taken out of a batch.
#[derive(Debug)]
pub(crate) enum EffectBytes<'b> {
    /// To be copied.
    Small(&'b [u8]),
    /// To be handed on.
    Large(Box<[u8]>),
}

impl Batch {
    fn push(&mut self, number: RecordNumber, record: &mut Record) {
        let Record { spans, is_divisible, .. } = &*record;
        let (effect_count, is_divisible) = (spans.len(), *is_divisible);
        self.heads.push(Head { number, effect_count, is_divisible });
        self.record.append(record);
    }

    fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Number of the next record.
    pub(crate) fn next_number(&self) -> Option<RecordNumber> {
        self.heads.get(self.taken.heads).map(|head| head.number)
    }

    /// Takes the next record: returns the number of its effects, which are to be taken next, and
    /// whether they are a transaction.
    pub(crate) fn take_record(&mut self) -> (usize, bool) {
        let Head { effect_count, is_divisible, .. } = self.heads[self.taken.heads];
        self.taken.heads += 1;
        (effect_count, effect_count > 1 && !is_divisible)
    }

    /// Takes the next effect: its database and bytes.
    pub(crate) fn take_effect(&mut self) -> (usize, EffectBytes<'_>) {
        let EffectSpan { database, length, is_large } = self.record.spans[self.taken.spans];
        self.taken.spans += 1;
        let bytes = if is_large {
            self.taken.large += 1;
            EffectBytes::Large(std::mem::take(&mut self.record.large[self.taken.large - 1]))
        } else {
            let from = self.taken.bytes;
            self.taken.bytes += length;
            EffectBytes::Small(&self.record.bytes[from..from + length])
        };
        (database, bytes)
    }

    /// Forgets its records, which were all taken, and keeps little of the memory of large ones.
    pub(crate) fn clear(&mut self) {
        clear(&mut self.heads, IDLE_LANE_BYTES);
        self.record.clear(IDLE_LANE_BYTES);
        self.taken = Taken::default();
    }

    #[cfg(test)]
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.record.buffer_bytes() + self.heads.capacity() * size_of::<Head>()
    }
}

/// Lane of one worker. On cache lines of its own: its worker writes it with every record.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Lane {
    filled: Mutex<Batch>,
    /// Bytes in `filled`, as of the last push or exchange.
    filled_bytes: AtomicUsize,
}

impl Lane {
    pub(crate) fn new() -> Lane {
        Lane { filled: Mutex::new(Batch::default()), filled_bytes: AtomicUsize::new(0) }
    }

    /// Appends a record, which is empty afterwards.
    pub(crate) fn push(&self, number: RecordNumber, record: &mut Record) {
        let large_bytes: usize = record.large.iter().map(|bytes| bytes.len()).sum();
        let bytes = record.bytes.len() + large_bytes;
        let mut filled = lock(&self.filled);
        filled.push(number, record);
        // Relaxed: a hint. Written under the lock.
        self.filled_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Puts an empty batch in the place of the filled one.
    pub(crate) fn exchange(&self, batch: &mut Batch) {
        debug_assert!(batch.is_empty(), "a batch is cleared once all of it was taken");
        let mut filled = lock(&self.filled);
        std::mem::swap(&mut *filled, batch);
        // Relaxed: as in `push`.
        self.filled_bytes.store(0, Ordering::Relaxed);
    }

    /// True if the worker is to wait before its next write.
    pub(crate) fn is_crowded(&self) -> bool {
        // Relaxed: a hint.
        self.filled_bytes.load(Ordering::Relaxed) > LANE_BYTES_MAX
    }
}
