//! `SCRIPT`: the cache of scripts.

use tidemill_script::{Flags, Shebang};

use super::flush_mode;
use crate::access::options::is;
use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;
use crate::error::CommandError;
use crate::script::{Digest, Origin, hexadecimal};

/// Mark of a byte that is no hexadecimal digit.
const NO_DIGIT: u8 = 0x80;

/// Values of hexadecimal digits by their bytes.
const DIGITS: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        let lower = b"0123456789abcdef"[value];
        digits[lower as usize] = value as u8;
        digits[lower.to_ascii_uppercase() as usize] = value as u8;
        value += 1;
    }
    digits
};

/// The digest of its text, in upper or lower case.
pub(crate) fn parse_digest(text: &[u8]) -> Option<Digest> {
    let mut digest = Digest::default();
    if text.len() != 2 * digest.len() {
        return None;
    }
    // Every call by digest pays for this: one test of all digits at its end.
    let mut wrong = 0;
    for (byte, pair) in digest.iter_mut().zip(text.as_chunks::<2>().0) {
        let [high, low] = pair.map(|digit| DIGITS[usize::from(digit)]);
        wrong |= high | low;
        *byte = high << 4 | low & 0xf;
    }
    (wrong & NO_DIGIT == 0).then_some(digest)
}

/// The flags that the first line of a script names; none when it has no such line.
pub(crate) fn flags_of(source: &[u8]) -> Result<Option<Flags>, CommandError> {
    let Some(line) = source.starts_with(b"#!").then(|| Shebang::parse(source)).flatten() else {
        return Ok(None);
    };
    if line.length == source.len() {
        return Err("ERR Invalid script shebang".into());
    }
    if !line.engine.eq_ignore_ascii_case(b"lua") {
        return Err(CommandError::quoting(
            "ERR Could not find scripting engine '",
            &line.engine,
            "'",
        ));
    }
    let mut flags = Flags::default();
    for (name, value) in &line.options {
        if name != b"flags" {
            let text = [&name[..], if value.is_empty() { b"" } else { b"=" }, value].concat();
            return Err(CommandError::quoting("ERR Unknown lua shebang option: ", &text, ""));
        }
        for word in value.split(|&byte| byte == b',').filter(|word| !word.is_empty()) {
            let flag = Flags::of_name(word).ok_or_else(|| {
                CommandError::quoting("ERR Unexpected flag in script shebang: ", word, "")
            })?;
            flags.0 |= flag;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_of_a_text_is_that_of_its_letters_in_either_case() {
        let text = b"e0E1f9fabfc9d4800c877a703b823ac0578ff8DB";
        let digest = parse_digest(text).expect("it is one");
        assert_eq!(digest, tidemill_script::digest(b"return 1"));
        assert_eq!(hexadecimal(&digest).as_bytes(), text.to_ascii_lowercase());
        for wrong in [&b""[..], b"e0", &[b'g'; 40], &[b'0'; 41], "é".repeat(20).as_bytes()] {
            assert_eq!(parse_digest(wrong), None);
        }
    }
}
