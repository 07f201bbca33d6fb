//! `DEBUG`: what tests of clients and servers need.

use std::thread;
use std::time::Duration;

use tidemill_resp::encode::{Protocol, ReplyBuffer};
use tidemill_resp::number::parse_double;
use tidemill_store::Encoding;

use super::{digest, save};
use crate::access::expiry::SlotJudge;
use crate::access::options::is;
use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;
use crate::config::parse_memory;
use crate::error::CommandError;
use crate::use_stamp::UseStamp;

pub(super) fn debug(cx: &mut SessionCx<'_, '_>) -> Outcome {
    if !cx.session.client.is_among(cx.worker.settings.debug_command) {
        return Err("ERR DEBUG command not allowed. If the enable-debug-command option is set to \
                    \"local\", you can run it from a local connection, otherwise you need to set \
                    this option in the configuration file, and then restart the server."
            .into());
    }
    let (name, count) = (cx.arg(1), cx.args.len());
    match () {
        () if is(name, "SLEEP") && count == 3 => sleep(cx),
        () if is(name, "OBJECT") && (count == 3 || count == 4) => object(cx),
        () if is(name, "DIGEST") && count == 2 => digest::whole(cx),
        () if is(name, "DIGEST-VALUE") && count >= 2 => digest::values(cx),
        () if is(name, "LISTPACK") && count == 3 => listpack(cx),
        () if is(name, "SET-ACTIVE-EXPIRE") && count == 3 => set_active_expire(cx),
        () if is(name, "PROTOCOL") && count == 3 => protocol(cx),
        () if is(name, "ERROR") && count == 3 => error(cx),
        () if is(name, "QUICKLIST-PACKED-THRESHOLD") && count == 3 => packed_threshold(cx),
        () if is(name, "CLIENT-ENFORCE-REPLY-LIST") && count == 3 => without_effect(cx),
        () if is(name, "DICT-RESIZING") && count == 3 => without_effect(cx),
        () if is(name, "RELOAD") => save::reload(cx),
        () if is(name, "LOADAOF") && count == 2 => {
            Err("ERR DEBUG LOADAOF is not supported: the log is loaded at start only".into())
        }
        () if is(name, "PANIC") && count == 2 => panic!("DEBUG PANIC was called"),
        () if is(name, "OOM") && count == 2 => out_of_memory(cx),
        () if is(name, "SEGFAULT") && count == 2 => segfault(cx),
        () if is(name, "HELP") && count == 2 => help(cx),
        () => Err(CommandError::subcommand_syntax("DEBUG", name).into()),
    }
}

