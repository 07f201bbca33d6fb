//! Heads: remembered beginnings of requests, as clients send the same few commands over and over.
//!
//! `*2\r\n$3\r\nGET\r\n` is parsed and its command looked up once; for requests that begin with the
//! same bytes, one comparison of sixteen bytes replaces both, or one of twenty-four for long names.

use super::arguments::Arguments;
use super::parser::short_arguments;

/// Number of heads that are remembered. Two with the same place displace each other.
const PLACES: usize = 64;
/// Bytes of a head that are compared at first: it has no more if the number of arguments and the
/// length of the name have one digit each, and the name up to six letters.
const SHORT_HEAD_BYTES_MAX: usize = 16;
/// Longest head in bytes.
const HEAD_BYTES_MAX: usize = 24;
/// Shortest head in bytes: the place is a hash of this many bytes, all of which must belong to the
/// head.
const HEAD_BYTES_MIN: usize = 13;

/// Most arguments behind the first of a remembered head.
const MORE_MAX: usize = 32;

/// A request up to the end of its first argument, and its meaning to the caller.
#[derive(Clone, Copy, Debug)]
struct Head<T> {
    /// Its first bytes, little-endian; those behind it are zero.
    bytes: u128,
    /// Ones for its bytes, zeros for those behind it.
    mask: u128,
    /// The bytes behind these, likewise.
    more_bytes: u64,
    more_mask: u64,
    length: u8,
    /// Start and length of its first argument.
    first: (u8, u8),
    /// Number of arguments behind the first.
    more: u8,
    meaning: T,
}

impl<T> Head<T> {
    /// True if the rest of a long head is that of `input`.
    #[inline]
    fn is_rest_of(&self, input: &[u8]) -> bool {
        let rest = input.get(SHORT_HEAD_BYTES_MAX..).and_then(<[u8]>::first_chunk);
        rest.is_some_and(|&rest| u64::from_le_bytes(rest) & self.more_mask == self.more_bytes)
    }
}

/// Table of the heads of past requests, each with its meaning to the caller.
#[derive(Debug)]
pub struct Heads<T> {
    places: Box<[Option<Head<T>>]>,
}

impl<T: Copy> Default for Heads<T> {
    fn default() -> Heads<T> {
        Heads { places: vec![None; PLACES].into_boxed_slice() }
    }
}

/// Place of a head, a hash of the bytes that are part of every one of them.
#[inline]
fn place_of(bytes: u128) -> usize {
    let (low, high) = (bytes as u64, (bytes >> 64) as u64 & 0xff_ffff);
    let mixed = (low ^ high << 29).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 58) as usize
}

impl<T: Copy> Heads<T> {
    /// Reads a short request whose head is remembered: its length, and the meaning of the head.
    /// None when the head is not known, or the request is incomplete, or not short behind its head.
    #[inline(always)]
    pub fn parse(&self, input: &[u8], args: &mut Arguments) -> Option<(usize, T)> {
        let bytes = u128::from_le_bytes(*input.first_chunk()?);
        let head = self.places[place_of(bytes)].as_ref()?;
        if bytes & head.mask != head.bytes || head.more_mask != 0 && !head.is_rest_of(input) {
            return None;
        }
        args.clear();
        args.push(head.first.0.into(), head.first.1.into());
        let end = short_arguments(input, head.length.into(), head.more, args)?;
        Some((end, head.meaning))
    }

