//! `cmsgpack`.

use super::registry::{Functions, library};
use super::string::part;
use crate::heap::OutOfMemory;
use crate::host::Host;
use crate::limits::{
    BYTES_PER_STEP, MSGPACK_DEPTH_MAX, MSGPACK_NESTING_MAX, NATIVE_VALUES_MAX, UNPACK_VALUES_MAX,
    VALUES_PER_STEP,
};
use crate::value::{Str, TableId, Value};
use crate::vm::{Args, Ret, Stop, Vm};

const FUNCTIONS: Functions = &[
    ("pack", pack),
    ("unpack", unpack),
    ("unpack_one", unpack_one),
    ("unpack_limit", unpack_limit),
];

pub(super) fn open(vm: &mut Vm) -> Result<(), OutOfMemory> {
    let table = library(vm, "cmsgpack", FUNCTIONS)?;
    super::registry::set_text(vm, table, "_NAME", "cmsgpack")?;
    super::registry::set_text(vm, table, "_VERSION", "lua-cmsgpack 0.4.0")?;
    super::registry::set_text(vm, table, "_COPYRIGHT", "Copyright (C) 2012, Redis Ltd.")?;
    super::registry::set_text(vm, table, "_DESCRIPTION", "MessagePack C implementation for Lua")
}

fn pack(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    if args.count == 0 {
        return Err(vm.argument_error(0, "MessagePack pack needs input."));
    }
    // Valkey asks for as many places on the stack again.
    if 2 * args.count > NATIVE_VALUES_MAX {
        return Err(vm.argument_error(0, "Too many arguments for MessagePack pack."));
    }
    let mut packer = Packer { out: Vec::new() };
    for index in 0..args.count {
        packer.value(vm, host, vm.arg(args, index), 0)?;
    }
    vm.string_of(packer.out).map(Ret::One)
}

/// Bytes of a number, of the head of a text or of that of a table, at most.
const HEAD_BYTES_MAX: usize = 9;

struct Packer {
    out: Vec<u8>,
}

impl Packer {
    /// Appends the shortest head for a length.
    fn head(&mut self, length: usize, fixed: (usize, u8), codes: [Option<u8>; 3]) {
        let (fixed_max, fixed_code) = fixed;
        if length <= fixed_max {
            self.out.push(fixed_code | length as u8);
        } else if let (Some(code), Ok(length)) = (codes[0], u8::try_from(length)) {
            self.out.extend_from_slice(&[code, length]);
        } else if let (Some(code), Ok(length)) = (codes[1], u16::try_from(length)) {
            self.out.push(code);
            self.out.extend_from_slice(&length.to_be_bytes());
        } else if let Some(code) = codes[2] {
            self.out.push(code);
            self.out.extend_from_slice(&(length as u32).to_be_bytes());
        }
    }

    fn value(
        &mut self,
        vm: &mut Vm,
        host: &mut dyn Host,
        value: Value,
        level: usize,
    ) -> Result<(), Stop> {
        vm.work(host, 1)?;
        vm.reserve(&mut self.out, HEAD_BYTES_MAX)?;
        match value {
            Value::Str(text) => {
                let text = vm.heap.bytes(text);
                vm.reserve(&mut self.out, HEAD_BYTES_MAX + text.len())?;
                self.head(text.len(), (31, 0xa0), [Some(0xd9), Some(0xda), Some(0xdb)]);
                self.out.extend_from_slice(text);
                let steps = text.len() / BYTES_PER_STEP;
                vm.work(host, steps)?;
            }
            Value::Bool(flag) => self.out.push(0xc2 | u8::from(flag)),
            Value::Number(number) => self.number(number),
            Value::Table(table) if level < MSGPACK_DEPTH_MAX => {
                self.table(vm, host, table, level)?;
            }
            _ => self.out.push(0xc0),
        }
        Ok(())
    }

