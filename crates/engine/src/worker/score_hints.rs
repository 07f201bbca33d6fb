//! Scores that were found ahead for the members of the next requests.

use tidemill_store::value::LeafPrefetch;

use crate::limits::PREFETCHED_ENTRIES_MAX;

/// Scores that members may have, as of the prefetch of their leaves.
///
/// A member is known by the address of its bytes in the input, as each is asked for once. What was
/// at that address before, or has another score by now, makes a hint wrong and nothing else: a
/// lookup takes it for the place to look at first.
#[derive(Debug, Default)]
pub(crate) struct ScoreHints {
    hints: [(usize, f64); PREFETCHED_ENTRIES_MAX],
    len: usize,
}

impl ScoreHints {
    /// Forgets all hints.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Notes what a descent found; nothing beyond the requests of one prefetch.
    #[inline]
    pub(crate) fn note(&mut self, descent: &LeafPrefetch<'_>) {
        if let Some((member, score)) = descent.score()
            && let Some(place) = self.hints.get_mut(self.len)
        {
            *place = (member.as_ptr().addr(), score);
            self.len += 1;
        }
    }

    /// Score that a member of the input may have.
    #[inline]
    pub(crate) fn of(&self, member: &[u8]) -> Option<f64> {
        let address = member.as_ptr().addr();
        let hint = self.hints[..self.len].iter().find(|(known, _)| *known == address)?;
        Some(hint.1)
    }
}

#[cfg(test)]
mod tests {
    use tidemill_store::Heap;
    use tidemill_store::hash::Seed;
    use tidemill_store::value::sorted_set::SortedSetEdit;

    use super::*;

    #[test]
    fn a_hint_is_the_score_of_one_member_by_its_address() {
        let (heap, seed) = (Heap::new(), Seed::new(1, 2));
        let mut edit = SortedSetEdit::create(&seed, &heap);
        let names: Vec<_> = (0..5000).map(|number| format!("name-{number}")).collect();
        for (number, name) in names.iter().enumerate() {
            edit.set(name.as_bytes(), number as f64 - 9.5);
        }
        let set = edit.view().expect("it has members");
        let mut hints = ScoreHints::default();
        for name in [&b"none"[..], names[7].as_bytes()] {
            let mut descent = set.prefetch(name).expect("it has an index");
            while descent.go_down() {}
            hints.note(&descent);
        }
        assert_eq!(hints.of(names[7].as_bytes()), Some(-2.5));
        assert_eq!(hints.of(names[7].clone().as_bytes()), None, "it is at another place");
        assert_eq!(hints.of(names[8].as_bytes()), None);
        for name in &names {
            let mut descent = set.prefetch(name.as_bytes()).expect("it has an index");
            while descent.go_down() {}
            hints.note(&descent);
        }
        let known = names.iter().filter(|name| hints.of(name.as_bytes()).is_some()).count();
        assert_eq!(known, PREFETCHED_ENTRIES_MAX);
        hints.clear();
        assert_eq!(hints.of(names[7].as_bytes()), None);
    }
}
