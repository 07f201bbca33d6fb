//! `XREAD` and `XREADGROUP`.

use std::ops::Range;

use smallvec::SmallVec;
use tidemill_resp::encode::{Aggregate, Deferred, Protocol};
use tidemill_resp::request::ArgumentView;
use tidemill_store::hash::Seed;
use tidemill_store::value::stream::{Stream, StreamId};
use tidemill_store::{EntryRef, Kind};

use super::deliver::{Delivery, StreamGroup};
use super::id;
use super::journal::GroupNames;
use super::pieces::{StreamElements, write_entry};
use crate::access::context::Cx;
use crate::access::key_wait::{timeout_ms, wait_for_streams};
use crate::access::options::{integer, is};
use crate::access::outcome::{Outcome, Stop};
use crate::command::KeyPositions;
use crate::error::CommandError;

/// Place from which a stream is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadFrom {
    /// Behind an id.
    Behind(StreamId),
    /// Behind the last entry of all (`$`).
    End,
    /// The last entry (`+`).
    Last,
    /// Behind the last entry that the group was delivered (`>`).
    New,
}

/// Options of both commands.
#[derive(Debug, Default)]
struct Options {
    /// Positions of the keys, behind which their ids are.
    keys: Range<usize>,
    /// Most entries of a stream; 0 is no limit.
    count: u64,
    /// Milliseconds to wait; 0 is for ever.
    block_ms: Option<u64>,
    /// Position of the group's name, behind which the consumer's is.
    group: Option<usize>,
    is_acknowledged: bool,
}

impl Options {
    /// Position of the first key: that behind the word `STREAMS`. Without a group that is needed
    /// nothing is read.
    fn first_key(args: &ArgumentView<'_>) -> Option<usize> {
        let mut has_group = !is(args.get(0), "XREADGROUP");
        let mut index = 1;
        while index + 1 < args.len() {
            let option = args.get(index);
            match () {
                () if is(option, "STREAMS") => return has_group.then_some(index + 1),
                () if is(option, "BLOCK") || is(option, "COUNT") => index += 2,
                () if is(option, "GROUP") => {
                    has_group = true;
                    index += 3;
                }
                () if is(option, "NOACK") => index += 1,
                () => return None,
            }
        }
        None
    }

    fn parse(cx: &Cx<'_, '_>, is_group: bool) -> Result<Options, CommandError> {
        let args = cx.args;
        let mut options = Options::default();
        let mut index = 1;
        while index < args.len() {
            let option = args.get(index);
            let more = args.len() - 1 - index;
            match () {
                () if is(option, "BLOCK") && more > 0 => {
                    options.block_ms = Some(timeout_ms(cx, args.get(index + 1))?);
                    index += 1;
                }
                () if is(option, "COUNT") && more > 0 => {
                    options.count = integer(args.get(index + 1))?.max(0) as u64;
                    index += 1;
                }
                () if is(option, "STREAMS") && more > 0 => {
                    if !more.is_multiple_of(2) {
                        return Err(unbalanced(cx));
                    }
                    options.keys = index + 1..index + 1 + more / 2;
                    break;
                }
                () if is(option, "GROUP") && more >= 2 => {
                    if !is_group {
                        return Err(only_of_groups("GROUP"));
                    }
                    options.group = Some(index + 1);
                    index += 2;
                }
                () if is(option, "NOACK") => {
                    if !is_group {
                        return Err(only_of_groups("NOACK"));
                    }
                    options.is_acknowledged = true;
                }
                () => return Err(CommandError::Syntax),
            }
            index += 1;
        }
        if options.keys.is_empty() {
            return Err(CommandError::Syntax);
        }
        if is_group && options.group.is_none() {
            return Err("ERR Missing GROUP option for XREADGROUP".into());
        }
        Ok(options)
    }

    /// The id of the key at a position.
    fn id<'a>(&self, args: &ArgumentView<'a>, key: usize) -> &'a [u8] {
        args.get(key + self.keys.len())
    }
}

/// Keys, where a group or a consumer is called `STREAMS`.
pub(super) fn more_keys(args: &ArgumentView<'_>, positions: &mut KeyPositions) {
    let Some(first) = Options::first_key(args) else { return };
    let keys = first..first + (args.len() - first) / 2;
    // The positions that the rule found are one range too.
    let found = match positions.as_slice() {
        [first, .., last] => *first..*last + 1,
        [only] => *only..*only + 1,
        [] => 0..0,
    };
    positions.extend(keys.filter(|key| !found.contains(key)));
}

