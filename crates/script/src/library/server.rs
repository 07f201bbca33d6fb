//! `redis` and `server`: commands, conversions of replies, functions that need no command.

use std::borrow::Cow;

use super::registry::{Functions, register};
use crate::heap::OutOfMemory;
use crate::host::{Abort, Host, Protocol};
use crate::limits::{REPLY_DEPTH_MAX, STEPS_PER_COMMAND, STEPS_PER_INTERRUPT};
use crate::reply::{Answer, Reply};
use crate::settings::Registration;
use crate::shebang::Flags;
use crate::value::{Str, TableId, Value};
use crate::vm::{Args, Ret, Stop, Vm};

const SHARED: Functions = &[
    ("log", log),
    ("setresp", setresp),
    ("sha1hex", sha1hex),
    ("error_reply", error_reply),
    ("status_reply", status_reply),
];

const COMMANDS: Functions =
    &[("call", call), ("pcall", pcall), ("set_repl", set_repl), ("acl_check_cmd", acl_check_cmd)];

/// Functions that only scripts have, not functions of libraries.
const SCRIPTS_ONLY: Functions =
    &[("replicate_commands", replicate_commands), ("breakpoint", breakpoint), ("debug", debug)];

/// Task of an interpreter of libraries: each has globals of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Phase {
    /// A library is loaded: all that it has is `redis` and `server`, by which it registers
    /// functions.
    Loading,
    /// A function is called.
    Calling,
}

impl Phase {
    /// Name of its globals among the scripts, which are named by numbers.
    fn name(self) -> &'static [u8] {
        match self {
            Phase::Loading => b"loading",
            Phase::Calling => b"calling",
        }
    }
}

/// Gives an interpreter of libraries the globals of a phase.
pub(crate) fn begin_phase(vm: &mut Vm, phase: Phase) {
    if let Value::Table(globals) = vm.heap.name(vm.scripts, phase.name()) {
        vm.globals = globals;
    }
    vm.settings.server.is_loading = matches!(phase, Phase::Loading);
}

/// Makes the globals of the phases of an interpreter whose globals are complete.
pub(super) fn open_phases(vm: &mut Vm, identity: &crate::Identity) -> Result<(), OutOfMemory> {
    let (calling, scripts) = (vm.globals, vm.scripts);
    vm.heap.set_name(scripts, Phase::Calling.name(), Value::Table(calling))?;
    let loading = vm.heap.new_table()?;
    vm.heap.set_name(scripts, Phase::Loading.name(), Value::Table(loading))?;
    let table = vm.heap.new_table()?;
    for name in [b"redis".as_slice(), b"server"] {
        vm.heap.set_name(loading, name, Value::Table(table))?;
    }
    register(vm, table, &[("log", log), ("register_function", register_function)])?;
    set_log_levels(vm, table)?;
    set_versions(vm, table, identity)?;
    let metatable = vm.heap.table(calling).metatable;
    for table in [table, loading] {
        let table = vm.heap.table_mut(table);
        table.metatable = metatable;
        table.is_readonly = true;
    }
    Ok(())
}

pub(super) fn open(
    vm: &mut Vm,
    identity: &crate::Identity,
    is_for_functions: bool,
) -> Result<(), OutOfMemory> {
    let table = vm.heap.new_table()?;
    register(vm, table, SHARED)?;
    register(vm, table, COMMANDS)?;
    if !is_for_functions {
        register(vm, table, SCRIPTS_ONLY)?;
    }
    set_log_levels(vm, table)?;
    let numbers = [
        ("REPL_NONE", 0.0),
        ("REPL_AOF", 1.0),
        ("REPL_SLAVE", 2.0),
        ("REPL_REPLICA", 2.0),
        ("REPL_ALL", 3.0),
    ];
    for (name, number) in numbers {
        super::registry::set_number(vm, table, name, number)?;
    }
    set_versions(vm, table, identity)?;
    let globals = vm.globals;
    vm.heap.set_name(globals, b"redis", Value::Table(table))?;
    vm.heap.set_name(globals, b"server", Value::Table(table))?;
    if is_for_functions {
        return Ok(());
    }
    register(
        vm,
        globals,
        &[("__redis__err__handler", error_handler), ("__server__err__handler", error_handler)],
    )
}