    /// Remembers the head of a request that was parsed from `input` into `args`, if it has the form
    /// that clients write.
    pub fn remember(&mut self, input: &[u8], args: &Arguments, meaning: T) {
        let Some(first) = args.first_span() else { return };
        let (length, more) = (first.start + first.length + 2, args.len() - 1);
        // Behind `*2` and `$3`, of which one may have a digit more.
        let is_in_place = input.first() == Some(&b'*') && matches!(first.start, 8 | 9);
        if !is_in_place
            || more > MORE_MAX
            || !(HEAD_BYTES_MIN..=HEAD_BYTES_MAX).contains(&length)
            || input.len() < length
        {
            return;
        }
        let short = length.min(SHORT_HEAD_BYTES_MAX);
        let (mut bytes, mut mask, mut more_bytes, mut more_mask) =
            ([0; 16], [0; 16], [0; 8], [0; 8]);
        bytes[..short].copy_from_slice(&input[..short]);
        mask[..short].fill(u8::MAX);
        more_bytes[..length - short].copy_from_slice(&input[short..length]);
        more_mask[..length - short].fill(u8::MAX);
        let bytes = u128::from_le_bytes(bytes);
        self.places[place_of(bytes)] = Some(Head {
            bytes,
            mask: u128::from_le_bytes(mask),
            more_bytes: u64::from_le_bytes(more_bytes),
            more_mask: u64::from_le_bytes(more_mask),
            length: length as u8,
            first: (first.start as u8, first.length as u8),
            more: more as u8,
            meaning,
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::encode::encode;
    use super::super::parser::{Limits, RequestParser};
    use super::*;

    fn parsed(input: &[u8]) -> Arguments {
        let mut args = Arguments::new();
        let parsed = RequestParser::new().parse(input, &Limits::default(), &mut args);
        assert!(parsed.is_ok(), "{parsed:?}");
        args
    }

    #[test]
    fn request_with_a_remembered_head_is_read_by_it() {
        let mut heads = Heads::default();
        let set = encode(&[b"SET", b"key", b"value"]);
        assert_eq!(heads.parse(&set, &mut Arguments::new()), None, "nothing is remembered yet");
        heads.remember(&set, &parsed(&set), 7);
        let other = encode(&[b"SET", b"another key", b"x"]);
        let mut args = Arguments::new();
        assert_eq!(heads.parse(&other, &mut args), Some((other.len(), 7)));
        assert!(args.view(&other).iter().eq([&b"SET"[..], b"another key", b"x"]));
        // A long name, and a count of two digits.
        let long = encode(&[b"ZRANGEBYSCORE", b"key", b"1", b"2"]);
        let many = encode(&[&b"HSET"[..]; 12]);
        for (request, meaning) in [(&long, 8), (&many, 9)] {
            heads.remember(request, &parsed(request), meaning);
            assert_eq!(heads.parse(request, &mut args), Some((request.len(), meaning)));
            let mut other = request.clone();
            let last_of_name =
                parsed(request).first_span().map_or(0, |name| name.start + name.length - 1);
            other[last_of_name] = b'x';
            assert_eq!(heads.parse(&other, &mut args), None, "another name");
        }
        // Other counts, names and cases have other heads.
        for request in [
            encode(&[b"SET", b"key"]),
            encode(&[b"GET", b"k", b"v"]),
            encode(&[b"set", b"k", b"v"]),
        ] {
            assert_eq!(heads.parse(&request, &mut args), None, "{}", request.escape_ascii());
        }
        assert_eq!(heads.parse(&other[..other.len() - 1], &mut args), None, "it is not complete");
    }

    #[test]
    fn an_inline_request_and_one_behind_a_blank_one_are_not_remembered() {
        for input in ["PING some words\r\n", "\r\n*1\r\n$4\r\nPING\r\n", "*0\r\n*1\r\n$1\r\nA\r\n"]
        {
            let mut heads = Heads::default();
            heads.remember(input.as_bytes(), &parsed(input.as_bytes()), ());
            assert_eq!(heads.parse(input.as_bytes(), &mut Arguments::new()), None, "{input:?}");
        }
    }

    proptest! {
        /// A request that is read by its head is read alike by the parser.
        #[test]
        fn head_and_parser_read_alike(
            requests in proptest::collection::vec(
                proptest::collection::vec(prop_oneof!["[A-Ca-c]{2,14}".prop_map(String::into_bytes),
                    proptest::collection::vec(any::<u8>(), 0..9)], 1..14),
                1..40,
            ),
            (at, byte) in (
                0_usize..40,
                prop_oneof![Just(b'0'), Just(b'\r'), b'0'..=b':', any::<u8>()],
            ),
        ) {
            let mut heads = Heads::default();
            for (index, request) in requests.iter().enumerate() {
                let whole = encode(&request.iter().map(Vec::as_slice).collect::<Vec<_>>());
                let followed = [&whole[..], b"*1\r\n$4\r\nPING\r\n"].concat();
                let mut broken = followed.clone();
                if let Some(place) = broken.get_mut(at) {
                    *place = byte;
                }
                for input in [&followed, &broken] {
                    let mut args = Arguments::new();
                    let Some((consumed, meaning)) = heads.parse(input, &mut args) else { continue };
                    let whole_parse = parsed(input);
                    prop_assert!(args.view(input).iter().eq(whole_parse.view(input).iter()));
                    let first: &[u8] = &requests[meaning as usize][0];
                    prop_assert_eq!(args.view(input).get(0), first);
                    prop_assert_eq!(requests[meaning as usize].len(), args.len());
                    prop_assert!(consumed <= input.len());
                }
                heads.remember(&whole, &parsed(&whole), index as u32);
            }
        }
    }
}
