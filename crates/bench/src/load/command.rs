//! Commands as templates: what is constant is rendered once.
//!
//! The common commands hold one key, whose number varies in width, and perhaps one value of a
//! fixed size. For those the whole request is baked once per number of digits, and sending one is
//! a copy, the digits, and for random data a second copy. Everything else is rendered piece by
//! piece.

use std::fmt;
use std::sync::Arc;

use crate::limits::VECTORED_VALUE_BYTES;
use crate::load::keys::{KeySource, Pattern, Random, below};
use crate::load::replay::Replay;
use crate::load::values::{Slab, Window};
use crate::secrets::hide;

/// Placeholder of `--command` for a key.
pub const KEY_PLACEHOLDER: &str = "__key__";
/// Placeholder of `--command` for a value.
pub const DATA_PLACEHOLDER: &str = "__data__";
/// Placeholder for a random number over the key range, 12 digits, as in redis-benchmark.
pub const NUMBER_PLACEHOLDER: &str = "__rand_int__";

/// Category of a command in memtier's reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The SET of `--ratio`.
    Set,
    /// The GET of `--ratio`: hits and misses are counted.
    Get,
    /// A `--command`.
    Other,
}

/// A part of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// These bytes.
    Literal(Vec<u8>),
    /// Prefix and number of a key.
    Key,
    /// A value.
    Data,
    /// A decimal number between the two, inclusive, padded with zeros to the width.
    Number {
        /// Smallest.
        minimum: u64,
        /// Largest.
        maximum: u64,
        /// Least digits.
        width: usize,
    },
    /// The cursor of the last SCAN reply on the connection.
    Cursor,
}

/// One command of the mix.
#[derive(Clone)]
pub struct Command {
    /// First word in upper case.
    pub name: String,
    /// The whole line as given but for passwords, for reports by line.
    pub line: String,
    /// Category in the reports.
    pub role: Role,
    /// Arguments, the name among them.
    pub arguments: Vec<Vec<Piece>>,
    /// Number of times in a row that it is sent; 0 for one that only `replay` of another sends.
    pub ratio: u32,
    /// Pattern of its keys.
    pub pattern: Pattern,
    /// Recorded requests that are sent instead of the arguments.
    pub replay: Option<Arc<Replay>>,
}

impl fmt::Debug for Command {
    /// Without its arguments, among which a password may be.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Command")
            .field("line", &self.line)
            .field("ratio", &self.ratio)
            .field("pattern", &self.pattern)
            .field("replay", &self.replay)
            .finish_non_exhaustive()
    }
}

impl Command {
    /// Parses a command line with placeholders; quotes group as in a shell, `\xNN`, `\n`, `\r`,
    /// `\t`, `\a`, `\b` and `\"` stand for bytes inside double quotes.
    ///
    /// # Errors
    /// Says what is wrong with the line.
    pub fn parse(line: &str, number_range: (u64, u64)) -> Result<Self, String> {
        let words = split_words(line)?;
        let Some(first) = words.first() else { return Err("an empty command".into()) };
        let name = String::from_utf8_lossy(first).to_uppercase();
        let arguments: Vec<_> =
            words.iter().map(|word| split_placeholders(word, number_range)).collect();
        if arguments[0].iter().any(|piece| !matches!(piece, Piece::Literal(_))) {
            return Err(format!("{:?}: the command name cannot be a placeholder", hide(line)));
        }
        if !has_one_reply(&name) {
            return Err(format!("{name}: has not exactly one reply per request"));
        }
        Ok(Self {
            name,
            line: hide(line),
            role: Role::Other,
            arguments,
            ratio: 1,
            pattern: Pattern::Uniform,
            replay: None,
        })
    }

    /// Keys in one request.
    pub fn key_count(&self) -> usize {
        self.arguments.iter().flatten().filter(|piece| **piece == Piece::Key).count()
    }

    /// True if a nil reply is a miss.
    pub fn counts_misses(&self) -> bool {
        self.role == Role::Get
            || matches!(
                self.name.as_str(),
                "GET" | "MGET" | "HGET" | "HMGET" | "GETEX" | "GETDEL" | "GETRANGE"
            )
    }
}

