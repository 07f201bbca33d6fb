//! Commands in the place of a snapshot, for a base of the append-only file
//! (`aof-use-rdb-preamble no`).
//!
//! An output that takes a snapshot and writes the commands that make its data: what the walk writes
//! is read again, element by element. That costs time, and no second way through all types. As in
//! Valkey, a group's consumers come without the times at which they were active, and without what
//! was delivered to them and deleted since.

use std::collections::BTreeMap;

use tidemill_rdb::encode::Output;
use tidemill_rdb::file::{Event, Reader};
use tidemill_rdb::value::{Item, StreamFields, StreamId, StreamState};
use tidemill_rdb::{ReadError, Text, VersionCheck};
use tidemill_resp::number::format_double;

use super::{FileOutput, SnapshotError};

/// Elements in one command, as in Valkey.
const ELEMENTS_MAX: usize = 64;

/// Bytes in one command of several elements, about.
const BYTES_MAX: usize = 1 << 20;

/// Output of commands.
#[derive(Debug)]
pub struct CommandsOutput<'h> {
    reader: Reader,
    commands: Commands<'h>,
    /// Time that is not written yet.
    unix_seconds: Option<i64>,
}

impl<'h> CommandsOutput<'h> {
    /// Output into an empty file; with a time in Unix seconds, it begins with that.
    #[must_use]
    pub fn new(file: FileOutput<'h>, unix_seconds: Option<i64>) -> CommandsOutput<'h> {
        let commands = Commands {
            file,
            key: Vec::new(),
            expires_at_ms: None,
            elements: Vec::new(),
            count: 0,
            verb: "",
            has_entries: false,
            group: Vec::new(),
            pending: BTreeMap::new(),
            consumer: Vec::new(),
        };
        CommandsOutput { reader: Reader::new(VersionCheck::Relaxed, false), commands, unix_seconds }
    }

    /// The file.
    #[must_use]
    pub fn into_file(self) -> FileOutput<'h> {
        self.commands.file
    }
}

impl Output for CommandsOutput<'_> {
    type Error = SnapshotError;

    fn write(&mut self, bytes: &[u8]) -> Result<(), SnapshotError> {
        let CommandsOutput { reader, commands, unix_seconds } = self;
        if let Some(seconds) = unix_seconds.take() {
            commands.file.write(format!("#TS:{seconds}\r\n").as_bytes())?;
        }
        match reader.feed(bytes, |event| commands.take(event)) {
            Ok(_) => Ok(()),
            Err(ReadError::Sink(error)) => Err(error),
            Err(ReadError::Decode(error)) => {
                Err(SnapshotError::Io(std::io::Error::other(error.to_string())))
            }
        }
    }
}

/// Commands of the key at hand.
#[derive(Debug)]
struct Commands<'h> {
    file: FileOutput<'h>,
    key: Vec<u8>,
    expires_at_ms: Option<i64>,
    /// Arguments that follow the key, in their protocol's form, and their number.
    elements: Vec<u8>,
    count: usize,
    /// Command that they are of.
    verb: &'static str,
    /// True once a stream has an entry.
    has_entries: bool,
    group: Vec<u8>,
    /// Time and number of deliveries of what the group has not acknowledged.
    pending: BTreeMap<(u64, u64), (i64, u64)>,
    consumer: Vec<u8>,
}

fn append_bulk(to: &mut Vec<u8>, bytes: &[u8]) -> Result<(), SnapshotError> {
    to.try_reserve(bytes.len() + 32)?;
    to.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
    to.extend_from_slice(bytes);
    to.extend_from_slice(b"\r\n");
    Ok(())
}

fn id_text(id: StreamId) -> String {
    format!("{}-{}", id.ms, id.seq)
}

