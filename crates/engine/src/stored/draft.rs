//! Collections under construction from their stored form, element by element.
//!
//! Elements are gathered and put into their tree together, which writes each node once: those of a
//! list leaf by leaf; those of other collections as a whole, because they have to be sorted, and
//! beyond [`GATHERED_BYTES_MAX`] one by one, so that no large value is held twice.

use tidemill_rdb::value::{Item, ValueEncoding};
use tidemill_store::limits::ELEMENT_BYTES_MAX;
use tidemill_store::value::hash::{Entry, GatheredFields, Hash};
use tidemill_store::value::list::{GatheredElements, List};
use tidemill_store::value::set::{GatheredMembers, Set};
use tidemill_store::value::sorted_set::{self, GatheredScores, SortedSet};
use tidemill_store::value::stream::Stream;
use tidemill_store::value::{Gathered, Repeated};
use tidemill_store::{Collection, Encoding};

use crate::expiry_clock::ExpiryClock;
use crate::handlers::key::stream_payload::Reading;
use crate::handlers::list::restored_encoding;
use crate::handlers::set::{Thresholds, member_of};
use crate::limits::{
    GATHERED_BYTES_MAX, GATHERED_ELEMENTS_MAX, GATHERED_LIST_BYTES_MAX, LARGE_BYTES_MIN,
};
use crate::settings::Settings;

/// Bytes of what is stored of an element in pieces of their own: the fields of a stream's entry are
/// one. Those of less than [`LARGE_BYTES_MIN`] may be told as more than they are, below that.
pub(crate) fn piece_bytes(item: &Item<'_>) -> [usize; 2] {
    match item {
        Item::ListElement(text)
        | Item::SetMember(text)
        | Item::SortedSetMember { member: text, .. }
        | Item::StreamGroup { name: text, .. }
        | Item::StreamConsumer { name: text, .. } => [text.len(), 0],
        Item::HashField { field, value, .. } => [field.len(), value.len()],
        Item::StreamEntry { fields, .. } => [fields.bytes_max(LARGE_BYTES_MIN as usize), 0],
        // A string is no element: it may be as long as a request.
        Item::String(_)
        | Item::StreamState(_)
        | Item::StreamPending { .. }
        | Item::StreamConsumerPending(_) => [0, 0],
    }
}

/// True if no piece of an element is longer than one may be: a payload can claim any length.
pub(crate) fn has_possible_length(pieces: [usize; 2]) -> bool {
    pieces.iter().all(|&bytes| bytes <= ELEMENT_BYTES_MAX)
}

/// An element that occurs twice or is of another type, or a collection without any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadItem;

/// True if elements that were gathered have to be put into their tree.
fn is_enough(gathered: &Gathered) -> bool {
    gathered.len() >= GATHERED_ELEMENTS_MAX || gathered.bytes() >= GATHERED_BYTES_MAX
}

/// Judgement of one collection while it is filled.
pub(crate) trait Draft {
    /// Type of the collection.
    type Value: Collection;

    /// Adds an element; returns the bytes of it.
    fn take(
        &mut self,
        edit: &mut <Self::Value as Collection>::Edit<'_>,
        item: Item<'_>,
    ) -> Result<u64, BadItem>;

    /// Puts the elements into the collection that wait; before [`Draft::encoding`].
    ///
    /// # Errors
    ///
    /// When one is there twice.
    fn settle(
        &mut self,
        _edit: &mut <Self::Value as Collection>::Edit<'_>,
    ) -> Result<(), Repeated> {
        Ok(())
    }

    /// Encoding of the whole.
    fn encoding(
        &mut self,
        edit: &mut <Self::Value as Collection>::Edit<'_>,
    ) -> Result<Encoding, BadItem>;
}

/// A list.
#[derive(Debug)]
pub(crate) struct ListDraft {
    /// False if it was stored in several nodes, or as Valkey keeps a quicklist.
    is_one_node: bool,
    listpack_size_max: i64,
    gathered: GatheredElements,
}

impl ListDraft {
    pub(crate) fn new(
        stored: ValueEncoding,
        node_count: Option<u64>,
        settings: &Settings,
    ) -> ListDraft {
        // A list that was one ziplist Valkey leaves a quicklist.
        let is_one_node =
            stored != ValueEncoding::ListZiplist && node_count.is_none_or(|count| count == 1);
        let listpack_size_max = settings.list_listpack_size_max;
        ListDraft { is_one_node, listpack_size_max, gathered: GatheredElements::default() }
    }
}

impl Draft for ListDraft {
    type Value = List<'static>;

    fn take(
        &mut self,
        list: &mut <List<'static> as Collection>::Edit<'_>,
        item: Item<'_>,
    ) -> Result<u64, BadItem> {
        let Item::ListElement(element) = item else { return Err(BadItem) };
        self.gathered.push(element);
        if self.gathered.elements().bytes() >= GATHERED_LIST_BYTES_MAX {
            list.append(&mut self.gathered, false);
        }
        Ok(element.len() as u64)
    }