    fn number(&mut self, number: f64) {
        let integer = super::arguments::integer_of(number);
        if integer as f64 != number {
            let single = number as f32;
            if f64::from(single) == number {
                self.out.push(0xca);
                self.out.extend_from_slice(&single.to_be_bytes());
            } else {
                self.out.push(0xcb);
                self.out.extend_from_slice(&number.to_be_bytes());
            }
            return;
        }
        let bytes = integer.to_be_bytes();
        let (code, count) = match integer {
            -32..=127 => (None, 1),
            128..=0xff => (Some(0xcc), 1),
            0x100..=0xffff => (Some(0xcd), 2),
            0x1_0000..=0xffff_ffff => (Some(0xce), 4),
            0x1_0000_0000.. => (Some(0xcf), 8),
            -128..=-33 => (Some(0xd0), 1),
            -0x8000..=-129 => (Some(0xd1), 2),
            -0x8000_0000..=-0x8001 => (Some(0xd2), 4),
            _ => (Some(0xd3), 8),
        };
        self.out.extend(code);
        self.out.extend_from_slice(&bytes[8 - count..]);
    }

    fn table(
        &mut self,
        vm: &mut Vm,
        host: &mut dyn Host,
        table: TableId,
        level: usize,
    ) -> Result<(), Stop> {
        vm.work(host, vm.heap.table(table).size() / VALUES_PER_STEP)?;
        if is_array(vm, table) {
            let length = vm.heap.table(table).len();
            self.head(length, (15, 0x90), [None, Some(0xdc), Some(0xdd)]);
            for index in 1..=length {
                let value = vm.heap.table(table).get_index(index);
                self.value(vm, host, value, level + 1)?;
            }
            return Ok(());
        }
        let count = vm.heap.table(table).entries().count();
        self.head(count, (15, 0x80), [None, Some(0xde), Some(0xdf)]);
        let mut key = Value::Nil;
        while let Some(Some((next, value))) = vm.heap.next(table, key) {
            self.value(vm, host, next, level + 1)?;
            self.value(vm, host, value, level + 1)?;
            key = next;
        }
        Ok(())
    }
}

/// True if the keys are 1 to their count.
fn is_array(vm: &Vm, table: TableId) -> bool {
    let (mut most, mut count) = (0.0_f64, 0.0);
    for (key, _) in vm.heap.table(table).entries() {
        match key {
            Value::Number(number) if number > 0.0 && number.floor() == number => {
                most = most.max(number);
                count += 1.0;
            }
            _ => return false,
        }
    }
    most == count
}

/// The reason for which a packed value cannot be read.
enum Trouble {
    End,
    Format,
    Stop(Stop),
}

impl From<Stop> for Trouble {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

/// Reader of packed values. It does not copy the text, which a script may unpack value by value.
struct Unpacker {
    text: Str,
    length: usize,
    at: usize,
}

impl Unpacker {
    /// Passes over a number of bytes, and tells the place of the first one.
    fn skip(&mut self, count: usize) -> Result<usize, Trouble> {
        if count > self.length - self.at {
            return Err(Trouble::End);
        }
        let start = self.at;
        self.at += count;
        Ok(start)
    }

