//! Trimming: the options of `XADD` and `XTRIM`.

use tidemill_store::Encoding;
use tidemill_store::value::stream::{Stream, StreamEdit, StreamId};

use super::id::{self, GivenId};
use crate::access::context::Cx;
use crate::access::options::{integer, is};
use crate::access::outcome::Outcome;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;
use crate::limits::{TRIM_LIMIT_DEFAULT, TRIM_LIMIT_MAX};

pub(super) const TRIM_EVENT: Event = Event::new(EventClass::STREAM, "xtrim");

/// Nodes that a trimming with `~` removes at most, when no limit is given.
const NODES_MAX: u64 = 100;

/// Entries that stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// The last ones of this number.
    MaxLength(u64),
    /// Those from an id on.
    MinId(StreamId),
}

/// A trimming.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trim {
    pub(super) strategy: Strategy,
    /// Whole nodes are removed only, as `~` allows.
    pub(super) is_approximate: bool,
    /// Most entries that are removed; 0 is no limit.
    limit: u64,
}

/// Arguments of `XADD` and `XTRIM` behind the key.
#[derive(Debug, Default)]
pub(super) struct Options {
    pub(super) trim: Option<Trim>,
    pub(super) must_exist: bool,
    /// The id that `XADD` is given; none for `*`.
    pub(super) id: Option<GivenId>,
    /// Position of the id, behind which the fields are.
    pub(super) id_index: usize,
}

impl Options {
    pub(super) fn parse(cx: &Cx<'_, '_>, adds: bool) -> Result<Options, CommandError> {
        let args = cx.args;
        let mut options = Options { id_index: args.len(), ..Options::default() };
        let (mut given, mut is_approximate, mut limit) = (None, false, None);
        let mut index = 2;
        while index < args.len() {
            let option = args.get(index);
            let more = args.len() - 1 - index;
            match () {
                () if adds && option == b"*" => {
                    options.id_index = index;
                    break;
                }
                () if more > 0 && (is(option, "MAXLEN") || is(option, "MINID")) => {
                    if given.is_some() {
                        return Err("ERR syntax error, MAXLEN and MINID options at the same time \
                                    are not compatible"
                            .into());
                    }
                    let sign = args.get(index + 1);
                    is_approximate = more >= 2 && sign == b"~";
                    index += usize::from(is_approximate || more >= 2 && sign == b"=");
                    given = Some(strategy(option, args.get(index + 1))?);
                    index += 1;
                }
                () if more > 0 && is(option, "LIMIT") => {
                    let value = u64::try_from(integer(args.get(index + 1))?);
                    let negative = CommandError::from("ERR The LIMIT argument must be >= 0.");
                    limit = Some(value.map_err(|_| negative)?);
                    index += 1;
                }
                () if adds && is(option, "NOMKSTREAM") => options.must_exist = true,
                () if adds => {
                    options.id = Some(id::given(option)?);
                    options.id_index = index;
                    break;
                }
                () => return Err(CommandError::Syntax),
            }
            index += 1;
        }
        let limit = checked_limit(cx, (limit, given.is_some(), is_approximate), adds)?;
        options.trim = given.map(|strategy| Trim { strategy, is_approximate, limit });
        Ok(options)
    }
}

fn strategy(option: &[u8], threshold: &[u8]) -> Result<Strategy, CommandError> {
    if is(option, "MINID") {
        return id::strict(threshold).map(Strategy::MinId);
    }
    let length = u64::try_from(integer(threshold)?);
    let length = length.map_err(|_| CommandError::from("ERR The MAXLEN argument must be >= 0."))?;
    Ok(Strategy::MaxLength(length))
}

fn checked_limit(
    cx: &Cx<'_, '_>,
    (limit, has_strategy, is_approximate): (Option<u64>, bool, bool),
    adds: bool,
) -> Result<u64, CommandError> {
    if limit.is_some_and(|limit| limit > 0) && !has_strategy {
        return Err("ERR syntax error, LIMIT cannot be used without specifying a trimming \
                    strategy"
            .into());
    }
    if !adds && !has_strategy {
        return Err("ERR syntax error, XTRIM must be called with a trimming strategy".into());
    }
    match limit {
        Some(_) if !is_approximate => {
            Err("ERR syntax error, LIMIT cannot be used without the special ~ option".into())
        }
        Some(limit) => Ok(limit),
        None if is_approximate => {
            let entries = cx.settings().stream_node_limits.entries;
            Ok(match entries.saturating_mul(NODES_MAX) {
                0 => TRIM_LIMIT_DEFAULT,
                limit => limit.min(TRIM_LIMIT_MAX),
            })
        }
        None => Ok(0),
    }
}

impl Trim {
    /// Number of entries at the front that are removed.
    fn count(&self, edit: &mut StreamEdit<'_>) -> u64 {
        let stream = edit.view();
        let length = stream.len();
        if !self.is_approximate {
            return match self.strategy {
                Strategy::MaxLength(length_max) => length.saturating_sub(length_max),
                Strategy::MinId(id) => stream.count_below(id),
            };
        }
        let superfluous = match self.strategy {
            Strategy::MaxLength(length_max) => length.saturating_sub(length_max),
            Strategy::MinId(id) => {
                let count = stream.count_below(id);
                // The last node has an entry that was deleted and is not below the id.
                let state = stream.state();
                let keeps_last = count == length
                    && (id..=state.last_id).contains(&state.max_deleted_id)
                    && stream.last_entry_id().is_some_and(|last| last < state.max_deleted_id);
                count - u64::from(keeps_last)
            }
        };
        let limit = if self.limit == 0 { u64::MAX } else { self.limit };
        edit.nodes_within(superfluous.min(limit))
    }

    /// Removes entries, and returns their number.
    pub(super) fn carry_out(&self, stream: &mut StreamEdit<'_>) -> u64 {
        let count = self.count(stream);
        stream.remove_first(count);
        count
    }

    /// The trimming that leaves exactly what is there now, as the journal has it.
    pub(super) fn exact(&self, stream: Stream<'_>) -> (&'static str, Vec<u8>) {
        match self.strategy {
            Strategy::MaxLength(length) => {
                let length = if self.is_approximate { stream.len() } else { length };
                ("MAXLEN", length.to_string().into_bytes())
            }
            Strategy::MinId(id) => {
                // All that is gone was below the id; an empty stream has no first one.
                let keeps_some = self.is_approximate && !stream.is_empty();
                let id = if keeps_some { stream.first_id() } else { id };
                ("MINID", id::text(id).to_vec())
            }
        }
    }
}

pub(super) fn xtrim(cx: &mut Cx<'_, '_>) -> Outcome {
    let options = Options::parse(cx, false)?;
    let Some(trim) = options.trim else { return Err(CommandError::Syntax.into()) };
    let key = cx.arg(1);
    let edit = cx.edit(key);
    if edit.read_as::<Stream<'_>>()?.is_none() {
        cx.reply.integer(0);
        return Ok(());
    }
    let trimmed = edit.change::<Stream<'_>, _>(TRIM_EVENT, |stream| {
        let count = trim.carry_out(stream);
        Ok((count > 0).then(|| (Encoding::Stream, (count, trim.exact(stream.view())))))
    })?;
    if let Some((count, (strategy, threshold))) = &trimmed {
        cx.count_changes(*count);
        cx.propagate([&b"XTRIM"[..], key, strategy.as_bytes(), b"=", threshold]);
    }
    cx.reply.integer(trimmed.map_or(0, |(count, _)| count as i64));
    Ok(())
}