/// True if a server answers every request of this name (in upper case) with one reply.
pub(super) fn has_one_reply(name: &str) -> bool {
    !matches!(
        name,
        "SUBSCRIBE"
            | "UNSUBSCRIBE"
            | "PSUBSCRIBE"
            | "PUNSUBSCRIBE"
            | "SSUBSCRIBE"
            | "SUNSUBSCRIBE"
            | "MONITOR"
            | "SYNC"
            | "PSYNC"
    )
}

/// Splits a line into words; see `Command::parse`.
///
/// # Errors
/// Says what is wrong with the line.
pub fn split_words(line: &str) -> Result<Vec<Vec<u8>>, String> {
    let mut words = Vec::new();
    let mut bytes = line.bytes().peekable();
    loop {
        while bytes.next_if(u8::is_ascii_whitespace).is_some() {}
        if bytes.peek().is_none() {
            return Ok(words);
        }
        let mut word = Vec::new();
        let mut quote = None;
        loop {
            match (bytes.next(), quote) {
                (None, None) => break,
                (None, Some(_)) => return Err(format!("{:?}: an open quote", hide(line))),
                (Some(byte), None) if byte.is_ascii_whitespace() => break,
                (Some(byte @ (b'"' | b'\'')), None) => quote = Some(byte),
                (Some(byte), Some(open)) if byte == open => quote = None,
                (Some(b'\\'), Some(b'"')) => word.push(unescape(&mut bytes, line)?),
                (Some(byte), _) => word.push(byte),
            }
        }
        words.push(word);
    }
}

fn unescape(bytes: &mut impl Iterator<Item = u8>, line: &str) -> Result<u8, String> {
    let wrong = || format!("{:?}: a wrong escape", hide(line));
    Ok(match bytes.next().ok_or_else(wrong)? {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'a' => 0x07,
        b'b' => 0x08,
        b'x' => {
            let mut digit = || (bytes.next()? as char).to_digit(16);
            let (high, low) = (digit().ok_or_else(wrong)?, digit().ok_or_else(wrong)?);
            (high * 16 + low) as u8
        }
        byte => byte,
    })
}

fn split_placeholders(word: &[u8], number_range: (u64, u64)) -> Vec<Piece> {
    let (minimum, maximum) = number_range;
    let forms = [
        (KEY_PLACEHOLDER, Piece::Key),
        (DATA_PLACEHOLDER, Piece::Data),
        (NUMBER_PLACEHOLDER, Piece::Number { minimum, maximum, width: 12 }),
    ];
    let mut pieces = Vec::new();
    let mut rest = word;
    loop {
        let found = forms
            .iter()
            .filter_map(|(text, piece)| {
                memchr::memmem::find(rest, text.as_bytes()).map(|at| (at, text.len(), piece))
            })
            .min_by_key(|&(at, ..)| at);
        let Some((at, length, piece)) = found else { break };
        if at > 0 {
            pieces.push(Piece::Literal(rest[..at].to_vec()));
        }
        pieces.push(piece.clone());
        rest = &rest[at + length..];
    }
    if !rest.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Literal(rest.to_vec()));
    }
    pieces
}

/// Bytes on their way to the server: own bytes, with windows of the slab in between.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    slices: Vec<Slice>,
    sent: usize,
    slices_sent: usize,
}

#[derive(Clone, Copy, Debug)]
enum Slice {
    Own(usize, usize),
    Slab(Window),
}

impl Output {
    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn push_window(&mut self, window: Window) {
        self.close_tail();
        self.slices.push(Slice::Slab(window));
    }

    /// Own bytes behind the last slice become a slice.
    fn close_tail(&mut self) {
        let covered = self
            .slices
            .iter()
            .rev()
            .find_map(|slice| match slice {
                Slice::Own(_, end) => Some(*end),
                Slice::Slab(_) => None,
            })
            .unwrap_or(0);
        if covered < self.bytes.len() {
            self.slices.push(Slice::Own(covered, self.bytes.len()));
        }
    }

    /// Bytes to be sent next, as at most `limit` slices.
    pub fn unsent<'a>(&'a mut self, slab: &'a Slab, limit: usize) -> Unsent<'a> {
        if self.slices.is_empty() {
            return Unsent::One(&self.bytes[self.sent..]);
        }
        self.close_tail();
        let mut skip = self.sent;
        let slices = self.slices[self.slices_sent..]
            .iter()
            .take(limit)
            .map(|slice| {
                let bytes = match *slice {
                    Slice::Own(start, end) => &self.bytes[start..end],
                    Slice::Slab(window) => slab.bytes(window),
                };
                &bytes[std::mem::take(&mut skip)..]
            })
            .collect();
        Unsent::Many(slices)
    }

