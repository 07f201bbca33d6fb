//! `SORT` and `SORT_RO`.
//!
//! Patterns of `BY` and `GET` name keys that the arguments do not: their slots are locked as they
//! are met, or, as long as there are few, what was read is checked afterwards like any read.
//! Nothing is written before all of it is known, since the command begins anew when such a slot is
//! taken.

use std::borrow::Cow;
use std::cmp::Ordering;

use tidemill_resp::number::parse_double;
use tidemill_resp::request::ArgumentView;
use tidemill_store::hash::Seed;
use tidemill_store::value::list::List;
use tidemill_store::value::set::Set;
use tidemill_store::value::sorted_set::SortedSet;
use tidemill_store::{Encoding, EntryRef, Kind, StringValue};

use crate::access::context::Cx;
use crate::access::options::{integer, is};
use crate::access::outcome::{Outcome, Stop};
use crate::command::KeyPositions;
use crate::commit::{Event, EventClass};
use crate::error::CommandError;
use crate::handlers::hash::field_value;
use crate::handlers::list::new_encoding;
use crate::handlers::set;
use crate::limits::{ELEMENT_OVERHEAD_BYTES, ELEMENTS_PER_EFFECT_MAX, SORT_LOOKUPS_MAX};
use crate::memory;
use crate::reply;

/// Target of an element.
#[derive(Clone, Copy)]
enum Pattern<'g> {
    /// `#`: the element.
    Element,
    /// No `*`: nowhere.
    Constant,
    /// A key around the element, and maybe a field of the hash under it.
    Key { before: &'g [u8], behind: &'g [u8], field: Option<&'g [u8]> },
}

impl<'g> Pattern<'g> {
    fn parse(text: &'g [u8]) -> Pattern<'g> {
        if text == b"#" {
            return Pattern::Element;
        }
        let Some(star) = text.iter().position(|&byte| byte == b'*') else {
            return Pattern::Constant;
        };
        let (before, behind) = (&text[..star], &text[star + 1..]);
        let arrow = behind.windows(2).position(|pair| pair == b"->");
        // An arrow at the very end is part of the key.
        match arrow.filter(|&at| at + 2 < behind.len()) {
            Some(at) => {
                Pattern::Key { before, behind: &behind[..at], field: Some(&behind[at + 2..]) }
            }
            None => Pattern::Key { before, behind, field: None },
        }
    }

    fn is_key(&self) -> bool {
        matches!(self, Pattern::Key { .. })
    }

    /// Value that an element leads to.
    fn follow<'e>(
        self,
        cx: &mut Cx<'_, 'g>,
        element: &'e [u8],
    ) -> Result<Option<StringValue<'e>>, Box<Stop>>
    where
        'g: 'e,
    {
        let (before, behind, field) = match self {
            Pattern::Element => return Ok(Some(StringValue::Plain(element))),
            Pattern::Constant => return Ok(None),
            Pattern::Key { before, behind, field } => (before, behind, field),
        };
        let key = memory::concat(&[before, element, behind])?;
        cx.lock_discovered_key(&key)?;
        let entry = cx.read(&key);
        Ok(match field {
            Some(field) => {
                entry.and_then(|entry| field_value(cx, entry, field)).map(StringValue::Plain)
            }
            None => entry.and_then(EntryRef::string),
        })
    }
}

struct Options<'g> {
    is_descending: bool,
    is_alpha: bool,
    /// First element and how many; all when negative.
    limit: (i64, i64),
    by: Option<Pattern<'g>>,
    /// The elements stay in the order in which they are: `BY` names no key.
    is_unsorted: bool,
    get: Vec<Pattern<'g>>,
    store: Option<&'g [u8]>,
}

