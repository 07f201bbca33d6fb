//! Runs of scripts and functions.

use std::collections::TryReserveError;

use crate::compile::ChunkNames;
use crate::heap::{Code, OutOfMemory};
use crate::host::{Abort, Host, Interrupt, Protocol};
use crate::library::{self, Phase, reply_of_value};
use crate::program::Proto;
use crate::reply::{Answer, Reply};
use crate::settings::{Registration, Settings};
use crate::shebang::{Flags, length_of};
use crate::value::Value;
use crate::vm::{Names, Stop, Vm};

/// Names and versions that scripts see in `redis` and `server`.
#[derive(Clone, Debug)]
pub struct Identity {
    /// `SERVER_NAME`.
    pub server_name: String,
    /// `VALKEY_VERSION`.
    pub version: String,
    /// `VALKEY_VERSION_NUM`.
    pub version_number: u32,
    /// `REDIS_VERSION`.
    pub redis_version: String,
    /// `REDIS_VERSION_NUM`.
    pub redis_version_number: u32,
}

/// A compiled script, or a function of a library. It belongs to the interpreter that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script {
    number: u64,
    reaches: Reaches,
}

/// Globals of its run that a script can reach. What it cannot is not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reaches {
    keys: bool,
    arguments: bool,
}

impl Reaches {
    const ALL: Reaches = Reaches { keys: true, arguments: true };

    /// Globals that the code of a function names. It reaches all of them by `_G`, and by code that
    /// it compiles: nothing else that a script can name leads to these.
    fn of(proto: &Proto, names: &Names) -> Reaches {
        let mut reaches = Reaches { keys: false, arguments: false };
        for constant in &proto.constants {
            let Value::Str(name) = *constant else { continue };
            if names.ways_to_globals.contains(&name) {
                return Reaches::ALL;
            }
            reaches.keys |= name == names.keys;
            reaches.arguments |= name == names.arguments;
        }
        for inner in &proto.protos {
            let inner = Reaches::of(inner, names);
            reaches.keys |= inner.keys;
            reaches.arguments |= inner.arguments;
        }
        reaches
    }
}

/// A suspended run.
#[derive(Debug, PartialEq, Eq)]
pub struct Run(u64);

/// A failed run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// Text of the error, with its code.
    pub message: Vec<u8>,
    /// Chunk and line at which it was raised.
    pub place: Option<(Vec<u8>, u32)>,
    /// The error came from a command, which has counted it.
    pub is_counted: bool,
    /// The run was killed.
    pub is_killed: bool,
}

/// State of a run after a turn.
#[derive(Debug, PartialEq)]
pub enum Progress {
    /// The run has ended.
    Done(Reply),
    /// The run has failed.
    Failed(ScriptError),
    /// The run goes on with `Interpreter::resume`.
    Suspended(Run),
}

/// A function that a library has registered.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name.
    pub name: Vec<u8>,
    /// Its description.
    pub description: Option<Vec<u8>>,
    /// Its flags.
    pub flags: Flags,
    /// The function.
    pub script: Script,
}

/// The reason for which a library is not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// The source is not valid; the message of the compiler.
    Syntax(Vec<u8>),
    /// The source failed when it was run.
    Failed(ScriptError),
}

/// State of a suspended run beyond the machine's.
struct Suspension {
    run: u64,
    settings: Settings,
    /// The globals `KEYS` and `ARGV` of a script; nil for a function.
    keys: Value,
    arguments: Value,
    /// It is the run of a script.
    are_globals: bool,
    protocol_of_client: Protocol,
}

/// An interpreter: one thread, one heap, any number of compiled scripts and suspended runs.
pub struct Interpreter {
    vm: Vm,
    suspended: Vec<Suspension>,
    next_number: u64,
    run_bytes_max: usize,
    base_bytes: usize,
    /// Runs change variables of libraries, which live on.
    is_for_functions: bool,
    /// Places of `KEYS` and `ARGV` among the globals of scripts.
    lent: [usize; 2],
}

/// Answers no command: the host of a library that is being loaded.
struct Loading<'h> {
    host: &'h mut dyn Host,
}