impl Commands<'_> {
    fn take(&mut self, event: Event<'_>) -> Result<(), SnapshotError> {
        match event {
            Event::Database(number) => {
                let number = number.to_string();
                self.command(&[b"SELECT", number.as_bytes()])
            }
            Event::Functions(source) => self.command(&[b"FUNCTION", b"LOAD", source]),
            Event::Key { name, expires_at_ms, .. } => {
                self.key.clear();
                self.key.try_reserve(name.len())?;
                self.key.extend_from_slice(name);
                self.expires_at_ms = expires_at_ms;
                self.has_entries = false;
                Ok(())
            }
            Event::Item(item) => self.item(item),
            Event::KeyEnd => self.end_key(),
            _ => Ok(()),
        }
    }

    fn item(&mut self, item: Item<'_>) -> Result<(), SnapshotError> {
        match item {
            Item::String(value) => self.element("SET", &[value]),
            Item::ListElement(element) => self.element("RPUSH", &[element]),
            Item::SetMember(member) => self.element("SADD", &[member]),
            Item::SortedSetMember { member, score } => {
                // The shortest text that is this number again.
                let score = format_double(score);
                self.element("ZADD", &[score.as_str().as_bytes(), member])
            }
            Item::HashField { field, value, expires_at_ms } => {
                self.element("HSET", &[field, value])?;
                let Some(at_ms) = expires_at_ms else { return Ok(()) };
                self.end_elements()?;
                let at_ms = at_ms.to_string();
                self.of_key(&[b"HPEXPIREAT"], &[at_ms.as_bytes(), b"FIELDS", b"1", field])
            }
            Item::StreamEntry { id, fields, .. } => self.entry(id, fields),
            Item::StreamState(state) => self.stream_state(state),
            Item::StreamGroup { name, last_id, entries_read } => {
                self.pending.clear();
                self.group = name.to_vec();
                let last_id = id_text(last_id);
                let read = entries_read.map_or("-1".into(), |count| count.to_string());
                self.of_key(
                    &[b"XGROUP", b"CREATE"],
                    &[name, last_id.as_bytes(), b"ENTRIESREAD", read.as_bytes()],
                )
            }
            Item::StreamPending { id, delivered_at_ms, delivery_count } => {
                self.pending.insert((id.ms, id.seq), (delivered_at_ms, delivery_count));
                Ok(())
            }
            Item::StreamConsumer { name, .. } => {
                self.consumer = name.to_vec();
                let group = std::mem::take(&mut self.group);
                let created = self.of_key(&[b"XGROUP", b"CREATECONSUMER"], &[&group, name]);
                self.group = group;
                created
            }
            Item::StreamConsumerPending(id) => self.claim(id),
        }
    }

    /// Takes an element of a command of several.
    fn element(&mut self, verb: &'static str, arguments: &[&[u8]]) -> Result<(), SnapshotError> {
        self.verb = verb;
        for argument in arguments {
            append_bulk(&mut self.elements, argument)?;
        }
        self.count += arguments.len();
        if self.count >= ELEMENTS_MAX || self.elements.len() >= BYTES_MAX {
            self.end_elements()?;
        }
        Ok(())
    }

    fn end_elements(&mut self) -> Result<(), SnapshotError> {
        if self.count == 0 {
            return Ok(());
        }
        self.head(self.count + 2)?;
        let (verb, key) = (self.verb, std::mem::take(&mut self.key));
        self.bulk(verb.as_bytes())?;
        self.bulk(&key)?;
        self.key = key;
        self.file.write(&self.elements)?;
        self.elements.clear();
        self.count = 0;
        Ok(())
    }

    fn end_key(&mut self) -> Result<(), SnapshotError> {
        self.end_elements()?;
        let Some(at_ms) = self.expires_at_ms.take() else { return Ok(()) };
        let at_ms = at_ms.to_string();
        self.of_key(&[b"PEXPIREAT"], &[at_ms.as_bytes()])
    }

    fn entry(&mut self, id: StreamId, fields: StreamFields<'_>) -> Result<(), SnapshotError> {
        self.has_entries = true;
        let id = id_text(id);
        append_bulk(&mut self.elements, id.as_bytes())?;
        self.count = 1;
        for (name, value) in fields {
            for text in [name, value] {
                match text {
                    Text::Bytes(bytes) => append_bulk(&mut self.elements, bytes)?,
                    Text::Integer(number) => {
                        append_bulk(&mut self.elements, number.to_string().as_bytes())?;
                    }
                }
                self.count += 1;
            }
        }
        self.verb = "XADD";
        self.end_elements()
    }

    /// A stream without entries is made by one that is gone at once.
    fn stream_state(&mut self, state: StreamState) -> Result<(), SnapshotError> {
        let last_id = id_text(state.last_id);
        if !self.has_entries {
            let id = match (state.last_id.ms, state.last_id.seq) {
                (0, 0) => "0-1",
                _ => &last_id,
            };
            self.of_key(&[b"XADD"], &[b"MAXLEN", b"0", id.as_bytes(), b"x", b"y"])?;
        }
        let added = state.entries_added.unwrap_or(state.length).to_string();
        let deleted = id_text(state.max_deleted_id.unwrap_or(StreamId { ms: 0, seq: 0 }));
        self.of_key(
            &[b"XSETID"],
            &[
                last_id.as_bytes(),
                b"ENTRIESADDED",
                added.as_bytes(),
                b"MAXDELETEDID",
                deleted.as_bytes(),
            ],
        )
    }

    fn claim(&mut self, id: StreamId) -> Result<(), SnapshotError> {
        let Some(&(at_ms, count)) = self.pending.get(&(id.ms, id.seq)) else { return Ok(()) };
        let (id, at_ms, count) = (id_text(id), at_ms.to_string(), count.to_string());
        let (group, consumer) =
            (std::mem::take(&mut self.group), std::mem::take(&mut self.consumer));
        let claimed = self.of_key(
            &[b"XCLAIM"],
            &[
                &group,
                &consumer,
                b"0",
                id.as_bytes(),
                b"TIME",
                at_ms.as_bytes(),
                b"RETRYCOUNT",
                count.as_bytes(),
                b"JUSTID",
                b"FORCE",
            ],
        );
        (self.group, self.consumer) = (group, consumer);
        claimed
    }

    /// A command on the key at hand, with arguments before and behind it.
    fn of_key(&mut self, before: &[&[u8]], behind: &[&[u8]]) -> Result<(), SnapshotError> {
        let key = std::mem::take(&mut self.key);
        let written = self.command(&[before, &[&key[..]], behind].concat());
        self.key = key;
        written
    }

    fn command(&mut self, arguments: &[&[u8]]) -> Result<(), SnapshotError> {
        self.head(arguments.len())?;
        arguments.iter().try_for_each(|argument| self.bulk(argument))
    }

    fn head(&mut self, count: usize) -> Result<(), SnapshotError> {
        self.file.write(format!("*{count}\r\n").as_bytes())
    }

    fn bulk(&mut self, bytes: &[u8]) -> Result<(), SnapshotError> {
        self.file.write(format!("${}\r\n", bytes.len()).as_bytes())?;
        self.file.write(bytes)?;
        self.file.write(b"\r\n")
    }
}