    /// Drops the next `count` bytes, which went out.
    pub fn advance(&mut self, mut count: usize) {
        if self.slices.is_empty() {
            self.sent += count;
            if self.sent == self.bytes.len() {
                self.clear();
            }
            return;
        }
        while let Some(slice) = self.slices.get(self.slices_sent) {
            let length = match *slice {
                Slice::Own(start, end) => end - start,
                Slice::Slab(window) => window.size,
            } - self.sent;
            if count < length {
                self.sent += count;
                return;
            }
            count -= length;
            self.sent = 0;
            self.slices_sent += 1;
        }
        self.clear();
    }

    /// Forgets what was not sent.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.slices.clear();
        self.sent = 0;
        self.slices_sent = 0;
    }
}

/// Bytes to be sent next.
#[derive(Debug)]
pub enum Unsent<'a> {
    /// One run of bytes.
    One(&'a [u8]),
    /// Several, in order.
    Many(Vec<&'a [u8]>),
}

/// Facts about a rendered request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rendered {
    /// Size on the wire.
    pub bytes: u64,
    /// The last key in it.
    pub key: u64,
    /// Distance of the sent command behind the requested one.
    pub kind_offset: u32,
}

/// A command ready to be rendered; one per command and run, shared by all threads.
#[derive(Debug)]
pub struct Template {
    command: Command,
    prefix: Vec<u8>,
    slab: Arc<Slab>,
    baked: Vec<Baked>,
    counts_misses: bool,
}

/// The request for keys of one width.
#[derive(Debug)]
struct Baked {
    bytes: Vec<u8>,
    digits_at: usize,
    data_at: Option<usize>,
}

/// Most decimal digits of a key number.
const DIGITS_MAX: usize = 20;

impl Template {
    /// Bakes what can be baked.
    pub fn new(command: Command, prefix: &str, slab: Arc<Slab>) -> Self {
        let counts_misses = command.counts_misses();
        let prefix = prefix.as_bytes().to_vec();
        let mut template = Self { command, prefix, slab, baked: Vec::new(), counts_misses };
        if template.can_be_baked() {
            template.baked = (1..=DIGITS_MAX).map(|digits| template.bake(digits)).collect();
        }
        template
    }

    /// The command.
    pub fn command(&self) -> &Command {
        &self.command
    }

    /// [`Command::counts_misses`], decided once.
    #[inline]
    pub fn counts_misses(&self) -> bool {
        self.counts_misses
    }

    fn can_be_baked(&self) -> bool {
        let pieces = || self.command.arguments.iter().flatten();
        let data = pieces().filter(|piece| **piece == Piece::Data).count();
        let size_is_fixed = self.slab.fixed_size().is_some_and(|size| size < VECTORED_VALUE_BYTES);
        self.command.key_count() == 1
            && (data == 0 || (data == 1 && size_is_fixed))
            && pieces().all(|piece| matches!(piece, Piece::Literal(_) | Piece::Key | Piece::Data))
    }

    fn bake(&self, digits: usize) -> Baked {
        let size = self.slab.fixed_size().unwrap_or(0);
        let mut bytes = format!("*{}\r\n", self.command.arguments.len()).into_bytes();
        let (mut digits_at, mut data_at) = (0, None);
        for argument in &self.command.arguments {
            let length: usize = argument
                .iter()
                .map(|piece| match piece {
                    Piece::Literal(literal) => literal.len(),
                    Piece::Key => self.prefix.len() + digits,
                    _ => size,
                })
                .sum();
            bytes.extend_from_slice(format!("${length}\r\n").as_bytes());
            for piece in argument {
                match piece {
                    Piece::Literal(literal) => bytes.extend_from_slice(literal),
                    Piece::Key => {
                        bytes.extend_from_slice(&self.prefix);
                        digits_at = bytes.len();
                        bytes.resize(bytes.len() + digits, b'0');
                    }
                    _ => {
                        data_at = (!self.slab.is_uniform()).then_some(bytes.len());
                        bytes.resize(bytes.len() + size, b'x');
                    }
                }
            }
            bytes.extend_from_slice(b"\r\n");
        }
        Baked { bytes, digits_at, data_at }
    }

