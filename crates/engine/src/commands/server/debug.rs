//! `DEBUG`: what tests of clients and servers need.

use std::thread;
use std::time::Duration;

use tidemill_resp::number::parse_double;

use crate::command::Outcome;
use crate::commands::options::is;
use crate::context::SessionCx;
use crate::error::CommandError;
use crate::settings::DebugCommand;

pub(super) fn debug(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let is_allowed = match cx.worker.settings.debug_command {
        DebugCommand::Never => false,
        DebugCommand::Local => cx.session.client.is_local(),
        DebugCommand::Always => true,
    };
    if !is_allowed {
        return Err("ERR DEBUG command not allowed. If the enable-debug-command option is set to \
                    \"local\", you can run it from a local connection, otherwise you need to set \
                    this option in the configuration file, and then restart the server."
            .into());
    }
    let (name, count) = (cx.arg(1), cx.args.len());
    match () {
        () if is(name, "SLEEP") && count == 3 => sleep(cx),
        () if is(name, "OBJECT") && (count == 3 || count == 4) => object(cx),
        () if is(name, "SET-ACTIVE-EXPIRE") && count == 3 => set_active_expire(cx),
        () if is(name, "HELP") && count == 2 => help(cx),
        () => {
            let mut text = b"ERR unknown subcommand or wrong number of arguments for '".to_vec();
            text.extend_from_slice(name);
            text.extend_from_slice(b"'. Try DEBUG HELP.");
            Err(CommandError::Bytes(text).into())
        }
    }
}

/// Holds up its worker, as a command that takes long does. What is no number is 0, as in Valkey.
fn sleep(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let seconds = parse_double(cx.arg(2)).unwrap_or(0.0);
    thread::sleep(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    cx.reply.ok();
    Ok(())
}

/// What is known of an entry, without counting as a use. There is no serialized form: its length is that of the value.
fn object(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let (shared, database, key) = (cx.shared, cx.session.database, cx.arg(2));
    let key_hash = shared.keyspace.key_hash(key);
    let clock_ms = shared.expiry_clock_ms(cx.worker.now_ms());
    let (now_s, is_fast) = (cx.worker.recency(), cx.args.len() == 4 && is(cx.arg(3), "FAST"));
    let mut line = None;
    cx.reader.section(&mut |section| {
        let Some(entry) = shared.keyspace.find(database, key_hash, key, section) else { return };
        if entry.expires_at_ms().is_some_and(|at_ms| clock_ms > at_ms) {
            return;
        }
        let length = match is_fast {
            true => String::new(),
            false => format!(
                " serializedlength:{}",
                entry.total_bytes().saturating_sub(entry.key().len())
            ),
        };
        line = Some(format!(
            "Value at:{:p} refcount:1 encoding:{}{length} lru:{} lru_seconds_idle:{}",
            entry.key().as_ptr(),
            entry.encoding().name(),
            entry.recency() & LRU_MASK,
            now_s.wrapping_sub(entry.recency()),
        ));
    });
    let line = line.ok_or(CommandError::from("ERR no such key"))?;
    cx.reply.simple_string(&line);
    Ok(())
}

/// Valkey's clock of uses has 24 bits.
const LRU_MASK: u32 = (1 << 24) - 1;

/// Whatever is not a number other than 0 switches off, as in Valkey.
fn set_active_expire(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let digits = cx.arg(2).iter().skip_while(|byte| matches!(byte, b'-' | b'+'));
    let is_on = digits.take_while(|byte| byte.is_ascii_digit()).any(|&byte| byte != b'0');
    cx.shared.set_active_expiry(is_on);
    cx.reply.ok();
    Ok(())
}

fn help(cx: &mut SessionCx<'_, '_>) -> Outcome {
    crate::commands::help::reply(
        cx.reply,
        "DEBUG",
        &[
            (
                "OBJECT <key> [fast]",
                "What is known of a key's value; `fast` leaves its length out.",
            ),
            ("SET-ACTIVE-EXPIRE <0|1>", "Whether keys expire although nobody looks at them."),
            ("SLEEP <seconds>", "Holds up the worker of this connection."),
        ],
    );
    Ok(())
}
