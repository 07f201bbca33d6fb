//! The script or function that a request asks to run.

use std::rc::Rc;

use tidemill_resp::number::parse_integer;
use tidemill_resp::request::ArgumentView;
use tidemill_script::{Flags, Script};

use crate::access::handler::{ScriptCommand, ScriptName};
use crate::admin::scripting::{Loader, NO_SCRIPT, compile_error, flags_of};
use crate::command::FIRST_SCRIPT_KEY;
use crate::error::{CommandError, NO_MEMORY_LEFT};
use crate::limits::EARLY_HASHED_BYTES_MAX;
use crate::script::{DIGEST_DIGITS, Kind, Origin, UndeclaredKeys};
use crate::shared::Shared;
use crate::worker::Worker;
use crate::worker::scripts::{CompiledScript, FunctionRef, Machine};

/// Program of a call: it outlives a flush meanwhile.
pub(super) enum Program {
    /// A script of the cache.
    Script(Rc<CompiledScript>),
    /// A function of a library.
    Function(FunctionRef),
}

/// A script or function that is about to run.
pub(super) struct Call<'a> {
    pub(super) kind: Kind,
    pub(super) script: Script,
    pub(super) program: Program,
    /// Flags that it declares; none for a script without such a line.
    pub(super) flags: Option<Flags>,
    /// It may not write.
    pub(super) is_read_only: bool,
    pub(super) args: ArgumentView<'a>,
    /// Number of declared keys.
    pub(super) key_count: usize,
}

impl<'a> Call<'a> {
    /// A key, or an argument behind the keys.
    pub(super) fn text(&self, index: usize) -> &'a [u8] {
        self.args.get(FIRST_SCRIPT_KEY + index)
    }

    /// Interpreter that has it.
    pub(super) fn machine(&self) -> Machine {
        match self.kind {
            Kind::Script => Machine::Scripts,
            Kind::Function => Machine::Functions,
        }
    }

    /// Its memory of taken slots that nobody declared.
    pub(super) fn undeclared(&self) -> &UndeclaredKeys {
        match &self.program {
            Program::Script(compiled) => &compiled.cached.undeclared,
            Program::Function(function) => &function.declared().undeclared,
        }
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags.is_some_and(|flags| flags.0 & flag != 0)
    }
}

/// Finds what a request asks for.
///
/// # Errors
///
/// That of the client.
pub(super) fn prepare<'a>(
    (shared, worker): (&Shared, &mut Worker),
    (how, is_out_of_memory): (ScriptCommand, bool),
    args: &ArgumentView<'a>,
) -> Result<Call<'a>, CommandError> {
    let mut call = match how.name {
        ScriptName::Function => function(shared, worker, args)?,
        ScriptName::Source | ScriptName::Digest => script(shared, worker, how.name, args)?,
    };
    check_flags(how, &call, (is_out_of_memory, worker.lacks_memory))?;
    if worker.refuses_writes && call.flags.is_some() && !call.has(Flags::NO_WRITES) {
        return Err(shared.write_refused());
    }
    call.is_read_only = how.is_read_only || call.has(Flags::NO_WRITES);
    Ok(call)
}

/// True if what may be the first key of a request is short: it is hashed before anybody knows that
/// it is one.
pub(crate) fn has_short_key(args: &ArgumentView<'_>) -> bool {
    args.get(FIRST_SCRIPT_KEY).len() <= EARLY_HASHED_BYTES_MAX
}

/// True if the script or function that a request asks for does not write, by the request or by
/// what it declares of itself. Of one that cannot run nothing is known.
#[cold]
pub(crate) fn only_reads(
    (shared, worker): (&Shared, &mut Worker),
    how: ScriptCommand,
    args: &ArgumentView<'_>,
) -> bool {
    declared_flags((shared, worker), how, args).is_some_and(|flags| {
        flags.map_or(how.is_read_only, |flags| flags.0 & Flags::NO_WRITES != 0)
    })
}

