//! Patterns with subscribers, found by the channel that they match.
//!
//! Most patterns begin with a literal text, and many of the others end with one. So patterns are
//! kept by their literal prefix, those without one by their literal suffix, reversed; only those
//! with neither are tried for every channel. Among sorted texts, those that a channel begins with
//! are found by a search each, however many others there are.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use smallvec::SmallVec;

use super::counts::SubscriberCounts;
use crate::glob;

type Bucket = HashMap<Arc<[u8]>, SubscriberCounts>;

/// Patterns by a literal text that a channel has to begin with.
type Tree = BTreeMap<Box<[u8]>, Bucket>;

/// Patterns with subscribers.
#[derive(Debug, Default)]
pub(super) struct PatternIndex {
    by_prefix: Tree,
    /// Those without a literal prefix, by their literal suffix, reversed; it may be empty.
    by_suffix: Tree,
    count: usize,
}

/// Place of a pattern.
enum Key<'p> {
    Prefix(&'p [u8]),
    ReversedSuffix(Box<[u8]>),
}

/// Bytes of a literal text by which a pattern is found at most: what a client makes longer is not
/// copied once more.
const LITERAL_BYTES_MAX: usize = 1024;

/// Bytes of a channel that are reversed without an allocation.
const REVERSED_BYTES: usize = 128;

fn key(pattern: &[u8]) -> Key<'_> {
    let is_special = |byte: &u8| matches!(byte, b'*' | b'?' | b'[' | b'\\');
    let prefix_bytes = pattern.iter().position(is_special).unwrap_or(pattern.len());
    if prefix_bytes > 0 {
        return Key::Prefix(&pattern[..prefix_bytes.min(LITERAL_BYTES_MAX)]);
    }
    // The end of a class or an escape is known to the matcher alone.
    let is_plain = !pattern.iter().any(|byte| matches!(byte, b'[' | b'\\'));
    let literal = pattern.iter().rev().take_while(|byte| !is_special(byte));
    let literal = literal.take(LITERAL_BYTES_MAX);
    Key::ReversedSuffix(if is_plain { literal.copied().collect() } else { Box::default() })
}

impl PatternIndex {
    /// Number of patterns with subscribers.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// One more subscriber of a pattern at a worker; returns the pattern as it is kept.
    pub(super) fn add(&mut self, pattern: &[u8], worker: usize) -> Arc<[u8]> {
        let bucket = match key(pattern) {
            Key::Prefix(prefix) => {
                if !self.by_prefix.contains_key(prefix) {
                    self.by_prefix.insert(prefix.into(), Bucket::default());
                }
                self.by_prefix.get_mut(prefix).expect("it was inserted if it was missing")
            }
            Key::ReversedSuffix(suffix) => self.by_suffix.entry(suffix).or_default(),
        };
        if let Some((name, _)) = bucket.get_key_value(pattern) {
            let name = Arc::clone(name);
            bucket.entry(Arc::clone(&name)).or_default().add(worker);
            return name;
        }
        let name: Arc<[u8]> = pattern.into();
        bucket.entry(Arc::clone(&name)).or_default().add(worker);
        self.count += 1;
        name
    }

    /// One subscriber of a pattern less at a worker.
    pub(super) fn remove(&mut self, pattern: &[u8], worker: usize) {
        let (tree, key) = match key(pattern) {
            Key::Prefix(prefix) => (&mut self.by_prefix, Cow::Borrowed(prefix)),
            Key::ReversedSuffix(suffix) => (&mut self.by_suffix, Cow::Owned(suffix.into_vec())),
        };
        let Some(bucket) = tree.get_mut(&*key) else { return };
        let Some(counts) = bucket.get_mut(pattern) else { return };
        if counts.remove(worker) {
            bucket.remove(pattern);
            self.count -= 1;
            if bucket.is_empty() {
                tree.remove(&*key);
            }
        }
    }

    /// Visits the patterns that a channel matches.
    pub(super) fn matching<'i>(
        &'i self,
        channel: &[u8],
        mut visit: impl FnMut(&'i Arc<[u8]>, &'i SubscriberCounts),
    ) {
        let mut visit_bucket = |bucket: &'i Bucket| {
            for (pattern, counts) in bucket {
                if glob::matches(pattern, channel, false) {
                    visit(pattern, counts);
                }
            }
        };
        each_prefix(&self.by_prefix, channel, &mut visit_bucket);
        if !self.by_suffix.is_empty() {
            let reversed: SmallVec<[u8; REVERSED_BYTES]> = channel.iter().rev().copied().collect();
            each_prefix(&self.by_suffix, &reversed, &mut visit_bucket);
        }
    }
}

