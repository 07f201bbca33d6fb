//! Glob patterns, exactly as Redis matches them.
//!
//! `*` any run, `?` any byte, `[abc]`, `[^a]`, `[a-z]`, `\x` the byte itself. A pattern is tried in
//! time linear in the text for each `*`: a star that has failed never lets an earlier one try
//! again, because whatever an earlier star could still skip, the later one has skipped already.

/// Runs of stars, one at the end apart, that a pattern may have: with more it matches nothing, as
/// in Redis, whose matcher calls itself for each.
const STARS_MAX: usize = 1000;

/// True if `text` matches `pattern`.
#[must_use]
pub fn matches(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    if text.is_empty() {
        // Redis looks at no pattern but a single star before it sees that the text has ended.
        return pattern.is_empty() || pattern == b"*";
    }
    let (mut p, mut t) = (0, 0);
    // Behind the last star: where the pattern goes on, and how far the star reaches.
    let mut star: Option<(usize, usize)> = None;
    let mut stars = 0;
    loop {
        if p < pattern.len() && pattern[p] == b'*' {
            while p < pattern.len() && pattern[p] == b'*' {
                p += 1;
            }
            if p == pattern.len() {
                return true;
            }
            stars += 1;
            if stars > STARS_MAX {
                return false;
            }
            star = Some((p, t));
            continue;
        }
        if t == text.len() {
            return p == pattern.len();
        }
        if let Some(next) = one(pattern, p, text[t], ignore_case) {
            p = next;
            t += 1;
            continue;
        }
        match &mut star {
            Some((behind, reach)) => {
                *reach += 1;
                (p, t) = (*behind, *reach);
            }
            None => return false,
        }
    }
}

fn fold(byte: u8, ignore_case: bool) -> u8 {
    if ignore_case { byte.to_ascii_lowercase() } else { byte }
}

/// Next position of the pattern if its element at `p` matches `byte`.
fn one(pattern: &[u8], p: usize, byte: u8, ignore_case: bool) -> Option<usize> {
    match *pattern.get(p)? {
        b'?' => Some(p + 1),
        b'[' => {
            let (is_match, next) = class(pattern, p + 1, byte, ignore_case);
            is_match.then_some(next)
        }
        b'\\' if p + 1 < pattern.len() => {
            (fold(pattern[p + 1], ignore_case) == fold(byte, ignore_case)).then_some(p + 2)
        }
        literal => (fold(literal, ignore_case) == fold(byte, ignore_case)).then_some(p + 1),
    }
}

/// True if the class that begins at `p` holds `byte`; and where the class ends. An unclosed class
/// ends with the pattern.
fn class(pattern: &[u8], mut p: usize, byte: u8, ignore_case: bool) -> (bool, usize) {
    let folded = fold(byte, ignore_case);
    let is_negated = pattern.get(p) == Some(&b'^');
    p += usize::from(is_negated);
    let mut is_in = false;
    loop {
        match pattern.get(p) {
            None => return (is_in != is_negated, p),
            Some(b']') => return (is_in != is_negated, p + 1),
            Some(b'\\') if p + 1 < pattern.len() => {
                // In its own case, as in Redis.
                p += 1;
                is_in |= pattern[p] == byte;
            }
            Some(&first) if pattern.get(p + 1) == Some(&b'-') && p + 2 < pattern.len() => {
                let last = pattern[p + 2];
                let (low, high) = (first.min(last), first.max(last));
                is_in |= (fold(low, ignore_case)..=fold(high, ignore_case)).contains(&folded);
                p += 2;
            }
            Some(&member) => is_in |= fold(member, ignore_case) == folded,
        }
        p += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("*", "", true),
            ("**", "", false),
            ("*", "anything", true),
            ("a*c", "abc", true),
            ("a*c", "abd", false),
            ("a**c", "ac", true),
            ("?", "", false),
            ("h?llo", "hello", true),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("[", "", false),
            ("a[", "ab", false),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxbxxaxxc", false),
            ("[\\]]", "]", true),
        ] {
            let got = matches(pattern.as_bytes(), text.as_bytes(), false);
            assert_eq!(got, expected, "{pattern} against {text}");
        }
        assert!(matches(b"ABC", b"abc", true));
        assert!(matches(b"[A-C]x", b"bX", true));
        assert!(matches(b"[\\A]x", b"Ax", true));
        assert!(!matches(b"[\\A]x", b"ax", true));
    }

    #[test]
    fn a_pattern_of_more_than_a_thousand_stars_matches_nothing() {
        let text = vec![b'a'; 2000];
        assert!(matches(&b"*?".repeat(1000), &text, false));
        assert!(!matches(&b"*?".repeat(1001), &text, false));
        let one_at_the_end = [b"*?".repeat(1000), b"*".to_vec()].concat();
        assert!(matches(&one_at_the_end, &text, false));
    }

    #[test]
    fn many_stars_stay_cheap() {
        let pattern = b"*a".repeat(10_000);
        let text = vec![b'a'; 9_999];
        assert!(!matches(&pattern, &text, false));
    }
}
