//! `string`: bytes, patterns, replacement.

use super::pattern::{Capture, Matcher, Trouble};
use super::registry::{Functions, library, native};
use crate::heap::OutOfMemory;
use crate::host::{Host, Interrupt};
use crate::limits::{BLOCK_BYTES, BYTES_PER_STEP, SHORT_TEXT_BYTES};
use crate::value::{FunctionId, Str, TableId, Value};
use crate::vm::{Args, Native, Ret, Stop, Vm};

const FUNCTIONS: Functions = &[
    ("byte", byte),
    ("char", char),
    ("dump", super::dump::dump),
    ("find", find),
    ("format", super::format::format),
    ("gfind", gmatch),
    ("gmatch", gmatch),
    ("gsub", gsub),
    ("len", len),
    ("lower", lower),
    ("match", match_),
    ("rep", rep),
    ("reverse", reverse),
    ("sub", sub),
    ("upper", upper),
];

pub(super) fn open(vm: &mut Vm) -> Result<TableId, OutOfMemory> {
    library(vm, "string", FUNCTIONS)
}

/// Place in a text: negative ones count from its end.
fn relative(position: i64, length: usize) -> i64 {
    let position = if position < 0 { position.saturating_add(length as i64 + 1) } else { position };
    position.max(0)
}

fn byte(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    if let [Value::Str(text), Value::Number(place)] = *vm.args_slice(args)
        && place >= 1.0
    {
        // The usual form: one byte, by its place from the begin.
        let byte = vm.heap.bytes(text).get(place as usize - 1);
        return Ok(byte.map_or(Ret::None, |byte| Ret::One(Value::Number(f64::from(*byte)))));
    }
    let text = vm.check_str(args, 0)?;
    let length = vm.heap.bytes(text).len();
    let first = relative(vm.integer_or(args, 1, 1)?, length);
    let last = relative(vm.integer_or(args, 2, first)?, length).min(length as i64);
    let first = first.max(1);
    if first > last {
        return Ok(Ret::None);
    }
    if last - first + 1 + args.count as i64 > crate::limits::NATIVE_VALUES_MAX as i64 {
        return Err(vm.fail("stack overflow (string slice too long)"));
    }
    let bytes = &vm.heap.bytes(text)[first as usize - 1..last as usize];
    vm.results.clear();
    vm.results.extend(bytes.iter().map(|byte| Value::Number(f64::from(*byte))));
    Ok(Ret::Many)
}

fn char(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let mut text = Vec::with_capacity(args.count);
    for index in 0..args.count {
        match u8::try_from(vm.check_integer(args, index)? as i32) {
            Ok(byte) => text.push(byte),
            Err(_) => return Err(vm.argument_error(index + 1, "invalid value")),
        }
    }
    vm.string_of(text).map(Ret::One)
}

fn len(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let text = vm.check_str(args, 0)?;
    Ok(Ret::One(Value::Number(vm.heap.bytes(text).len() as f64)))
}

fn mapped(vm: &mut Vm, args: Args, change: fn(&mut [u8])) -> Result<Ret, Stop> {
    let mut text = vm.check_text(args, 0)?;
    change(&mut text);
    vm.string_of(text).map(Ret::One)
}

fn lower(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    mapped(vm, args, <[u8]>::make_ascii_lowercase)
}

fn upper(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    mapped(vm, args, <[u8]>::make_ascii_uppercase)
}

fn reverse(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    mapped(vm, args, <[u8]>::reverse)
}

fn rep(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let text = vm.check_str(args, 0)?;
    let count = usize::try_from(vm.check_integer(args, 1)? as i32).unwrap_or(0);
    let text = vm.heap.bytes(text);
    let length = text.len().saturating_mul(count);
    let mut out = vm.buffer(length)?;
    // A few copies make a block; blocks make the rest.
    let in_block = BLOCK_BYTES / text.len().max(1) + 1;
    (0..count.min(in_block)).for_each(|_| out.extend_from_slice(text));
    let block_bytes = out.len();
    vm.work(host, block_bytes / BYTES_PER_STEP)?;
    while out.len() < length {
        let piece_bytes = block_bytes.min(length - out.len());
        out.extend_from_within(..piece_bytes);
        vm.work(host, piece_bytes / BYTES_PER_STEP)?;
    }
    vm.string_of(out).map(Ret::One)
}

