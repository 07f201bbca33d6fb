//! Sets of CPU numbers of any size, and the two notations the kernel has for them.
//!
//! Sets grow with the highest member, because `cpu_set_t` of the C library ends at 1,024 CPUs.
//! Lists are `0-3,8`, masks are groups of 32 bits in hexadecimal, highest first. This is no general
//! bit set.

use std::fmt;

use crate::limits::CPU_ID_MAX;

const WORD_BITS: u32 = u64::BITS;

/// CPUs that a list may name, each time they are named: one that names all there could be again and
/// again is not from a kernel, and would take long.
const CPUS_NAMED_MAX: u32 = 4 * (CPU_ID_MAX + 1);

/// A set of logical CPU numbers.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CpuSet {
    /// Never ends in a zero word, so that equal sets compare equal.
    words: Vec<u64>,
}

/// A CPU list or mask that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CpuSetError {
    /// Not a number, range, stride or hexadecimal group: the piece that was not understood.
    Malformed(String),
    /// A CPU number above [`CPU_ID_MAX`], or far more numbers than there could be CPUs.
    TooLarge(String),
    /// A range that ends before it begins, or a stride of zero.
    Backwards(String),
}

/// Groups of 32 bits that a mask may have.
const MASK_GROUPS_MAX: usize = (CPU_ID_MAX as usize + 1) / 32;

impl fmt::Display for CpuSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(piece) => write!(f, "`{piece}` is no CPU number, range or mask"),
            Self::TooLarge(piece) => {
                write!(f, "`{piece}` names a CPU above {CPU_ID_MAX}, or too many")
            }
            Self::Backwards(piece) => write!(f, "`{piece}` ends before it begins or has no step"),
        }
    }
}

impl std::error::Error for CpuSetError {}

