//! Basic functions.

use super::registry::{Functions, native, register};
use crate::compile::ChunkNames;
use crate::heap::{Code, OutOfMemory};
use crate::host::Host;
use crate::limits::{NATIVE_VALUES_MAX, STEPS_PER_INTERRUPT, VALUES_PER_STEP};
use crate::value::Value;
use crate::vm::{Args, Native, Ret, Stop, Vm};

const FUNCTIONS: Functions = &[
    ("assert", assert),
    ("collectgarbage", collectgarbage),
    ("error", error),
    ("gcinfo", gcinfo),
    ("getmetatable", getmetatable),
    ("loadstring", loadstring),
    ("load", load),
    ("rawequal", rawequal),
    ("rawget", rawget),
    ("rawset", rawset),
    ("select", select),
    ("setmetatable", setmetatable),
    ("tonumber", tonumber),
    ("tostring", tostring),
    ("type", type_name),
    ("unpack", unpack),
    ("ipairs", ipairs),
    ("pairs", pairs),
];

pub(super) fn open(vm: &mut Vm) -> Result<(), OutOfMemory> {
    let globals = vm.globals;
    vm.heap.set_name(globals, b"_G", Value::Table(globals))?;
    super::registry::set_text(vm, globals, "_VERSION", "Lua 5.1")?;
    register(vm, globals, FUNCTIONS)?;
    let special = [("pcall", Native::Pcall), ("xpcall", Native::Xpcall)];
    for (name, function) in special {
        let id = native(vm, function, &[])?;
        vm.heap.set_name(globals, name.as_bytes(), Value::Function(id))?;
    }
    vm.next_function = native(vm, Native::Plain(next), &[])?;
    vm.heap.set_name(globals, b"next", Value::Function(vm.next_function))
}

/// Answer to the use of a global variable that does not exist.
pub(super) fn undefined_global(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let name = vm.text_of(vm.arg(args, 1)).unwrap_or_default();
    let begin = b"Script attempted to access nonexistent global variable '";
    let text = vm.concatenated(&[begin, &name, b"'"])?;
    Err(vm.fail(text))
}

fn assert(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    if vm.check_any(args, 0)?.is_truthy() {
        vm.results = vm.args_slice(args).to_vec();
        return Ok(Ret::Many);
    }
    if vm.has(args, 1) {
        let text = vm.check_text(args, 1)?;
        return Err(vm.fail(&text));
    }
    Err(vm.fail("assertion failed!"))
}

fn collectgarbage(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let option = if vm.has(args, 0) { vm.check_text(args, 0)? } else { b"collect".to_vec() };
    vm.integer_or(args, 1, 0)?;
    let number = match option.as_slice() {
        b"collect" => {
            collect(vm);
            0.0
        }
        b"count" => vm.heap.budget.used_bytes as f64 / 1024.0,
        b"stop" | b"restart" => 0.0,
        b"step" => {
            collect(vm);
            return Ok(Ret::One(Value::Bool(true)));
        }
        b"setpause" | b"setstepmul" => 200.0,
        other => {
            let text = format!("invalid option '{}'", String::from_utf8_lossy(other));
            return Err(vm.argument_error(1, &text));
        }
    };
    Ok(Ret::One(Value::Number(number)))
}

/// A collection looks at all that there is.
fn collect(vm: &mut Vm) {
    vm.heap.spend(STEPS_PER_INTERRUPT as usize);
    vm.collect();
}

fn gcinfo(vm: &mut Vm, _: &mut dyn Host, _: Args) -> Result<Ret, Stop> {
    Ok(Ret::One(Value::Number((vm.heap.budget.used_bytes / 1024) as f64)))
}

fn error(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let level = vm.integer_or(args, 1, 1)?;
    let value = vm.arg(args, 0);
    match vm.text_of(value) {
        Some(text) if level > 0 => {
            let message = vm.concatenated(&[&vm.position(level as usize), &text])?;
            Err(vm.plain_error(&message))
        }
        _ => Err(Stop::Error(value)),
    }
}

fn getmetatable(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let value = vm.check_any(args, 0)?;
    let Some(table) = vm.metatable(value) else { return Ok(Ret::One(Value::Nil)) };
    let hidden = vm.heap.table(table).get(Value::Str(vm.names.metatable));
    Ok(Ret::One(if hidden.is_nil() { Value::Table(table) } else { hidden }))
}

