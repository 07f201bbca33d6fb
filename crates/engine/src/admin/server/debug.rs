//! `DEBUG`: what tests of clients and servers need.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use rand_xoshiro::rand_core::Rng;
use tidemill_rdb::encode::Compressor;
use tidemill_rdb::payload::FRAME_BYTES;
use tidemill_resp::encode::{Protocol, ReplyBuffer};
use tidemill_resp::number::{parse_double, parse_integer};
use tidemill_store::value::list::List;
use tidemill_store::{Encoding, EntryRef};

use super::populate::populate;
use super::{config, digest, save, structures};
use crate::access::options::{integer, is};
use crate::access::outcome::Outcome;
use crate::access::session_context::SessionCx;
use crate::config::parse_memory;
use crate::error::CommandError;
use crate::expiry_clock::ExpiryClock;
use crate::memory;
use crate::shared::{DiskFault, Shared, log_level};
use crate::stored::encode;
use crate::use_stamp::UseStamp;
use crate::worker::Worker;

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
        () if is(name, "POPULATE") && (3..=5).contains(&count) => populate(cx),
        () if is(name, "HTSTATS") && (count == 3 || count == 4) => structures::tables(cx),
        () if is(name, "HTSTATS-KEY") && (count == 3 || count == 4) => structures::table_of(cx),
        () if is(name, "SDSLEN") && count == 3 => structures::string_lengths(cx),
        () if is(name, "QUICKLIST") && (count == 3 || count == 4) => structures::quicklist(cx),
        () if is(name, "STRUCTSIZE") && count == 2 => structures::sizes(cx),
        () if is(name, "OBJECT") && (count == 3 || count == 4) => object(cx),
        () if is(name, "CONFIG-REWRITE-FORCE-ALL") && count == 2 => config::rewrite_whole(cx),
        () if is(name, "DIGEST") && count == 2 => digest::whole(cx),
        () if is(name, "DIGEST-VALUE") && count >= 2 => digest::values(cx),
        () if is(name, "LISTPACK") && count == 3 => structures::listpack(cx),
        () if is(name, "SET-ACTIVE-EXPIRE") && count == 3 => set_active_expire(cx),
        () if is(name, "PAUSE-CRON") && count == 3 => pause_cron(cx),
        () if is(name, "SET-DISABLE-DENY-SCRIPTS") && count == 3 => set_disable_deny_scripts(cx),
        () if is(name, "PROTOCOL") && count == 3 => protocol(cx),
        () if is(name, "ERROR") && count == 3 => error(cx),
        () if is(name, "QUICKLIST-PACKED-THRESHOLD") && count == 3 => packed_threshold(cx),
        () if is(name, "SET-SKIP-CHECKSUM-VALIDATION") && count == 3 => skip_checksums(cx),
        () if is(name, "STRINGMATCH-TEST") && count == 2 => match_random_texts(cx),
        () if is(name, "PROTECT-CLIENT") && count == 3 => protect_client(cx),
        () if is(name, "CLIENT-ENFORCE-REPLY-LIST") && count == 3 => enforce_reply_list(cx),
        () if is(name, "REPLYBUFFER") && count == 4 => reply_buffer(cx),
        () if is(name, "LOG") && count == 3 => log(cx),
        () if is(name, "LEAK") && count == 3 => leak(cx),
        () if count == 3 && WITHOUT_EFFECT.iter().any(|other| is(name, other)) => {
            without_effect(cx)
        }
        () if is(name, "RELOAD") => save::reload(cx),
        () if is(name, "AOF-FLUSH-SLEEP") && count == 3 => aof_flush_sleep(cx),
        () if is(name, "LOADAOF") && count == 2 => save::load_log(cx),
        () if is(name, "ABORT-SAVE") && count == 2 => abort_save(cx),
        () if is(name, "DISK-FAULT") && count == 3 => disk_fault(cx),
        () if is(name, "PANIC") && count == 2 => panic!("DEBUG PANIC was called"),
        () if is(name, "ASSERT") && count == 2 => {
            panic!("assertion failed: DEBUG ASSERT was called")
        }
        () if is(name, "OOM") && count == 2 => out_of_memory(cx),
        () if is(name, "SEGFAULT") && count == 2 => segfault(cx),
        () if is(name, "FORCE-TLS-WRITE-ERROR") && count == 3 => fill_tls_sockets(cx),
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

