//! Parser of replies into owned values.

use super::error::ReplyError;
use super::line::{parse_length, read_line};
use super::value::Value;
use crate::limits::REPLY_DEPTH_MAX;
use crate::number::parse_integer;

/// Result of parsing.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplyProgress {
    /// A whole reply. The next one begins `consumed` bytes into the input.
    Complete {
        /// The reply.
        value: Value,
        /// Bytes of the input it took.
        consumed: usize,
    },
    /// No whole reply yet. Drop `consumed` bytes and call again with the rest and more.
    Incomplete {
        /// Bytes the parser has taken in.
        consumed: usize,
        /// Least number of bytes that are lacking.
        wanted: usize,
    },
}

/// Resumable parser of one connection. Elements of an aggregate are taken in one by one as they
/// arrive, so that only the bytes of one unfinished element are read twice.
#[derive(Debug, Default)]
pub struct ReplyParser {
    open: Vec<Open>,
}

/// Aggregate that lacks elements.
#[derive(Debug)]
struct Open {
    kind: u8,
    missing_count: u64,
    elements: Vec<Value>,
}

/// Result of one step over the input.
enum Element {
    Value(Value, usize),
    Opened(usize),
    Incomplete { wanted: usize },
}

impl ReplyParser {
    /// A parser at the beginning of a reply.
    #[must_use]
    pub fn new() -> ReplyParser {
        ReplyParser::default()
    }

    /// Parses the first reply of `input`, or goes on with the one begun.
    ///
    /// # Errors
    /// [`ReplyError`]; the connection is of no further use.
    pub fn parse(&mut self, input: &[u8]) -> Result<ReplyProgress, ReplyError> {
        let mut consumed = 0;
        loop {
            let value = match self.element(&input[consumed..])? {
                Element::Incomplete { wanted } => {
                    return Ok(ReplyProgress::Incomplete { consumed, wanted });
                }
                Element::Opened(length) => {
                    consumed += length;
                    continue;
                }
                Element::Value(value, length) => {
                    consumed += length;
                    value
                }
            };
            if let Some(value) = self.close(value) {
                return Ok(ReplyProgress::Complete { value, consumed });
            }
        }
    }

    fn element(&mut self, input: &[u8]) -> Result<Element, ReplyError> {
        let Some(&kind) = input.first() else {
            return Ok(Element::Incomplete { wanted: 1 });
        };
        if !b"+-:$*_#,(!=%~>|".contains(&kind) {
            return Err(ReplyError::UnknownType(kind));
        }
        let Some((line, next)) = read_line(input)? else {
            return Ok(Element::Incomplete { wanted: 1 });
        };
        match kind {
            b'$' | b'!' | b'=' => payload(kind, line, input, next),
            b'*' | b'~' | b'>' | b'%' | b'|' => self.aggregate(kind, line, next),
            _ => Ok(Element::Value(scalar(kind, line)?, next)),
        }
    }

    fn aggregate(&mut self, kind: u8, line: &[u8], next: usize) -> Result<Element, ReplyError> {
        let count = match parse_length(line)? {
            None if kind == b'*' => return Ok(Element::Value(Value::Null, next)),
            None => return Err(ReplyError::InvalidLength),
            Some(count) => count,
        };
        let missing_count = match kind {
            b'%' => count.checked_mul(2),
            // The reply that follows the attributes belongs to them.
            b'|' => count.checked_mul(2).and_then(|count| count.checked_add(1)),
            _ => Some(count),
        };
        let missing_count = missing_count.ok_or(ReplyError::InvalidLength)?;
        if missing_count == 0 {
            return Ok(Element::Value(assemble(kind, Vec::new()), next));
        }
        if self.open.len() == REPLY_DEPTH_MAX {
            return Err(ReplyError::TooDeep);
        }
        // The count is a claim: memory follows the elements that arrive.
        self.open.push(Open { kind, missing_count, elements: Vec::new() });
        Ok(Element::Opened(next))
    }

    /// Appends `value` to the innermost open aggregate, and closes those it completes. A value that
    /// is in none is returned.
    fn close(&mut self, mut value: Value) -> Option<Value> {
        while let Some(open) = self.open.last_mut() {
            open.elements.push(value);
            open.missing_count -= 1;
            if open.missing_count > 0 {
                return None;
            }
            let Open { kind, elements, .. } = self.open.pop()?;
            value = assemble(kind, elements);
        }
        Some(value)
    }
}

fn payload(kind: u8, line: &[u8], input: &[u8], next: usize) -> Result<Element, ReplyError> {
    let length = match parse_length(line)? {
        None if kind == b'$' => return Ok(Element::Value(Value::Null, next)),
        None => return Err(ReplyError::InvalidLength),
        Some(length) => usize::try_from(length).map_err(|_| ReplyError::InvalidLength)?,
    };
    // Cannot overflow: a length is at most i64::MAX and a position at most isize::MAX.
    let end = next + length;
    match input.get(end..end + 2) {
        Some(b"\r\n") => {}
        Some(_) => return Err(ReplyError::InvalidCrlf),
        None => return Ok(Element::Incomplete { wanted: end + 2 - input.len() }),
    }
    let bytes = &input[next..end];
    let value = match kind {
        b'$' => Value::Bulk(bytes.to_vec()),
        b'!' => Value::Error(bytes.to_vec()),
        _ => match bytes {
            &[a, b, c, b':', ref text @ ..] => {
                Value::Verbatim { format: [a, b, c], text: text.to_vec() }
            }
            _ => return Err(ReplyError::InvalidScalar),
        },
    };
    Ok(Element::Value(value, end + 2))
}

fn scalar(kind: u8, line: &[u8]) -> Result<Value, ReplyError> {
    match (kind, line) {
        (b'+', _) => Some(Value::SimpleString(line.to_vec())),
        (b'-', _) => Some(Value::Error(line.to_vec())),
        (b':', _) => parse_integer(line).map(Value::Integer),
        (b',', _) => {
            std::str::from_utf8(line).ok().and_then(|text| text.parse().ok()).map(Value::Double)
        }
        (b'(', _) => is_big_number(line).then(|| Value::BigNumber(line.to_vec())),
        (b'#', b"t") => Some(Value::Boolean(true)),
        (b'#', b"f") => Some(Value::Boolean(false)),
        (b'_', b"") => Some(Value::Null),
        _ => None,
    }
    .ok_or(ReplyError::InvalidScalar)
}

fn is_big_number(line: &[u8]) -> bool {
    let digits = line.strip_prefix(b"-").unwrap_or(line);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

fn assemble(kind: u8, elements: Vec<Value>) -> Value {
    match kind {
        b'*' => Value::Array(elements),
        b'~' => Value::Set(elements),
        b'>' => Value::Push(elements),
        b'%' => Value::Map(pairs(elements.into_iter())),
        _ => {
            let mut elements = elements;
            let value = elements.pop().expect("attributes are followed by a reply");
            let attributes = pairs(elements.into_iter());
            Value::Attributed { attributes, value: Box::new(value) }
        }
    }
}

fn pairs(mut elements: impl Iterator<Item = Value>) -> Vec<(Value, Value)> {
    let mut pairs = Vec::new();
    while let (Some(key), Some(value)) = (elements.next(), elements.next()) {
        pairs.push((key, value));
    }
    pairs
}
