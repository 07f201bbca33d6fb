//! Glob patterns as Redis matches them: `*`, `?`, `[a-z]`, `[^a-z]` and `\` to take the next byte
//! as it is.

/// True if all of `text` matches `pattern`, letters of either case being the same.
///
/// Takes time in proportion to the product of both lengths at worst: after a mismatch only the last
/// `*` is tried again.
#[must_use]
pub fn matches_ignoring_case(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut seen) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while seen < text.len() {
        if pattern.get(at) == Some(&b'*') {
            retry = Some((at + 1, seen));
            at += 1;
            continue;
        }
        if let Some(next) = match_one(pattern, at, text[seen]) {
            at = next;
            seen += 1;
            continue;
        }
        let Some((after_star, from)) = retry else { return false };
        retry = Some((after_star, from + 1));
        (at, seen) = (after_star, from + 1);
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

/// Index of the next element if the one at `at` matches `byte`.
fn match_one(pattern: &[u8], at: usize, byte: u8) -> Option<usize> {
    match pattern.get(at..)? {
        [] => None,
        [b'?', ..] => Some(at + 1),
        [b'[', class @ ..] => {
            let (is_in, length) = match_class(class, byte);
            is_in.then_some(at + 1 + length)
        }
        [b'\\', escaped, ..] => escaped.eq_ignore_ascii_case(&byte).then_some(at + 2),
        [own, ..] => own.eq_ignore_ascii_case(&byte).then_some(at + 1),
    }
}

/// True if `byte` is in the class, and the class's length up to and with `]`; one that is never
/// closed ends with the pattern.
fn match_class(class: &[u8], byte: u8) -> (bool, usize) {
    let byte = byte.to_ascii_lowercase();
    let is_negated = class.first() == Some(&b'^');
    let mut at = usize::from(is_negated);
    let mut is_in = false;
    loop {
        let (first, last, length) = match class.get(at..).unwrap_or_default() {
            [] => return (is_in != is_negated, at),
            [b']', ..] => return (is_in != is_negated, at + 1),
            [b'\\', escaped, ..] => (*escaped, *escaped, 2),
            [first, b'-', last, ..] => (*first, *last, 3),
            [own, ..] => (*own, *own, 1),
        };
        let (first, last) = (first.to_ascii_lowercase(), last.to_ascii_lowercase());
        is_in |= (first.min(last)..=first.max(last)).contains(&byte);
        at += length;
    }
}
