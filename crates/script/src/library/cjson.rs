//! `cjson`: settings and encoding.

use super::cjson_read;
use super::registry::{Functions, library};
use crate::heap::OutOfMemory;
use crate::host::Host;
use crate::limits::{BYTES_PER_STEP, JSON_DEPTH_MAX, NUMBER_BYTES_MAX, VALUES_PER_STEP};
use crate::number::Format;
use crate::settings::{Invalid, Json};
use crate::value::{TableId, Value};
use crate::vm::{Args, Ret, Stop, Vm};

const FUNCTIONS: Functions = &[
    ("encode", encode),
    ("decode", cjson_read::decode),
    ("encode_sparse_array", encode_sparse_array),
    ("encode_max_depth", encode_max_depth),
    ("decode_max_depth", decode_max_depth),
    ("encode_number_precision", encode_number_precision),
    ("encode_keep_buffer", encode_keep_buffer),
    ("encode_invalid_numbers", encode_invalid_numbers),
    ("decode_invalid_numbers", decode_invalid_numbers),
    ("new", new),
];

/// Precision with which the language itself shows numbers.
const LANGUAGE_PRECISION: usize = 14;

/// Bytes that do not stay as they are.
const ESCAPED: [bool; 256] = {
    let mut escaped = [false; 256];
    let mut byte = 0;
    while byte < 32 {
        escaped[byte] = true;
        byte += 1;
    }
    escaped[127] = true;
    escaped[b'"' as usize] = true;
    escaped[b'\\' as usize] = true;
    escaped[b'/' as usize] = true;
    escaped
};

pub(super) fn open(vm: &mut Vm) -> Result<(), OutOfMemory> {
    let table = library(vm, "cjson", FUNCTIONS)?;
    fill(vm, table)
}

fn fill(vm: &mut Vm, table: TableId) -> Result<(), OutOfMemory> {
    vm.heap.set_name(table, b"null", Value::Null)?;
    super::registry::set_text(vm, table, "_NAME", "cjson")?;
    super::registry::set_text(vm, table, "_VERSION", "2.1.0")
}

/// A table with the same functions; the settings are shared.
fn new(vm: &mut Vm, _: &mut dyn Host, _: Args) -> Result<Ret, Stop> {
    let made = vm.heap.new_table().and_then(|table| {
        super::registry::register(vm, table, FUNCTIONS)?;
        fill(vm, table)?;
        Ok(table)
    });
    made.map(|table| Ret::One(Value::Table(table))).map_err(|_| vm.out_of_memory())
}

fn check_count(vm: &mut Vm, args: Args, most: usize) -> Result<(), Stop> {
    if args.count > most {
        return Err(vm.argument_error(most + 1, "found too many arguments"));
    }
    Ok(())
}

/// Sets an integer, if there is an argument, and gives the present one.
fn integer_option(
    vm: &mut Vm,
    args: Args,
    index: usize,
    range: (i64, i64),
    place: fn(&mut Json) -> &mut i64,
) -> Result<Value, Stop> {
    if vm.has(args, index) {
        let value = i64::from(vm.check_integer(args, index)? as i32);
        let (low, high) = range;
        if !(low..=high).contains(&value) {
            let text = format!("expected integer between {low} and {high}");
            return Err(vm.argument_error(index + 1, &text));
        }
        *place(&mut vm.settings.json) = value;
    }
    Ok(Value::Number(*place(&mut vm.settings.json) as f64))
}

fn encode_sparse_array(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    check_count(vm, args, 3)?;
    if vm.has(args, 0) {
        vm.settings.json.sparse_converts = flag(vm, args, 0, false)? == Invalid::Allowed;
    }
    let most = i64::from(i32::MAX);
    let ratio = integer_option(vm, args, 1, (0, most), |json| &mut json.sparse_ratio)?;
    let safe = integer_option(vm, args, 2, (0, most), |json| &mut json.sparse_safe)?;
    vm.results = vec![Value::Bool(vm.settings.json.sparse_converts), ratio, safe];
    Ok(Ret::Many)
}

/// A boolean, or one of "off", "on" and, where it may be, "null".
fn flag(vm: &mut Vm, args: Args, index: usize, may_null: bool) -> Result<Invalid, Stop> {
    if let Value::Bool(value) = vm.arg(args, index) {
        return Ok(if value { Invalid::Allowed } else { Invalid::Refused });
    }
    let text = vm.check_text(args, index)?;
    match text.as_slice() {
        b"off" => Ok(Invalid::Refused),
        b"on" => Ok(Invalid::Allowed),
        b"null" if may_null => Ok(Invalid::Null),
        other => {
            let text = format!("invalid option '{}'", String::from_utf8_lossy(other));
            Err(vm.argument_error(index + 1, &text))
        }
    }
}