fn set_log_levels(vm: &mut Vm, table: TableId) -> Result<(), OutOfMemory> {
    let levels = ["LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"];
    for (level, name) in levels.into_iter().enumerate() {
        super::registry::set_number(vm, table, name, level as f64)?;
    }
    Ok(())
}

fn set_versions(
    vm: &mut Vm,
    table: TableId,
    identity: &crate::Identity,
) -> Result<(), OutOfMemory> {
    let numbers = [
        ("REDIS_VERSION_NUM", f64::from(identity.redis_version_number)),
        ("VALKEY_VERSION_NUM", f64::from(identity.version_number)),
    ];
    for (name, number) in numbers {
        super::registry::set_number(vm, table, name, number)?;
    }
    super::registry::set_text(vm, table, "REDIS_VERSION", &identity.redis_version)?;
    super::registry::set_text(vm, table, "VALKEY_VERSION", &identity.version)?;
    super::registry::set_text(vm, table, "SERVER_NAME", &identity.server_name)
}

fn table_of(vm: &mut Vm, name: &[u8], text: Value) -> Result<Value, Stop> {
    let table = vm.table(0, 1)?;
    let name = vm.string(name)?;
    vm.raw_set(table, name, text)?;
    Ok(Value::Table(table))
}

/// The error that commands and checks of arguments raise: a table.
fn error_value(vm: &mut Vm, text: &[u8], is_counted: bool) -> Result<Value, Stop> {
    let text = vm.string(text)?;
    let error = table_of(vm, b"err", text)?;
    if is_counted && let Value::Table(table) = error {
        let name = vm.string(b"ignore_error_stats_update")?;
        vm.raw_set(table, name, Value::Bool(true))?;
    }
    Ok(error)
}

fn raise(vm: &mut Vm, text: &str) -> Stop {
    match error_value(vm, format!("ERR {text}").as_bytes(), false) {
        Ok(value) => Stop::Error(value),
        Err(stop) => stop,
    }
}

fn error_handler(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let value = vm.arg(args, 0);
    if matches!(value, Value::Table(_)) {
        return Ok(Ret::One(value));
    }
    let shown = vm.display(host, value)?;
    let text = vm.concatenated(&[b"ERR ", &vm.text_of(shown).unwrap_or_default()])?;
    error_value(vm, &text, false).map(Ret::One)
}