/// Holds up its worker, as a command that takes long does. What is no number is 0, as in Valkey.
fn sleep(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let seconds = parse_double(cx.arg(2)).unwrap_or(0.0);
    // Nothing that was read is held: grace periods need not wait, and so the writers of other
    // workers neither.
    cx.reader.offline(&mut || {
        thread::sleep(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    });
    cx.reply.ok();
    Ok(())
}

/// Properties of an entry, without counting as a use. There is no serialized form: its length is
/// that of the value.
fn object(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let (shared, database, key) = (cx.shared, cx.session.database, cx.arg(2));
    let key_hash = shared.keyspace.key_hash(key);
    let (now_s, is_fast) = (cx.worker.now_s(), cx.args.len() == 4 && is(cx.arg(3), "FAST"));
    let mut line = None;
    cx.reader.section(&mut |section| {
        let word = shared.keyspace.word(key_hash.slot);
        let judge = SlotJudge::unlocked(shared, cx.worker, (word, word.load()));
        let Some(entry) = shared.keyspace.find(database, key_hash, key, section) else { return };
        // A verdict that is not certain: the entry was alive for the holder of the slot, and is
        // shown as it was before.
        if judge.is_over(entry) && judge.is_certain() {
            return;
        }
        let length = match is_fast {
            true => String::new(),
            false => format!(
                " serializedlength:{}",
                entry.total_bytes().saturating_sub(entry.key().len())
            ),
        };
        let stamp = UseStamp::of_field(entry.recency());
        line = Some(format!(
            "Value at:{:p} refcount:1 encoding:{}{length} lru:{} lru_seconds_idle:{}",
            entry.key().as_ptr(),
            entry.encoding().name(),
            stamp.second(),
            stamp.idle_s(now_s),
        ));
    });
    let line = line.ok_or(CommandError::from("ERR no such key"))?;
    cx.reply.simple_string(&line);
    Ok(())
}

/// Valkey prints a listpack, of which there is none here: only the encoding is checked.
fn listpack(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let (shared, database, key) = (cx.shared, cx.session.database, cx.arg(2));
    let key_hash = shared.keyspace.key_hash(key);
    let mut encoding = None;
    cx.reader.section(&mut |section| {
        let entry = shared.keyspace.find(database, key_hash, key, section);
        encoding = entry.map(|entry| entry.encoding());
    });
    match encoding {
        None => Err("ERR no such key".into()),
        Some(Encoding::Listpack) => {
            cx.reply.simple_string("Listpack structure printed on stdout");
            Ok(())
        }
        Some(_) => Err("ERR Not a listpack encoded object.".into()),
    }
}

/// Whatever is not a number other than 0 switches off, as in Valkey.
fn set_active_expire(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let digits = cx.arg(2).iter().skip_while(|byte| matches!(byte, b'-' | b'+'));
    let is_on = digits.take_while(|byte| byte.is_ascii_digit()).any(|&byte| byte != b'0');
    cx.shared.set_active_expiry(is_on);
    cx.reply.ok();
    Ok(())
}

/// The number that Valkey answers.
#[expect(clippy::approx_constant, reason = "it stands for itself")]
const SAMPLE_DOUBLE: f64 = 3.141;

/// Answers a value of each type of the protocol, so that tests of clients see them all.
fn protocol(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let (kind, reply) = (cx.arg(2), &mut *cx.reply);
    match () {
        () if is(kind, "STRING") => reply.bulk("Hello World"),
        () if is(kind, "INTEGER") => reply.integer(12_345),
        () if is(kind, "DOUBLE") => reply.double(SAMPLE_DOUBLE),
        () if is(kind, "BIGNUM") => reply.big_number("1234567999999999999999999999999999999"),
        () if is(kind, "NULL") => reply.null(),
        () if is(kind, "ARRAY") => {
            reply.array(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        () if is(kind, "SET") => {
            reply.set(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        () if is(kind, "MAP") => {
            reply.map(3);
            for number in 0..3 {
                reply.integer(number);
                reply.boolean(number == 1);
            }
        }
        () if is(kind, "ATTRIB") => attribute(reply),
        () if is(kind, "PUSH") => {
            if reply.protocol() == Protocol::Resp2 {
                return Err("ERR RESP2 is not supported by this command".into());
            }
            reply.bulk("Some real reply following the push reply");
            reply.push(2);
            reply.bulk("server-cpu-usage");
            reply.integer(42);
        }
        () if is(kind, "VERBATIM") => reply.verbatim(*b"txt", "This is a verbatim\nstring"),
        () if is(kind, "TRUE") => reply.boolean(true),
        () if is(kind, "FALSE") => reply.boolean(false),
        () => {
            return Err("ERR Wrong protocol type name. Please use one of the following: \
                        string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|\
                        true|false"
                .into());
        }
    }
    Ok(())
}

/// A reply with an attribute, where the protocol has them.
fn attribute(reply: &mut ReplyBuffer) {
    if reply.attribute(1) {
        reply.bulk("key-popularity");
        reply.array(2);
        reply.bulk("key:123");
        reply.integer(90);
    }
    reply.bulk("Some real reply following the attribute");
}

/// Answers its argument as an error.
fn error(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let one_line = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
    let text: Vec<u8> = cx.arg(2).iter().map(one_line).collect();
    Err(CommandError::Bytes(text).into())
}

/// Allocates more than there is without asking whether it can be had.
fn out_of_memory(cx: &mut SessionCx<'_, '_>) -> Outcome {
    std::hint::black_box(Vec::<u8>::with_capacity(isize::MAX as usize));
    without_effect(cx)
}

fn segfault(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.shared.host.violate_memory();
    without_effect(cx)
}

/// The size from which on Valkey keeps an element of a list by itself. Here that depends on nothing
/// but the size of a node, so the argument is only checked.
fn packed_threshold(cx: &mut SessionCx<'_, '_>) -> Outcome {
    const BYTES_END: i64 = 4 << 30;
    match std::str::from_utf8(cx.arg(2)).ok().and_then(parse_memory) {
        Some(0..BYTES_END) => without_effect(cx),
        _ => Err("ERR argument must be a memory value bigger than 1 and smaller than 4gb".into()),
    }
}

/// Tests of Valkey switch parts of it that there are not here: reply lists of clients, resizing of
/// hash tables.
fn without_effect(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.reply.ok();
    Ok(())
}

fn help(cx: &mut SessionCx<'_, '_>) -> Outcome {
    crate::access::help::reply(
        cx.reply,
        "DEBUG",
        &[
            ("CLIENT-ENFORCE-REPLY-LIST <0|1>", "Has no effect here."),
            ("DICT-RESIZING <0|1>", "Has no effect here."),
            ("DIGEST", "A checksum of all data, equal to Valkey's."),
            ("DIGEST-VALUE <key> [<key> ...]", "A checksum of each key's value, likewise."),
            ("ERROR <string>", "Answers the string as an error."),
            (
                "OBJECT <key> [fast]",
                "What is known of a key's value; `fast` leaves its length out.",
            ),
            ("LISTPACK <key>", "Whether the value's encoding is `listpack`."),
            ("OOM", "Crashes the server as when no memory can be had."),
            ("PANIC", "Crashes the server as a fault of its own does."),
            (
                "PROTOCOL <type>",
                "Answers a value of a type, of which it names all when asked for another.",
            ),
            ("QUICKLIST-PACKED-THRESHOLD <size>", "Has no effect here."),
            ("RELOAD [NOSAVE]", "Saves the data and loads them again; NOSAVE only loads."),
            ("SEGFAULT", "Crashes the server as touching wrong memory does."),
            ("SET-ACTIVE-EXPIRE <0|1>", "Whether keys expire although nobody looks at them."),
            ("SLEEP <seconds>", "Holds up the worker of this connection."),
        ],
    );
    Ok(())
}