    /// Appends one request.
    #[inline]
    pub fn render(
        &self,
        keys: &mut KeySource,
        random: &mut Random,
        cursor: &[u8],
        output: &mut Output,
    ) -> Rendered {
        if self.baked.is_empty() {
            return self.render_pieces(keys, random, cursor, output);
        }
        let key = keys.next(random);
        let digits = key.checked_ilog10().unwrap_or(0) as usize + 1;
        let baked = &self.baked[digits - 1];
        let start = output.bytes.len();
        output.bytes.extend_from_slice(&baked.bytes);
        let request = &mut output.bytes[start..];
        write_digits(&mut request[baked.digits_at..baked.digits_at + digits], key);
        if let Some(at) = baked.data_at {
            let window = self.slab.draw(key, random);
            request[at..at + window.size].copy_from_slice(self.slab.bytes(window));
        }
        Rendered { bytes: baked.bytes.len() as u64, key, kind_offset: 0 }
    }

    fn render_pieces(
        &self,
        keys: &mut KeySource,
        random: &mut Random,
        cursor: &[u8],
        output: &mut Output,
    ) -> Rendered {
        if let Some(replay) = &self.command.replay {
            let (request, kind_offset) = replay.line(keys.next(random));
            output.bytes.extend_from_slice(request);
            return Rendered { bytes: request.len() as u64, key: 0, kind_offset };
        }
        let before = output.bytes.len();
        let mut windows = 0;
        let mut last_key = 0;
        push_length(&mut output.bytes, b'*', self.command.arguments.len());
        let mut drawn: Vec<Drawn<'_>> = Vec::with_capacity(4);
        for argument in &self.command.arguments {
            drawn.clear();
            for piece in argument {
                drawn.push(self.draw(piece, keys, random, cursor, &mut last_key));
            }
            let length = drawn.iter().map(|part| part.length(&self.prefix)).sum();
            push_length(&mut output.bytes, b'$', length);
            for part in &drawn {
                match part {
                    Drawn::Bytes(bytes) => output.bytes.extend_from_slice(bytes),
                    Drawn::Key(digits) => {
                        output.bytes.extend_from_slice(&self.prefix);
                        output.bytes.extend_from_slice(digits.as_bytes());
                    }
                    Drawn::Number(digits) => output.bytes.extend_from_slice(digits.as_bytes()),
                    Drawn::Window(window) if window.size >= VECTORED_VALUE_BYTES => {
                        output.push_window(*window);
                        windows += window.size;
                    }
                    Drawn::Window(window) => {
                        output.bytes.extend_from_slice(self.slab.bytes(*window));
                    }
                }
            }
            output.bytes.extend_from_slice(b"\r\n");
        }
        let bytes = (output.bytes.len() - before + windows) as u64;
        Rendered { bytes, key: last_key, kind_offset: 0 }
    }

    fn draw<'a>(
        &'a self,
        piece: &'a Piece,
        keys: &mut KeySource,
        random: &mut Random,
        cursor: &'a [u8],
        last_key: &mut u64,
    ) -> Drawn<'a> {
        match piece {
            Piece::Literal(literal) => Drawn::Bytes(literal),
            Piece::Cursor => Drawn::Bytes(cursor),
            Piece::Key => {
                *last_key = keys.next(random);
                Drawn::Key(last_key.to_string())
            }
            Piece::Number { minimum, maximum, width } => {
                let number = minimum + below(random, (maximum - minimum).saturating_add(1));
                Drawn::Number(format!("{number:0width$}"))
            }
            Piece::Data => Drawn::Window(self.slab.draw(*last_key, random)),
        }
    }
}

enum Drawn<'a> {
    Bytes(&'a [u8]),
    Key(String),
    Number(String),
    Window(Window),
}

impl Drawn<'_> {
    fn length(&self, prefix: &[u8]) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Key(digits) => prefix.len() + digits.len(),
            Self::Number(digits) => digits.len(),
            Self::Window(window) => window.size,
        }
    }
}

