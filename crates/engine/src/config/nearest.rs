//! Name that an unknown one was probably meant to be.

use crate::limits::MISSPELT_NAME_BYTES_MAX;

/// The candidate nearest to `name`, in any case, of which at most a third of the letters differ;
/// the first of several.
#[must_use]
pub fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    if name.len() > MISSPELT_NAME_BYTES_MAX {
        return None;
    }
    let name = name.to_ascii_lowercase();
    let distances = candidates.into_iter().map(|candidate| (distance(&name, candidate), candidate));
    let (distance, candidate) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= name.len().max(3) / 3).then_some(candidate)
}

/// Letters to be inserted, removed, replaced or swapped with their neighbour to make one text of
/// the other: the optimal string alignment distance, row by row.
fn distance(from: &str, to: &str) -> usize {
    let (from, to) = (from.as_bytes(), to.as_bytes());
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=to.len()).collect();
    for (row, own) in from.iter().enumerate() {
        let mut current = Vec::with_capacity(above.len());
        current.push(row + 1);
        for (column, other) in to.iter().enumerate() {
            let replaced = above[column] + usize::from(own != other);
            let mut least = replaced.min(above[column + 1] + 1).min(current[column] + 1);
            if row > 0 && column > 0 && *own == to[column - 1] && from[row - 1] == *other {
                least = least.min(before[column - 1] + 1);
            }
            current.push(least);
        }
        before = std::mem::replace(&mut above, current);
    }
    above[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_seen_through_and_another_word_is_not() {
        let names = ["port", "maxmemory", "maxmemory-policy", "maxclients", "save"];
        for (name, meant) in [
            ("prot", Some("port")),
            ("PORTT", Some("port")),
            ("max-memory", Some("maxmemory")),
            ("maxmemory-polcy", Some("maxmemory-policy")),
            ("maxclient", Some("maxclients")),
            ("frobnicate", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, names), meant, "{name}");
        }
        assert_eq!(nearest(&"port".repeat(100_000), names), None);
        assert_eq!(nearest("port", []), None);
    }

    #[test]
    fn distance_counts_slips() {
        for (from, to, count) in
            [("", "abc", 3), ("abc", "abc", 0), ("abc", "acb", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!((distance(from, to), distance(to, from)), (count, count), "{from} {to}");
        }
    }
}
