//! Patterns of Lua: matching with a bounded depth, which asks the host now and then.

use crate::limits::{CAPTURES_MAX, PATTERN_BYTES_PER_STEP, PATTERN_DEPTH_MAX, STEPS_PER_INTERRUPT};

/// Extent of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Capture {
    Open(usize),
    Position(usize),
    Range(usize, usize),
}

/// The reason for which a match ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    Text(&'static str),
    /// The host ends the run.
    Killed,
}

type Matched = Result<Option<usize>, Trouble>;

/// A match of a pattern in a text.
pub(super) struct Matcher<'t> {
    pub(super) text: &'t [u8],
    pub(super) pattern: &'t [u8],
    pub(super) captures: [Capture; CAPTURES_MAX],
    pub(super) level: usize,
    depth: usize,
    /// Steps since the last question to the host.
    pub(super) steps: usize,
    /// Asks the host; false stops the match.
    pub(super) ask: &'t mut dyn FnMut() -> bool,
}

fn class_matches(byte: u8, class: u8) -> bool {
    let is_in = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | b'\t'..=b'\r'),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_in != class.is_ascii_uppercase()
}

impl<'t> Matcher<'t> {
    pub(super) fn new(
        text: &'t [u8],
        pattern: &'t [u8],
        steps: usize,
        ask: &'t mut dyn FnMut() -> bool,
    ) -> Self {
        Self {
            text,
            pattern,
            captures: [Capture::Open(0); CAPTURES_MAX],
            level: 0,
            depth: 0,
            steps,
            ask,
        }
    }

    /// Matches the pattern from its place on at a place of the text.
    pub(super) fn run(&mut self, at: usize, from: usize) -> Matched {
        self.level = 0;
        self.depth = 0;
        self.matches(at, from)
    }

    fn step(&mut self) -> Result<(), Trouble> {
        self.work(1)
    }

    fn work(&mut self, steps: usize) -> Result<(), Trouble> {
        self.steps += steps;
        if self.steps >= STEPS_PER_INTERRUPT as usize {
            self.steps = 0;
            if !(self.ask)() {
                return Err(Trouble::Killed);
            }
        }
        Ok(())
    }

    /// Counts a look at some bytes of the text or the pattern.
    fn look(&mut self, bytes: usize) -> Result<(), Trouble> {
        self.work(bytes / PATTERN_BYTES_PER_STEP)
    }

    fn matches(&mut self, at: usize, from: usize) -> Matched {
        self.depth += 1;
        if self.depth > PATTERN_DEPTH_MAX {
            return Err(Trouble::Text("pattern too complex"));
        }
        let result = self.items(at, from);
        self.depth -= 1;
        result
    }

    fn items(&mut self, at: usize, from: usize) -> Matched {
        let (mut at, mut item) = (at, from);
        loop {
            self.step()?;
            let Some(byte) = self.pattern.get(item).copied() else { return Ok(Some(at)) };
            let next = self.pattern.get(item + 1).copied();
            match (byte, next) {
                (b'(', Some(b')')) => {
                    return self.open(at, item + 2, Capture::Position(at));
                }
                (b'(', _) => return self.open(at, item + 1, Capture::Open(at)),
                (b')', _) => return self.close(at, item + 1),
                (b'%', Some(b'b')) => match self.balanced(at, item + 2)? {
                    Some(end) => {
                        (at, item) = (end, item + 4);
                        continue;
                    }
                    None => return Ok(None),
                },
                (b'%', Some(b'f')) => {
                    item += 2;
                    if self.pattern.get(item) != Some(&b'[') {
                        return Err(Trouble::Text("missing '[' after '%f' in pattern"));
                    }
                    let end = self.class_end(item)?;
                    self.look(end - item)?;
                    let before = if at == 0 { 0 } else { self.text[at - 1] };
                    let behind = self.text.get(at).copied().unwrap_or(0);
                    if self.set_matches(before, item, end - 1)
                        || !self.set_matches(behind, item, end - 1)
                    {
                        return Ok(None);
                    }
                    item = end;
                    continue;
                }
                (b'%', Some(digit)) if digit.is_ascii_digit() => {
                    match self.back_reference(at, digit)? {
                        Some(end) => {
                            (at, item) = (end, item + 2);
                            continue;
                        }
                        None => return Ok(None),
                    }
                }
                (b'$', None) => {
                    return Ok((at == self.text.len()).then_some(at));
                }
                _ => {}
            }
            let end = self.class_end(item)?;
            self.look(end - item)?;
            let is_match = self.single(at, item, end);
            match self.pattern.get(end) {
                Some(b'?') => {
                    if is_match && let Some(found) = self.matches(at + 1, end + 1)? {
                        return Ok(Some(found));
                    }
                    item = end + 1;
                }
                Some(b'*') => return self.longest(at, item, end, 0),
                Some(b'+') => return self.longest(at, item, end, 1),
                Some(b'-') => return self.shortest(at, item, end),
                _ if is_match => (at, item) = (at + 1, end),
                _ => return Ok(None),
            }
        }
    }