fn size_option(
    vm: &mut Vm,
    args: Args,
    range: (usize, usize),
    place: fn(&mut Json) -> &mut usize,
) -> Result<Ret, Stop> {
    check_count(vm, args, 1)?;
    if vm.has(args, 0) {
        let value = i64::from(vm.check_integer(args, 0)? as i32);
        let (low, high) = range;
        if value < low as i64 || value > high as i64 {
            let text = format!("expected integer between {low} and {high}");
            return Err(vm.argument_error(1, &text));
        }
        *place(&mut vm.settings.json) = value as usize;
    }
    Ok(Ret::One(Value::Number(*place(&mut vm.settings.json) as f64)))
}

fn encode_max_depth(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    size_option(vm, args, (1, i32::MAX as usize), |json| &mut json.encode_depth_max)
}

fn decode_max_depth(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    size_option(vm, args, (1, i32::MAX as usize), |json| &mut json.decode_depth_max)
}

fn encode_number_precision(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    size_option(vm, args, (1, 14), |json| &mut json.precision)
}

fn encode_keep_buffer(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    check_count(vm, args, 1)?;
    if vm.has(args, 0) {
        vm.settings.json.keeps_buffer = flag(vm, args, 0, false)? == Invalid::Allowed;
    }
    Ok(Ret::One(Value::Bool(vm.settings.json.keeps_buffer)))
}

fn encode_invalid_numbers(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    check_count(vm, args, 1)?;
    if vm.has(args, 0) {
        vm.settings.json.encode_invalid = flag(vm, args, 0, true)?;
    }
    match vm.settings.json.encode_invalid {
        Invalid::Refused => Ok(Ret::One(Value::Bool(false))),
        Invalid::Allowed => Ok(Ret::One(Value::Bool(true))),
        Invalid::Null => vm.string(b"null").map(Ret::One),
    }
}

fn decode_invalid_numbers(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    check_count(vm, args, 1)?;
    if vm.has(args, 0) {
        vm.settings.json.decode_invalid = flag(vm, args, 0, false)? == Invalid::Allowed;
    }
    Ok(Ret::One(Value::Bool(vm.settings.json.decode_invalid)))
}

pub(super) fn check_single(vm: &mut Vm, args: Args) -> Result<(), Stop> {
    if args.count == 1 {
        return Ok(());
    }
    Err(vm.argument_error(1, "expected 1 argument"))
}

fn encode(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    check_single(vm, args)?;
    let mut encoder = Encoder { out: Vec::new() };
    encoder.value(vm, host, vm.arg(args, 0), 0)?;
    vm.string_of(encoder.out).map(Ret::One)
}

/// Bytes of an escaped byte, at most.
const ESCAPE_BYTES_MAX: usize = "\\u001f".len();

struct Encoder {
    out: Vec<u8>,
}

impl Encoder {
    fn value(
        &mut self,
        vm: &mut Vm,
        host: &mut dyn Host,
        value: Value,
        depth: usize,
    ) -> Result<(), Stop> {
        match value {
            Value::Str(text) => {
                let text = vm.heap.bytes(text);
                self.text(vm, text)?;
                let steps = text.len() / BYTES_PER_STEP;
                vm.work(host, steps)?;
            }
            Value::Number(number) => self.number(vm, number)?,
            Value::Bool(flag) => self.put(vm, if flag { b"true" } else { b"false" })?,
            Value::Nil | Value::Null => self.put(vm, b"null")?,
            Value::Table(table) => self.table(vm, host, table, depth + 1)?,
            _ => return Err(refusal(vm, value, "type not supported")),
        }
        vm.work(host, 1)
    }

