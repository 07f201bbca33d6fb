//! Counting of replies without building them.

use memchr::memchr;

use super::error::ReplyError;
use super::line::parse_length;
use crate::limits::REPLY_LINE_BYTES_MAX;

/// Longest line with a length: a type byte and an `i64`. Text lines are not kept.
const LENGTH_LINE_BYTES_MAX: usize = 24;

/// Number of replies that a scan completed, by their kind at the outermost level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCounts {
    /// All replies but pushes.
    pub replies: u64,
    /// Replies that are errors; they count as replies too.
    pub errors: u64,
    /// Replies that are null; they count as replies too.
    pub nulls: u64,
    /// Out-of-band messages.
    pub pushes: u64,
}

impl std::ops::AddAssign for ScanCounts {
    fn add_assign(&mut self, other: ScanCounts) {
        self.replies += other.replies;
        self.errors += other.errors;
        self.nulls += other.nulls;
        self.pushes += other.pushes;
    }
}

/// Scanner that counts complete replies in the bytes of one connection. It takes in every byte it
/// is given, so no read buffer has to be kept; a reply over many reads costs its state, some fifty
/// bytes. Nesting costs nothing: one number counts the missing elements at all levels.
///
/// It checks only what it needs to find the next reply: the text of a number is skipped unread.
#[derive(Debug, Default)]
pub struct ReplyScanner {
    state: State,
    /// Elements missing until the reply is complete; 0 between replies.
    missing_count: u64,
    outermost: Outermost,
    /// True if the element being read is the reply itself.
    is_outermost: bool,
    line: [u8; LENGTH_LINE_BYTES_MAX],
    line_length: usize,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// Before a type byte.
    #[default]
    Start,
    /// In a line whose text is skipped; the bytes of it so far.
    TextLine { length: usize },
    /// In a line with a length, kept in `line`.
    LengthLine,
    /// In a line, behind its CR.
    LineFeed { has_length: bool },
    /// In a payload and the CR LF behind it.
    Payload { missing_bytes: u64 },
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Outermost {
    #[default]
    Other,
    Error,
    Null,
    Push,
    /// The reply behind the attributes is yet to be read.
    Attributes,
}

impl ReplyScanner {
    /// A scanner at the beginning of a reply.
    #[must_use]
    pub fn new() -> ReplyScanner {
        ReplyScanner::default()
    }

    /// True if the bytes so far end with a complete reply.
    #[must_use]
    pub fn is_between_replies(&self) -> bool {
        matches!(self.state, State::Start) && self.missing_count == 0
    }

    /// Takes in `chunk` and adds the replies that end in it to `counts`, up to an error if there is
    /// one.
    ///
    /// # Errors
    /// [`ReplyError`]; the connection is of no further use.
    pub fn scan(&mut self, chunk: &[u8], counts: &mut ScanCounts) -> Result<(), ReplyError> {
        let mut rest = chunk;
        while !rest.is_empty() {
            rest = match self.state {
                State::Start => match self.whole_bulk(rest, counts) {
                    Some(after) => after,
                    None => self.start(rest)?,
                },
                State::TextLine { length } => self.text_line(rest, length)?,
                State::LengthLine => self.length_line(rest)?,
                State::LineFeed { has_length } => self.line_feed(rest, has_length, counts)?,
                State::Payload { missing_bytes } => self.payload(rest, missing_bytes, counts)?,
            };
        }
        Ok(())
    }