impl Host for Loading<'_> {
    fn call(&mut self, _: &[&[u8]], _: Protocol) -> Result<Answer<'_>, Abort> {
        let text = b"ERR server.call can only be called inside a script invocation";
        Ok(Answer::Reply(Reply::Error(text.to_vec())))
    }

    fn interrupt(&mut self, _: bool) -> Interrupt {
        match self.host.interrupt(false) {
            Interrupt::Suspend => Interrupt::Continue,
            other => other,
        }
    }

    fn log(&mut self, level: u8, message: &[u8]) {
        self.host.log(level, message);
    }

    fn is_late(&self) -> bool {
        self.host.is_late()
    }

    fn may_run(&mut self, arguments: &[&[u8]]) -> Result<Option<bool>, TryReserveError> {
        self.host.may_run(arguments)
    }

    fn cpu_seconds(&mut self) -> f64 {
        self.host.cpu_seconds()
    }
}

impl Interpreter {
    /// An interpreter for scripts, each of whose runs may hold `run_bytes_max`.
    ///
    /// # Errors
    ///
    /// When the limit is too low for the libraries, some 100 KiB.
    pub fn for_scripts(identity: &Identity, run_bytes_max: usize) -> Result<Self, ScriptError> {
        Self::new(identity, run_bytes_max, false)
    }

    /// An interpreter for libraries of functions. Commands are refused while one is loaded.
    ///
    /// # Errors
    ///
    /// When the limit is too low for the libraries, some 100 KiB.
    pub fn for_functions(identity: &Identity, run_bytes_max: usize) -> Result<Self, ScriptError> {
        Self::new(identity, run_bytes_max, true)
    }

    fn new(
        identity: &Identity,
        run_bytes_max: usize,
        is_for_functions: bool,
    ) -> Result<Self, ScriptError> {
        let made = Vm::new(run_bytes_max).and_then(|mut vm| {
            library::open(&mut vm, identity, is_for_functions)?;
            let mut lent = [0; 2];
            if !is_for_functions {
                // Members that runs lend values to: nothing is added to the globals later.
                let names = [vm.names.keys, vm.names.arguments].map(Value::Str);
                let globals = vm.globals;
                for name in names {
                    vm.heap.set(globals, name, Value::Bool(false)).map_err(|_| OutOfMemory)?;
                }
                lent = names.map(|name| {
                    let place = vm.heap.place_of(globals, name).expect("it was set");
                    vm.heap.lend(globals, place, Value::Nil);
                    place
                });
            }
            Ok((vm, lent))
        });
        let (vm, lent) = made.map_err(|OutOfMemory| plain_error(b"ERR not enough memory"))?;
        let base_bytes = vm.heap.budget.used_bytes;
        let suspended = Vec::new();
        Ok(Self {
            vm,
            suspended,
            next_number: 0,
            run_bytes_max,
            base_bytes,
            is_for_functions,
            lent,
        })
    }