    fn put(&mut self, vm: &Vm, bytes: &[u8]) -> Result<(), Stop> {
        vm.reserve(&mut self.out, bytes.len())?;
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    fn table(
        &mut self,
        vm: &mut Vm,
        host: &mut dyn Host,
        table: TableId,
        depth: usize,
    ) -> Result<(), Stop> {
        if depth > vm.settings.json.encode_depth_max.min(JSON_DEPTH_MAX) {
            return Err(vm.fail(format!("Cannot serialise, excessive nesting ({depth})")));
        }
        vm.work(host, vm.heap.table(table).size() / VALUES_PER_STEP)?;
        match array_length(vm, table)? {
            Some(length) if length > 0 => {
                self.put(vm, b"[")?;
                for index in 1..=length {
                    if index > 1 {
                        self.put(vm, b",")?;
                    }
                    let value = vm.heap.table(table).get(Value::Number(index as f64));
                    self.value(vm, host, value, depth)?;
                }
                self.put(vm, b"]")?;
            }
            _ => self.object(vm, host, table, depth)?,
        }
        Ok(())
    }

    fn object(
        &mut self,
        vm: &mut Vm,
        host: &mut dyn Host,
        table: TableId,
        depth: usize,
    ) -> Result<(), Stop> {
        self.put(vm, b"{")?;
        let mut key = Value::Nil;
        let mut is_first = true;
        while let Some(Some((next, value))) = vm.heap.next(table, key) {
            if !is_first {
                self.put(vm, b",")?;
            }
            is_first = false;
            match next {
                Value::Number(number) => {
                    self.put(vm, b"\"")?;
                    self.number(vm, number)?;
                    self.put(vm, b"\"")?;
                }
                Value::Str(text) => self.text(vm, vm.heap.bytes(text))?,
                _ => {
                    return Err(refusal(vm, next, "table key must be a number or string"));
                }
            }
            self.put(vm, b":")?;
            self.value(vm, host, value, depth)?;
            key = next;
        }
        self.put(vm, b"}")?;
        Ok(())
    }

    fn number(&mut self, vm: &mut Vm, number: f64) -> Result<(), Stop> {
        if !number.is_finite() {
            match vm.settings.json.encode_invalid {
                Invalid::Refused => {
                    return Err(refusal(vm, Value::Number(number), "must not be NaN or Inf"));
                }
                Invalid::Null => return self.put(vm, b"null"),
                Invalid::Allowed => {
                    let text: &[u8] = match (number.is_nan(), number > 0.0) {
                        (true, _) => b"nan",
                        (_, true) => b"inf",
                        _ => b"-inf",
                    };
                    return self.put(vm, text);
                }
            }
        }
        vm.reserve(&mut self.out, NUMBER_BYTES_MAX)?;
        let precision = vm.settings.json.precision;
        if precision == LANGUAGE_PRECISION {
            crate::number::push(&mut self.out, number);
            return Ok(());
        }
        let precision = Some(precision);
        Format { precision, ..Format::default() }.general(&mut self.out, number);
        Ok(())
    }

    fn text(&mut self, vm: &Vm, text: &[u8]) -> Result<(), Stop> {
        self.put(vm, b"\"")?;
        let mut rest = text;
        while let Some(length) = rest.iter().position(|byte| ESCAPED[usize::from(*byte)]) {
            vm.reserve(&mut self.out, length + ESCAPE_BYTES_MAX)?;
            self.out.extend_from_slice(&rest[..length]);
            let byte = &rest[length];
            rest = &rest[length + 1..];
            match byte {
                b'"' | b'\\' | b'/' => self.out.extend_from_slice(&[b'\\', *byte]),
                8 => self.out.extend_from_slice(b"\\b"),
                b'\t' => self.out.extend_from_slice(b"\\t"),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                12 => self.out.extend_from_slice(b"\\f"),
                b'\r' => self.out.extend_from_slice(b"\\r"),
                other => self.out.extend_from_slice(format!("\\u{other:04x}").as_bytes()),
            }
        }
        self.put(vm, rest)?;
        self.put(vm, b"\"")
    }
}

fn refusal(vm: &mut Vm, value: Value, reason: &str) -> Stop {
    vm.fail(format!("Cannot serialise {}: {reason}", value.type_name()))
}

/// Length of a table that is an array; `None` if it has other keys.
fn array_length(vm: &mut Vm, table: TableId) -> Result<Option<i64>, Stop> {
    let (mut most, mut count) = (0_i64, 0_i64);
    for (key, _) in vm.heap.table(table).entries() {
        match key {
            Value::Number(number) if number >= 1.0 && number.floor() == number => {
                // C's conversion to an `int`: an index beyond that makes no array.
                if number > most as f64 {
                    let index = number as i64;
                    most = i64::from(i32::try_from(index).unwrap_or(i32::MIN));
                }
                count += 1;
            }
            _ => return Ok(None),
        }
    }
    let json = &vm.settings.json;
    let is_sparse = json.sparse_ratio > 0
        && most > count.saturating_mul(json.sparse_ratio)
        && most > json.sparse_safe;
    if is_sparse && json.sparse_converts {
        return Ok(None);
    }
    if is_sparse {
        return Err(refusal(vm, Value::Table(table), "excessively sparse array"));
    }
    Ok(Some(most))
}