/// True if the script or function that a request asks for declares what it does, and neither that
/// it writes nothing nor that it may run without memory: the request is refused like a command that
/// takes memory. Of one that cannot run nothing is known.
#[cold]
pub(in crate::execute) fn takes_memory(
    (shared, worker): (&Shared, &mut Worker),
    how: ScriptCommand,
    args: &ArgumentView<'_>,
) -> bool {
    let flags = declared_flags((shared, worker), how, args).flatten();
    flags.is_some_and(|flags| flags.0 & (Flags::ALLOW_OOM | Flags::NO_WRITES) == 0)
}

/// Flags that the script or function that a request asks for declares, if it does; none of one that
/// cannot run.
fn declared_flags(
    (shared, worker): (&Shared, &mut Worker),
    how: ScriptCommand,
    args: &ArgumentView<'_>,
) -> Option<Option<Flags>> {
    match how.name {
        // The first line tells. The script is not prepared: that would put it into the cache unrun.
        ScriptName::Source => Some(flags_of(args.get(1)).ok().flatten()),
        _ => prepare((shared, worker), (how, false), args).ok().map(|call| call.flags),
    }
}

fn script<'a>(
    shared: &Shared,
    worker: &mut Worker,
    name: ScriptName,
    args: &ArgumentView<'a>,
) -> Result<Call<'a>, CommandError> {
    let given = args.get(1);
    let is_by_digest = matches!(name, ScriptName::Digest);
    if is_by_digest && given.len() != DIGEST_DIGITS {
        return Err(NO_SCRIPT.into());
    }
    let key_count = count_keys(args, "ERR value is not an integer or out of range")?;
    let now_ms = worker.now_ms();
    let compiled = match is_by_digest {
        true => worker.scripts.script_of_digest(shared, given, now_ms).ok_or(NO_SCRIPT)?,
        false => match worker.scripts.evaluated(shared, given, now_ms) {
            Some(compiled) => compiled,
            None => {
                let flags = flags_of(given)?;
                let how = (Origin::Evaluated, now_ms);
                let compiled = worker.scripts.script_of_source(shared, given, flags, how);
                compiled.map_err(|text| compile_error(&text))?
            }
        },
    };
    Ok(Call {
        kind: Kind::Script,
        script: compiled.script,
        flags: compiled.cached.flags,
        program: Program::Script(compiled),
        is_read_only: false,
        args: *args,
        key_count,
    })
}

fn function<'a>(
    shared: &Shared,
    worker: &mut Worker,
    args: &ArgumentView<'a>,
) -> Result<Call<'a>, CommandError> {
    let found = worker.scripts.function(shared, args.get(1), &mut Loader::new(shared));
    let found = found.map_err(|text| CommandError::Bytes([b"ERR ", &text[..]].concat()))?;
    let (script, function) = found.ok_or("ERR Function not found")?;
    let key_count = count_keys(args, "ERR Bad number of keys provided")?;
    Ok(Call {
        kind: Kind::Function,
        script,
        flags: Some(function.declared().flags),
        program: Program::Function(function),
        is_read_only: false,
        args: *args,
        key_count,
    })
}

/// The number of keys, which as many arguments follow at least.
fn count_keys(args: &ArgumentView<'_>, not_a_number: &'static str) -> Result<usize, CommandError> {
    let count = match args.get(2) {
        [digit @ b'0'..=b'9'] => i64::from(digit - b'0'),
        text => parse_integer(text).ok_or(not_a_number)?,
    };
    let given = args.len() - FIRST_SCRIPT_KEY;
    if count > given as i64 {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    usize::try_from(count).map_err(|_| "ERR Number of keys can't be negative".into())
}

/// Checks what a script or function declares of itself. One that declares nothing is judged command
/// by command. Memory is refused by `maxmemory`, or by the system if that lacks it.
fn check_flags(
    how: ScriptCommand,
    call: &Call<'_>,
    (is_out_of_memory, lacks_memory): (bool, bool),
) -> Result<(), CommandError> {
    if call.flags.is_none() {
        return Ok(());
    }
    if how.is_read_only && !call.has(Flags::NO_WRITES) {
        return Err("ERR Can not execute a script with write flag using *_ro command.".into());
    }
    if is_out_of_memory && !call.has(Flags::ALLOW_OOM | Flags::NO_WRITES) {
        return Err(match lacks_memory {
            true => NO_MEMORY_LEFT.into(),
            false => CommandError::OutOfMemory,
        });
    }
    Ok(())
}