    fn settle(
        &mut self,
        list: &mut <List<'static> as Collection>::Edit<'_>,
    ) -> Result<(), Repeated> {
        list.append(&mut self.gathered, true);
        Ok(())
    }

    fn encoding(
        &mut self,
        list: &mut <List<'static> as Collection>::Edit<'_>,
    ) -> Result<Encoding, BadItem> {
        match list.is_empty() {
            true => Err(BadItem),
            false => Ok(restored_encoding(list, self.is_one_node, self.listpack_size_max)),
        }
    }
}

/// A hash.
#[derive(Debug)]
pub(crate) struct HashDraft {
    is_packed: bool,
    is_table: bool,
    has_expiries: bool,
    entries_max: u64,
    value_bytes_max: usize,
    clock: ExpiryClock,
    /// None once there were too many.
    gathered: Option<GatheredFields>,
}

impl HashDraft {
    pub(crate) fn new(stored: ValueEncoding, settings: &Settings, clock: ExpiryClock) -> HashDraft {
        HashDraft {
            // Valkey looks at the lengths of what was not packed, and never makes a listpack of a
            // hash that might have had expiries.
            is_packed: matches!(stored, ValueEncoding::HashListpack | ValueEncoding::HashZiplist),
            is_table: stored == ValueEncoding::HashExpiring,
            has_expiries: false,
            entries_max: settings.hash_listpack_entries_max,
            value_bytes_max: settings.hash_listpack_value_bytes_max,
            clock,
            gathered: Some(GatheredFields::default()),
        }
    }

    /// True if a field expires.
    pub(crate) fn has_expiries(&self) -> bool {
        self.has_expiries
    }
}

impl Draft for HashDraft {
    type Value = Hash<'static>;

    fn take(
        &mut self,
        hash: &mut <Hash<'static> as Collection>::Edit<'_>,
        item: Item<'_>,
    ) -> Result<u64, BadItem> {
        let Item::HashField { field, value, expires_at_ms } = item else { return Err(BadItem) };
        self.is_table |= !self.is_packed && field.len().max(value.len()) > self.value_bytes_max;
        let at_ms = expires_at_ms.and_then(|at_ms| self.clock.expiry_at(at_ms as i64));
        self.has_expiries |= at_ms.is_some();
        match &mut self.gathered {
            Some(gathered) => {
                gathered.push(Entry { field, value, expires_at_ms: at_ms });
                if is_enough(gathered.elements()) {
                    self.settle(hash).map_err(|_| BadItem)?;
                }
            }
            None if hash.set(field, value, at_ms) => {}
            None => return Err(BadItem),
        }
        Ok((field.len() + value.len()) as u64)
    }

    fn settle(
        &mut self,
        hash: &mut <Hash<'static> as Collection>::Edit<'_>,
    ) -> Result<(), Repeated> {
        self.gathered.take().map_or(Ok(()), |gathered| hash.fill(&gathered))
    }

    fn encoding(
        &mut self,
        hash: &mut <Hash<'static> as Collection>::Edit<'_>,
    ) -> Result<Encoding, BadItem> {
        match hash.is_empty() {
            true => Err(BadItem),
            false if self.is_table || hash.len() > self.entries_max => Ok(Encoding::Hashtable),
            false => Ok(Encoding::Listpack),
        }
    }
}

/// A set.
#[derive(Debug)]
pub(crate) struct SetDraft {
    stored: ValueEncoding,
    thresholds: Thresholds,
    encoding: Encoding,
    /// None once there were too many.
    gathered: Option<GatheredMembers>,
}

impl SetDraft {
    /// `count` is what the stored form claims of members that are not packed; without it the final
    /// count is judged.
    pub(crate) fn new(stored: ValueEncoding, count: Option<u64>, settings: &Settings) -> SetDraft {
        let thresholds = Thresholds::of(settings);
        let encoding = thresholds.for_restored(stored, count.unwrap_or(0));
        SetDraft { stored, thresholds, encoding, gathered: Some(GatheredMembers::default()) }
    }
}

impl Draft for SetDraft {
    type Value = Set<'static>;

    fn take(
        &mut self,
        set: &mut <Set<'static> as Collection>::Edit<'_>,
        item: Item<'_>,
    ) -> Result<u64, BadItem> {
        let Item::SetMember(text) = item else { return Err(BadItem) };
        let member = member_of(text);
        if let Some(gathered) = &mut self.gathered {
            gathered.push(member);
            if is_enough(gathered.elements()) {
                self.settle(set).map_err(|_| BadItem)?;
            }
            return Ok(text.len() as u64);
        }
        let is_new = match self.stored {
            ValueEncoding::Set => self.thresholds.add(set, &mut self.encoding, member),
            _ => set.insert(member),
        };
        if is_new { Ok(text.len() as u64) } else { Err(BadItem) }
    }