impl CpuSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// The set with one member. Numbers above [`CPU_ID_MAX`] do not exist and give the empty set.
    pub fn single(cpu: u32) -> Self {
        let mut set = Self::new();
        set.insert(cpu);
        set
    }

    /// Parses a CPU list: `0-3,8`, with Redis's strides (`0-7:2`), blanks, and `(null)` for none.
    ///
    /// # Errors
    /// [`CpuSetError`] names the first piece that is no CPU list.
    pub fn parse_list(text: &str) -> Result<Self, CpuSetError> {
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        let mut set = Self::new();
        if text == "(null)" {
            return Ok(set);
        }
        let mut named_max = CPUS_NAMED_MAX;
        for piece in text.split([',', ' ']).map(str::trim).filter(|piece| !piece.is_empty()) {
            let named = set.insert_piece(piece)?;
            named_max = named_max
                .checked_sub(named)
                .ok_or_else(|| CpuSetError::TooLarge(piece.to_owned()))?;
        }
        Ok(set)
    }

    /// Adds a number, range or stride; how many CPUs it names.
    fn insert_piece(&mut self, piece: &str) -> Result<u32, CpuSetError> {
        let (range, step) = match piece.split_once(':') {
            Some((range, step)) => (range, number(step, piece)?),
            None => (piece, 1),
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (number(first, piece)?, number(last, piece)?),
            None => (number(range, piece)?, number(range, piece)?),
        };
        if last > CPU_ID_MAX {
            return Err(CpuSetError::TooLarge(piece.to_owned()));
        }
        if last < first || step == 0 {
            return Err(CpuSetError::Backwards(piece.to_owned()));
        }
        (first..=last).step_by(step as usize).for_each(|cpu| self.insert(cpu));
        Ok((last - first) / step + 1)
    }

    /// Parses a mask of any width: `ff`, `0x3`, `00000001,,00ff00ff` (an empty group is zero).
    ///
    /// # Errors
    /// [`CpuSetError`] names the first group that is not hexadecimal or wider than 32 bits.
    pub fn parse_mask(text: &str) -> Result<Self, CpuSetError> {
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        let text = text.strip_prefix("0x").unwrap_or(text);
        if text.bytes().filter(|byte| *byte == b',').count() > MASK_GROUPS_MAX {
            return Err(CpuSetError::TooLarge("a mask".to_owned()));
        }
        let groups: Vec<&str> = text.split(',').collect();
        let mut digits = String::new();
        for group in &groups {
            let hexadecimal = group.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !hexadecimal || (groups.len() > 1 && group.len() > 8) {
                return Err(CpuSetError::Malformed((*group).to_owned()));
            }
            digits.push_str(&format!("{group:0>8}"));
        }
        let mut set = Self::new();
        for (position, digit) in digits.chars().rev().enumerate() {
            let bits = digit.to_digit(16).unwrap_or(0);
            for bit in (0..4).filter(|bit| bits & (1 << bit) != 0) {
                let cpu = u32::try_from(position).unwrap_or(u32::MAX).saturating_mul(4) + bit;
                if cpu > CPU_ID_MAX {
                    return Err(CpuSetError::TooLarge(text.to_owned()));
                }
                set.insert(cpu);
            }
        }
        Ok(set)
    }

    /// Adds a CPU; numbers above [`CPU_ID_MAX`] are left out.
    pub fn insert(&mut self, cpu: u32) {
        if cpu > CPU_ID_MAX {
            return;
        }
        let word = (cpu / WORD_BITS) as usize;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (cpu % WORD_BITS);
    }

    /// Removes a CPU.
    pub fn remove(&mut self, cpu: u32) {
        if let Some(word) = self.words.get_mut((cpu / WORD_BITS) as usize) {
            *word &= !(1 << (cpu % WORD_BITS));
        }
        self.normalize();
    }

    /// True if the CPU is a member.
    pub fn contains(&self, cpu: u32) -> bool {
        let word = self.words.get((cpu / WORD_BITS) as usize).copied().unwrap_or(0);
        word & (1 << (cpu % WORD_BITS)) != 0
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// True if there is no member.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The lowest member.
    pub fn first(&self) -> Option<u32> {
        self.iter().next()
    }

    /// The highest member.
    pub fn last(&self) -> Option<u32> {
        let word = self.words.last()?;
        let below = (self.words.len() as u32 - 1) * WORD_BITS;
        Some(below + (WORD_BITS - 1 - word.leading_zeros()))
    }

    /// Members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..).zip(&self.words).flat_map(|(index, &word)| {
            (0..WORD_BITS)
                .filter(move |bit| word & (1 << bit) != 0)
                .map(move |bit| index * WORD_BITS + bit)
        })
    }

    /// Members of both.
    pub fn and(&self, other: &Self) -> Self {
        self.combine(other, |mine, theirs| mine & theirs)
    }

    /// Members of either.
    pub fn or(&self, other: &Self) -> Self {
        self.combine(other, |mine, theirs| mine | theirs)
    }

    /// Members of this set that are not in the other.
    pub fn minus(&self, other: &Self) -> Self {
        self.combine(other, |mine, theirs| mine & !theirs)
    }

    /// True if every member is in the other set.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.minus(other).is_empty()
    }

    /// True if the two share a member.
    pub fn intersects(&self, other: &Self) -> bool {
        !self.and(other).is_empty()
    }

    fn combine(&self, other: &Self, operation: impl Fn(u64, u64) -> u64) -> Self {
        let count = self.words.len().max(other.words.len());
        let word = |set: &Self, index: usize| set.words.get(index).copied().unwrap_or(0);
        let words = (0..count).map(|index| operation(word(self, index), word(other, index)));
        let mut set = Self { words: words.collect() };
        set.normalize();
        set
    }

    fn normalize(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }

    /// The kernel's mask notation, every group written out: `00000001,00000000`. The empty set is
    /// `00000000`.
    pub fn to_mask(&self) -> String {
        let group = |index: usize| {
            let word = self.words.get(index / 2).copied().unwrap_or(0);
            (word >> (32 * (index % 2))) as u32
        };
        let count = self.last().map_or(1, |cpu| cpu as usize / 32 + 1);
        let groups: Vec<String> = (0..count).rev().map(|i| format!("{:08x}", group(i))).collect();
        groups.join(",")
    }

    /// The bit words, lowest CPUs first, as `sched_setaffinity` takes them on a little-endian
    /// machine.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    pub(crate) fn from_words(words: Vec<u64>) -> Self {
        let mut set = Self { words };
        set.normalize();
        set
    }
}

