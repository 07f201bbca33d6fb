//! `SCRIPT`: the cache of scripts.

use tidemill_script::Flags;

use super::flush_mode;
use super::shebang::{Shebang, Trouble};
use crate::access::options::is;
use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;
use crate::error::CommandError;
use crate::script::{Origin, hexadecimal, parse_digest};

/// The flags that the first line of a script names; none when it has no such line.
pub(crate) fn flags_of(source: &[u8]) -> Result<Option<Flags>, CommandError> {
    let Some(line) = Shebang::parse(source) else { return Ok(None) };
    let line = line.map_err(|trouble| match trouble {
        Trouble::NoEnd => "ERR Invalid script shebang",
        Trouble::Words => "ERR Invalid engine in script shebang",
    })?;
    let mut flags = Flags::default();
    for option in &line.options {
        // The case of this name counts, unlike that of a library's.
        let Some(value) = option.strip_prefix(b"flags=") else {
            return Err(CommandError::quoting("ERR Unknown lua shebang option: ", option, ""));
        };
        if value.is_empty() {
            continue;
        }
        for word in value.split(|&byte| byte == b',') {
            let flag = Flags::of_name(word).ok_or_else(|| {
                CommandError::quoting("ERR Unexpected flag in script shebang: ", word, "")
            })?;
            flags.0 |= flag;
        }
    }
    if !line.engine.eq_ignore_ascii_case(b"lua") {
        let before = "ERR Could not find scripting engine '";
        return Err(CommandError::quoting(before, &line.engine, "'"));
    }
    Ok(Some(flags))
}

/// The error of a script that does not compile.
pub(crate) fn compile_error(text: &[u8]) -> CommandError {
    CommandError::Bytes([b"ERR Error compiling script (new function): ", text].concat())
}

pub(super) fn load(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let source = cx.arg(2);
    let flags = flags_of(source)?;
    let how = (Origin::Loaded, cx.worker.now_ms());
    let script = cx.worker.scripts.script_of_source(cx.shared, source, flags, how);
    let script = script.map_err(|text| compile_error(&text))?;
    cx.reply.bulk(hexadecimal(&script.cached.digest));
    Ok(())
}

pub(super) fn exists(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.reply.array(cx.args.len() - 2);
    for text in cx.args.iter().skip(2) {
        let cache = &cx.shared.scripts.cache;
        let found = parse_digest(text).and_then(|digest| cache.find(&digest));
        cx.reply.integer(i64::from(found.is_some()));
    }
    Ok(())
}

pub(super) fn show(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let cache = &cx.shared.scripts.cache;
    let found = parse_digest(cx.arg(2)).and_then(|digest| cache.find(&digest));
    let Some(script) = found else { return Err(NO_SCRIPT.into()) };
    cx.reply.bulk(&script.source);
    Ok(())
}

/// Error of a digest that the cache does not have.
pub(crate) const NO_SCRIPT: &str = "NOSCRIPT No matching script.";

pub(super) fn flush(cx: &mut SessionCx<'_, '_>) -> Outcome {
    flush_mode(cx, "ERR SCRIPT FLUSH only support SYNC|ASYNC option")?;
    cx.shared.scripts.cache.flush();
    cx.reply.ok();
    Ok(())
}

/// There is no debugger: switching it off is all that can be asked for.
pub(super) fn debug(cx: &mut SessionCx<'_, '_>) -> Outcome {
    match cx.arg(2) {
        mode if is(mode, "NO") => {
            cx.reply.ok();
            Ok(())
        }
        mode if is(mode, "YES") || is(mode, "SYNC") => {
            Err("ERR there is no debugger of scripts".into())
        }
        _ => Err("ERR Use SCRIPT DEBUG YES/SYNC/NO".into()),
    }
}

pub(super) fn help(cx: &mut SessionCx<'_, '_>) -> Outcome {
    crate::access::help::reply(
        cx.reply,
        "SCRIPT",
        &[
            ("DEBUG (YES|SYNC|NO) [<engine_name>]", "Only NO is accepted: there is no debugger."),
            ("EXISTS <sha1> [<sha1> ...]", "Which scripts are in the cache."),
            ("FLUSH [ASYNC|SYNC]", "Empties the cache."),
            ("KILL", "Ends scripts that run for long and have not written."),
            ("LOAD <script>", "Puts a script into the cache without running it."),
            ("SHOW <sha1>", "The source of a script of the cache."),
        ],
    );
    Ok(())
}