/// Fills the place with the last digits of a number.
#[inline]
fn write_digits(place: &mut [u8], mut number: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

fn push_length(bytes: &mut Vec<u8>, kind: u8, length: usize) {
    bytes.push(kind);
    bytes.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
    bytes.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::settings::{Keys, Sizes, Values};

    fn keys(maximum: u64) -> Keys {
        Keys {
            prefix: "memtier-".into(),
            minimum: 0,
            maximum,
            zipf_exponent: 1.0,
            standard_deviation: 1.0,
            median: 1.0,
        }
    }

    fn slab(size: usize, random: bool) -> Arc<Slab> {
        let values = Values { sizes: Sizes::Fixed(size), size_by_key: false, random };
        Arc::new(Slab::new(&values, &keys(100), 3, true))
    }

    fn drain(output: &mut Output, slab: &Slab, step: usize) -> Vec<u8> {
        let mut wire = Vec::new();
        while !output.is_empty() {
            let part = match output.unsent(slab, 3) {
                Unsent::One(bytes) => bytes[..step.min(bytes.len())].to_vec(),
                Unsent::Many(slices) => {
                    let all = slices.concat();
                    all[..step.min(all.len())].to_vec()
                }
            };
            output.advance(part.len());
            wire.extend_from_slice(&part);
        }
        wire
    }

    #[test]
    fn baked_and_piecewise_requests_are_the_same_bytes() {
        for line in ["SET __key__ __data__", "GET __key__", "HSET h:__key__:x \"a b\" __data__"] {
            let command = Command::parse(line, (0, 9)).unwrap();
            let template = Template::new(command, "memtier-", slab(32, true));
            assert!(!template.baked.is_empty());
            for maximum in [9, 1_000_000] {
                let mut source = KeySource::new(Pattern::Uniform, &keys(maximum), 0, 1);
                let mut random = Random::new(5);
                let (mut source_again, mut random_again) = (source.clone(), random.clone());
                for _ in 0..100 {
                    let (mut fast, mut slow) = (Output::default(), Output::default());
                    let size = template.render(&mut source, &mut random, b"", &mut fast).bytes;
                    template.render_pieces(&mut source_again, &mut random_again, b"", &mut slow);
                    assert_eq!(fast.bytes.len() as u64, size);
                    assert_eq!(
                        String::from_utf8_lossy(&fast.bytes),
                        String::from_utf8_lossy(&slow.bytes)
                    );
                }
            }
        }
    }

    #[test]
    fn large_values_go_out_whole_in_any_portions() {
        let slab = slab(5000, true);
        let template = Template::new(
            Command::parse("SET __key__ __data__", (0, 9)).unwrap(),
            "k",
            slab.clone(),
        );
        for step in [1, 7, 4096, 1 << 20] {
            let mut source = KeySource::new(Pattern::Sequential, &keys(100), 0, 1);
            let mut random = Random::new(5);
            let mut output = Output::default();
            let mut expected = Vec::new();
            for key in 0..3 {
                let rendered = template.render(&mut source, &mut random, b"", &mut output);
                let window = slab.draw(key, &mut random);
                let start = expected.len();
                expected.extend_from_slice(b"*3\r\n$3\r\nSET\r\n$2\r\nk");
                expected.extend_from_slice(key.to_string().as_bytes());
                expected.extend_from_slice(b"\r\n$5000\r\n");
                expected.extend_from_slice(slab.bytes(window));
                expected.extend_from_slice(b"\r\n");
                assert_eq!(rendered.bytes as usize, expected.len() - start);
            }
            assert!(drain(&mut output, &slab, step) == expected, "step {step}");
        }
    }

    #[test]
    fn words_and_placeholders_are_taken_apart() {
        let command = Command::parse(r#"eval "return \x41\"" 1 a__key__b '__rand_int__'"#, (5, 9));
        let command = command.unwrap();
        assert_eq!(command.name, "EVAL");
        assert_eq!(command.arguments[1], [Piece::Literal(b"return A\"".to_vec())]);
        let literal = |text: &str| Piece::Literal(text.into());
        assert_eq!(command.arguments[3], [literal("a"), Piece::Key, literal("b")]);
        assert_eq!(command.arguments[4], [Piece::Number { minimum: 5, maximum: 9, width: 12 }]);
        assert!(Command::parse("  ", (0, 1)).is_err());
        assert!(Command::parse("SET \"a", (0, 1)).is_err());
        assert!(Command::parse("subscribe x", (0, 1)).is_err());
        assert!(Command::parse("__key__ x", (0, 1)).is_err());
        let error = split_words("redis-cli -a s3cr3t 'x").unwrap_err();
        assert!(error.ends_with("an open quote") && !error.contains("s3cr3t"), "{error}");
    }
}