impl<'g> Options<'g> {
    /// `may_discover` permits to read keys that elements name.
    fn parse(
        args: ArgumentView<'g>,
        may_store: bool,
        may_discover: bool,
    ) -> Result<Options<'g>, CommandError> {
        let denied = |option: &str| {
            CommandError::err(format_args!(
                "{option} option of SORT denied due to insufficient ACL permissions."
            ))
        };
        let mut options = Options {
            is_descending: false,
            is_alpha: false,
            limit: (0, -1),
            by: None,
            is_unsorted: false,
            get: Vec::new(),
            store: None,
        };
        let mut index = 2;
        while index < args.len() {
            let (option, left) = (args.get(index), args.len() - index - 1);
            match () {
                () if is(option, "ASC") => options.is_descending = false,
                () if is(option, "DESC") => options.is_descending = true,
                () if is(option, "ALPHA") => options.is_alpha = true,
                () if is(option, "LIMIT") && left >= 2 => {
                    options.limit = (integer(args.get(index + 1))?, integer(args.get(index + 2))?);
                    index += 2;
                }
                () if is(option, "STORE") && may_store && left >= 1 => {
                    index += 1;
                    options.store = Some(args.get(index));
                }
                () if is(option, "BY") && left >= 1 => {
                    index += 1;
                    let pattern = args.get(index);
                    options.by = Some(Pattern::parse(pattern)).filter(Pattern::is_key);
                    options.is_unsorted |= !pattern.contains(&b'*');
                    if pattern.contains(&b'*') && !may_discover {
                        return Err(denied("BY"));
                    }
                }
                () if is(option, "GET") && left >= 1 => {
                    if !may_discover {
                        return Err(denied("GET"));
                    }
                    index += 1;
                    options.get.push(Pattern::parse(args.get(index)));
                }
                () => return Err(CommandError::Syntax),
            }
            index += 1;
        }
        Ok(options)
    }

    /// Keys that are looked up for each element.
    fn lookups(&self) -> usize {
        let by = usize::from(self.by.is_some() && !self.is_unsorted);
        by + self.get.iter().filter(|pattern| pattern.is_key()).count()
    }

    /// Elements that `LIMIT` leaves of `count`.
    fn range(&self, count: usize) -> std::ops::Range<usize> {
        let clamp = |number: i64| usize::try_from(number).unwrap_or(0).min(count);
        let start = clamp(self.limit.0);
        let end = match self.limit.1 {
            ..0 => count,
            wanted => start.saturating_add(clamp(wanted)).min(count),
        };
        start..end
    }
}

/// The key of `STORE`, the last if there are several, for locking it and for `COMMAND GETKEYS`.
pub(super) fn stored_key(args: &ArgumentView<'_>, positions: &mut KeyPositions) {
    let (mut index, mut stored) = (2, None);
    while index < args.len() {
        let option = args.get(index);
        index += match () {
            () if is(option, "LIMIT") => 3,
            () if is(option, "BY") || is(option, "GET") => 2,
            () if is(option, "STORE") && index + 1 < args.len() => {
                stored = Some(index + 1);
                2
            }
            () => 1,
        };
    }
    positions.extend(stored);
}

enum Weight<'e> {
    Score(f64),
    Text(Option<Cow<'e, [u8]>>),
}

/// Part of a text that a C string has.
fn until_zero(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == 0).next().unwrap_or(text)
}

fn weigh<'g: 'e, 'e>(
    cx: &mut Cx<'_, 'g>,
    options: &Options<'g>,
    element: &'e [u8],
) -> Result<Weight<'e>, Box<Stop>> {
    let text = match options.by {
        Some(pattern) => pattern.follow(cx, element)?,
        None => Some(StringValue::Plain(element)),
    };
    let text = text.map(memory::contiguous).transpose()?;
    if options.is_alpha {
        return Ok(Weight::Text(text));
    }
    let Some(text) = text else { return Ok(Weight::Score(0.0)) };
    let score = parse_double(until_zero(&text));
    let score = score.ok_or("ERR One or more scores can't be converted into double")?;
    Ok(Weight::Score(score))
}

/// Compares as Valkey does in the C locale: bytes, when nothing is stored only those before a zero.
fn compare_texts(left: Option<&[u8]>, right: Option<&[u8]>, is_stored: bool) -> Ordering {
    let shown = |text| if is_stored { text } else { until_zero(text) };
    left.map(shown).cmp(&right.map(shown))
}