fn error_reply(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let Value::Str(text) = vm.arg(args, 0) else {
        let text = b"ERR wrong number or type of arguments";
        return error_value(vm, text, false).map(Ret::One);
    };
    if args.count != 1 {
        let text = b"ERR wrong number or type of arguments";
        return error_value(vm, text, false).map(Ret::One);
    }
    let text = vm.heap.bytes(text);
    let text = text.strip_prefix(b"-").unwrap_or(text);
    // A text of several words brings its own code.
    let code: &[u8] = if text.contains(&b' ') { b"" } else { b"ERR " };
    let text = vm.concatenated(&[code, text])?;
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let first = text.iter().position(|byte| !is_end(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_end(byte)).map_or(first, |last| last + 1);
    error_value(vm, &text[first..end], false).map(Ret::One)
}

fn status_reply(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    match vm.arg(args, 0) {
        text @ Value::Str(_) if args.count == 1 => table_of(vm, b"ok", text).map(Ret::One),
        _ => error_value(vm, b"ERR wrong number or type of arguments", false).map(Ret::One),
    }
}

fn sha1hex(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    if args.count != 1 {
        return Err(raise(vm, "wrong number of arguments"));
    }
    let text = vm.text_of(vm.arg(args, 0)).unwrap_or_default();
    let digest = sha1_smol::Sha1::from(&text).digest().to_string();
    vm.string(digest.as_bytes()).map(Ret::One)
}

fn log(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    if args.count < 2 {
        return Err(raise(vm, "server.log() requires two arguments or more."));
    }
    let Some(level) = vm.to_number(vm.arg(args, 0)) else {
        return Err(raise(vm, "First argument must be a number (log level)."));
    };
    let Some(level) = u8::try_from(level as i64).ok().filter(|level| *level <= 3) else {
        return Err(raise(vm, "Invalid log level."));
    };
    let mut message = Vec::new();
    for text in (1..args.count).filter_map(|index| vm.text_of(vm.arg(args, index))) {
        vm.reserve(&mut message, text.len() + 1)?;
        message.extend_from_slice(&text);
        message.push(b' ');
    }
    host.log(level, message.strip_suffix(b" ").unwrap_or_default());
    Ok(Ret::None)
}

fn setresp(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    if args.count != 1 {
        return Err(raise(vm, "server.setresp() requires one argument."));
    }
    vm.settings.server.protocol = match vm.to_number(vm.arg(args, 0)).map(|number| number as i64) {
        Some(2) => Protocol::Resp2,
        Some(3) => Protocol::Resp3,
        _ => return Err(raise(vm, "RESP version must be 2 or 3.")),
    };
    Ok(Ret::None)
}

fn set_repl(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    if args.count != 1 {
        return Err(raise(vm, "server.set_repl() requires one argument."));
    }
    match vm.to_number(vm.arg(args, 0)).map_or(0, |number| number as i64) {
        0..=3 => Ok(Ret::None),
        _ => Err(raise(
            vm,
            "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
        )),
    }
}

fn replicate_commands(_: &mut Vm, _: &mut dyn Host, _: Args) -> Result<Ret, Stop> {
    Ok(Ret::One(Value::Bool(true)))
}

fn breakpoint(_: &mut Vm, _: &mut dyn Host, _: Args) -> Result<Ret, Stop> {
    Ok(Ret::One(Value::Bool(false)))
}

fn debug(_: &mut Vm, _: &mut dyn Host, _: Args) -> Result<Ret, Stop> {
    Ok(Ret::None)
}

/// Arguments of a command; `Err` holds the text of the refusal.
fn command(vm: &Vm, args: Args) -> Result<Vec<Cow<'_, [u8]>>, &'static str> {
    if args.count == 0 {
        return Err("Please specify at least one argument for this call");
    }
    let argument = |value: &Value| match *value {
        Value::Str(text) => Some(Cow::Borrowed(vm.heap.bytes(text))),
        Value::Number(number) => Some(Cow::Owned(command_number(number))),
        _ => None,
    };
    let arguments: Option<Vec<_>> = vm.args_slice(args).iter().map(argument).collect();
    arguments.ok_or("Command arguments must be strings or integers")
}

/// A number as an argument of a command: an integer, or the shortest text that reads back equal.
fn command_number(number: f64) -> Vec<u8> {
    let integer = number as i64;
    if integer as f64 == number && integer != i64::MAX {
        return integer.to_string().into_bytes();
    }
    if number.is_nan() {
        return if number.is_sign_negative() { b"-nan".to_vec() } else { b"nan".to_vec() };
    }
    if number.is_infinite() {
        return if number > 0.0 { b"inf".to_vec() } else { b"-inf".to_vec() };
    }
    let text = format!("{number:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent = exponent.parse::<i32>().unwrap_or(0);
    // Digits, and the power of ten of the last one.
    let digit_count = mantissa.bytes().filter(u8::is_ascii_digit).count() as i32;
    let power = exponent - digit_count + 1;
    let is_decimal =
        if power >= 0 { exponent < digit_count + 7 } else { power > -7 || exponent.abs() < 4 };
    if is_decimal {
        return format!("{number}").into_bytes();
    }
    let sign = if exponent > 0 { "+" } else { "" };
    format!("{mantissa}e{sign}{exponent}").into_bytes()
}

fn call(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    execute(vm, host, args, true)
}

fn pcall(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    execute(vm, host, args, false)
}

fn execute(vm: &mut Vm, host: &mut dyn Host, args: Args, raises: bool) -> Result<Ret, Stop> {
    let is_plain = args.count > 0
        && args.count <= INLINE_ARGUMENTS
        && vm.args_slice(args).iter().all(|value| matches!(value, Value::Str(_)));
    let protocol = vm.settings.server.protocol;
    let reply = if is_plain {
        let mut arguments: [&[u8]; INLINE_ARGUMENTS] = [&[]; INLINE_ARGUMENTS];
        for (place, value) in arguments.iter_mut().zip(vm.args_slice(args)) {
            if let Value::Str(text) = value {
                *place = vm.heap.bytes(*text);
            }
        }
        host.call(&arguments[..args.count], protocol)
    } else {
        let called = command(vm, args).map(|arguments| {
            let arguments: Vec<&[u8]> = arguments.iter().map(AsRef::as_ref).collect();
            host.call(&arguments, protocol)
        });
        match called {
            Ok(reply) => reply,
            Err(text) if raises => return Err(raise(vm, text)),
            Err(text) => {
                let text = format!("ERR {text}");
                return error_value(vm, text.as_bytes(), false).map(Ret::One);
            }
        }
    };
    let reply = match reply.map_err(|Abort(text)| vm.kill(text))? {
        Answer::Bulk(text) => {
            let value = vm.string(text)?;
            spend_command(vm, host);
            return Ok(Ret::One(value));
        }
        Answer::Reply(reply) => reply,
    };
    spend_command(vm, host);
    let is_error = matches!(reply, Reply::Error(_));
    let value = value_of_reply(vm, &reply, 0)?;
    if is_error && raises {
        return Err(Stop::Error(value));
    }
    Ok(Ret::One(value))
}

/// Counts a command as steps, so that long ones end the turn soon.
fn spend_command(vm: &Vm, host: &dyn Host) {
    vm.heap.spend(if host.is_late() { STEPS_PER_INTERRUPT as usize } else { STEPS_PER_COMMAND });
}

/// Arguments of a command that need no allocation.
const INLINE_ARGUMENTS: usize = 8;

fn acl_check_cmd(vm: &mut Vm, host: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    let may_run = command(vm, args).map(|arguments| {
        let arguments: Vec<&[u8]> = arguments.iter().map(AsRef::as_ref).collect();
        host.may_run(&arguments)
    });
    let may_run = may_run.map_err(|text| raise(vm, text))?;
    match may_run.map_err(|_| vm.out_of_memory())? {
        Some(may_run) => Ok(Ret::One(Value::Bool(may_run))),
        None => Err(raise(vm, "Invalid command passed to server.acl_check_cmd()")),
    }
}

/// A reply as a script sees it.
pub(crate) fn value_of_reply(vm: &mut Vm, reply: &Reply, depth: usize) -> Result<Value, Stop> {
    if depth > REPLY_DEPTH_MAX {
        return Err(vm.fail("reached lua stack limit"));
    }
    let is_resp3 = vm.settings.server.protocol == Protocol::Resp3;
    match reply {
        Reply::Null if is_resp3 => Ok(Value::Nil),
        Reply::Null => Ok(Value::Bool(false)),
        Reply::Integer(number) => Ok(Value::Number(*number as f64)),
        Reply::Bulk(text) => vm.string(text),
        Reply::Bool(flag) => Ok(Value::Bool(*flag)),
        Reply::Error(text) => error_value(vm, text, true),
        Reply::OwnError(text) => error_value(vm, text, false),
        Reply::Status(text) => {
            let text = vm.string(text)?;
            table_of(vm, b"ok", text)
        }
        Reply::Double(number) => table_of(vm, b"double", Value::Number(*number)),
        Reply::BigNumber(text) => {
            let text = vm.string(text)?;
            table_of(vm, b"big_number", text)
        }
        Reply::Verbatim { format, text } => {
            let inner = vm.table(0, 2)?;
            for (name, text) in [(b"string".as_slice(), &text[..]), (b"format", &format[..])] {
                let (name, text) = (vm.string(name)?, vm.string(text)?);
                vm.raw_set(inner, name, text)?;
            }
            table_of(vm, b"verbatim_string", Value::Table(inner))
        }
        Reply::Array(items) => {
            let table = vm.table(items.len(), 0)?;
            for (index, item) in items.iter().enumerate() {
                let value = value_of_reply(vm, item, depth + 1)?;
                vm.raw_set(table, Value::Number((index + 1) as f64), value)?;
            }
            Ok(Value::Table(table))
        }
        Reply::Map(entries) => {
            let table = vm.table(0, entries.len())?;
            for (key, item) in entries {
                let key = value_of_reply(vm, key, depth + 1)?;
                let value = value_of_reply(vm, item, depth + 1)?;
                if !key.is_nil() {
                    vm.raw_set(table, key, value)?;
                }
            }
            table_of(vm, b"map", Value::Table(table))
        }
        Reply::Set(items) => {
            let table = vm.table(0, items.len())?;
            for item in items {
                let key = value_of_reply(vm, item, depth + 1)?;
                if !key.is_nil() {
                    vm.raw_set(table, key, Value::Bool(true))?;
                }
            }
            table_of(vm, b"set", Value::Table(table))
        }
    }
}

/// A text on one line.
fn on_one_line(text: Vec<u8>) -> Vec<u8> {
    let plain = |byte| if byte == b'\r' || byte == b'\n' { b' ' } else { byte };
    text.into_iter().map(plain).collect()
}

/// The first three letters of a C string, with blanks behind a shorter one.
fn three_letters(text: &[u8]) -> [u8; 3] {
    let mut letters = text.iter().copied().take_while(|&letter| letter != 0);
    std::array::from_fn(|_| letters.next().unwrap_or(b' '))
}

/// A script's result as a reply.
pub(crate) fn reply_of_value(
    vm: &mut Vm,
    host: &mut dyn Host,
    value: Value,
) -> Result<Reply, Stop> {
    ReplyMaker { bytes: 0 }.reply(vm, host, value, 0)
}

/// Replies of values. A table that is in another one twice becomes two replies, so a small script
/// can ask for a reply without end: it may hold as much as the run may.
struct ReplyMaker {
    bytes: usize,
}

impl ReplyMaker {
    fn reply(
        &mut self,
        vm: &mut Vm,
        host: &mut dyn Host,
        value: Value,
        depth: usize,
    ) -> Result<Reply, Stop> {
        vm.work(host, 1)?;
        self.charge(vm, size_of::<Reply>())?;
        Ok(match value {
            Value::Str(text) => Reply::Bulk(self.text(vm, text)?),
            Value::Number(number) => Reply::Integer(super::arguments::integer_of(number)),
            Value::Bool(flag) if vm.settings.server.protocol == Protocol::Resp3 => {
                Reply::Bool(flag)
            }
            Value::Bool(true) => Reply::Integer(1),
            Value::Table(table) if depth < REPLY_DEPTH_MAX => {
                return self.table(vm, host, table, depth);
            }
            Value::Table(_) => Reply::OwnError(b"ERR reached lua stack limit".to_vec()),
            _ => Reply::Null,
        })
    }

    fn charge(&mut self, vm: &Vm, bytes: usize) -> Result<(), Stop> {
        self.bytes += bytes;
        vm.check_room(self.bytes)
    }

    fn text(&mut self, vm: &Vm, text: Str) -> Result<Vec<u8>, Stop> {
        let text = vm.heap.bytes(text);
        self.charge(vm, text.len())?;
        vm.copied(text)
    }

    /// Text of a member, on one line.
    fn line(&mut self, vm: &Vm, table: TableId, name: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
        match vm.heap.name(table, name) {
            Value::Str(text) => self.text(vm, text).map(|text| Some(on_one_line(text))),
            _ => Ok(None),
        }
    }

    fn table(
        &mut self,
        vm: &mut Vm,
        host: &mut dyn Host,
        table: TableId,
        depth: usize,
    ) -> Result<Reply, Stop> {
        if let Some(text) = self.line(vm, table, b"err")? {
            let is_counted = vm.heap.name(table, b"ignore_error_stats_update").is_truthy();
            return Ok(if is_counted { Reply::Error(text) } else { Reply::OwnError(text) });
        }
        if let Some(text) = self.line(vm, table, b"ok")? {
            return Ok(Reply::Status(text));
        }
        if let Value::Number(number) = vm.heap.name(table, b"double") {
            return Ok(Reply::Double(number));
        }
        if let Value::Table(map) = vm.heap.name(table, b"map") {
            let mut pairs = Vec::new();
            let mut key = Value::Nil;
            while let Some(Some((next, value))) = vm.heap.next(map, key) {
                let name = self.reply(vm, host, next, depth + 1)?;
                let value = self.reply(vm, host, value, depth + 1)?;
                push(vm, &mut pairs, (name, value))?;
                key = next;
            }
            return Ok(Reply::Map(pairs));
        }
        if let Value::Table(set) = vm.heap.name(table, b"set") {
            let mut items = Vec::new();
            let mut key = Value::Nil;
            while let Some(Some((next, _))) = vm.heap.next(set, key) {
                let item = self.reply(vm, host, next, depth + 1)?;
                push(vm, &mut items, item)?;
                key = next;
            }
            return Ok(Reply::Set(items));
        }
        if let Some(digits) = self.line(vm, table, b"big_number")? {
            return Ok(Reply::BigNumber(digits));
        }
        if let Value::Table(verbatim) = vm.heap.name(table, b"verbatim_string")
            && let Value::Str(text) = vm.heap.name(verbatim, b"string")
            && let Value::Str(format) = vm.heap.name(verbatim, b"format")
        {
            let format = three_letters(vm.heap.bytes(format));
            return Ok(Reply::Verbatim { format, text: self.text(vm, text)? });
        }
        let mut items = Vec::new();
        for index in 1.. {
            let value = vm.heap.table(table).get_index(index);
            if value.is_nil() {
                break;
            }
            let item = self.reply(vm, host, value, depth + 1)?;
            push(vm, &mut items, item)?;
        }
        Ok(Reply::Array(items))
    }
}

/// Adds an item of a reply. A list that grows takes twice its bytes for a moment, more than it has
/// charged.
fn push<T>(vm: &Vm, items: &mut Vec<T>, item: T) -> Result<(), Stop> {
    items.try_reserve(1).map_err(|_| vm.out_of_memory())?;
    items.push(item);
    Ok(())
}

/// `register_function(name, callback)` or `register_function{function_name=..., ...}`.
fn register_function(vm: &mut Vm, _: &mut dyn Host, args: Args) -> Result<Ret, Stop> {
    if !vm.settings.server.is_loading {
        let text = "server.register_function can only be called on FUNCTION LOAD command";
        return Err(raise(vm, text));
    }
    let registration = match args.count {
        1 => named_registration(vm, vm.arg(args, 0)),
        2 => match (vm.arg(args, 0), vm.arg(args, 1)) {
            (Value::Str(name), callback @ Value::Function(_)) => {
                Ok(Registration { name, description: None, flags: Flags::default(), callback })
            }
            (Value::Str(_), _) => {
                Err("second argument to server.register_function must be a function")
            }
            _ => Err("first argument to server.register_function must be a string"),
        },
        _ => Err("wrong number of arguments to server.register_function"),
    };
    let registration = registration.map_err(|text| raise(vm, text))?;
    let texts = [Some(registration.name), registration.description];
    let text_bytes: usize = texts.iter().flatten().map(|text| vm.heap.bytes(*text).len()).sum();
    vm.heap.spend_bytes(text_bytes);
    let server = &mut vm.settings.server;
    // The texts are copied when the library is there, one that is registered twice as well.
    server.registered_bytes += size_of::<Registration>() + text_bytes;
    let is_within = vm.heap.budget.may_grow(server.registered_bytes);
    if !is_within || server.registrations.try_reserve(1).is_err() {
        return Err(vm.out_of_memory());
    }
    server.registrations.push(registration);
    Ok(Ret::None)
}

fn named_registration(vm: &Vm, value: Value) -> Result<Registration, &'static str> {
    let Value::Table(table) = value else {
        return Err("calling server.register_function with a single argument is only applicable \
                    to Lua table (representing named arguments).");
    };
    let (mut name, mut callback) = (None, None);
    let (mut description, mut flags) = (None, Flags::default());
    for (key, value) in vm.heap.table(table).entries() {
        let Value::Str(key) = key else {
            return Err("named argument key given to server.register_function is not a string");
        };
        match (vm.heap.bytes(key), value) {
            (b"function_name", Value::Str(text)) => name = Some(text),
            (b"function_name", _) => {
                return Err("function_name argument given to server.register_function must be \
                            a string");
            }
            (b"description", Value::Str(text)) => description = Some(text),
            (b"description", _) => {
                return Err("description argument given to server.register_function must be a \
                            string");
            }
            (b"callback", Value::Function(_)) => callback = Some(value),
            (b"callback", _) => {
                return Err("callback argument given to server.register_function must be a \
                            function");
            }
            (b"flags", Value::Table(list)) => flags = flags_of(vm, list)?,
            (b"flags", _) => {
                return Err("flags argument to server.register_function must be a table \
                            representing function flags");
            }
            _ => return Err("unknown argument given to server.register_function"),
        }
    }
    let name = name.ok_or("server.register_function must get a function name argument")?;
    let callback = callback.ok_or("server.register_function must get a callback argument")?;
    Ok(Registration { name, description, flags, callback })
}

fn flags_of(vm: &Vm, list: TableId) -> Result<Flags, &'static str> {
    let mut flags = 0;
    for index in 1.. {
        match vm.heap.table(list).get_index(index) {
            Value::Nil => break,
            Value::Str(name) => {
                let flag = Flags::of_name(vm.heap.bytes(name));
                flags |= flag.ok_or("unknown flag given")?;
            }
            _ => return Err("unknown flag given"),
        }
    }
    Ok(Flags(flags))
}