fn setmetatable(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let table = vm.check_table(args, 0)?;
    let metatable = match vm.arg(args, 1) {
        Value::Nil if args.count > 1 => None,
        Value::Table(metatable) => Some(metatable),
        _ => return Err(vm.argument_error(2, "nil or table expected")),
    };
    if !vm.metamethod(Value::Table(table), vm.names.metatable).is_nil() {
        return Err(vm.fail("cannot change a protected metatable"));
    }
    if vm.heap.table(table).is_readonly {
        return Err(vm.operation_error(b"Attempt to modify a readonly table"));
    }
    vm.heap.table_mut(table).metatable = metatable;
    Ok(Ret::One(Value::Table(table)))
}

/// Compiles a chunk; the results are the function, or nil and the error.
fn compiled(vm: &mut Vm, source: &[u8], name: &[u8]) -> Result<Ret, Stop> {
    let (running, compiling) = (chunk_name(name, 60), chunk_name(name, 80));
    let names = ChunkNames { running: &running, compiling: &compiling };
    if source.first() == Some(&0x1b) {
        return failed(vm, b"attempt to load chunk with wrong mode");
    }
    // Instructions and constants take some ten times the size of their source.
    vm.check_room(source.len().saturating_mul(16))?;
    match crate::compile::compile(&mut vm.heap, source, names) {
        Ok(proto) => {
            let bytes = proto.bytes();
            if !vm.heap.budget.may_grow(bytes) {
                return Err(vm.out_of_memory());
            }
            vm.heap.budget.add(bytes);
            let code = Code::Lua(proto, Box::new([]));
            match vm.heap.new_function_in(code, vm.run_environment) {
                Ok(id) => Ok(Ret::One(Value::Function(id))),
                Err(_) => Err(vm.out_of_memory()),
            }
        }
        Err(error) => failed(vm, &error.0),
    }
}

fn failed(vm: &mut Vm, text: &[u8]) -> Result<Ret, Stop> {
    let text = vm.string(text)?;
    vm.results = vec![Value::Nil, text];
    Ok(Ret::Many)
}

/// Name of a chunk as error texts show it, in a buffer of `size` bytes in C.
fn chunk_name(name: &[u8], size: usize) -> Vec<u8> {
    match name.first() {
        Some(b'=') => name[1..name.len().min(size)].to_vec(),
        Some(b'@') => {
            let room = size - 8;
            let name = &name[1..];
            if name.len() > room {
                [b"...".as_slice(), &name[name.len() - room..]].concat()
            } else {
                name.to_vec()
            }
        }
        _ => {
            let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r' | 0);
            let line = name.iter().position(is_end).unwrap_or(name.len());
            let room = size - 17;
            let length = line.min(room);
            let dots: &[u8] = if length < name.len() { b"..." } else { b"" };
            [b"[string \"".as_slice(), &name[..length], dots, b"\"]"].concat()
        }
    }
}

fn loadstring(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let source = vm.check_text(args, 0)?;
    let name = if vm.has(args, 1) { Some(vm.check_text(args, 1)?) } else { None };
    compiled(vm, &source, name.as_ref().unwrap_or(&source))
}

fn load(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let name = if vm.has(args, 1) { vm.check_text(args, 1)? } else { b"=(load)".to_vec() };
    let function = vm.check_function(args, 0)?;
    let mut source = Vec::new();
    loop {
        vm.work(host, 1)?;
        let piece = match vm.call_one(host, function, &[]) {
            Ok(piece) => piece,
            Err(Stop::Error(value)) => {
                vm.results = vec![Value::Nil, value];
                return Ok(Ret::Many);
            }
            Err(other) => return Err(other),
        };
        if piece.is_nil() {
            break;
        }
        let Some(piece) = vm.text_of(piece) else {
            return failed(vm, b"reader function must return a string");
        };
        if piece.is_empty() {
            break;
        }
        vm.reserve(&mut source, piece.len())?;
        source.extend_from_slice(&piece);
    }
    compiled(vm, &source, &name)
}

fn rawequal(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let (left, right) = (vm.check_any(args, 0)?, vm.check_any(args, 1)?);
    Ok(Ret::One(Value::Bool(Vm::raw_equal(left, right))))
}

fn rawget(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let table = vm.check_table(args, 0)?;
    let key = vm.check_any(args, 1)?;
    Ok(Ret::One(vm.heap.table(table).get(key)))
}

fn rawset(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let table = vm.check_table(args, 0)?;
    let (key, value) = (vm.check_any(args, 1)?, vm.check_any(args, 2)?);
    vm.raw_set(table, key, value)?;
    Ok(Ret::One(Value::Table(table)))
}