fn unbalanced(cx: &Cx<'_, '_>) -> CommandError {
    let name = cx.command.name;
    let symbol = if name == "xread" { '$' } else { '>' };
    CommandError::err(format_args!(
        "Unbalanced '{name}' list of streams: for each stream key an ID or '{symbol}' must be \
         specified."
    ))
}

fn only_of_groups(option: &str) -> CommandError {
    CommandError::err(format_args!(
        "The {option} option is only supported by XREADGROUP. You called XREAD instead."
    ))
}

fn read_from(text: &[u8], is_group: bool) -> Result<ReadFrom, CommandError> {
    match text {
        b"$" | b"+" if is_group => {
            let sign = char::from(text[0]);
            Err(CommandError::err(format_args!(
                "The {sign} ID is meaningless in the context of XREADGROUP: you want to read the \
                 history of this consumer by specifying a proper ID, or use the > ID to get new \
                 messages. The {sign} ID would just return an empty result set."
            )))
        }
        b"$" => Ok(ReadFrom::End),
        b"+" => Ok(ReadFrom::Last),
        b">" if is_group => Ok(ReadFrom::New),
        b">" => Err("ERR The > ID can be specified only when calling XREADGROUP using the GROUP \
                     <group> <consumer> option."
            .into()),
        _ => id::strict(text).map(|id| match id {
            // To Valkey, the greatest id is that sign.
            StreamId::MAX if is_group => ReadFrom::New,
            id => ReadFrom::Behind(id),
        }),
    }
}

/// The reply to both commands: streams that have something.
struct Answer {
    deferred: Option<Deferred>,
    stream_count: usize,
}

impl Answer {
    fn new() -> Answer {
        Answer { deferred: None, stream_count: 0 }
    }

    /// Begins the entries of a stream.
    fn begin_stream(&mut self, cx: &mut Cx<'_, '_>, key: &[u8]) {
        let is_map = cx.protocol() == Protocol::Resp3;
        if self.deferred.is_none() {
            let aggregate = if is_map { Aggregate::Map } else { Aggregate::Array };
            self.deferred = Some(cx.reply.begin(aggregate));
        }
        if !is_map {
            cx.reply.array(2);
        }
        cx.reply.bulk(key);
        self.stream_count += 1;
    }

    /// True if there was something to answer.
    fn end(self, cx: &mut Cx<'_, '_>) -> bool {
        if let Some(deferred) = self.deferred {
            cx.reply.end_with(deferred, self.stream_count);
        }
        self.stream_count > 0
    }
}

/// Id behind which a stream is read.
fn behind(from: ReadFrom, stream: Option<Stream<'_>>) -> StreamId {
    let last_id = stream.map_or(StreamId::MIN, |stream| stream.state().last_id);
    match from {
        ReadFrom::Behind(id) => id,
        ReadFrom::End | ReadFrom::New => last_id,
        ReadFrom::Last => last_id.previous().unwrap_or_default(),
    }
}

pub(super) fn xread(cx: &mut Cx<'_, '_>) -> Outcome {
    let options = Options::parse(cx, false)?;
    let args = cx.args;
    let mut ids = Vec::with_capacity(options.keys.len());
    for key in options.keys.clone() {
        let stream = cx.read_as::<Stream<'_>>(args.get(key))?;
        ids.push(behind(read_from(options.id(args, key), false)?, stream));
    }
    let mut answer = Answer::new();
    for (key, &behind) in options.keys.clone().zip(&ids) {
        let key = args.get(key);
        let Some(stream) = cx.read_as::<Stream<'_>>(key)? else { continue };
        let first = stream.count_up_to(behind);
        let available = stream.len() - first;
        if available == 0 {
            continue;
        }
        let count = if options.count == 0 { available } else { available.min(options.count) };
        answer.begin_stream(cx, key);
        cx.reply.array(count as usize);
        let elements = StreamElements { ranks: first..first + count, is_descending: false };
        for entry in elements.entries(stream, 0..count) {
            write_entry(cx.reply, &entry);
        }
    }
    if answer.end(cx) {
        return Ok(());
    }
    let Some(block_ms) = options.block_ms else {
        cx.reply.null_array();
        return Ok(());
    };
    if !cx.is_locked() {
        // Nothing may come between the look and the wait.
        return Err(Box::new(Stop::NeedLocks));
    }
    // The end is that of now.
    let ends = options.keys.clone().zip(ids).filter_map(|(key, behind)| {
        let position = key + options.keys.len();
        (args.get(position) == b"$").then(|| (position, id::text(behind).to_vec()))
    });
    wait_for_streams(cx, options.keys.clone(), block_ms, answers_reader, ends.collect())
}