fn sub(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let text = vm.check_str(args, 0)?;
    let length = vm.heap.bytes(text).len();
    let first = relative(vm.check_integer(args, 1)?, length).max(1) as usize;
    let last = relative(vm.integer_or(args, 2, -1)?, length).min(length as i64) as usize;
    if first > last {
        return vm.string(b"").map(Ret::One);
    }
    part(vm, text, first - 1, last).map(Ret::One)
}

/// A copy of a short text, made without an allocation.
struct Short {
    room: [u8; SHORT_TEXT_BYTES],
    length: usize,
}

impl Short {
    fn of(text: &[u8]) -> Option<Self> {
        let mut room = [0; SHORT_TEXT_BYTES];
        room.get_mut(..text.len())?.copy_from_slice(text);
        Some(Self { room, length: text.len() })
    }

    fn bytes(&self) -> &[u8] {
        &self.room[..self.length]
    }
}

/// Extents of a match: begin, end, captures.
struct Found {
    start: usize,
    end: usize,
    captures: Vec<Capture>,
}

/// A text and a pattern.
#[derive(Clone, Copy)]
struct Subject {
    text: Str,
    pattern: Str,
    /// Length of the pattern up to its first zero byte, at which Lua 5.1 ends it. Looked for once:
    /// a call may search at each place of a long text.
    pattern_length: usize,
    /// Bytes of the pattern that are passed over: its anchor.
    skip: usize,
}

impl Subject {
    fn of(vm: &mut Vm, args: Args) -> Result<Subject, Stop> {
        let (text, pattern) = (vm.check_str(args, 0)?, vm.check_str(args, 1)?);
        let bytes = vm.heap.bytes(pattern);
        let pattern_length = memchr::memchr(0, bytes).unwrap_or(bytes.len());
        vm.heap.spend_bytes(pattern_length);
        Ok(Subject { text, pattern, pattern_length, skip: 0 })
    }

    /// The same with `^` as an anchor.
    fn anchored(self, vm: &Vm) -> Subject {
        let is_anchored = vm.heap.bytes(self.pattern).first() == Some(&b'^');
        Subject { skip: usize::from(is_anchored), ..self }
    }

    fn length(self, vm: &Vm) -> usize {
        vm.heap.bytes(self.text).len()
    }
}

/// Looks for the first match at a place, or behind it.
fn search(
    vm: &mut Vm,
    host: &mut dyn Host,
    subject: Subject,
    from: usize,
    is_single: bool,
) -> Result<Option<Found>, Stop> {
    let is_single = is_single || subject.skip > 0;
    let steps = *vm.native_steps();
    let (text, pattern) = (vm.heap.bytes(subject.text), vm.heap.bytes(subject.pattern));
    let pattern = &pattern[..subject.pattern_length];
    let mut answer = Interrupt::Continue;
    let mut ask = || {
        answer = match (host.interrupt(false), answer) {
            (Interrupt::Continue, before) => before,
            (now, _) => now,
        };
        !matches!(answer, Interrupt::Kill(_))
    };
    let mut matcher = Matcher::new(text, pattern, steps, &mut ask);
    let mut start = from;
    let outcome = loop {
        match matcher.run(start, subject.skip) {
            Ok(Some(end)) => {
                let captures = matcher.captures[..matcher.level].to_vec();
                break Ok(Some(Found { start, end, captures }));
            }
            Ok(None) if start < text.len() && !is_single => start += 1,
            Ok(None) => break Ok(None),
            Err(trouble) => break Err(trouble),
        }
    };
    let steps = matcher.steps;
    if answer != Interrupt::Continue {
        vm.take_answer(answer, false)?;
    }
    *vm.native_steps() = steps;
    match outcome {
        Err(Trouble::Text(text)) => Err(vm.fail(text)),
        Ok(found) => Ok(found),
        Err(Trouble::Killed) => unreachable!("the answer has ended the run"),
    }
}

/// A part of a text.
pub(super) fn part(vm: &mut Vm, text: Str, start: usize, end: usize) -> Result<Value, Stop> {
    let part = &vm.heap.bytes(text)[start..end];
    if let Some(copy) = Short::of(part) {
        return vm.string(copy.bytes());
    }
    let part = vm.copied(part)?;
    vm.string_of(part)
}