    fn unsigned(&mut self, vm: &Vm, count: usize) -> Result<u64, Trouble> {
        let start = self.skip(count)?;
        let digits = &vm.heap.bytes(self.text)[start..self.at];
        Ok(digits.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn value(&mut self, vm: &mut Vm, host: &mut dyn Host, depth: usize) -> Result<Value, Trouble> {
        vm.work(host, 1)?;
        if depth > MSGPACK_NESTING_MAX {
            return Err(Trouble::Format);
        }
        let code = self.unsigned(vm, 1)? as u8;
        let number = |number: f64| Ok(Value::Number(number));
        match code {
            0..=0x7f => number(f64::from(code)),
            0xe0..=0xff => number(f64::from(code as i8)),
            // Unsigned numbers of 64 bits are read as signed ones, as by Valkey.
            0xcc..=0xcf => number(self.unsigned(vm, 1 << (code - 0xcc))? as i64 as f64),
            0xd0..=0xd3 => {
                let count = 1 << (code - 0xd0);
                let unused = 64 - 8 * count as u32;
                number(((self.unsigned(vm, count)? << unused) as i64 >> unused) as f64)
            }
            0xc0 => Ok(Value::Nil),
            0xc2 => Ok(Value::Bool(false)),
            0xc3 => Ok(Value::Bool(true)),
            0xca => number(f64::from(f32::from_bits(self.unsigned(vm, 4)? as u32))),
            0xcb => number(f64::from_bits(self.unsigned(vm, 8)?)),
            0xa0..=0xbf => self.text(vm, usize::from(code & 31)),
            0xd9..=0xdb => {
                let length = self.unsigned(vm, 1 << (code - 0xd9))? as usize;
                self.text(vm, length)
            }
            0x90..=0x9f => self.array(vm, host, usize::from(code & 15), depth),
            0xdc | 0xdd => {
                let length = self.unsigned(vm, if code == 0xdc { 2 } else { 4 })? as usize;
                self.array(vm, host, length, depth)
            }
            0x80..=0x8f => self.map(vm, host, usize::from(code & 15), depth),
            0xde | 0xdf => {
                let length = self.unsigned(vm, if code == 0xde { 2 } else { 4 })? as usize;
                self.map(vm, host, length, depth)
            }
            _ => Err(Trouble::Format),
        }
    }

    fn text(&mut self, vm: &mut Vm, length: usize) -> Result<Value, Trouble> {
        let start = self.skip(length)?;
        Ok(part(vm, self.text, start, self.at)?)
    }

    fn array(
        &mut self,
        vm: &mut Vm,
        host: &mut dyn Host,
        length: usize,
        depth: usize,
    ) -> Result<Value, Trouble> {
        let table = vm.table(0, 0)?;
        for index in 1..=length {
            let value = self.value(vm, host, depth + 1)?;
            vm.raw_set(table, Value::Number(index as f64), value)?;
        }
        Ok(Value::Table(table))
    }

    fn map(
        &mut self,
        vm: &mut Vm,
        host: &mut dyn Host,
        length: usize,
        depth: usize,
    ) -> Result<Value, Trouble> {
        let table = vm.table(0, 0)?;
        for _ in 0..length {
            let key = self.value(vm, host, depth + 1)?;
            let value = self.value(vm, host, depth + 1)?;
            vm.raw_set(table, key, value)?;
        }
        Ok(Value::Table(table))
    }
}

fn unpack(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    read(vm, host, args, 0, 0)
}

fn unpack_one(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let offset = vm.integer_or(args, 1, 0)?;
    read(vm, host, args, 1, offset)
}

fn unpack_limit(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let limit = vm.check_integer(args, 1)?;
    let offset = vm.integer_or(args, 2, 0)?;
    read(vm, host, args, limit, offset)
}

fn read(
    vm: &mut Vm,
    host: &mut dyn Host,
    args: Args,
    limit: i64,
    offset: i64,
) -> Result<Ret, Stop> {
    let text = vm.check_str(args, 0)?;
    let length = vm.heap.bytes(text).len();
    let (limit, offset) = (i64::from(limit as i32), i64::from(offset as i32));
    if offset < 0 || limit < 0 {
        let text =
            format!("Invalid request to unpack with offset of {offset} and limit of {length}.");
        return Err(vm.fail(text));
    }
    if offset as usize > length {
        let text = format!("Start offset {offset} greater than input length {length}.");
        return Err(vm.fail(text));
    }
    let is_all = limit == 0 && offset == 0;
    let count_max = if is_all { i64::MAX } else { limit };
    let mut unpacker = Unpacker { text, length, at: offset as usize };
    let mut values = Vec::new();
    while unpacker.at < length && (values.len() as i64) < count_max {
        if values.len() >= UNPACK_VALUES_MAX {
            return Err(vm.fail("stack overflow (in function mp_unpack_full)"));
        }
        match unpacker.value(vm, host, 0) {
            Ok(value) => values.push(value),
            Err(Trouble::End) => return Err(vm.fail("Missing bytes in input.")),
            Err(Trouble::Format) => return Err(vm.fail("Bad data format in input.")),
            Err(Trouble::Stop(stop)) => return Err(stop),
        }
    }
    if !is_all {
        let next = if unpacker.at == length { -1.0 } else { unpacker.at as f64 };
        values.insert(0, Value::Number(next));
    }
    vm.results = values;
    Ok(Ret::Many)
}
