//! Options that several families share.

use tidemill_resp::number::parse_integer;
use tidemill_resp::request::ArgumentView;

use crate::error::CommandError;
use crate::expiry_clock::ExpiryClock;

/// An argument that must be a 64-bit integer.
pub(crate) fn integer(argument: &[u8]) -> Result<i64, CommandError> {
    parse_integer(argument).ok_or(CommandError::NotAnInteger)
}

/// An argument that must be a 64-bit integer whose negative exists too.
pub(crate) fn symmetric_integer(argument: &[u8]) -> Result<i64, CommandError> {
    match integer(argument)? {
        i64::MIN => Err("ERR value is out of range, value must between -9223372036854775807 and \
                         9223372036854775807"
            .into()),
        value => Ok(value),
    }
}

/// An argument that must be the number of a database that exists.
pub(crate) fn database(argument: &[u8], count: usize) -> Result<usize, CommandError> {
    let index = integer(argument)?;
    if i32::try_from(index).is_err() {
        return Err(
            "ERR value is out of range, value must between -2147483648 and 2147483647".into()
        );
    }
    usize::try_from(index)
        .ok()
        .filter(|&index| index < count)
        .ok_or(CommandError::from("ERR DB index is out of range"))
}

/// True if an argument is a word, in upper or lower case.
#[inline]
pub(crate) fn is(argument: &[u8], word: &str) -> bool {
    argument.eq_ignore_ascii_case(word.as_bytes())
}

/// Form in which an expiry is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeUnit {
    /// In seconds, not milliseconds.
    pub(crate) is_seconds: bool,
    /// A Unix time, not counted from now.
    pub(crate) is_absolute: bool,
}

impl TimeUnit {
    /// The unit of `EX`, `PX`, `EXAT`, `PXAT`.
    pub(crate) fn of_option(option: &[u8]) -> Option<TimeUnit> {
        let (is_seconds, is_absolute) = match () {
            () if is(option, "EX") => (true, false),
            () if is(option, "PX") => (false, false),
            () if is(option, "EXAT") => (true, true),
            () if is(option, "PXAT") => (false, true),
            () => return None,
        };
        Some(TimeUnit { is_seconds, is_absolute })
    }

    /// True if an expiry in this unit may follow one in `earlier`: the last one counts, and two
    /// units contradict.
    pub(crate) fn may_follow(self, earlier: Option<TimeUnit>) -> bool {
        earlier.is_none_or(|earlier| earlier == self)
    }

    /// The expiry that an argument means; it must lie after the epoch.
    pub(crate) fn expiry(
        self,
        argument: &[u8],
        clock: ExpiryClock,
        command: &str,
    ) -> Result<u64, CommandError> {
        let value = integer(argument)?;
        let invalid = || {
            let name = command.to_ascii_lowercase();
            CommandError::err(format_args!("invalid expire time in '{name}' command"))
        };
        if value <= 0 {
            return Err(invalid());
        }
        self.milliseconds(value, clock).ok_or_else(invalid)
    }

    /// The expiry that a value means, if it can be represented; may lie in the past.
    pub(crate) fn milliseconds(self, value: i64, clock: ExpiryClock) -> Option<u64> {
        let ms = if self.is_seconds { value.checked_mul(1000)? } else { value };
        if self.is_absolute {
            return clock.expiry_at(ms);
        }
        let at_ms = ms.checked_add(clock.now_ms() as i64)?;
        Some(at_ms.max(0) as u64)
    }
}

/// The range of positions from `start` to `end` inclusive, counted from the end when negative,
/// within `length`.
///
/// An end before the beginning counts as the beginning, as in `GETRANGE`.
pub(crate) fn clamp_range(start: i64, end: i64, length: u64) -> Option<(u64, u64)> {
    let length = length as i64;
    if start < 0 && end < 0 && start > end {
        return None;
    }
    let from_end = |index: i64| if index < 0 { (length + index).max(0) } else { index };
    let (start, end) = (from_end(start), from_end(end).min(length - 1));
    (length > 0 && start <= end).then_some((start as u64, end as u64))
}

/// As [`clamp_range`], but an end before the beginning leaves nothing, as in `LRANGE`.
pub(crate) fn clamp_list_range(start: i64, end: i64, length: u64) -> Option<(u64, u64)> {
    if end < 0 && end.unsigned_abs() > length {
        return None;
    }
    clamp_range(start, end, length)
}

/// When `EXPIRE` and its kin apply.
#[derive(Default)]
pub(crate) struct Conditions {
    if_none: bool,
    if_any: bool,
    if_greater: bool,
    if_less: bool,
}