fn capture_value(vm: &mut Vm, text: Str, capture: Capture) -> Result<Value, Stop> {
    match capture {
        Capture::Range(start, end) => part(vm, text, start, end),
        Capture::Position(at) => Ok(Value::Number((at + 1) as f64)),
        Capture::Open(_) => Err(vm.fail("unfinished capture")),
    }
}

/// Values of all captures, or the whole match if there are none.
fn captured(vm: &mut Vm, text: Str, found: &Found, whole: bool) -> Result<Vec<Value>, Stop> {
    if found.captures.is_empty() && whole {
        return Ok(vec![part(vm, text, found.start, found.end)?]);
    }
    found.captures.iter().map(|capture| capture_value(vm, text, *capture)).collect()
}

fn find(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    find_or_match(vm, host, args, true)
}

fn match_(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    find_or_match(vm, host, args, false)
}

fn find_or_match(vm: &mut Vm, host: &mut dyn Host, args: Args, is_find: bool) -> Result<Ret, Stop> {
    let subject = Subject::of(vm, args)?;
    let length = subject.length(vm);
    let start = relative(vm.integer_or(args, 2, 1)?, length) - 1;
    let start = start.clamp(0, length as i64) as usize;
    let is_special = |byte: &u8| b"^$*+?.([%-".contains(byte);
    let pattern = vm.heap.bytes(subject.pattern);
    if is_find
        && (vm.arg(args, 3).is_truthy()
            || !pattern[..subject.pattern_length].iter().any(is_special))
    {
        let found = position(&vm.heap.bytes(subject.text)[start..], pattern);
        let (passed, pattern_length) = (found.unwrap_or(length - start), pattern.len());
        vm.work(host, (passed + pattern_length) / BYTES_PER_STEP)?;
        let Some(offset) = found else { return Ok(Ret::One(Value::Nil)) };
        let first = (start + offset) as f64;
        let last = first + pattern_length as f64;
        vm.results = vec![Value::Number(first + 1.0), Value::Number(last)];
        return Ok(Ret::Many);
    }
    let subject = subject.anchored(vm);
    let Some(found) = search(vm, host, subject, start, false)? else {
        return Ok(Ret::One(Value::Nil));
    };
    let captures = captured(vm, subject.text, &found, !is_find)?;
    vm.results.clear();
    if is_find {
        vm.results.push(Value::Number((found.start + 1) as f64));
        vm.results.push(Value::Number(found.end as f64));
    }
    vm.results.extend(captures);
    Ok(Ret::Many)
}

/// First place of a text in another one.
fn position(text: &[u8], wanted: &[u8]) -> Option<usize> {
    if wanted.is_empty() {
        return Some(0);
    }
    memchr::memmem::find(text, wanted)
}

fn gmatch(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let Subject { text, pattern, pattern_length, .. } = Subject::of(vm, args)?;
    let pattern_length = Value::Number(pattern_length as f64);
    let state = [Value::Number(0.0), Value::Str(text), Value::Str(pattern), pattern_length];
    match native(vm, Native::Plain(gmatch_step), &state) {
        Ok(id) => Ok(Ret::One(Value::Function(id))),
        Err(_) => Err(vm.out_of_memory()),
    }
}

fn gmatch_step(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let Value::Function(id) = vm.running_function(args) else { return Ok(Ret::None) };
    let id: FunctionId = id;
    let [Value::Number(from), Value::Str(text), Value::Str(pattern), Value::Number(length)] =
        std::array::from_fn(|index| vm.native_state(id, index))
    else {
        return Ok(Ret::None);
    };
    let subject = Subject { text, pattern, pattern_length: length as usize, skip: 0 };
    let start = from as usize;
    if start > subject.length(vm) {
        return Ok(Ret::None);
    }
    let Some(found) = search(vm, host, subject, start, false)? else { return Ok(Ret::None) };
    let next = found.end + usize::from(found.end == found.start);
    vm.set_native_state(id, 0, Value::Number(next as f64));
    vm.results = captured(vm, text, &found, true)?;
    Ok(Ret::Many)
}