fn number(text: &str, piece: &str) -> Result<u32, CpuSetError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits {
        return Err(CpuSetError::Malformed(piece.to_owned()));
    }
    text.parse().map_err(|_| CpuSetError::TooLarge(piece.to_owned()))
}

/// The list notation: `0-3,8`; the empty set is the empty string.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut members = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = members.next() {
            let mut last = first;
            while members.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<T: IntoIterator<Item = u32>>(cpus: T) -> Self {
        let mut set = Self::new();
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(text: &str) -> CpuSet {
        CpuSet::parse_list(text).unwrap()
    }

    #[test]
    fn lists_with_ranges_strides_blanks_and_null_are_read() {
        assert_eq!(list("0-3,8,10-11").to_string(), "0-3,8,10-11");
        assert_eq!(list("0-7:2").to_string(), "0,2,4,6");
        assert_eq!(list(" 1, 3 \n").to_string(), "1,3");
        assert_eq!(list("0 2"), list("0,2"));
        assert!(list("(null)").is_empty() && list(" (null)\n").is_empty() && list("\n").is_empty());
        assert_eq!(list("5\0\n").to_string(), "5");
    }

    #[test]
    fn lists_that_are_none_name_the_piece() {
        let error = |text| CpuSet::parse_list(text).unwrap_err();
        assert_eq!(error("0,x"), CpuSetError::Malformed("x".into()));
        assert_eq!(error("3-1"), CpuSetError::Backwards("3-1".into()));
        assert_eq!(error("1-5:0"), CpuSetError::Backwards("1-5:0".into()));
        assert_eq!(error("0-4294967295"), CpuSetError::TooLarge("0-4294967295".into()));
        assert_eq!(error("-1"), CpuSetError::Malformed("-1".into()));
        assert_eq!(error("99999999999"), CpuSetError::TooLarge("99999999999".into()));
        let again = "0-65535,".repeat(4);
        assert_eq!(list(&again).len(), 65_536);
        assert_eq!(error(&format!("{again}7")), CpuSetError::TooLarge("7".into()));
    }

    #[test]
    fn masks_of_any_width_and_with_empty_groups_are_read() {
        let mask = |text| CpuSet::parse_mask(text).unwrap().to_string();
        assert_eq!(mask("00ff00ff"), "0-7,16-23");
        assert_eq!(mask("1,,00000001"), "0,64");
        assert_eq!(mask("fffff"), "0-19");
        assert_eq!(mask("0x10000000000000000"), "64");
        assert_eq!(mask("0000,00000100,00000001\n"), "0,40");
        assert!(CpuSet::parse_mask("1,123456789").is_err());
        assert!(CpuSet::parse_mask("xyz").is_err());
        assert!(CpuSet::parse_mask(&",".repeat(1 << 20)).is_err());
    }

    #[test]
    fn sets_reach_beyond_1024_cpus() {
        let set = list("3,2047");
        assert_eq!((set.len(), set.last()), (2, Some(2047)));
        assert_eq!(CpuSet::parse_mask(&set.to_mask()).unwrap(), set);
    }

    proptest! {
        #[test]
        fn both_notations_round_trip(cpus in proptest::collection::vec(0u32..5000, 0..200)) {
            let set: CpuSet = cpus.iter().copied().collect();
            prop_assert_eq!(&CpuSet::parse_list(&set.to_string()).unwrap(), &set);
            prop_assert_eq!(&CpuSet::parse_mask(&set.to_mask()).unwrap(), &set);
            prop_assert!(cpus.iter().all(|&cpu| set.contains(cpu)));
        }

        #[test]
        fn no_text_makes_a_parser_panic(text in "\\PC{0,60}") {
            let _ = CpuSet::parse_list(&text);
            let _ = CpuSet::parse_mask(&text);
        }

        #[test]
        fn union_minus_and_intersection_agree(
            a in proptest::collection::vec(0u32..300, 0..40),
            b in proptest::collection::vec(0u32..300, 0..40),
        ) {
            let (a, b): (CpuSet, CpuSet) = (a.into_iter().collect(), b.into_iter().collect());
            prop_assert_eq!(a.minus(&b).or(&a.and(&b)), a.clone());
            prop_assert_eq!(a.or(&b).minus(&b), a.minus(&b));
            prop_assert!(a.and(&b).is_subset(&a));
        }
    }
}
