//! Elements of a collection that wait to be put into its tree together.

/// Byte strings in their order, end to end.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Gathered {
    /// Adds a string that is given in parts.
    pub(super) fn push(&mut self, parts: &[&[u8]]) {
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.ends.push(self.bytes.len());
    }

    /// Number of strings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there is no string.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all strings.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The string of an index.
    pub(super) fn get(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[index]]
    }

    /// Takes the first strings out.
    pub(super) fn drop_first(&mut self, count: usize) {
        let Some(last) = count.checked_sub(1) else { return };
        let dropped_bytes = self.ends[last];
        self.bytes.drain(..dropped_bytes);
        self.ends.drain(..count);
        self.ends.iter_mut().for_each(|end| *end -= dropped_bytes);
    }

    /// All strings.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        self.iter_from(0)
    }

    /// The strings from an index on.
    pub(super) fn iter_from(&self, index: usize) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        (index..self.len()).map(|index| self.get(index))
    }
}