    /// Bytes of scripts, libraries and suspended runs, garbage included.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.vm.heap.budget.used_bytes
    }

    /// True if no run is suspended.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.suspended.is_empty()
    }

    /// Offers `getfenv`, `setfenv` and `newproxy` to scripts, or does not any more:
    /// `lua-enable-insecure-api`. Nothing happens if that is so already, or if there is no memory.
    pub fn offer_withdrawn_functions(&mut self, offers: bool) {
        if offers != self.vm.has_withdrawn {
            let _ = library::offer(&mut self.vm, offers);
        }
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// Lets the runs that there are hold as much as each may, together.
    fn set_limit(&mut self, runs: usize) {
        self.vm.heap.budget.limit_bytes =
            self.base_bytes.saturating_add(self.run_bytes_max.saturating_mul(runs));
    }

    /// Makes room for another run.
    fn make_room(&mut self) {
        self.set_limit(self.suspended.len() + 1);
        let limit = self.vm.heap.budget.limit_bytes;
        if self.vm.heap.budget.used_bytes > limit / 2 || self.vm.is_collection_due() {
            self.collect();
        }
    }

    /// Sets the limit for one of the suspended runs to go on. Garbage is collected when that is
    /// due, but for that of a run that has ended since and might hold more: it must not be what
    /// exceeds the limit of the others.
    fn limit_to_suspended(&mut self) {
        let limit_before = self.vm.heap.budget.limit_bytes;
        self.set_limit(self.suspended.len());
        let heap = &self.vm.heap;
        let limit = heap.budget.limit_bytes;
        if limit < limit_before && heap.budget.used_bytes.max(heap.threshold_bytes) > limit {
            self.collect();
        }
    }

    /// Compiles a script; a shebang is skipped, and lines keep their numbers.
    ///
    /// # Errors
    ///
    /// The message of the compiler, with chunk and line.
    pub fn compile(&mut self, source: &[u8]) -> Result<Script, Vec<u8>> {
        self.compile_as(source, b"user_script")
    }

    fn compile_as(&mut self, source: &[u8], chunk: &[u8]) -> Result<Script, Vec<u8>> {
        self.make_room();
        let source = &source[length_of(source)..];
        if source.first() == Some(&0x1b) {
            return Err(b"attempt to load chunk with wrong mode".to_vec());
        }
        let before = self.vm.heap.budget.used_bytes;
        let names = ChunkNames { running: chunk, compiling: chunk };
        let heap = &mut self.vm.heap;
        let proto = crate::compile::compile(heap, source, names).map_err(|error| error.0)?;
        let reaches = Reaches::of(&proto, &self.vm.names);
        let heap = &mut self.vm.heap;
        heap.budget.add(proto.bytes());
        let function = heap.new_function(Code::Lua(proto, Box::new([])));
        if let Ok(function) = function {
            heap.function_mut(function).outlives_runs = !self.is_for_functions;
        }
        let script = function
            .map_err(|OutOfMemory| ())
            .and_then(|function| self.keep(Value::Function(function), reaches).map_err(|_| ()))
            .map_err(|()| b"not enough memory".to_vec())?;
        self.base_bytes += self.vm.heap.budget.used_bytes.saturating_sub(before);
        Ok(script)
    }

    fn keep(&mut self, function: Value, reaches: Reaches) -> Result<Script, OutOfMemory> {
        let number = self.number();
        let scripts = self.vm.scripts;
        self.vm
            .heap
            .set(scripts, Value::Number(number as f64), function)
            .map_err(|_| OutOfMemory)?;
        Ok(Script { number, reaches })
    }

    /// Forgets a script. Runs of it go on. [`Interpreter::collect`] frees its memory, or a later
    /// run that needs room.
    pub fn forget(&mut self, script: Script) {
        let scripts = self.vm.scripts;
        // An existing entry is overwritten, which needs no memory.
        let _ = self.vm.heap.set(scripts, Value::Number(script.number as f64), Value::Nil);
    }

    /// Frees what runs and forgotten scripts have left.
    pub fn collect(&mut self) {
        self.vm.collect();
        if self.suspended.is_empty() {
            self.base_bytes = self.vm.heap.budget.used_bytes;
        }
    }

    /// Runs a script with the globals `KEYS` and `ARGV`.
    pub fn start(
        &mut self,
        script: Script,
        keys: &[&[u8]],
        arguments: &[&[u8]],
        protocol_of_client: Protocol,
        host: &mut dyn Host,
    ) -> Progress {
        self.begin(script, keys, arguments, protocol_of_client, host, true)
    }

    /// Calls a function of a library with its two tables.
    pub fn call(
        &mut self,
        function: Script,
        keys: &[&[u8]],
        arguments: &[&[u8]],
        protocol_of_client: Protocol,
        host: &mut dyn Host,
    ) -> Progress {
        self.begin(function, keys, arguments, protocol_of_client, host, false)
    }

    fn begin(
        &mut self,
        script: Script,
        keys: &[&[u8]],
        arguments: &[&[u8]],
        protocol_of_client: Protocol,
        host: &mut dyn Host,
        are_globals: bool,
    ) -> Progress {
        self.make_room();
        self.vm.settings.begin_run();
        if !self.is_for_functions {
            self.vm.begin_run();
        }
        let number = Value::Number(script.number as f64);
        let mut function = self.vm.heap.table(self.vm.scripts).get(number);
        if self.vm.has_withdrawn && !self.is_for_functions {
            // `setfenv` must not change what the next run executes.
            function = self.vm.own_copy(function).unwrap_or(function);
        }
        let tables = self.tables(script.reaches, keys, arguments);
        let Ok((keys, arguments)) = tables else {
            self.vm.end_run();
            return Progress::Failed(plain_error(b"ERR not enough memory"));
        };
        if are_globals {
            self.set_globals(keys, arguments);
            let outcome = self.vm.start(host, function, &[]);
            return self.finish(host, outcome, (keys, arguments, true), protocol_of_client);
        }
        // A function may let go of its arguments, so they are not named behind its start.
        let outcome = self.vm.start(host, function, &[keys, arguments]);
        self.finish(host, outcome, (Value::Nil, Value::Nil, false), protocol_of_client)
    }

    /// The two tables of a run; nil for one that it cannot reach.
    fn tables(
        &mut self,
        reaches: Reaches,
        keys: &[&[u8]],
        arguments: &[&[u8]],
    ) -> Result<(Value, Value), OutOfMemory> {
        let keys = if reaches.keys { self.texts(keys)? } else { Value::Nil };
        let arguments = if reaches.arguments { self.texts(arguments)? } else { Value::Nil };
        Ok((keys, arguments))
    }

    fn texts(&mut self, texts: &[&[u8]]) -> Result<Value, OutOfMemory> {
        let table = self.vm.heap.sized_table(texts.len(), 0)?;
        // The table is reachable while its strings are made, since nothing collects here.
        for (index, text) in texts.iter().enumerate() {
            let text = Value::Str(self.vm.heap.string(text)?);
            self.vm.heap.set_index(table, index + 1, text)?;
        }
        Ok(Value::Table(table))
    }

    /// Sets `KEYS` and `ARGV`.
    fn set_globals(&mut self, keys: Value, arguments: Value) {
        let globals = self.vm.globals;
        self.vm.heap.lend(globals, self.lent[0], keys);
        self.vm.heap.lend(globals, self.lent[1], arguments);
    }

    /// Goes on with a suspended run.
    pub fn resume(&mut self, run: Run, host: &mut dyn Host) -> Progress {
        self.limit_to_suspended();
        let number = run.0;
        let (Some(index), Some(parked)) = (
            self.suspended.iter().position(|suspension| suspension.run == number),
            self.vm.parked.iter().position(|(parked, _)| *parked == number),
        ) else {
            return Progress::Failed(plain_error(b"ERR no such run"));
        };
        let suspension = self.suspended.swap_remove(index);
        let (_, parked) = self.vm.parked.swap_remove(parked);
        self.vm.unpark(parked);
        let random = self.vm.settings.random;
        self.vm.settings = Settings { random, ..suspension.settings };
        let tables = (suspension.keys, suspension.arguments, suspension.are_globals);
        if tables.2 {
            self.set_globals(tables.0, tables.1);
        }
        let outcome = self.vm.go_on(host);
        self.finish(host, outcome, tables, suspension.protocol_of_client)
    }

    /// Ends a suspended run without a result.
    pub fn abandon(&mut self, run: Run) {
        let number = run.0;
        self.suspended.retain(|suspension| suspension.run != number);
        if let Some(at) = self.vm.parked.iter().position(|(parked, _)| *parked == number) {
            let (_, parked) = self.vm.parked.swap_remove(at);
            self.vm.drop_parked(parked);
        }
        self.vm.collect();
    }

    fn finish(
        &mut self,
        host: &mut dyn Host,
        outcome: Result<Value, Stop>,
        (keys, arguments, are_globals): (Value, Value, bool),
        protocol_of_client: Protocol,
    ) -> Progress {
        let outcome =
            outcome.and_then(|value| Ok((value, reply_of_value(&mut self.vm, host, value)?)));
        let progress = match outcome {
            Ok((value, Reply::Error(message))) => {
                let is_counted = self.is_counted(value);
                let (place, is_killed) = (None, false);
                Progress::Failed(ScriptError { message, place, is_counted, is_killed })
            }
            Ok((_, reply)) => Progress::Done(reply),
            Err(Stop::Error(value)) => Progress::Failed(self.error_of(host, value, false)),
            Err(Stop::Killed(value)) => Progress::Failed(self.error_of(host, value, true)),
            Err(Stop::Suspended) => {
                self.vm.heap.keep_run();
                let run = self.number();
                let mut parked = self.vm.park();
                parked.keep(&[keys, arguments]);
                self.vm.parked.push((run, parked));
                self.suspended.push(Suspension {
                    run,
                    settings: self.vm.settings.clone(),
                    keys,
                    arguments,
                    are_globals,
                    protocol_of_client,
                });
                Progress::Suspended(Run(run))
            }
        };
        if are_globals {
            // The tables that they name are freed, or belong to a suspended run.
            self.set_globals(Value::Nil, Value::Nil);
        }
        self.vm.end_run();
        progress
    }

    /// True if a command that failed has counted an error.
    fn is_counted(&self, error: Value) -> bool {
        let Value::Table(table) = error else { return false };
        self.vm.heap.name(table, b"ignore_error_stats_update").is_truthy()
    }

    fn error_of(&mut self, host: &mut dyn Host, value: Value, is_killed: bool) -> ScriptError {
        let place = self.vm.error_place.take();
        let mut error = ScriptError { message: Vec::new(), place, is_counted: false, is_killed };
        self.vm.reset();
        if let Value::Table(table) = value {
            let text = self.vm.text_of(self.vm.heap.name(table, b"err"));
            error.message = match text {
                Some(text) => self.message(b"", &text),
                None => b"ERR unknown error".to_vec(),
            };
            error.is_counted = self.is_counted(value);
            return error;
        }
        let shown = self.vm.display(host, value).ok().and_then(|text| self.vm.text_of(text));
        error.message = self.message(b"ERR ", &shown.unwrap_or_default());
        error
    }

    /// The message of an error, which ends where a string of C does.
    fn message(&self, code: &[u8], text: &[u8]) -> Vec<u8> {
        let whole = self.vm.concatenated(&[code, c_string(text)]);
        whole.unwrap_or_else(|_| b"ERR not enough memory".to_vec())
    }

    /// Runs the source of a library and collects the functions that it registers.
    ///
    /// # Errors
    ///
    /// When it does not compile, or fails when it is run; the host ends one that takes too long.
    pub fn load(&mut self, source: &[u8], host: &mut dyn Host) -> Result<Vec<Function>, LoadError> {
        let script = self.compile_as(source, b"user_function").map_err(LoadError::Syntax)?;
        self.vm.settings = Settings::default();
        let number = Value::Number(script.number as f64);
        let function = self.vm.heap.table(self.vm.scripts).get(number);
        let mut loading = Loading { host };
        library::begin_phase(&mut self.vm, Phase::Loading);
        let outcome = self.vm.start(&mut loading, function, &[]);
        library::begin_phase(&mut self.vm, Phase::Calling);
        let registrations = std::mem::take(&mut self.vm.settings.server.registrations);
        let kept = match outcome {
            Ok(_) => self.keep_all(&registrations),
            Err(Stop::Error(value)) => {
                Err(LoadError::Failed(self.error_of(&mut loading, value, false)))
            }
            Err(Stop::Killed(value)) => {
                Err(LoadError::Failed(self.error_of(&mut loading, value, true)))
            }
            Err(Stop::Suspended) => Err(LoadError::Failed(plain_error(b"ERR suspended"))),
        };
        self.vm.reset();
        self.forget(script);
        if self.vm.heap.budget.used_bytes > 2 * self.base_bytes {
            self.collect();
        }
        kept
    }

    /// Keeps what was registered, or nothing of it.
    fn keep_all(&mut self, registrations: &[Registration]) -> Result<Vec<Function>, LoadError> {
        let mut functions = Vec::new();
        if let Err(OutOfMemory) = self.keep_each(registrations, &mut functions) {
            functions.iter().for_each(|function| self.forget(function.script));
            return Err(LoadError::Failed(plain_error(b"ERR not enough memory")));
        }
        Ok(functions)
    }

    fn keep_each(
        &mut self,
        registrations: &[Registration],
        functions: &mut Vec<Function>,
    ) -> Result<(), OutOfMemory> {
        functions.try_reserve_exact(registrations.len()).map_err(|_| OutOfMemory)?;
        for registration in registrations {
            let copy = |text| self.vm.copied(self.vm.heap.bytes(text)).map_err(|_| OutOfMemory);
            let name = copy(registration.name)?;
            let description = registration.description.map(copy).transpose()?;
            let script = self.keep(registration.callback, Reaches::ALL)?;
            functions.push(Function { name, description, flags: registration.flags, script });
        }
        Ok(())
    }
}

/// The text up to its first zero byte, where errors end.
fn c_string(text: &[u8]) -> &[u8] {
    &text[..text.iter().position(|byte| *byte == 0).unwrap_or(text.len())]
}

fn plain_error(message: &[u8]) -> ScriptError {
    ScriptError { message: message.to_vec(), place: None, is_counted: false, is_killed: false }
}
