//! Equality of two texts of a setting.
//!
//! The kernel prints a value in its own way: `always [madvise] never`, masks with groups of zeros,
//! numbers with spaces. Undoing must tell its own value, printed differently, from somebody else's.

use crate::CpuSet;

/// The value in force in a setting's text: the word in brackets where there is a choice, else all
/// of it.
pub(super) fn in_force(text: &str) -> &str {
    let selected = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    selected.map_or(text, |(word, _)| word).trim()
}

/// True if two values of the file at `path` mean the same.
pub(super) fn is_same(path: &str, one: &str, other: &str) -> bool {
    let (one, other) = (one.trim(), other.trim());
    if one == other {
        return true;
    }
    let file = path.rsplit('/').next().unwrap_or_default();
    if file.ends_with("_list") {
        return equal(CpuSet::parse_list(one).ok(), CpuSet::parse_list(other).ok());
    }
    if file.ends_with("_cpus") || file == "smp_affinity" {
        return equal(CpuSet::parse_mask(one).ok(), CpuSet::parse_mask(other).ok());
    }
    equal(one.parse::<i64>().ok(), other.parse().ok())
}

fn equal<T: PartialEq>(one: Option<T>, other: Option<T>) -> bool {
    one.is_some() && one == other
}

/// Text that the kernel would print after `value` was written to a file that printed `text`; for
/// trees of plain files.
pub(super) fn printed(text: &str, value: &str) -> String {
    let words: Vec<&str> =
        text.split_whitespace().map(|word| word.trim_matches(['[', ']'])).collect();
    if !text.contains('[') || !words.contains(&value) {
        return format!("{value}\n");
    }
    let mark = |word: &str| if word == value { format!("[{word}]") } else { word.to_owned() };
    format!("{}\n", words.into_iter().map(mark).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_its_word_in_brackets() {
        assert_eq!(in_force("always defer [madvise] never\n"), "madvise");
        assert_eq!(in_force(" 60\n"), "60");
        assert_eq!(printed("[always] madvise never\n", "madvise"), "always [madvise] never\n");
        assert_eq!(printed("60\n", "1"), "1\n");
    }

    #[test]
    fn masks_lists_and_numbers_are_compared_by_meaning() {
        assert!(is_same("/sys/class/net/e/queues/rx-0/rps_cpus", "00000000,0000000c", "c"));
        assert!(!is_same("/sys/class/net/e/queues/rx-0/rps_cpus", "00000000,0000000c", "d"));
        assert!(is_same("/proc/irq/7/smp_affinity_list", "0-1,2", "0-2"));
        assert!(is_same("/proc/sys/vm/swappiness", "01", "1"));
        assert!(!is_same("/sys/x/governor", "powersave", "performance"));
        assert!(!is_same("/proc/sys/vm/x", "", "nonsense"));
    }
}
