//! `FUNCTION`: libraries of functions.

use std::sync::Arc;

use tidemill_rdb::payload;
use tidemill_resp::encode::Aggregate;
use tidemill_script::Flags;

use super::flush_mode;
use super::library::{Loader, load as load_library, merge, name_of, read_payload};
use crate::access::options::is;
use crate::access::outcome::{Outcome, Stop};
use crate::access::session_context::SessionCx;
use crate::admin::alone::alone;
use crate::error::CommandError;
use crate::glob;
use crate::reply;
use crate::script::{ENGINE, Library, LibraryFunction, Policy, RestoreError, Snapshot};

fn error(text: &[u8]) -> CommandError {
    CommandError::Bytes([b"ERR ", text].concat())
}

/// Changes the libraries with all other workers stopped: it is journaled in its place among the
/// changes of the dataset.
fn change<T>(
    cx: &mut SessionCx<'_, '_>,
    work: impl FnOnce(&mut Snapshot) -> Result<T, CommandError>,
) -> Result<T, Box<Stop>> {
    // Removed libraries are freed when the others run again.
    let _before = cx.shared.scripts.functions.snapshot();
    let changed = alone(cx, |cx, _, unit| {
        let changed = cx.shared.scripts.functions.change(work);
        unit.note_changes(u64::from(changed.is_ok()));
        changed
    })?;
    Ok(changed?)
}

/// Ok if `maxmemory` is not less than a library alone: no eviction would make room for it.
fn check_room(cx: &SessionCx<'_, '_>, source: &[u8]) -> Result<(), CommandError> {
    let limit_bytes = cx.worker.settings.maxmemory_bytes;
    let fits = limit_bytes == 0 || source.len() as u64 <= limit_bytes;
    if fits { Ok(()) } else { Err(CommandError::OutOfMemory) }
}

pub(super) fn load(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let mut replaces = false;
    for option in cx.args.iter().take(cx.args.len() - 1).skip(2) {
        if !is(option, "REPLACE") {
            return Err(CommandError::quoting("ERR Unknown option given: ", option, "").into());
        }
        replaces = true;
    }
    let shared = cx.shared;
    let source = cx.arg(cx.args.len() - 1);
    check_room(cx, source)?;
    let name = name_of(source).map_err(|text| error(&text))?;
    let exists = shared.scripts.functions.snapshot().library(&name).is_some();
    if exists && !replaces {
        return Err(error(&[b"Library '", &name[..], b"' already exists"].concat()).into());
    }
    let library = load_library(shared, &name, source).map_err(|text| error(&text))?;
    let added = Arc::clone(&library);
    change(cx, |present| present.add(added, replaces).map_err(|text| error(&text)))?;
    cx.worker.scripts.prepare_library(shared, &library, &mut Loader::new(shared));
    cx.reply.bulk(&name);
    Ok(())
}

pub(super) fn delete(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let name = cx.arg(2);
    change(cx, |present| match present.remove(name) {
        true => Ok(()),
        false => Err("ERR Library not found".into()),
    })?;
    cx.reply.ok();
    Ok(())
}

pub(super) fn flush(cx: &mut SessionCx<'_, '_>) -> Outcome {
    if cx.args.len() > 3 {
        return Err(CommandError::subcommand_syntax("FUNCTION", cx.arg(1)).into());
    }
    flush_mode(cx, "ERR FUNCTION FLUSH only supports SYNC|ASYNC option")?;
    change(cx, |present| {
        present.clear();
        Ok(())
    })?;
    cx.reply.ok();
    Ok(())
}

pub(super) fn dump(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let snapshot = cx.shared.scripts.functions.snapshot();
    let sources = snapshot.libraries().map(|library| &*library.source);
    let payload = payload::encode_functions(cx.worker.settings.compression, sources);
    let payload = payload.map_err(|_| CommandError::NoMemory(snapshot.bytes() as u64))?;
    reply::owned(cx.reply, payload);
    Ok(())
}

pub(super) fn restore(cx: &mut SessionCx<'_, '_>) -> Outcome {
    if cx.args.len() > 4 {
        return Err(CommandError::subcommand_syntax("FUNCTION", cx.arg(1)).into());
    }
    let policy = match cx.args.iter().nth(3) {
        None => Policy::Append,
        Some(policy) if is(policy, "APPEND") => Policy::Append,
        Some(policy) if is(policy, "REPLACE") => Policy::Replace,
        Some(policy) if is(policy, "FLUSH") => Policy::Flush,
        Some(_) => {
            return Err("ERR Wrong restore policy given, value should be either FLUSH, APPEND or \
                        REPLACE."
                .into());
        }
    };
    let check = cx.worker.settings.version_check;
    check_room(cx, cx.arg(2))?;
    let restored = read_payload(cx.shared, cx.arg(2), check).map_err(restore_error)?;
    change(cx, |present| merge(present, &restored, policy).map_err(restore_error))?;
    cx.reply.ok();
    Ok(())
}