/// Visits what is under the keys that `text` begins with, the longest first.
pub(super) fn each_prefix<'t, V>(
    tree: &'t BTreeMap<Box<[u8]>, V>,
    text: &[u8],
    visit: &mut impl FnMut(&'t V),
) {
    let mut end = text.len();
    loop {
        let upper = Bound::Included(&text[..end]);
        let Some((key, bucket)) = tree.range::<[u8], _>((Bound::Unbounded, upper)).next_back()
        else {
            return;
        };
        let common = key.iter().zip(&text[..end]).take_while(|(one, other)| one == other).count();
        if common == key.len() {
            visit(bucket);
            if common == 0 {
                return;
            }
            end = common - 1;
        } else {
            // The key is the last one up to the text and differs at `common`, where it is less. A
            // longer beginning of the text that were a key would lie between the two.
            end = common;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(index: &PatternIndex, channel: &[u8]) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        index.matching(channel, |pattern, _| found.push(pattern.to_vec()));
        found.sort();
        found
    }

    #[test]
    fn random_patterns_are_found_as_by_trying_each() {
        let mut random = fastrand::Rng::with_seed(11);
        let mut text = |bytes: &[u8], length: usize| -> Vec<u8> {
            (0..random.usize(0..=length)).map(|_| bytes[random.usize(..bytes.len())]).collect()
        };
        let mut index = PatternIndex::default();
        let mut patterns: Vec<Vec<u8>> = (0..400).map(|_| text(b"aab*?[]\\^-", 6)).collect();
        patterns.sort();
        patterns.dedup();
        for pattern in &patterns {
            index.add(pattern, 0);
        }
        assert_eq!(index.len(), patterns.len());
        for round in 0..2 {
            for _ in 0..2000 {
                let channel = text(b"aaab-[", 6);
                let matching =
                    patterns.iter().filter(|pattern| glob::matches(pattern, &channel, false));
                assert_eq!(found(&index, &channel), matching.cloned().collect::<Vec<_>>());
            }
            if round == 0 {
                let removed: Vec<_> =
                    patterns.extract_if(.., |pattern| pattern.len() % 2 == 0).collect();
                removed.iter().for_each(|pattern| index.remove(pattern, 0));
                assert_eq!(index.len(), patterns.len());
            }
        }
        patterns.iter().for_each(|pattern| index.remove(pattern, 0));
        assert!(index.by_prefix.is_empty() && index.by_suffix.is_empty() && index.len() == 0);
    }

    #[test]
    fn patterns_are_told_apart_behind_the_longest_literal() {
        let long = "x".repeat(2 * LITERAL_BYTES_MAX);
        let patterns = [format!("{long}a*"), format!("{long}b*"), format!("*a{long}")];
        let mut index = PatternIndex::default();
        patterns.iter().for_each(|pattern| drop(index.add(pattern.as_bytes(), 0)));
        let index_of = |channel: String| found(&index, channel.as_bytes());
        assert_eq!(index_of(format!("{long}b!")), [patterns[1].as_bytes()]);
        assert_eq!(index_of(format!("!a{long}")), [patterns[2].as_bytes()]);
        assert!(index_of(long.clone()).is_empty() && index_of(format!("b{long}")).is_empty());
        patterns.iter().for_each(|pattern| index.remove(pattern.as_bytes(), 0));
        assert!(index.by_prefix.is_empty() && index.by_suffix.is_empty() && index.len() == 0);
    }

    #[test]
    fn pattern_stays_until_its_last_subscriber_goes() {
        let mut index = PatternIndex::default();
        let name = index.add(b"news.*", 0);
        assert!(Arc::ptr_eq(&name, &index.add(b"news.*", 1)));
        index.add(b"news.*", 1);
        assert_eq!(index.len(), 1);
        let mut total = 0;
        index.matching(b"news.tech", |_, counts| total += counts.total());
        assert_eq!(total, 3);
        index.remove(b"news.*", 1);
        index.remove(b"news.*", 0);
        assert_eq!(found(&index, b"news."), [b"news.*"]);
        index.remove(b"news.*", 1);
        assert_eq!(index.len(), 0);
    }
}