    fn settle(&mut self, set: &mut <Set<'static> as Collection>::Edit<'_>) -> Result<(), Repeated> {
        let Some(gathered) = self.gathered.take() else { return Ok(()) };
        set.fill_with(&gathered)?;
        if self.stored == ValueEncoding::Set {
            self.encoding = self.thresholds.of_members(self.encoding, gathered.iter());
        }
        Ok(())
    }

    fn encoding(
        &mut self,
        set: &mut <Set<'static> as Collection>::Edit<'_>,
    ) -> Result<Encoding, BadItem> {
        let by_count = self.thresholds.for_restored(self.stored, set.len());
        match self.stored {
            _ if set.is_empty() => Err(BadItem),
            ValueEncoding::Set if by_count == Encoding::Intset => Ok(self.encoding),
            _ => Ok(by_count),
        }
    }
}

/// A sorted set.
#[derive(Debug)]
pub(crate) struct SortedSetDraft {
    is_packed: bool,
    is_skip_list: bool,
    entries_max: u64,
    value_bytes_max: usize,
    /// None once there were too many.
    gathered: Option<GatheredScores>,
}

impl SortedSetDraft {
    pub(crate) fn new(stored: ValueEncoding, settings: &Settings) -> SortedSetDraft {
        SortedSetDraft {
            // Valkey looks at the lengths of what was not packed.
            is_packed: matches!(
                stored,
                ValueEncoding::SortedSetListpack | ValueEncoding::SortedSetZiplist
            ),
            is_skip_list: false,
            entries_max: settings.sorted_set_listpack_entries_max,
            value_bytes_max: settings.sorted_set_listpack_value_bytes_max,
            gathered: Some(GatheredScores::default()),
        }
    }
}

impl Draft for SortedSetDraft {
    type Value = SortedSet<'static>;

    fn take(
        &mut self,
        set: &mut <SortedSet<'static> as Collection>::Edit<'_>,
        item: Item<'_>,
    ) -> Result<u64, BadItem> {
        let Item::SortedSetMember { member, score } = item else { return Err(BadItem) };
        self.is_skip_list |= !self.is_packed && member.len() > self.value_bytes_max;
        match &mut self.gathered {
            Some(gathered) => {
                gathered.push(sorted_set::Item { member, score });
                if is_enough(gathered.elements()) {
                    self.settle(set).map_err(|_| BadItem)?;
                }
            }
            None if set.set(member, score).is_none() => {}
            None => return Err(BadItem),
        }
        Ok(member.len() as u64)
    }

    fn settle(
        &mut self,
        set: &mut <SortedSet<'static> as Collection>::Edit<'_>,
    ) -> Result<(), Repeated> {
        self.gathered.take().map_or(Ok(()), |gathered| set.fill_with(&gathered))
    }

    fn encoding(
        &mut self,
        set: &mut <SortedSet<'static> as Collection>::Edit<'_>,
    ) -> Result<Encoding, BadItem> {
        match set.is_empty() {
            true => Err(BadItem),
            false if self.is_skip_list || set.len() > self.entries_max => Ok(Encoding::Skiplist),
            false => Ok(Encoding::Listpack),
        }
    }
}

/// A stream.
#[derive(Debug)]
pub(crate) struct StreamDraft(Reading);

impl StreamDraft {
    pub(crate) fn new(stored: ValueEncoding) -> StreamDraft {
        StreamDraft(Reading::new(stored))
    }
}

impl Draft for StreamDraft {
    type Value = Stream<'static>;

    fn take(
        &mut self,
        stream: &mut <Stream<'static> as Collection>::Edit<'_>,
        item: Item<'_>,
    ) -> Result<u64, BadItem> {
        self.0.take(stream, item).map_err(|_| BadItem)
    }

    fn encoding(
        &mut self,
        _stream: &mut <Stream<'static> as Collection>::Edit<'_>,
    ) -> Result<Encoding, BadItem> {
        self.0.end().map_err(|_| BadItem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_more_than_a_node_can_hold_are_impossible() {
        // Never touched, so that the system gives no memory for it.
        let zeros = vec![0; ELEMENT_BYTES_MAX + 1];
        let (longest, longer) = (&zeros[1..], &zeros[..]);
        for (text, expected) in [(longest, true), (longer, false)] {
            for item in [
                Item::ListElement(text),
                Item::SetMember(text),
                Item::SortedSetMember { member: text, score: 0.0 },
                Item::HashField { field: text, value: b"", expires_at_ms: None },
                Item::HashField { field: b"", value: text, expires_at_ms: None },
                Item::StreamConsumer { name: text, seen_at_ms: 0, active_at_ms: None },
            ] {
                assert_eq!(has_possible_length(piece_bytes(&item)), expected);
            }
            assert!(has_possible_length(piece_bytes(&Item::String(text))), "no element");
        }
    }
}