/// True if `XREAD` with some arguments would answer something of a key.
fn answers_reader(
    args: &ArgumentView<'_>,
    key: &[u8],
    entry: Option<EntryRef<'_>>,
    seed: &Seed,
) -> bool {
    let Some(stream) = entry.and_then(|entry| entry.view::<Stream<'_>>(seed)) else { return false };
    let Some(last) = stream.last_entry_id() else { return false };
    ids_of(args, key)
        .any(|id| read_from(id, false).is_ok_and(|from| last > behind(from, Some(stream))))
}

/// Ids that a command with some arguments has for a key.
fn ids_of<'a>(args: &ArgumentView<'a>, key: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let first = Options::first_key(args).unwrap_or(args.len());
    let count = (args.len() - first) / 2;
    let args = *args;
    (first..first + count)
        .filter(move |&index| args.get(index) == key)
        .map(move |index| args.get(index + count))
}

pub(super) fn xreadgroup(cx: &mut Cx<'_, '_>) -> Outcome {
    let options = Options::parse(cx, true)?;
    let args = cx.args;
    let Some(group_index) = options.group else { return Err(CommandError::Syntax.into()) };
    let (group_name, consumer) = (args.get(group_index), args.get(group_index + 1));
    let names = |key| GroupNames { key, group: group_name };
    let mut ids = SmallVec::<[ReadFrom; 4]>::with_capacity(options.keys.len());
    // Nothing comes between the two looks at an only key.
    let mut only = None;
    for key in options.keys.clone() {
        let found = find_group(cx, names(args.get(key)))?;
        only = (options.keys.len() == 1).then_some(found);
        ids.push(read_from(options.id(args, key), true)?);
    }
    let mut answer = Answer::new();
    let mut changes = 0;
    for (key, &from) in options.keys.clone().zip(&ids) {
        let names = names(args.get(key));
        let found = match only {
            Some(found) => {
                cx.count_lookup(true);
                found
            }
            None => find_group(cx, names)?,
        };
        let delivery = Delivery {
            names,
            consumer,
            count: options.count,
            is_acknowledged: options.is_acknowledged,
        };
        match from {
            ReadFrom::Behind(behind) => {
                answer.begin_stream(cx, names.key);
                changes += delivery.deliver_again(cx, found, behind)?;
            }
            _ => {
                let begin = |cx: &mut Cx<'_, '_>| answer.begin_stream(cx, names.key);
                changes += delivery.deliver_new(cx, found, begin)?;
            }
        }
    }
    cx.set_changes(changes);
    if answer.end(cx) {
        return Ok(());
    }
    let Some(block_ms) = options.block_ms else {
        cx.reply.null_array();
        return Ok(());
    };
    wait_for_streams(cx, options.keys.clone(), block_ms, answers_consumer, Vec::new())
}

/// The stream and the group that `XREADGROUP` needs.
fn find_group<'g>(
    cx: &mut Cx<'_, 'g>,
    names: GroupNames<'_>,
) -> Result<StreamGroup<'g>, CommandError> {
    super::deliver::find_group(cx, names)?.ok_or_else(|| no_group(names))
}

fn no_group(names: GroupNames<'_>) -> CommandError {
    let parts = [
        b"NOGROUP No such key '",
        crate::error::until_nul(names.key),
        b"' or consumer group '",
        crate::error::until_nul(names.group),
        b"' in XREADGROUP with GROUP option",
    ];
    CommandError::Bytes(parts.concat())
}

/// True if `XREADGROUP` with some arguments would answer something of a key: entries, or an error
/// because there is no such group any more.
fn answers_consumer(
    args: &ArgumentView<'_>,
    _key: &[u8],
    entry: Option<EntryRef<'_>>,
    seed: &Seed,
) -> bool {
    let Some(entry) = entry.filter(|entry| entry.kind() == Kind::Stream) else { return true };
    let Some(stream) = entry.view::<Stream<'_>>(seed) else { return true };
    let group = args.iter().position(|word| is(word, "GROUP")).map(|index| args.get(index + 1));
    let Some(group) = group.and_then(|name| stream.group(name)) else { return true };
    stream.last_entry_id().is_some_and(|last| last > group.last_id)
}