/// The elements in the order and within the limits that the options say.
fn arrange<'g: 'e, 'e>(
    cx: &mut Cx<'_, 'g>,
    options: &Options<'g>,
    mut elements: Vec<&'e [u8]>,
) -> Result<Vec<&'e [u8]>, Box<Stop>> {
    let range = options.range(elements.len());
    if options.is_unsorted {
        if options.is_descending {
            elements.reverse();
        }
        return Ok(memory::collect(elements.drain(range))?);
    }
    let mut weighed = memory::with_capacity(elements.len())?;
    for (position, element) in elements.into_iter().enumerate() {
        weighed.push((weigh(cx, options, element)?, element, position));
    }
    // By position where they are equal: a sort that keeps the order by itself takes memory that it
    // cannot do without.
    weighed.sort_unstable_by(|(left, left_element, first), (right, right_element, second)| {
        let order = match (left, right) {
            (Weight::Score(left), Weight::Score(right)) => left
                .partial_cmp(right)
                .unwrap_or(Ordering::Equal)
                .then(left_element.cmp(right_element)),
            (Weight::Text(left), Weight::Text(right)) => {
                compare_texts(left.as_deref(), right.as_deref(), options.store.is_some())
            }
            _ => Ordering::Equal,
        };
        if options.is_descending { order.reverse() } else { order }.then(first.cmp(second))
    });
    Ok(memory::collect(weighed.drain(range).map(|(_, element, _)| element))?)
}

/// Elements of a collection; `integers` has room for the texts of those that are no texts.
fn elements_of<'e>(
    entry: Option<EntryRef<'e>>,
    seed: &'e Seed,
    integers: &'e mut Vec<u8>,
) -> Result<Vec<&'e [u8]>, CommandError> {
    let Some(entry) = entry else { return Ok(Vec::new()) };
    if let Some(list) = entry.view::<List<'_>>(seed) {
        let mut elements = memory::with_capacity(list.len() as usize)?;
        elements.extend(list.iter());
        return Ok(elements);
    }
    if let Some(set) = entry.view::<SortedSet<'_>>(seed) {
        return memory::collect(set.iter().map(|item| item.member));
    }
    let set = entry.view::<Set<'_>>(seed).ok_or(CommandError::WrongType)?;
    set::texts(set, integers)
}

pub(super) fn sort(cx: &mut Cx<'_, '_>) -> Outcome {
    let mut options = Options::parse(*cx.args, cx.command.name == "sort", cx.may_discover_keys())?;
    let (seed, mut integers) = (cx.seed(), Vec::new());
    let entry = cx.read(cx.arg(1));
    let elements = elements_of(entry, seed, &mut integers)?;
    unpack(cx, entry)?;
    if options.is_unsorted && is_without_order(entry) {
        // A stored list must not depend on the order in which a set happens to be, nor a script.
        let is_stored = options.store.is_some() || cx.runs_script();
        options.is_unsorted = !is_stored;
        options.is_alpha |= is_stored;
        options.is_descending &= is_stored;
        options.by = None;
    }
    let is_optimistic = cx.is_optimistic();
    // Much work is not done again and again until nothing changes meanwhile.
    if is_optimistic && elements.len().saturating_mul(options.lookups()) > SORT_LOOKUPS_MAX {
        return Err(Box::new(Stop::NeedLocks));
    }
    let arranged = arrange(cx, &options, elements)?;
    let found_count = arranged.len().saturating_mul(options.get.len().max(1));
    let mut found: Vec<Option<StringValue<'_>>> = memory::with_capacity(found_count)?;
    if options.get.is_empty() {
        found.extend(arranged.into_iter().map(|element| Some(StringValue::Plain(element))));
    } else {
        for element in arranged {
            for pattern in &options.get {
                found.push(pattern.follow(cx, element)?);
            }
        }
    }
    match options.store {
        Some(target) => store(cx, target, &found)?,
        None => {
            cx.reply.array(found.len());
            for value in &found {
                match value {
                    Some(StringValue::Plain(bytes)) => cx.reply.bulk(bytes),
                    Some(chunks) => reply::owned(cx.reply, memory::copy(*chunks)?),
                    None => cx.reply.null(),
                }
            }
        }
    }
    Ok(())
}