/// Ends what Valkey's child would be doing, as its end by a signal does.
fn abort_save(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.shared.snapshots.abort();
    cx.shared.rewrites.abort();
    cx.reply.ok();
    Ok(())
}

fn disk_fault(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let faults = [
        ("NONE", DiskFault::None),
        ("WRITE", DiskFault::Write),
        ("SHORT-WRITE", DiskFault::ShortWrite),
        ("SYNC", DiskFault::Sync),
        ("SLOW-SYNC", DiskFault::SlowSync),
    ];
    let wanted = cx.arg(2);
    let fault = faults.iter().find(|(name, _)| is(wanted, name));
    let &(_, fault) = fault.ok_or(CommandError::Syntax)?;
    cx.shared.host.fail_disk(fault);
    cx.reply.ok();
    Ok(())
}

fn fill_tls_sockets(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.shared.host.fill_tls_sockets(is_on(cx.arg(2)));
    cx.reply.ok();
    Ok(())
}

/// Anything that is no number is 0, as in Valkey.
fn aof_flush_sleep(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let digits = std::str::from_utf8(cx.arg(2)).ok().and_then(|text| text.parse().ok());
    cx.shared.host.delay_log_writes(digits.unwrap_or(0));
    without_effect(cx)
}

/// Properties of an entry, also of one that has expired and is not deleted yet, without counting as
/// a use.
fn object(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let (shared, database, key) = (cx.shared, cx.session.database, cx.arg(2));
    let key_hash = shared.keyspace.key_hash(key);
    let (now_s, is_fast) = (cx.worker.now_s(), cx.args.len() == 4 && is(cx.arg(3), "FAST"));
    let clock = cx.worker.expiry_clock(shared);
    let mut line = None;
    cx.reader.section(&mut |section| {
        let Some(entry) = shared.keyspace.find(database, key_hash, key, section) else { return };
        let length = match is_fast {
            true => String::new(),
            false => format!(" serializedlength:{}", stored_bytes(shared, cx.worker, clock, entry)),
        };
        let stamp = UseStamp::of_field(entry.recency());
        let nodes = list_nodes(shared, cx.worker, entry);
        line = Some(format!(
            "Value at:{:p} refcount:1 encoding:{}{length} lru:{} lru_seconds_idle:{}{nodes}",
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

/// Bytes of a value in a file of RDB, without its type; 0 if there is no memory to write it.
fn stored_bytes(
    shared: &Shared,
    worker: &Worker,
    clock: ExpiryClock,
    entry: EntryRef<'_>,
) -> usize {
    let (seed, mut compressor) = (shared.keyspace.seed(), Compressor::default());
    let payload = encode::payload(entry, seed, &worker.settings, clock, &mut compressor);
    payload.map_or(0, |payload| payload.len().saturating_sub(FRAME_BYTES))
}

/// Fields of a quicklist. There are no nodes: they are those that Valkey would need at least.
fn list_nodes(shared: &Shared, worker: &Worker, entry: EntryRef<'_>) -> String {
    let list = entry.view::<List<'_>>(shared.keyspace.seed());
    let Some(list) = list.filter(|_| entry.encoding() == Encoding::Quicklist) else {
        return String::new();
    };
    let (length, bytes) = (list.len(), entry.total_bytes() as u64);
    let node_max = worker.settings.list_listpack_size_max;
    let nodes = match u64::try_from(node_max) {
        Ok(count) => length.div_ceil(count.max(1)),
        Err(_) => bytes.div_ceil(4096 << (node_max.clamp(-5, -1).unsigned_abs() - 1)),
    };
    let nodes = nodes.max(1);
    let average = length as f64 / nodes as f64;
    let configuration = shared.configuration();
    let is_compressed = configuration.value("list-compress-depth") != Some("0");
    format!(
        " ql_nodes:{nodes} ql_avg_node:{average:.2} ql_listpack_max:{node_max} \
         ql_compressed:{} ql_uncompressed_size:{bytes}",
        u8::from(is_compressed)
    )
}

/// Value of a switch: whatever is not a number other than 0 switches off, as in Valkey.
fn is_on(argument: &[u8]) -> bool {
    let digits = argument.iter().skip_while(|byte| matches!(byte, b'-' | b'+'));
    digits.take_while(|byte| byte.is_ascii_digit()).any(|&byte| byte != b'0')
}

fn set_active_expire(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.shared.set_active_expiry(is_on(cx.arg(2)));
    cx.reply.ok();
    Ok(())
}

fn pause_cron(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.shared.pause_cron(is_on(cx.arg(2)));
    cx.reply.ok();
    Ok(())
}

fn skip_checksums(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.shared.set_checksums_verified(!is_on(cx.arg(2)));
    cx.reply.ok();
    Ok(())
}

/// Matches random texts against random patterns of the bytes that patterns are made of: whether
/// the matcher crashes.
fn match_random_texts(cx: &mut SessionCx<'_, '_>) -> Outcome {
    const PAIRS: usize = 10_000;
    const BYTES: &[u8] = b"ab*?[]^-\\";
    let random = &mut cx.worker.random;
    let mut text = || -> Vec<u8> {
        let length = random.next_u64() % 32;
        (0..length).map(|_| BYTES[random.next_u64() as usize % BYTES.len()]).collect()
    };
    for _ in 0..PAIRS {
        std::hint::black_box(crate::glob::matches(&text(), &text(), false));
    }
    cx.reply.simple_string("Apparently the server did not crash: test passed");
    Ok(())
}

fn protect_client(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let id = parse_integer(cx.arg(2)).ok_or(CommandError::from("ERR Invalid client id"))?;
    let client = cx.shared.clients.find(id.cast_unsigned());
    let client = client.ok_or(CommandError::from("ERR No such client"))?;
    // Relaxed: its worker reads it behind the message that kills it, if any does.
    client.is_protected.store(true, Ordering::Relaxed);
    cx.reply.ok();
    Ok(())
}

fn enforce_reply_list(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.shared.count_reply_blocks(is_on(cx.arg(2)));
    cx.reply.ok();
    Ok(())
}

/// Reply buffers are of a worker and not of a client; the arguments are checked.
fn reply_buffer(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let (what, value) = (cx.arg(2), cx.arg(3));
    match () {
        () if is(what, "PEAK-RESET-TIME") => {
            if !is(value, "NEVER") && !is(value, "RESET") {
                integer(value)?;
            }
        }
        () if is(what, "RESIZING") => {}
        () => return Err(CommandError::subcommand_syntax("DEBUG", cx.arg(1)).into()),
    }
    without_effect(cx)
}

fn log(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.shared.host.log(log_level::WARNING, &[b"DEBUG LOG: ", cx.arg(2)].concat());
    cx.reply.ok();
    Ok(())
}

fn leak(cx: &mut SessionCx<'_, '_>) -> Outcome {
    std::mem::forget(memory::concat(&[cx.arg(2)])?);
    cx.reply.ok();
    Ok(())
}

/// Lets scripts call `DEBUG` and `CLIENT`, or not.
fn set_disable_deny_scripts(cx: &mut SessionCx<'_, '_>) -> Outcome {
    let is_on = parse_integer(cx.arg(2)).unwrap_or(0) != 0;
    cx.shared.scripts.set_denial_disabled(is_on);
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
    const BYTES_END: u64 = 4 << 30;
    match std::str::from_utf8(cx.arg(2)).ok().and_then(parse_memory) {
        Some(0..BYTES_END) => without_effect(cx),
        _ => Err("ERR argument must be a memory value bigger than 1 and smaller than 4gb".into()),
    }
}

/// Switches of parts of Valkey that there are not here: resizing of hash tables, a child process, a
/// timer that all periodic work hangs on.
const WITHOUT_EFFECT: &[&str] =
    &["DICT-RESIZING", "HASHTABLE-CAN-ABORT-SHRINK", "PAUSE-AFTER-FORK"];

fn without_effect(cx: &mut SessionCx<'_, '_>) -> Outcome {
    cx.reply.ok();
    Ok(())
}

const HELP: &[(&str, &str)] = &[
    ("ABORT-SAVE", "Ends the save or rewrite in the background, which has failed then."),
    ("AOF-FLUSH-SLEEP <microseconds>", "Pauses before each write of the append-only file."),
    ("ASSERT", "Crashes the server as a failed assertion does."),
    (
        "CLIENT-ENFORCE-REPLY-LIST <0|1>",
        "Whether limits count replies by blocks of 16 KiB, from the first byte on.",
    ),
    ("CONFIG-REWRITE-FORCE-ALL", "CONFIG REWRITE with a line of every directive."),
    ("DICT-RESIZING <0|1>", "Has no effect here."),
    ("DIGEST", "A checksum of all data, equal to Valkey's."),
    ("DIGEST-VALUE <key> [<key> ...]", "A checksum of each key's value, likewise."),
    (
        "DISK-FAULT <NONE|WRITE|SHORT-WRITE|SYNC|SLOW-SYNC>",
        "Lets writes or syncs of snapshot and append-only file fail, or each sync take a second.",
    ),
    ("ERROR <string>", "Answers the string as an error."),
    ("FORCE-TLS-WRITE-ERROR <0|1>", "Whether sockets take nothing of what is sent by TLS."),
    ("HASHTABLE-CAN-ABORT-SHRINK <0|1>", "Has no effect here."),
    ("HTSTATS <dbid> [full]", "Sizes of a database's tables."),
    ("HTSTATS-KEY <key> [full]", "Number of elements of a value with encoding `hashtable`."),
    ("LEAK <string>", "Copies the string and forgets the copy."),
    ("LOADAOF", "Loads the append-only file in the place of all data."),
    ("LISTPACK <key>", "Whether the value's encoding is `listpack`."),
    ("LOG <message>", "Writes the message into the log."),
    ("OBJECT <key> [fast]", "What is known of a key's value; `fast` leaves its length out."),
    ("OOM", "Crashes the server as when no memory can be had."),
    ("PANIC", "Crashes the server as a fault of its own does."),
    ("PAUSE-AFTER-FORK <0|1>", "Has no effect here."),
    ("PAUSE-CRON <0|1>", "Puts periodic work of clients, and the end by a signal, off."),
    (
        "POPULATE <count> [<prefix>] [<size>]",
        "Makes strings <prefix>:<number>, `key` by default, where there are none; not journaled.",
    ),
    ("PROTECT-CLIENT <id>", "Keeps a client in CLIENT LIST, once killed, until it goes."),
    ("PROTOCOL <type>", "Answers a value of a type, of which it names all when asked for another."),
    ("QUICKLIST <key> [<0|1>]", "Whether the value's encoding is `quicklist`."),
    ("QUICKLIST-PACKED-THRESHOLD <size>", "Has no effect here."),
    (
        "RELOAD [NOSAVE] [NOFLUSH] [MERGE]",
        "Saves the data and loads them again. NOSAVE only loads; NOFLUSH keeps what there is, and \
         MERGE lets keys of the file replace those.",
    ),
    ("REPLYBUFFER <PEAK-RESET-TIME|RESIZING> <value>", "Has no effect here."),
    ("SDSLEN <key>", "Lengths of a key and of its string."),
    ("SEGFAULT", "Crashes the server as touching wrong memory does."),
    ("SET-ACTIVE-EXPIRE <0|1>", "Whether keys expire although nobody looks at them."),
    ("SET-DISABLE-DENY-SCRIPTS <0|1>", "Whether scripts may call DEBUG and CLIENT, for tests."),
    ("SET-SKIP-CHECKSUM-VALIDATION <0|1>", "Whether checksums of files and payloads are ignored."),
    ("SLEEP <seconds>", "Holds up the worker of this connection."),
    ("STRINGMATCH-TEST", "Matches random texts against random patterns."),
    ("STRUCTSIZE", "Sizes of the structures that data is made of."),
];

fn help(cx: &mut SessionCx<'_, '_>) -> Outcome {
    crate::access::help::reply(cx.reply, "DEBUG", HELP);
    Ok(())
}