/// The error for an option that there is not.
fn unsupported(option: &[u8]) -> CommandError {
    CommandError::quoting("ERR Unsupported option ", option, "")
}

impl Conditions {
    /// The conditions that `options` state.
    pub(crate) fn of<'o>(
        options: impl IntoIterator<Item = &'o [u8]>,
    ) -> Result<Conditions, CommandError> {
        let mut conditions = Conditions::default();
        for option in options {
            if !conditions.add(option) {
                return Err(unsupported(option));
            }
        }
        conditions.check()?;
        Ok(conditions)
    }

    /// Adds the condition that an option means; `false` when it means none.
    fn add(&mut self, option: &[u8]) -> bool {
        match () {
            () if is(option, "NX") => self.if_none = true,
            () if is(option, "XX") => self.if_any = true,
            () if is(option, "GT") => self.if_greater = true,
            () if is(option, "LT") => self.if_less = true,
            () => return false,
        }
        true
    }

    /// Fails when conditions contradict each other.
    fn check(&self) -> Result<(), CommandError> {
        if self.if_none && (self.if_any || self.if_greater || self.if_less) {
            return Err(
                "ERR NX and XX, GT or LT options at the same time are not compatible".into()
            );
        }
        if self.if_greater && self.if_less {
            return Err("ERR GT and LT options at the same time are not compatible".into());
        }
        Ok(())
    }

    /// True if an expiry may be set to `at_ms`; no expiry counts as one that never comes.
    pub(crate) fn are_met(&self, present_ms: Option<u64>, at_ms: u64) -> bool {
        match present_ms {
            Some(_) if self.if_none => false,
            Some(present_ms) if self.if_greater => at_ms > present_ms,
            Some(present_ms) if self.if_less => at_ms < present_ms,
            Some(_) => true,
            None => !self.if_any && !self.if_greater,
        }
    }
}

/// A cursor.
pub(crate) fn parse_cursor(text: &[u8]) -> Result<u64, CommandError> {
    parse_unsigned(text).ok_or_else(|| "ERR invalid cursor".into())
}

/// A number as C reads an unsigned one: blanks and a sign may precede it, and a negative one counts
/// back from the greatest. But a 64-bit integer in its only spelling is not negative.
pub(crate) fn parse_unsigned(text: &[u8]) -> Option<u64> {
    match parse_integer(text) {
        Some(value) => u64::try_from(value).ok(),
        None => parse_other_spelling(text),
    }
}

fn parse_other_spelling(text: &[u8]) -> Option<u64> {
    let text = crate::error::until_nul(text);
    let start = text.iter().position(|byte| !matches!(byte, b' ' | 0x09..=0x0d))?;
    let (is_negative, digits) = match &text[start..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let value: u64 = std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()?;
    Some(if is_negative { value.wrapping_neg() } else { value })
}

/// Options of the commands that walk a collection step by step, behind the cursor.
pub(crate) struct ScanOptions<'a> {
    /// Pattern of the names that are wanted.
    pub(crate) pattern: Option<&'a [u8]>,
    /// Elements that a step is to visit.
    pub(crate) count: usize,
    /// Names only, without what belongs to them.
    pub(crate) names_only: bool,
}

impl<'a> ScanOptions<'a> {
    /// Reads the options. `names_only` is the word for that, where there is one.
    pub(crate) fn parse(
        args: &ArgumentView<'a>,
        names_only: Option<&str>,
    ) -> Result<ScanOptions<'a>, CommandError> {
        let mut options = ScanOptions { pattern: None, count: 10, names_only: false };
        let mut index = 3;
        while index < args.len() {
            let option = args.get(index);
            let value = (index + 1 < args.len()).then(|| args.get(index + 1));
            if names_only.is_some_and(|word| is(option, word)) {
                options.names_only = true;
                index += 1;
                continue;
            }
            match value {
                Some(value) if is(option, "COUNT") => {
                    let count = integer(value)?;
                    options.count = usize::try_from(count)
                        .ok()
                        .filter(|&count| count > 0)
                        .ok_or(CommandError::Syntax)?;
                }
                Some(value) if is(option, "MATCH") => options.pattern = Some(value),
                _ if is(option, "NOVALUES") => {
                    return Err("ERR NOVALUES option can only be used in HSCAN".into());
                }
                _ if is(option, "NOSCORES") => {
                    return Err("ERR NOSCORES option can only be used in ZSCAN".into());
                }
                _ => return Err(CommandError::Syntax),
            }
            index += 2;
        }
        Ok(options)
    }
}