    /// The usual reply, a complete string shorter than 100 bytes, in one step.
    #[inline]
    fn whole_bulk<'a>(&mut self, rest: &'a [u8], counts: &mut ScanCounts) -> Option<&'a [u8]> {
        let (body, length) = match *rest {
            [b'$', ones @ b'0'..=b'9', b'\r', b'\n', ..] => (4, usize::from(ones - b'0')),
            [b'$', tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', b'\n', ..] => {
                (5, usize::from(tens - b'0') * 10 + usize::from(ones - b'0'))
            }
            _ => return None,
        };
        let [b'\r', b'\n', after @ ..] = rest.get(body + length..)? else { return None };
        if self.missing_count == 0 {
            counts.replies += 1;
        } else {
            self.complete_element(counts);
        }
        Some(after)
    }

    fn start<'a>(&mut self, rest: &'a [u8]) -> Result<&'a [u8], ReplyError> {
        let kind = rest[0];
        self.state = match kind {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => State::TextLine { length: 0 },
            b'$' | b'!' | b'=' | b'*' | b'%' | b'~' | b'>' | b'|' => State::LengthLine,
            _ => return Err(ReplyError::UnknownType(kind)),
        };
        self.line[0] = kind;
        self.line_length = 1;
        self.is_outermost = self.missing_count == 0
            || (self.missing_count == 1 && self.outermost == Outermost::Attributes);
        if self.is_outermost {
            self.missing_count = 1;
            self.outermost = match kind {
                b'-' | b'!' => Outermost::Error,
                b'_' => Outermost::Null,
                b'>' => Outermost::Push,
                b'|' => Outermost::Attributes,
                _ => Outermost::Other,
            };
        }
        Ok(&rest[1..])
    }

    fn text_line<'a>(&mut self, rest: &'a [u8], length: usize) -> Result<&'a [u8], ReplyError> {
        let end = memchr(b'\r', rest);
        let length = length + end.unwrap_or(rest.len());
        if length > REPLY_LINE_BYTES_MAX {
            return Err(ReplyError::TooLongLine);
        }
        let (state, taken) = match end {
            Some(end) => (State::LineFeed { has_length: false }, end + 1),
            None => (State::TextLine { length }, rest.len()),
        };
        self.state = state;
        Ok(&rest[taken..])
    }

    fn length_line<'a>(&mut self, rest: &'a [u8]) -> Result<&'a [u8], ReplyError> {
        for (index, &byte) in rest.iter().enumerate() {
            if byte == b'\r' {
                self.state = State::LineFeed { has_length: true };
                return Ok(&rest[index + 1..]);
            }
            *self.line.get_mut(self.line_length).ok_or(ReplyError::InvalidLength)? = byte;
            self.line_length += 1;
        }
        Ok(&[])
    }

    fn line_feed<'a>(
        &mut self,
        rest: &'a [u8],
        has_length: bool,
        counts: &mut ScanCounts,
    ) -> Result<&'a [u8], ReplyError> {
        if rest[0] != b'\n' {
            return Err(ReplyError::InvalidCrlf);
        }
        self.state = State::Start;
        if has_length {
            self.announced(counts)?;
        } else {
            self.complete_element(counts);
        }
        Ok(&rest[1..])
    }

    /// Processes the length in `line`.
    fn announced(&mut self, counts: &mut ScanCounts) -> Result<(), ReplyError> {
        let kind = self.line[0];
        let length = match parse_length(&self.line[1..self.line_length])? {
            Some(length) => length,
            None if matches!(kind, b'$' | b'*') => {
                if self.is_outermost {
                    self.outermost = Outermost::Null;
                }
                self.complete_element(counts);
                return Ok(());
            }
            None => return Err(ReplyError::InvalidLength),
        };
        let further_count = match kind {
            b'$' | b'!' | b'=' => {
                // Cannot overflow: a length is at most i64::MAX.
                self.state = State::Payload { missing_bytes: length + 2 };
                return Ok(());
            }
            b'%' => length.checked_mul(2),
            // Attributes come on top of the reply they belong to, which is still missing.
            b'|' => length.checked_mul(2).and_then(|count| count.checked_add(1)),
            _ => Some(length),
        };
        self.missing_count = further_count
            .and_then(|count| self.missing_count.checked_add(count))
            .ok_or(ReplyError::InvalidLength)?;
        self.complete_element(counts);
        Ok(())
    }

    fn payload<'a>(
        &mut self,
        rest: &'a [u8],
        missing_bytes: u64,
        counts: &mut ScanCounts,
    ) -> Result<&'a [u8], ReplyError> {
        let taken = usize::try_from(missing_bytes).unwrap_or(usize::MAX).min(rest.len());
        for (from_end, expected) in [(2, b'\r'), (1, b'\n')] {
            // The last two bytes, if they are in this chunk.
            let at = missing_bytes.checked_sub(from_end).and_then(|at| usize::try_from(at).ok());
            if at.and_then(|at| rest.get(at)).is_some_and(|&byte| byte != expected) {
                return Err(ReplyError::InvalidCrlf);
            }
        }
        let missing_bytes = missing_bytes - taken as u64;
        if missing_bytes == 0 {
            self.state = State::Start;
            self.complete_element(counts);
        } else {
            self.state = State::Payload { missing_bytes };
        }
        Ok(&rest[taken..])
    }

    fn complete_element(&mut self, counts: &mut ScanCounts) {
        self.missing_count -= 1;
        if self.missing_count > 0 {
            return;
        }
        match self.outermost {
            Outermost::Push => {
                counts.pushes += 1;
                return;
            }
            Outermost::Error => counts.errors += 1,
            Outermost::Null => counts.nulls += 1,
            Outermost::Other | Outermost::Attributes => {}
        }
        counts.replies += 1;
    }
}