fn restore_error(failure: RestoreError) -> CommandError {
    match failure {
        RestoreError::Payload => "ERR DUMP payload version or checksum are wrong".into(),
        RestoreError::Library(text) => error(&text),
    }
}

pub(super) fn list(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let (mut pattern, mut with_code) = (None, false);
    let mut options = cx.args.iter().skip(2);
    while let Some(option) = options.next() {
        if !with_code && is(option, "WITHCODE") {
            with_code = true;
        } else if pattern.is_none() && is(option, "LIBRARYNAME") {
            let name = options.next().ok_or("ERR library name argument was not given")?;
            pattern = Some(name);
        } else {
            return Err(CommandError::quoting("ERR Unknown argument ", option, "").into());
        }
    }
    let snapshot = cx.shared.scripts.functions.snapshot();
    let is_asked = |library: &&Arc<Library>| {
        pattern.is_none_or(|pattern| glob::matches(pattern, &library.name, true))
    };
    let libraries: Vec<_> = snapshot.libraries().filter(is_asked).collect();
    cx.reply.array(libraries.len());
    for library in libraries {
        cx.reply.map(3 + usize::from(with_code));
        for (name, value) in [("library_name", &*library.name), ("engine", ENGINE.as_bytes())] {
            cx.reply.bulk(name);
            cx.reply.bulk(value);
        }
        cx.reply.bulk("functions");
        cx.reply.array(library.functions.len());
        library.functions.iter().for_each(|function| describe(cx, function));
        if with_code {
            cx.reply.bulk("library_code");
            cx.reply.bulk(&library.source);
        }
    }
    Ok(())
}

const FLAG_NAMES: [(u8, &str); 5] = [
    (Flags::NO_WRITES, "no-writes"),
    (Flags::ALLOW_OOM, "allow-oom"),
    (Flags::ALLOW_STALE, "allow-stale"),
    (Flags::NO_CLUSTER, "no-cluster"),
    (Flags::ALLOW_CROSS_SLOT_KEYS, "allow-cross-slot-keys"),
];

fn describe(cx: &mut SessionCx<'_, '_>, function: &LibraryFunction) {
    cx.reply.map(3);
    cx.reply.bulk("name");
    cx.reply.bulk(&function.name);
    cx.reply.bulk("description");
    match &function.description {
        Some(description) => cx.reply.bulk(description),
        None => cx.reply.null(),
    }
    cx.reply.bulk("flags");
    let names = FLAG_NAMES.iter().filter(|(flag, _)| function.flags.0 & flag != 0);
    let begun = cx.reply.begin(Aggregate::Set);
    let mut count = 0;
    for (_, name) in names {
        cx.reply.simple_string(name);
        count += 1;
    }
    cx.reply.end_with(begun, count);
}

pub(super) fn stats(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let shared = cx.shared;
    cx.reply.map(2);
    cx.reply.bulk("running_script");
    match shared.scripts.running.first() {
        None => cx.reply.null(),
        Some(run) => {
            cx.reply.map(3);
            cx.reply.bulk("name");
            cx.reply.bulk(&run.name);
            cx.reply.bulk("command");
            cx.reply.array(run.command.len());
            run.command.iter().for_each(|word| cx.reply.bulk(word));
            cx.reply.bulk("duration_ms");
            let elapsed_us = shared.clock.monotonic_us().saturating_sub(run.started_us);
            cx.reply.integer((elapsed_us / 1_000) as i64);
        }
    }
    let snapshot = shared.scripts.functions.snapshot();
    cx.reply.bulk("engines");
    cx.reply.map(1);
    cx.reply.bulk(ENGINE);
    cx.reply.map(2);
    cx.reply.bulk("libraries_count");
    cx.reply.integer(snapshot.libraries().len() as i64);
    cx.reply.bulk("functions_count");
    cx.reply.integer(snapshot.function_count() as i64);
    Ok(())
}

pub(super) fn help(cx: &mut SessionCx<'_, '_>) -> Outcome {
    crate::access::help::reply(
        cx.reply,
        "FUNCTION",
        &[
            ("DELETE <library-name>", "Deletes a library and its functions."),
            ("DUMP", "All libraries as a payload for RESTORE."),
            ("FLUSH [ASYNC|SYNC]", "Deletes all libraries."),
            ("KILL", "Ends functions that run for long and have not written."),
            ("LIST [LIBRARYNAME <pattern>] [WITHCODE]", "Libraries and their functions."),
            ("LOAD [REPLACE] <function-code>", "Makes a library."),
            ("RESTORE <payload> [FLUSH|APPEND|REPLACE]", "Makes the libraries of a payload."),
            ("STATS", "What runs for long, and how many libraries and functions there are."),
        ],
    );
    Ok(())
}
