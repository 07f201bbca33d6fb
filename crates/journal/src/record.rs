//! Record: the effects of one unit, as RESP commands.

use crate::limits::LARGE_EFFECT_BYTES;

/// Effects of one unit, which are applied together or not at all unless it is
/// [divisible](Record::set_divisible). Its buffers are kept from unit to unit.
#[derive(Debug, Default)]
pub struct Record {
    pub(crate) bytes: Vec<u8>,
    pub(crate) spans: Vec<EffectSpan>,
    pub(crate) large: Vec<Box<[u8]>>,
    pub(crate) is_divisible: bool,
}

/// One effect within a buffer: the bytes behind those of the effect before it, or the next of the
/// large ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EffectSpan {
    pub(crate) database: usize,
    pub(crate) length: usize,
    pub(crate) is_large: bool,
}

/// One effect: a command in RESP, and the database in which it is executed.
#[derive(Clone, Copy, Debug)]
pub struct Effect<'r> {
    /// Index of the database.
    pub database: usize,
    /// The command as an array of bulk strings.
    pub bytes: &'r [u8],
}

impl Record {
    /// Adds an effect: a command and its arguments.
    pub fn push<'a>(
        &mut self,
        database: usize,
        arguments: impl IntoIterator<Item = &'a [u8], IntoIter: Clone>,
    ) {
        let arguments = arguments.into_iter();
        let (mut count, mut payload_bytes) = (0, 0);
        for argument in arguments.clone() {
            count += 1;
            payload_bytes += argument.len();
        }
        let is_large = payload_bytes >= LARGE_EFFECT_BYTES;
        let length = if is_large {
            let mut bytes = Vec::with_capacity(payload_bytes + 16 * (count + 1));
            encode(count, arguments, &mut bytes);
            let length = bytes.len();
            self.large.push(bytes.into_boxed_slice());
            length
        } else {
            let before = self.bytes.len();
            encode(count, arguments, &mut self.bytes);
            self.bytes.len() - before
        };
        self.spans.push(EffectSpan { database, length, is_large });
    }

    /// Its effects are those of commands by themselves: the first ones may be applied without those
    /// behind them.
    pub fn set_divisible(&mut self) {
        self.is_divisible = true;
    }

    /// Moves all effects of another record behind those of this one, which is not divisible then.
    pub fn append(&mut self, other: &mut Record) {
        self.bytes.extend_from_slice(&other.bytes);
        other.bytes.clear();
        self.spans.append(&mut other.spans);
        self.large.append(&mut other.large);
        (self.is_divisible, other.is_divisible) = (false, false);
    }

    /// True if it has no effect.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Forgets all effects and keeps at most `bytes_max` of each of its buffers.
    pub fn clear(&mut self, bytes_max: usize) {
        clear(&mut self.bytes, bytes_max);
        clear(&mut self.spans, bytes_max);
        clear(&mut self.large, bytes_max);
        self.is_divisible = false;
    }

    /// Bytes of its buffers, in use or not.
    #[must_use]
    pub fn buffer_bytes(&self) -> usize {
        let spans = self.spans.capacity() * size_of::<EffectSpan>();
        let large: usize = self.large.iter().map(|bytes| bytes.len()).sum();
        self.bytes.capacity() + spans + self.large.capacity() * size_of::<Box<[u8]>>() + large
    }

    /// Its effects in order.
    #[must_use]
    pub fn effects(&self) -> Effects<'_> {
        Effects { spans: self.spans.iter(), bytes: &self.bytes, large: self.large.iter() }
    }
}

/// Empties a buffer, which keeps at most `bytes_max` of its memory.
pub(crate) fn clear<T>(buffer: &mut Vec<T>, bytes_max: usize) {
    buffer.clear();
    buffer.shrink_to(bytes_max / size_of::<T>());
}

/// Effects of a record in order.
#[derive(Clone, Debug)]
pub struct Effects<'r> {
    spans: std::slice::Iter<'r, EffectSpan>,
    bytes: &'r [u8],
    large: std::slice::Iter<'r, Box<[u8]>>,
}

impl<'r> Iterator for Effects<'r> {
    type Item = Effect<'r>;

    fn next(&mut self) -> Option<Effect<'r>> {
        let span = self.spans.next()?;
        let bytes = if span.is_large {
            self.large.next()?
        } else {
            let (bytes, rest) = self.bytes.split_at(span.length);
            self.bytes = rest;
            bytes
        };
        Some(Effect { database: span.database, bytes })
    }
}

/// Writes a command as an array of bulk strings.
pub(crate) fn encode<'a>(
    count: usize,
    arguments: impl Iterator<Item = &'a [u8]>,
    out: &mut Vec<u8>,
) {
    head(b'*', count, out);
    for argument in arguments {
        head(b'$', argument.len(), out);
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}

fn head(mark: u8, number: usize, out: &mut Vec<u8>) {
    out.push(mark);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_come_back_in_order_large_ones_among_them() {
        let large = vec![b'x'; LARGE_EFFECT_BYTES];
        let mut record = Record::default();
        record.push(0, [&b"SET"[..], b"a", b"1"]);
        record.push(3, [&b"SET"[..], b"b", &large]);
        let mut other = Record::default();
        other.push(1, [&b"DEL"[..], b"c"]);
        record.append(&mut other);
        assert!(other.is_empty());
        let effects: Vec<_> = record.effects().collect();
        assert_eq!(effects[0].bytes, b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n");
        assert_eq!(effects[1].database, 3);
        assert_eq!(effects[1].bytes.len(), LARGE_EFFECT_BYTES + 30);
        assert_eq!(
            (effects[2].database, effects[2].bytes),
            (1, &b"*2\r\n$3\r\nDEL\r\n$1\r\nc\r\n"[..])
        );
        record.clear(0);
        assert_eq!(record.effects().count(), 0);
    }
}