    fn class_end(&self, item: usize) -> Result<usize, Trouble> {
        let mut at = item + 1;
        match self.pattern[item] {
            b'%' => {
                if at >= self.pattern.len() {
                    return Err(Trouble::Text("malformed pattern (ends with '%')"));
                }
                Ok(at + 1)
            }
            b'[' => {
                if self.pattern.get(at) == Some(&b'^') {
                    at += 1;
                }
                loop {
                    let Some(byte) = self.pattern.get(at) else {
                        return Err(Trouble::Text("malformed pattern (missing ']')"));
                    };
                    at += 1;
                    if *byte == b'%' && at < self.pattern.len() {
                        at += 1;
                    }
                    if self.pattern.get(at) == Some(&b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(at),
        }
    }

    fn single(&self, at: usize, item: usize, end: usize) -> bool {
        let Some(byte) = self.text.get(at).copied() else { return false };
        match self.pattern[item] {
            b'.' => true,
            b'%' => class_matches(byte, self.pattern[item + 1]),
            b'[' => self.set_matches(byte, item, end - 1),
            other => other == byte,
        }
    }

    /// Set from its `[` to its `]`.
    fn set_matches(&self, byte: u8, item: usize, end: usize) -> bool {
        let mut at = item + 1;
        let is_negated = self.pattern.get(at) == Some(&b'^');
        at += usize::from(is_negated);
        while at < end {
            let first = self.pattern[at];
            if first == b'%' && at + 1 < self.pattern.len() {
                if class_matches(byte, self.pattern[at + 1]) {
                    return !is_negated;
                }
                at += 2;
            } else if self.pattern.get(at + 1) == Some(&b'-') && at + 2 < end {
                if (first..=self.pattern[at + 2]).contains(&byte) {
                    return !is_negated;
                }
                at += 3;
            } else {
                if first == byte {
                    return !is_negated;
                }
                at += 1;
            }
        }
        is_negated
    }

    fn longest(&mut self, at: usize, item: usize, end: usize, least: usize) -> Matched {
        let mut count = 0;
        while self.single(at + count, item, end) {
            count += 1;
            // A set may be as long as the text.
            self.look(end - item)?;
        }
        self.look(count)?;
        loop {
            if count < least {
                return Ok(None);
            }
            self.step()?;
            if let Some(found) = self.matches(at + count, end + 1)? {
                return Ok(Some(found));
            }
            if count == 0 {
                return Ok(None);
            }
            count -= 1;
        }
    }

    fn shortest(&mut self, at: usize, item: usize, end: usize) -> Matched {
        let mut at = at;
        loop {
            self.step()?;
            self.look(end - item)?;
            if let Some(found) = self.matches(at, end + 1)? {
                return Ok(Some(found));
            }
            if !self.single(at, item, end) {
                return Ok(None);
            }
            at += 1;
        }
    }

    fn open(&mut self, at: usize, item: usize, capture: Capture) -> Matched {
        if self.level >= CAPTURES_MAX {
            return Err(Trouble::Text("too many captures"));
        }
        self.captures[self.level] = capture;
        self.level += 1;
        let found = self.matches(at, item)?;
        if found.is_none() {
            self.level -= 1;
        }
        Ok(found)
    }

    fn close(&mut self, at: usize, item: usize) -> Matched {
        let is_open = |capture: &Capture| matches!(capture, Capture::Open(_));
        let Some(index) = self.captures[..self.level].iter().rposition(is_open) else {
            return Err(Trouble::Text("invalid pattern capture"));
        };
        let Capture::Open(start) = self.captures[index] else { return Ok(None) };
        self.captures[index] = Capture::Range(start, at);
        let found = self.matches(at, item)?;
        if found.is_none() {
            self.captures[index] = Capture::Open(start);
        }
        Ok(found)
    }

    fn balanced(&mut self, at: usize, item: usize) -> Matched {
        let (Some(open), Some(close)) = (self.pattern.get(item), self.pattern.get(item + 1)) else {
            return Err(Trouble::Text("unbalanced pattern"));
        };
        if self.text.get(at) != Some(open) {
            return Ok(None);
        }
        let (mut depth, mut end) = (1, None);
        for (offset, byte) in self.text[at + 1..].iter().enumerate() {
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    end = Some(at + offset + 2);
                    break;
                }
            } else if byte == open {
                depth += 1;
            }
        }
        self.look(end.unwrap_or(self.text.len()) - at)?;
        Ok(end)
    }

    fn back_reference(&mut self, at: usize, digit: u8) -> Matched {
        let index = usize::from(digit).wrapping_sub(usize::from(b'1'));
        let (start, end) = match self.captures[..self.level].get(index) {
            Some(Capture::Range(start, end)) => (*start, *end),
            // A position capture has a length that no text has.
            Some(Capture::Position(_)) => return Ok(None),
            _ => return Err(Trouble::Text("invalid capture index")),
        };
        let length = end - start;
        self.look(length)?;
        let is_same = self.text.get(at..at + length) == Some(&self.text[start..end]);
        Ok(is_same.then_some(at + length))
    }
}
