//! `MIGRATE`: keys move to another server.
//!
//! The keys are dumped under their slots' locks and sent without them, while the session waits; so
//! they may change on their way. What the other server has taken is dumped once more then, and
//! deleted if all of it is as it was sent; what has changed is sent again, in the place of the
//! first, what is gone is deleted there. So a write to a key that is on its way is neither refused
//! nor lost. After some rounds, and within a transaction or a script, the worker waits for the
//! other server with the slots locked, as Valkey always does, and nothing can change.

use tidemill_resp::request::{ArgumentView, encode_into};

use crate::access::context::Cx;
use crate::access::options::{integer, is};
use crate::access::outcome::Outcome;
use crate::command::{KeyFlags, KeyPositions};
use crate::commit::{Event, EventClass};
use crate::error::CommandError;
use crate::handlers::key::dump;
use crate::limits::MIGRATION_ROUNDS_MAX;
use crate::memory;
use crate::migration::{Migration, MigrationEnd, MigrationRequest, Sent, SentKey};

/// Time for each step when the client gives none, ms.
const TIMEOUT_MS: u64 = 1000;

/// Bytes of a request beside its key and its payload: names, lengths, a time.
const REQUEST_OVERHEAD_BYTES: usize = 128;

/// Index of the key, if it is one.
const KEY: usize = 3;

struct Options<'a> {
    copies: bool,
    replaces: bool,
    authentication: Option<Vec<u8>>,
    database: i64,
    timeout_ms: u64,
    keys: Vec<&'a [u8]>,
}

/// Index of the word `KEYS` among the options, if it is there and has a meaning.
fn keys_word(args: &ArgumentView<'_>) -> Option<usize> {
    let mut index = 6;
    while index < args.len() {
        let option = args.get(index);
        index += match () {
            () if is(option, "KEYS") => return Some(index),
            () if is(option, "AUTH") => 2,
            () if is(option, "AUTH2") => 3,
            () => 1,
        };
    }
    None
}

/// The keys: the third argument, or those behind `KEYS` if that is empty; none where both name
/// keys, which is refused.
pub(super) fn more_keys(args: &ArgumentView<'_>, positions: &mut KeyPositions) {
    positions.clear();
    match keys_word(args) {
        Some(_) if !args.get(KEY).is_empty() => {}
        Some(word) if word + 1 < args.len() => positions.extend(word + 1..args.len()),
        _ if args.len() > KEY => positions.push(KEY),
        _ => {}
    }
}

/// Access to its keys, with which both ways of naming them are complete.
pub(super) fn key_flags(_args: &ArgumentView<'_>) -> KeyFlags {
    KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE)
}

impl<'a> Options<'a> {
    fn parse(args: ArgumentView<'a>) -> Result<Options<'a>, CommandError> {
        let (mut copies, mut replaces, mut authentication) = (false, false, None);
        let mut keys = vec![args.get(KEY)];
        let mut index = 6;
        while index < args.len() {
            let (option, behind) = (args.get(index), args.len() - index - 1);
            match () {
                () if is(option, "COPY") => copies = true,
                () if is(option, "REPLACE") => replaces = true,
                () if is(option, "AUTH") && behind >= 1 => {
                    authentication = Some(encoded(&[b"AUTH", args.get(index + 1)]));
                    index += 1;
                }
                () if is(option, "AUTH2") && behind >= 2 => {
                    let (user, password) = (args.get(index + 1), args.get(index + 2));
                    authentication = Some(encoded(&[b"AUTH", user, password]));
                    index += 2;
                }
                () if is(option, "KEYS") => {
                    if !args.get(KEY).is_empty() {
                        return Err(
                            "ERR When using MIGRATE KEYS option, the key argument must be \
                                    set to the empty string"
                                .into(),
                        );
                    }
                    keys = memory::collect((index + 1..args.len()).map(|index| args.get(index)))?;
                    index = args.len();
                }
                () => return Err(CommandError::Syntax),
            }
            index += 1;
        }
        let timeout_ms = integer(args.get(5))?;
        let database = integer(args.get(4))?;
        let timeout_ms = u64::try_from(timeout_ms).ok().filter(|&ms| ms > 0).unwrap_or(TIMEOUT_MS);
        Ok(Options { copies, replaces, authentication, database, timeout_ms, keys })
    }
}

fn encoded(arguments: &[&[u8]]) -> Vec<u8> {
    tidemill_resp::request::encode(arguments)
}

/// A key as it would be sent now.
struct Dumped {
    key: SentKey,
    payload: Vec<u8>,
}

fn dump_key(cx: &mut Cx<'_, '_>, name: &[u8]) -> Result<Option<Dumped>, CommandError> {
    let Some(entry) = cx.read(name) else { return Ok(None) };
    let expires_at_ms = entry.expires_at_ms();
    let payload = dump::payload(cx, entry)?;
    let checksum = payload.last_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let key = SentKey { name: memory::concat(&[name])?, checksum: Some(checksum), expires_at_ms };
    Ok(Some(Dumped { key, payload }))
}

/// Requests of one round.
struct Round {
    commands: Vec<u8>,
    keys: Vec<SentKey>,
}

impl Round {
    fn new() -> Round {
        Round { commands: Vec::new(), keys: Vec::new() }
    }

