//! Ids of entries.

/// Id of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// Unix time in milliseconds, as a rule.
    pub ms: u64,
    /// Number within the millisecond.
    pub seq: u64,
}

impl StreamId {
    /// The least id, which no entry has.
    pub const MIN: StreamId = StreamId { ms: 0, seq: 0 };

    /// The greatest id.
    pub const MAX: StreamId = StreamId { ms: u64::MAX, seq: u64::MAX };

    /// The id that follows; none behind the greatest.
    #[must_use]
    pub fn next(self) -> Option<StreamId> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(StreamId { seq, ..self }),
            None => Some(StreamId { ms: self.ms.checked_add(1)?, seq: 0 }),
        }
    }

    /// The id before; none before the least.
    #[must_use]
    pub fn previous(self) -> Option<StreamId> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(StreamId { seq, ..self }),
            None => Some(StreamId { ms: self.ms.checked_sub(1)?, seq: u64::MAX }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_each_other() {
        let id = |ms, seq| StreamId { ms, seq };
        assert_eq!(id(3, 4).next(), Some(id(3, 5)));
        assert_eq!(id(3, u64::MAX).next(), Some(id(4, 0)));
        assert_eq!(StreamId::MAX.next(), None);
        assert_eq!(id(4, 0).previous(), Some(id(3, u64::MAX)));
        assert_eq!(StreamId::MIN.previous(), None);
    }
}
