//! Passwords: kept as SHA-256, compared in constant time.

use std::collections::BTreeMap;
use std::fmt::Write;

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

/// Bytes of a hash as digits.
const DIGITS_BYTES: usize = 64;

/// SHA-256 of a password. Its order is for the rules of administrators, who have the hashes: it is
/// not found in constant time. Clients' passwords are compared by [`is_equal`](Self::is_equal).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PasswordHash([u8; 32]);

impl PasswordHash {
    pub(super) fn of(password: &[u8]) -> PasswordHash {
        let digest = digest(&SHA256, password);
        PasswordHash(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    /// The hash that 64 digits in lower case write.
    pub(super) fn parse(text: &[u8]) -> Option<PasswordHash> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        if text.len() != DIGITS_BYTES {
            return None;
        }
        let mut hash = [0; 32];
        for (byte, digits) in hash.iter_mut().zip(text.chunks_exact(2)) {
            *byte = digit(digits[0])? << 4 | digit(digits[1])?;
        }
        Some(PasswordHash(hash))
    }

    fn digits(&self) -> String {
        hex(&self.0)
    }

    /// Compares without telling by its time how much is equal: the differences are gathered behind
    /// a barrier that keeps the compiler from ending the loop early.
    fn is_equal(&self, other: &PasswordHash) -> bool {
        let bytes = self.0.iter().zip(&other.0);
        bytes.fold(0, |different, (a, b)| std::hint::black_box(different | (a ^ b))) == 0
    }
}

/// Passwords of a user, in the order in which they were given.
///
/// A list, for users are many and have few passwords. Rules have to find one of many: the first of
/// them moves all passwords into a map, and [`settle`](Self::settle) moves them back, so that n
/// rules take n log n time. None of them is right in between.
#[derive(Clone, Debug, Default)]
pub(super) struct Passwords {
    listed: Vec<PasswordHash>,
    /// While rules are applied: the turn of each, which is its place in the order.
    turns: BTreeMap<PasswordHash, u64>,
    next_turn: u64,
}

impl Passwords {
    fn begin_change(&mut self) {
        for hash in std::mem::take(&mut self.listed) {
            self.turns.insert(hash, self.next_turn);
            self.next_turn += 1;
        }
    }

    /// Adds one behind the others, if it is not among them.
    pub(super) fn add(&mut self, hash: PasswordHash) {
        self.begin_change();
        self.turns.entry(hash).or_insert(self.next_turn);
        self.next_turn += 1;
    }

    /// Removes one; false if it is not among them.
    pub(super) fn remove(&mut self, hash: &PasswordHash) -> bool {
        self.begin_change();
        self.turns.remove(hash).is_some()
    }

    /// Removes all.
    pub(super) fn clear(&mut self) {
        self.listed.clear();
        self.turns.clear();
    }

    /// Ends changes.
    pub(super) fn settle(&mut self) {
        let mut turns: Vec<(PasswordHash, u64)> =
            std::mem::take(&mut self.turns).into_iter().collect();
        turns.sort_unstable_by_key(|&(_, turn)| turn);
        self.listed.extend(turns.into_iter().map(|(hash, _)| hash));
    }

    /// True if a password is one of them. All are compared, so that the time does not tell which it
    /// was.
    pub(super) fn contains(&self, password: &[u8]) -> bool {
        let hash = PasswordHash::of(password);
        self.listed.iter().fold(false, |is_one, known| is_one | known.is_equal(&hash))
    }

    /// Their hashes as digits.
    pub(super) fn digits(&self) -> impl ExactSizeIterator<Item = String> {
        self.listed.iter().map(PasswordHash::digits)
    }

    /// Bytes of their hashes as digits.
    pub(super) fn text_bytes(&self) -> usize {
        self.listed.len() * DIGITS_BYTES
    }
}

/// Bytes as digits in lower case.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing into a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A random password of this number of bits, rounded up to whole digits; none when the system has
/// no random numbers.
pub(crate) fn generate(bits: usize) -> Option<String> {
    let digits = bits.div_ceil(4);
    let mut bytes = vec![0; digits.div_ceil(2)];
    SystemRandom::new().fill(&mut bytes).ok()?;
    let mut text = hex(&bytes);
    text.truncate(digits);
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::{PasswordHash, Passwords};

    /// Those that additions, and removals behind a minus, leave.
    fn changed(mut passwords: Passwords, changes: &str) -> Passwords {
        for change in changes.split_whitespace().map(str::as_bytes) {
            match change {
                [b'-', password @ ..] => assert!(passwords.remove(&PasswordHash::of(password))),
                password => passwords.add(PasswordHash::of(password)),
            }
        }
        passwords.settle();
        passwords
    }

    fn digits(passwords: &Passwords) -> Vec<String> {
        passwords.digits().collect()
    }

    #[test]
    fn those_that_are_left_keep_their_order() {
        for (before, changes, left) in [
            ("", "", ""),
            ("a", "", "a"),
            ("", "a", "a"),
            ("a", "a", "a"),
            ("a", "-a", ""),
            ("a", "-a a", "a"),
            ("a b", "a", "a b"),
            ("a b", "-a", "b"),
            ("a b", "-a a", "b a"),
            ("a b", "-b c", "a c"),
            ("b a d c", "-a e -b b c f -e", "d c b f"),
        ] {
            let passwords = changed(changed(Passwords::default(), before), changes);
            let hashes = left.split_whitespace().map(|one| PasswordHash::of(one.as_bytes()));
            let expected: Vec<String> = hashes.map(|hash| hash.digits()).collect();
            assert_eq!(digits(&passwords), expected, "{before}, then {changes}");
            assert_eq!(passwords.text_bytes(), expected.concat().len());
            for one in ["a", "b", "c", "d", "e", "f"] {
                let is_left = left.split_whitespace().any(|left| left == one);
                assert_eq!(passwords.contains(one.as_bytes()), is_left, "{one} of {left}");
            }
            let at_once = changed(Passwords::default(), &format!("{before} {changes}"));
            assert_eq!(digits(&at_once), expected, "{before} {changes}");
        }
    }

    #[test]
    fn one_that_is_not_there_cannot_be_removed_and_none_is_left_behind_clear() {
        let mut passwords = changed(Passwords::default(), "a b");
        assert!(!passwords.remove(&PasswordHash::of(b"c")));
        passwords.add(PasswordHash::of(b"c"));
        passwords.clear();
        assert!(!passwords.remove(&PasswordHash::of(b"a")));
        passwords.settle();
        assert_eq!(passwords.digits().len(), 0);
        let mut settled = changed(passwords, "d");
        settled.clear();
        settled.settle();
        assert!(!settled.contains(b"d"));
    }
}