    fn restore(&mut self, now_ms: u64, dumped: Dumped, replaces: bool) -> Result<(), CommandError> {
        let left_ms =
            dumped.key.expires_at_ms.map_or(0, |at_ms| at_ms.saturating_sub(now_ms).max(1));
        let left_ms = left_ms.to_string();
        self.reserve(dumped.payload.len() + dumped.key.name.len())?;
        let all: [&[u8]; 5] =
            [b"RESTORE", &dumped.key.name, left_ms.as_bytes(), &dumped.payload, b"REPLACE"];
        encode_into(&all[..all.len() - usize::from(!replaces)], &mut self.commands);
        memory::push(&mut self.keys, dumped.key)
    }

    fn delete(&mut self, name: Vec<u8>) -> Result<(), CommandError> {
        self.reserve(name.len())?;
        encode_into(&[b"DEL", &name], &mut self.commands);
        memory::push(&mut self.keys, SentKey { name, checksum: None, expires_at_ms: None })
    }

    /// Makes room for a request whose arguments have `bytes` bytes.
    fn reserve(&mut self, bytes: usize) -> Result<(), CommandError> {
        let bytes = bytes + REQUEST_OVERHEAD_BYTES;
        self.commands.try_reserve(bytes).map_err(|_| CommandError::NoMemory(bytes as u64))
    }

    fn begin(self, cx: &Cx<'_, '_>, options: &Options<'_>, rest: Rest) -> Migration {
        let request = MigrationRequest {
            host: cx.arg(1).to_vec(),
            port: integer(cx.arg(2)).unwrap_or(0),
            timeout_ms: options.timeout_ms,
            authentication: options.authentication.clone(),
            database: options.database,
            count: self.keys.len(),
            commands: self.commands,
        };
        let Rest { settled, rounds, error } = rest;
        cx.begin_migration(request, Sent { keys: self.keys, settled, rounds, error })
    }
}

/// Results of the rounds before the next one.
#[derive(Default)]
struct Rest {
    settled: Vec<SentKey>,
    rounds: u32,
    error: Option<Vec<u8>>,
}

pub(super) fn migrate(cx: &mut Cx<'_, '_>) -> Outcome {
    let options = Options::parse(*cx.args)?;
    let mut migration = match cx.take_migration() {
        Some(migration) => migration,
        None => {
            let mut round = Round::new();
            for name in &options.keys {
                if let Some(dumped) = dump_key(cx, name)? {
                    round.restore(cx.now_ms(), dumped, options.replaces)?;
                }
            }
            if round.keys.is_empty() {
                cx.reply.simple_string("NOKEY");
                return Ok(());
            }
            round.begin(cx, &options, Rest::default())
        }
    };
    loop {
        let Some(end) = migration.take_end() else {
            // Keys that change again and again are sent under their locks at last.
            let may_park = migration.sent.rounds < MIGRATION_ROUNDS_MAX;
            migration = cx.await_migration(migration, may_park)?;
            continue;
        };
        match go_on(cx, &options, migration.sent, end)? {
            Some(next) => migration = next,
            None => return Ok(()),
        }
    }
}

/// Begins another round with keys that have changed on their way. Without such, deletes those that
/// have moved: the command has ended.
fn go_on(
    cx: &mut Cx<'_, '_>,
    options: &Options<'_>,
    Sent { keys, mut settled, rounds, mut error }: Sent,
    end: MigrationEnd,
) -> Result<Option<Migration>, CommandError> {
    let broken = |what| CommandError::Bytes(format!("IOERR error or timeout {what}").into_bytes());
    let answers = match end {
        MigrationEnd::Answered(answers) => answers,
        MigrationEnd::Refused(text) => return Err(refused(&text)),
        MigrationEnd::Unconnected => return Err(broken("connecting to the client")),
        MigrationEnd::Unwritten => return Err(broken("writing to target instance")),
        MigrationEnd::Unread => return Err(broken("reading from target instance")),
    };
    for (key, answer) in keys.into_iter().zip(answers) {
        match answer {
            Err(text) => _ = error.get_or_insert(text),
            Ok(()) if key.checksum.is_some() && !options.copies => memory::push(&mut settled, key)?,
            Ok(()) => {}
        }
    }
    let mut round = Round::new();
    let mut unchanged = Vec::new();
    for key in settled {
        match dump_key(cx, &key.name)? {
            Some(now) if now.key == key => memory::push(&mut unchanged, key)?,
            Some(now) => round.restore(cx.now_ms(), now, true)?,
            None => round.delete(key.name)?,
        }
    }
    if !round.keys.is_empty() {
        let rest = Rest { settled: unchanged, rounds: rounds + 1, error };
        return Ok(Some(round.begin(cx, options, rest)));
    }
    for key in unchanged {
        cx.edit(&key.name).remove(Event::new(EventClass::GENERIC, "del"));
        cx.propagate([&b"DEL"[..], &key.name]);
    }
    match error {
        Some(text) => Err(refused(&text)),
        None => {
            cx.reply.ok();
            Ok(None)
        }
    }
}

fn refused(text: &[u8]) -> CommandError {
    CommandError::Bytes([b"ERR Target instance replied with error: ", text].concat())
}