fn select(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    if let Value::Str(text) = vm.arg(args, 0)
        && vm.heap.bytes(text).first() == Some(&b'#')
    {
        return Ok(Ret::One(Value::Number(args.count as f64 - 1.0)));
    }
    let index = i64::from(vm.check_integer(args, 0)? as i32);
    let count = args.count as i64;
    let start = if index < 0 { count + index } else { index.min(count) };
    if start < 1 {
        return Err(vm.argument_error(1, "index out of range"));
    }
    vm.heap.spend(args.count / VALUES_PER_STEP);
    vm.results = vm.args_slice(args)[start as usize..].to_vec();
    Ok(Ret::Many)
}

fn tonumber(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    // Cut to the bits of C's `int`.
    let base = vm.integer_or(args, 1, 10)? as i32;
    if base == 10 {
        let value = vm.check_any(args, 0)?;
        return Ok(Ret::One(vm.to_number(value).map_or(Value::Nil, Value::Number)));
    }
    let text = vm.check_text(args, 0)?;
    if !(2..=36).contains(&base) {
        return Err(vm.argument_error(2, "base out of range"));
    }
    Ok(Ret::One(unsigned(&text, base as u32).map_or(Value::Nil, Value::Number)))
}

/// Text in a base, as `strtoul` reads it.
fn unsigned(text: &[u8], base: u32) -> Option<f64> {
    // A C string.
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    let text = crate::number::trim(&text[..end]);
    let (is_negative, mut digits) = match text.first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if base == 16 && digits.len() > 2 && digits[..2].eq_ignore_ascii_case(b"0x") {
        digits = &digits[2..];
    }
    if digits.is_empty() {
        return None;
    }
    let mut value = 0_u64;
    let mut is_over = false;
    for byte in digits {
        let digit = char::from(*byte).to_digit(base)?;
        let next = value.checked_mul(u64::from(base));
        match next.and_then(|next| next.checked_add(u64::from(digit))) {
            Some(next) => value = next,
            None => is_over = true,
        }
    }
    let value = if is_over { u64::MAX } else { value };
    Some(if is_negative && !is_over { value.wrapping_neg() as f64 } else { value as f64 })
}

fn tostring(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let value = vm.check_any(args, 0)?;
    vm.display(host, value).map(Ret::One)
}

fn type_name(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let name = vm.check_any(args, 0)?.type_name();
    vm.string(name.as_bytes()).map(Ret::One)
}

fn unpack(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let table = vm.check_table(args, 0)?;
    let first = i64::from(vm.integer_or(args, 1, 1)? as i32);
    let length = vm.heap.table(table).len() as i64;
    let last = i64::from(vm.integer_or(args, 2, length)? as i32);
    if first > last {
        return Ok(Ret::None);
    }
    let count = last - first + 1;
    if count + args.count as i64 > NATIVE_VALUES_MAX as i64 {
        return Err(vm.fail("too many results to unpack"));
    }
    vm.heap.spend(count as usize / VALUES_PER_STEP);
    let table = vm.heap.table(table);
    vm.results = (first..=last).map(|index| table.get(Value::Number(index as f64))).collect();
    Ok(Ret::Many)
}

fn next(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let table = vm.check_table(args, 0)?;
    match vm.heap.next(table, vm.arg(args, 1)) {
        Some(Some((key, value))) => {
            vm.results.clear();
            vm.results.extend([key, value]);
            Ok(Ret::Many)
        }
        Some(None) => Ok(Ret::One(Value::Nil)),
        None => Err(vm.operation_error(b"invalid key to 'next'")),
    }
}

fn pairs(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let table = vm.check_table(args, 0)?;
    vm.results.clear();
    vm.results.extend([Value::Function(vm.next_function), Value::Table(table), Value::Nil]);
    Ok(Ret::Many)
}

fn ipairs(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let table = vm.check_table(args, 0)?;
    let step = native(vm, Native::Plain(ipairs_step), &[]).map_err(|_| vm.out_of_memory())?;
    vm.results = vec![Value::Function(step), Value::Table(table), Value::Number(0.0)];
    Ok(Ret::Many)
}

fn ipairs_step(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let index = vm.check_integer(args, 1)? + 1;
    let table = vm.check_table(args, 0)?;
    let value = vm.heap.table(table).get(Value::Number(index as f64));
    if value.is_nil() {
        return Ok(Ret::None);
    }
    vm.results.clear();
    vm.results.extend([Value::Number(index as f64), value]);
    Ok(Ret::Many)
}