fn gsub(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let subject = Subject::of(vm, args)?;
    let replacement = vm.arg(args, 2);
    let is_usable = matches!(
        replacement,
        Value::Number(_) | Value::Str(_) | Value::Table(_) | Value::Function(_)
    );
    let count_max = i64::from(vm.integer_or(args, 3, subject.length(vm) as i64 + 1)? as i32);
    if !is_usable {
        return Err(vm.argument_error(3, "string/function/table expected"));
    }
    // Texts of numbers are nowhere else while a function is called.
    let texts = [Value::Str(subject.text), Value::Str(subject.pattern)];
    let (out, count) =
        vm.holding(&texts, |vm| replace_all(vm, host, subject, replacement, count_max))?;
    let result = vm.string_of(out)?;
    vm.results = vec![result, Value::Number(count as f64)];
    Ok(Ret::Many)
}

/// The text with its matches replaced, and their number.
fn replace_all(
    vm: &mut Vm,
    host: &mut dyn Host,
    subject: Subject,
    replacement: Value,
    count_max: i64,
) -> Result<(Vec<u8>, i64), Stop> {
    let subject = subject.anchored(vm);
    let length = subject.length(vm);
    let mut out = Vec::new();
    let (mut at, mut count) = (0, 0);
    while count < count_max {
        vm.work(host, 1)?;
        let found = search(vm, host, subject, at, true)?;
        if let Some(found) = &found {
            count += 1;
            replace(vm, host, subject.text, found, replacement, &mut out)?;
        }
        match found {
            Some(found) if found.end > at => at = found.end,
            _ if at < length => {
                vm.reserve(&mut out, 1)?;
                out.push(vm.heap.bytes(subject.text)[at]);
                at += 1;
            }
            _ => break,
        }
        if subject.skip == 1 {
            break;
        }
    }
    let rest = &vm.heap.bytes(subject.text)[at.min(length)..];
    vm.reserve(&mut out, rest.len())?;
    out.extend_from_slice(rest);
    Ok((out, count))
}

fn replace(
    vm: &mut Vm,
    host: &mut dyn Host,
    text: Str,
    found: &Found,
    replacement: Value,
    out: &mut Vec<u8>,
) -> Result<(), Stop> {
    let value = match replacement {
        Value::Table(_) => {
            let key = captured(vm, text, found, true)?[0];
            vm.index(host, replacement, key, crate::program::RK)?
        }
        Value::Function(_) => {
            let values = captured(vm, text, found, true)?;
            vm.call_one(host, replacement, &values)?
        }
        _ => return expand(vm, host, text, found, replacement, out),
    };
    let steps = if !value.is_truthy() {
        append(vm, out, &vm.heap.bytes(text)[found.start..found.end])?
    } else if let Some(bytes) = vm.text_of(value) {
        append(vm, out, &bytes)?
    } else {
        let kind = value.type_name();
        return Err(vm.fail(format!("invalid replacement value (a {kind})")));
    };
    vm.work(host, steps)
}

/// Appends a part of a replacement, whose length a script chooses; returns the steps that it took.
fn append(vm: &Vm, out: &mut Vec<u8>, part: &[u8]) -> Result<usize, Stop> {
    vm.reserve(out, part.len())?;
    out.extend_from_slice(part);
    Ok(part.len() / BYTES_PER_STEP)
}

/// Appends a replacement text, with `%1` for captures.
fn expand(
    vm: &mut Vm,
    host: &mut dyn Host,
    text: Str,
    found: &Found,
    replacement: Value,
    out: &mut Vec<u8>,
) -> Result<(), Stop> {
    let replacement = vm.copied(&vm.text_of(replacement).unwrap_or_default())?;
    vm.work(host, replacement.len() / BYTES_PER_STEP)?;
    let mut bytes = replacement.iter();
    while let Some(byte) = bytes.next() {
        vm.reserve(out, 1)?;
        if *byte != b'%' {
            out.push(*byte);
            continue;
        }
        match bytes.next().copied().unwrap_or(0) {
            b'0' => {
                let steps = append(vm, out, &vm.heap.bytes(text)[found.start..found.end])?;
                vm.work(host, steps)?;
            }
            digit @ b'1'..=b'9' => {
                let index = usize::from(digit - b'1');
                let value = match found.captures.get(index) {
                    Some(capture) => capture_value(vm, text, *capture)?,
                    None if index == 0 => part(vm, text, found.start, found.end)?,
                    None => return Err(vm.fail("invalid capture index")),
                };
                let steps = append(vm, out, &vm.text_of(value).unwrap_or_default())?;
                vm.work(host, steps)?;
            }
            other => out.push(other),
        }
    }
    Ok(())
}