/// Calls a sorted set a skip list, as Valkey makes one to sort it.
fn unpack(cx: &mut Cx<'_, '_>, entry: Option<EntryRef<'_>>) -> Result<(), Box<Stop>> {
    let is_packed = |entry: EntryRef<'_>| {
        entry.kind() == Kind::SortedSet && entry.encoding() == Encoding::Listpack
    };
    if entry.is_some_and(is_packed) {
        if cx.is_optimistic() {
            return Err(Box::new(Stop::NeedLocks));
        }
        let key = cx.arg(1);
        cx.edit(key).set_encoding(Encoding::Skiplist);
    }
    Ok(())
}

fn is_without_order(entry: Option<EntryRef<'_>>) -> bool {
    entry.is_some_and(|entry| entry.kind() == Kind::Set)
}

/// Puts a list of what was found in the place of a key; without any, there will be none.
fn store(
    cx: &mut Cx<'_, '_>,
    target: &[u8],
    found: &[Option<StringValue<'_>>],
) -> Result<(), CommandError> {
    let bytes: u64 = found.iter().flatten().map(|value| value.len()).sum();
    // Copied whole, pushed, and copied by a split of its leaf with its neighbours.
    cx.room().check(4 * bytes + found.len() as u64 * ELEMENT_OVERHEAD_BYTES)?;
    let mut whole = memory::with_capacity(found.len())?;
    for value in found {
        whole.push(value.map(memory::contiguous).transpose()?);
    }
    let found = whole;
    let elements = || found.iter().map(|value| value.as_deref().unwrap_or(b""));
    let is_journaled = cx.is_journaled();
    let encoding = new_encoding(elements(), cx.settings().list_listpack_size_max);
    let edit = cx.edit(target);
    let has_former = !edit.is_gone();
    if found.is_empty() {
        edit.remove(Event::new(EventClass::GENERIC, "del"));
    } else {
        let event = Event::new(EventClass::LIST, "sortstore");
        edit.put_as::<List<'_>>(encoding, event, |list| {
            elements().for_each(|element| list.push_back(element));
        });
        cx.count_changes(found.len() as u64);
    }
    if is_journaled {
        propagate(cx, target, has_former, &found);
    }
    cx.reply.integer(found.len() as i64);
    Ok(())
}

/// Journals the list itself: keys and fields that had expired are there when a log is replayed, and
/// the command would find others.
fn propagate(
    cx: &mut Cx<'_, '_>,
    target: &[u8],
    has_former: bool,
    stored: &[Option<Cow<'_, [u8]>>],
) {
    if has_former {
        cx.propagate([&b"DEL"[..], target]);
    }
    for part in stored.chunks(ELEMENTS_PER_EFFECT_MAX) {
        let elements = part.iter().map(|element| element.as_deref().unwrap_or(b""));
        cx.propagate([&b"RPUSH"[..], target].into_iter().chain(elements));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Option<String> {
        let shown = |bytes| String::from_utf8_lossy(bytes).into_owned();
        match Pattern::parse(text.as_bytes()) {
            Pattern::Key { before, behind, field } => Some(
                [Some(before), Some(behind), field]
                    .map(|part| part.map_or("none".into(), shown))
                    .join(" "),
            ),
            _ => None,
        }
    }

    #[test]
    fn patterns_are_cut_at_the_first_star_and_the_first_arrow_behind_it() {
        assert_eq!(parts("w_*").as_deref(), Some("w_  none"));
        assert_eq!(parts("a->b*c->d->e").as_deref(), Some("a->b c d->e"));
        assert_eq!(parts("*->").as_deref(), Some(" -> none"));
        assert_eq!(parts("**").as_deref(), Some(" * none"));
        assert_eq!(parts("nothing->f"), None);
        assert_eq!(parts("#"), None);
    }
}
