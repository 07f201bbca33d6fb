//! Node: a header and its packed payload in one allocation.
//!
//! ```text
//! leaf    | header | element 0 | element 1 | ... | free | ... | start of 2 | start of 1 |
//! inner   | header | totals | child 0 | child 1 | ... | free |
//! fixed   | header | element 0 | element 1 | ... | free |
//! ties    | header | totals | child 0 | child 1 | ... | ends of ties | ties | free |
//! ```
//!
//! The table of a leaf grows from the end of the allocation towards the elements, so that adding
//! one moves nothing. The first element starts at zero and the last ends where the elements end: a
//! leaf of one element needs no table, which keeps small hashes small and lets one element of any
//! size fill a node.
//!
//! A leaf of a list, a hash or a set has no starts but the lengths of its elements, in one byte
//! each, for as long as none is above 255: the start of an element is the sum of those before it.
//! Where leaves are searched by halves, starts are worth their second byte.
//!
//! A leaf whose elements all have one length of a few (*fixed*) has no table. An inner node whose
//! children are told apart by more than their keys (*ties*) has the further bytes of the bounds
//! behind the children, each with two bytes for its end; see [`super::separator`].

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::prefetch::prefetch;
use crate::size_class::size_class;

pub(crate) const HEADER_BYTES: usize = size_of::<NodeHeader>();
pub(crate) const TOTALS_BYTES: usize = size_of::<Totals>();

/// Alignment of every node: that of the children's pointers.
const ALIGNMENT: usize = 8;

/// Expiry of elements that never expire.
pub(crate) const NEVER: u64 = u64::MAX;

/// Flags of a node.
pub(crate) mod flags {
    /// An element of the leaf may carry an expiry.
    pub(crate) const EXPIRES: u8 = 1;
    /// All members of a set's leaf are strings, and have no tags. No member expires.
    pub(crate) const STRINGS: u8 = 1;
    /// The node is the root of several trees, and its level says nothing: see
    /// [`composite`](super::super::composite).
    pub(crate) const COMPOSITE: u8 = 2;
    /// The leaf is a run of zero bytes; its payload is the run's length.
    pub(crate) const ZEROS: u8 = 4;
    /// The leaf's table has four bytes per entry: only elements that the order cannot separate make
    /// a leaf that long.
    pub(crate) const WIDE: u8 = 8;
    /// The elements of a set's leaf are not in ascending order.
    pub(crate) const UNSORTED: u8 = 16;
    /// A bound of the inner node's children has tie bytes. In a leaf the bit is `LENGTHS`, or part
    /// of a stride.
    pub(crate) const TIES: u8 = 64;
    /// The leaf's table has lengths of one byte, unless it is `LONG` or `WIDE`.
    pub(crate) const LENGTHS: u8 = 64;
    /// An element of a leaf with `LENGTHS` may be longer than a byte can tell: it has starts.
    pub(crate) const LONG: u8 = 128;
    /// All elements of the leaf have the length that `STRIDE_SHIFT` encodes, and it has no table.
    pub(crate) const FIXED: u8 = 32;
    /// Position of the two bits with the length of a fixed leaf's elements.
    pub(super) const STRIDE_SHIFT: u32 = 6;
}

/// Length of all elements of a leaf without a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stride {
    /// Two bytes.
    Two = 0,
    /// Four bytes.
    Four = 1,
    /// Eight bytes.
    Eight = 2,
    /// Twelve bytes.
    Twelve = 3,
}

impl Stride {
    /// Number of bytes.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Stride::Two => 2,
            Stride::Four => 4,
            Stride::Eight => 8,
            Stride::Twelve => 12,
        }
    }

    /// Flags of a leaf of such elements.
    pub(crate) const fn flags(self) -> u8 {
        flags::FIXED | (self as u8) << flags::STRIDE_SHIFT
    }

    /// Stride of a leaf with these flags; none if its elements have lengths of their own.
    #[inline]
    pub(crate) fn of(flags: u8) -> Option<Stride> {
        if flags & flags::FIXED == 0 {
            return None;
        }
        Some(match flags >> flags::STRIDE_SHIFT {
            0 => Stride::Two,
            1 => Stride::Four,
            2 => Stride::Eight,
            _ => Stride::Twelve,
        })
    }
}

/// True if a leaf with these flags has a table of lengths.
#[inline]
pub(crate) fn has_lengths(flags: u8) -> bool {
    flags & (flags::FIXED | flags::WIDE | flags::LENGTHS | flags::LONG) == flags::LENGTHS
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeHeader {
    /// Bytes of elements or of children.
    pub(crate) used: u32,
    /// Bytes of the allocation, this header included.
    pub(crate) capacity: u32,
    /// While the node belongs to an unfinished edit: [`FRESH`] and its index there. Then the era of
    /// its birth: the number of cuts that had begun when it was published.
    pub(crate) fresh: u32,
    /// Count of elements or children.
    pub(crate) len: u16,
    /// Zero for a leaf.
    pub(crate) level: u8,
    pub(crate) flags: u8,
}

/// Sums over the children of an inner node.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Number of positions: elements, or bytes of a text.
    pub(crate) measure: u64,
    /// Allocated bytes of all nodes below.
    pub(crate) bytes: u64,
    /// Earliest and latest expiry of the elements below.
    pub(crate) expiries: Expiries,
}

/// Times when the first and the last of some elements expire; `NEVER` for one without an expiry.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expiries {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Expiries {
    /// Expiries of elements that never expire.
    pub(crate) const NONE: Expiries = Expiries { first: NEVER, last: NEVER };

    /// Expiries of no elements: neutral in [`Expiries::and`].
    pub(crate) const OF_NOTHING: Expiries = Expiries { first: NEVER, last: 0 };

    pub(crate) fn and(self, other: Expiries) -> Expiries {
        Expiries { first: self.first.min(other.first), last: self.last.max(other.last) }
    }

    /// Expiries with one element more.
    pub(crate) fn with(self, expires_at_ms: Option<u64>) -> Expiries {
        let at_ms = expires_at_ms.unwrap_or(NEVER);
        self.and(Expiries { first: at_ms, last: at_ms })
    }
}

impl Totals {
    /// Totals of a node without children.
    pub(crate) const OF_NOTHING: Totals =
        Totals { measure: 0, bytes: 0, expiries: Expiries::OF_NOTHING };

    pub(crate) fn and(self, other: Totals) -> Totals {
        Totals {
            measure: self.measure + other.measure,
            bytes: self.bytes + other.bytes,
            expiries: self.expiries.and(other.expiries),
        }
    }
}

/// Difference between sums with the same expiries. Modulo 2^64, as they grow or shrink.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TotalsChange {
    measure: u64,
    bytes: u64,
}

impl TotalsChange {
    /// A measure after the change.
    pub(super) fn measure_of(self, before: u64) -> u64 {
        before.wrapping_add(self.measure)
    }
}

impl Totals {
    /// Change from these sums to others; none if something else expires first or last.
    #[inline]
    pub(super) fn change_to(self, new: Totals) -> Option<TotalsChange> {
        let measure = new.measure.wrapping_sub(self.measure);
        let change = TotalsChange { measure, bytes: new.bytes.wrapping_sub(self.bytes) };
        (new.expiries == self.expiries).then_some(change)
    }

    /// Sums after a change.
    #[inline]
    pub(super) fn after(self, change: TotalsChange) -> Totals {
        let bytes = self.bytes.wrapping_add(change.bytes);
        Totals { measure: change.measure_of(self.measure), bytes, ..self }
    }

    /// Sums before a change.
    pub(super) fn before(self, TotalsChange { measure, bytes }: TotalsChange) -> Totals {
        let bytes = self.bytes.wrapping_sub(bytes);
        Totals { measure: self.measure.wrapping_sub(measure), bytes, ..self }
    }
}

/// Child of an inner node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Child<K = u64> {
    pub(crate) link: Link,
    pub(crate) measure: u64,
    /// Lower bound of the order below; without meaning for the first child.
    pub(crate) key: K,
}

/// Child as an inner node stores it.
///
/// The link of a published node may be replaced, by [`Link::replace_child`] alone; measure and key
/// stay as they are.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct StoredChild {
    link: AtomicPtr<NodeHeader>,
    pub(crate) measure: u64,
    pub(crate) key: u64,
}

impl StoredChild {
    pub(super) fn new(Child { link, measure, key }: Child) -> StoredChild {
        StoredChild { link: AtomicPtr::new(link.0.as_ptr()), measure, key }
    }

    /// The node, as it is now.
    #[inline]
    pub(crate) fn link(&self) -> Link {
        // Acquire: pairs with the Release of `replace_child`; the leaf that is seen is whole.
        let pointer = self.link.load(Ordering::Acquire);
        debug_assert!(!pointer.is_null());
        // SAFETY: only links are stored, and none is null.
        Link(unsafe { NonNull::new_unchecked(pointer) })
    }

    /// The child as it is now.
    #[inline]
    pub(crate) fn child(&self) -> Child {
        Child { link: self.link(), measure: self.measure, key: self.key }
    }
}

/// Bit of a node that belongs to an unfinished edit.
pub(crate) const FRESH: u32 = 1 << 31;

/// Pointer to a node.
///
/// Only this module's parent makes links. It upholds that a link it follows is live: a published
/// node is live until it is retired, which needs the writer's side; a fresh node until its edit
/// discards it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Link(NonNull<NodeHeader>);

impl Link {
    pub(crate) fn as_pointer(self) -> NonNull<u8> {
        self.0.cast()
    }

    /// # Safety
    ///
    /// The pointer came from `as_pointer` and its node is live.
    pub(crate) unsafe fn from_pointer(pointer: NonNull<u8>) -> Link {
        Link(pointer.cast())
    }

    /// Allocates a node without elements, with an index in an unfinished edit.
    pub(crate) fn allocate(level: u8, flags: u8, bytes: usize, index: usize) -> Link {
        // Its whole size class, so that no byte is lost to rounding.
        let capacity = size_class(bytes);
        let layout = layout(capacity);
        // SAFETY: the layout's size is at least that of the header.
        let memory = unsafe { alloc(layout) };
        let Some(memory) = NonNull::new(memory) else { handle_alloc_error(layout) };
        let link = Link(memory.cast());
        let capacity = u32::try_from(capacity).expect("ELEMENT_BYTES_MAX, twice, fits");
        let fresh = FRESH | index as u32;
        link.set_header(NodeHeader { used: 0, capacity, fresh, len: 0, level, flags });
        link
    }

    /// Frees the node's memory.
    ///
    /// # Safety
    ///
    /// Nothing reads the node any more, and it is freed once.
    pub(crate) unsafe fn free(self) {
        let layout = layout(self.header().capacity as usize);
        // SAFETY: `allocate` used the same layout, and the caller owns the node.
        unsafe { dealloc(self.0.as_ptr().cast(), layout) }
    }

    #[inline]
    pub(crate) fn header(self) -> NodeHeader {
        // SAFETY: a link is live, and only its own edit writes to it, on this thread.
        unsafe { self.0.as_ptr().read() }
    }

    #[inline]
    pub(crate) fn set_header(self, header: NodeHeader) {
        // SAFETY: only called for nodes that are new or fresh, which no reader can reach.
        unsafe { self.0.as_ptr().write(header) }
    }

    pub(crate) fn is_fresh(self) -> bool {
        self.header().fresh & FRESH != 0
    }

    /// Index in the unfinished edit that the node belongs to.
    pub(crate) fn fresh_index(self) -> Option<usize> {
        self.is_fresh().then(|| (self.header().fresh & !FRESH) as usize)
    }

    /// Gives a node of an unfinished edit another index there.
    pub(crate) fn set_fresh(self, index: usize) {
        self.set_header(NodeHeader { fresh: FRESH | index as u32, ..self.header() });
    }

    /// Ends the node's edit in an era.
    pub(crate) fn set_birth(self, era: u32) {
        self.set_header(NodeHeader { fresh: era, ..self.header() });
    }

    /// Era in which the node was published.
    pub(crate) fn birth(self) -> u32 {
        self.header().fresh
    }

    /// The node for reading, for as long as the caller keeps it unchanged.
    #[inline]
    pub(crate) fn node<'a>(self) -> Node<'a> {
        Node { link: self, marker: PhantomData }
    }

    /// Publishes `new` in the place of the child `old` of a published inner node. Only for the
    /// owner of the slot's lock, between the odd and the even version of the slot's word.
    ///
    /// # Panics
    ///
    /// When the child is not `old`.
    pub(super) fn replace_child(self, index: usize, old: Link, new: Link) {
        let link = &self.node().children()[index].link;
        // Relaxed: only owners of the lock store.
        let present = link.load(Ordering::Relaxed);
        assert!(present == old.0.as_ptr(), "a leaf is replaced where the edit found it");
        // Release: pairs with the Acquire of `StoredChild::link`.
        link.store(new.0.as_ptr(), Ordering::Release);
    }

    /// Prefetches the part of a root that every access reads: its header, and the ends of a list or
    /// the first children.
    #[inline]
    pub(crate) fn prefetch_root(self) {
        self.prefetch_lines(super::limits::ROOT_PREFETCHED_BYTES / 64);
    }

    /// Prefetches the whole node ahead of its use.
    ///
    /// The accesses that follow touch lines all over it, one after the other or, in a search, each
    /// depending on the one before; prefetched together they take the time of one.
    #[inline]
    pub(crate) fn prefetch(self) {
        self.prefetch_lines(super::limits::NODE_BYTES_MAX / 64);
    }

    /// Prefetches a node's header, and its payload around a byte.
    #[inline]
    pub(crate) fn prefetch_around(self, offset: usize) {
        let first = self.as_pointer().as_ptr();
        let middle = HEADER_BYTES + offset;
        prefetch(first);
        for at in [middle.saturating_sub(64), middle, middle + 64] {
            prefetch(first.wrapping_add(at));
        }
    }

    #[inline]
    fn prefetch_lines(self, count: usize) {
        let first = self.as_pointer().as_ptr();
        (0..count).for_each(|line| prefetch(first.wrapping_add(64 * line)));
    }

    /// Address of the payload's byte `offset`.
    #[inline]
    pub(crate) fn payload(self, offset: usize) -> *mut u8 {
        debug_assert!(HEADER_BYTES + offset <= self.header().capacity as usize);
        // SAFETY: the offset lies within the allocation, which the callers derive from `capacity`.
        unsafe { self.0.as_ptr().cast::<u8>().add(HEADER_BYTES + offset) }
    }

    /// Address of the table of narrow starts with `count` entries; the entry of element 1 is the
    /// last of them.
    #[inline]
    pub(crate) fn table(self, count: usize) -> *mut u16 {
        self.payload(self.header().capacity as usize - HEADER_BYTES - 2 * count).cast()
    }

    /// Address of the table of lengths with `count` entries; the entry of element 0 is the last of
    /// them.
    #[inline]
    pub(crate) fn length_table(self, count: usize) -> *mut u8 {
        self.payload(self.header().capacity as usize - HEADER_BYTES - count)
    }
}

fn layout(capacity: usize) -> Layout {
    Layout::from_size_align(capacity, ALIGNMENT).expect("capacities are far below isize::MAX")
}

/// Node that does not change for `'a`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'a> {
    link: Link,
    marker: PhantomData<&'a ()>,
}

impl<'a> Node<'a> {
    #[inline]
    pub(crate) fn link(self) -> Link {
        self.link
    }

    #[inline]
    pub(crate) fn header(self) -> NodeHeader {
        self.link.header()
    }

    #[inline]
    pub(crate) fn is_leaf(self) -> bool {
        self.header().level == 0
    }

    #[inline]
    pub(crate) fn len(self) -> usize {
        usize::from(self.header().len)
    }

    pub(crate) fn has(self, flag: u8) -> bool {
        self.header().flags & flag != 0
    }

    /// All elements of a leaf, end to end.
    #[inline]
    pub(crate) fn data(self) -> &'a [u8] {
        debug_assert!(self.is_leaf());
        // SAFETY: `used` bytes of a leaf's payload are initialized and do not change for `'a`.
        unsafe { std::slice::from_raw_parts(self.link.payload(0), self.header().used as usize) }
    }

    /// Start of element `index` of a leaf; for `len`, the end of the last one.
    #[inline]
    pub(crate) fn start(self, index: usize) -> usize {
        let header = self.header();
        let len = usize::from(header.len);
        debug_assert!(header.level == 0 && index <= len);
        if index == 0 {
            return 0;
        }
        if index == len {
            return header.used as usize;
        }
        if let Some(stride) = Stride::of(header.flags) {
            return stride.bytes() * index;
        }
        if has_lengths(header.flags) {
            return sum_of(self.lengths(index));
        }
        if header.flags & flags::WIDE != 0 {
            let at = self.link.payload(header.capacity as usize - HEADER_BYTES - 4 * index);
            // SAFETY: the table of a wide leaf has `len - 1` entries of four bytes.
            return unsafe { at.cast::<u32>().read_unaligned() } as usize;
        }
        // SAFETY: the table has `len - 1` entries, and the one of element `index` is `index`
        // entries from the end.
        unsafe { self.link.table(index).read() }.into()
    }

    /// Ends of the elements of a leaf, in order.
    #[inline]
    pub(crate) fn ends(self) -> Ends<'a> {
        let header = self.header();
        let len = usize::from(header.len);
        let stored = len.saturating_sub(1);
        if has_lengths(header.flags) {
            let lengths = self.lengths(stored).iter();
            return Ends { leaf: self, starts: [].iter(), lengths, end: 0, rest: len..len + 1 };
        }
        let narrow = header.flags & (flags::WIDE | flags::FIXED) == 0;
        let stored = if narrow { stored } else { 0 };
        // SAFETY: a leaf of starts that is neither wide nor fixed has a table of `stored` entries,
        // which do not change for `'a`.
        let starts = unsafe { std::slice::from_raw_parts(self.link.table(stored), stored) };
        let starts = starts.iter();
        Ends { leaf: self, starts, lengths: [].iter(), end: 0, rest: stored + 1..len + 1 }
    }

    /// Lengths of the first `count` elements of a leaf with such a table, the last one first. The
    /// last element of the leaf has no entry.
    #[inline]
    pub(super) fn lengths(self, count: usize) -> &'a [u8] {
        debug_assert!(has_lengths(self.header().flags) && count < self.len().max(1));
        // SAFETY: the table has `len - 1` entries, which do not change for `'a`.
        unsafe { std::slice::from_raw_parts(self.link.length_table(count), count) }
    }

    /// Elements of a leaf, in order.
    #[inline]
    pub(crate) fn elements(self) -> impl Iterator<Item = &'a [u8]> + Clone {
        let (data, mut start) = (self.data(), 0);
        self.ends().map(move |end| {
            let element = &data[start..end];
            start = end;
            element
        })
    }

    /// Element `index` of a leaf.
    #[inline]
    pub(crate) fn element(self, index: usize) -> &'a [u8] {
        self.element_from(self.start(index), index)
    }

    /// Element `index` of a leaf, which begins at `start`.
    #[inline]
    pub(crate) fn element_from(self, start: usize, index: usize) -> &'a [u8] {
        let header = self.header();
        let end = if has_lengths(header.flags) && index + 1 < usize::from(header.len) {
            start + usize::from(self.lengths(index + 1)[0])
        } else {
            self.start(index + 1)
        };
        &self.data()[start..end]
    }

    /// Elements of a leaf by their indices, for a search.
    #[inline]
    pub(crate) fn by_index(self) -> ByIndex<'a> {
        let header = self.header();
        let stored = usize::from(header.len).saturating_sub(1);
        if let Some(stride) = Stride::of(header.flags) {
            return ByIndex::Strided(Strided { data: self.data(), stride: stride.bytes() });
        }
        if header.flags & flags::WIDE != 0 || has_lengths(header.flags) {
            return ByIndex::Other(self);
        }
        // SAFETY: a leaf of starts that is neither wide nor fixed has a table of `stored` entries,
        // which do not change for `'a`.
        let starts = unsafe { std::slice::from_raw_parts(self.link.table(stored), stored) };
        ByIndex::Started(Started { data: self.data(), starts })
    }

    /// The children of an inner node.
    #[inline]
    pub(crate) fn children(self) -> &'a [StoredChild] {
        debug_assert!(!self.is_leaf());
        let first = self.link.payload(TOTALS_BYTES).cast::<StoredChild>();
        // SAFETY: an inner node holds `len` children behind its totals, of which only the links,
        // which are atomic, change for `'a`.
        unsafe { std::slice::from_raw_parts(first, self.len()) }
    }

    /// Payload of an inner node behind its children: ties, or the meta bytes of a composite root.
    #[inline]
    pub(crate) fn behind_children(self) -> &'a [u8] {
        let children_bytes = self.len() * size_of::<StoredChild>();
        let bytes = self.header().used as usize - children_bytes;
        let first = self.link.payload(TOTALS_BYTES + children_bytes);
        // SAFETY: `used` bytes of an inner node's payload behind the totals are initialized and do
        // not change for `'a`; the children are the first of them.
        unsafe { std::slice::from_raw_parts(first, bytes) }
    }

    /// The sums of an inner node.
    #[inline]
    pub(crate) fn totals(self) -> Totals {
        debug_assert!(!self.is_leaf());
        // SAFETY: an inner node's payload begins with its totals.
        unsafe { self.link.payload(0).cast::<Totals>().read() }
    }

    /// Allocated bytes of the node and everything below it.
    #[inline]
    pub(crate) fn bytes(self) -> u64 {
        let own = u64::from(self.header().capacity);
        if self.is_leaf() { own } else { own + self.totals().bytes }
    }
}

/// Sum of lengths of a leaf's elements: below 2^16, as longer leaves have other tables.
#[inline]
fn sum_of(lengths: &[u8]) -> usize {
    // Four lanes of two bytes, which add up every other byte each.
    const LANES: u64 = 0x00ff_00ff_00ff_00ff;
    let (words, rest) = lengths.as_chunks::<8>();
    let mut sum = rest.iter().fold(0, |sum: u32, &length| sum + u32::from(length));
    if words.is_empty() {
        return sum as usize;
    }
    let lanes = words.iter().fold(0, |lanes: u64, &word| {
        let word = u64::from_le_bytes(word);
        lanes + (word & LANES) + ((word >> 8) & LANES)
    });
    sum += (lanes.wrapping_mul(0x0001_0001_0001_0001) >> 48) as u32;
    sum as usize
}

/// Elements of a leaf by their indices, by its kind of table: a search asks for that once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ByIndex<'a> {
    /// No table.
    Strided(Strided<'a>),
    /// Starts of two bytes.
    Started(Started<'a>),
    /// A table that is not searched by halves, or seldom.
    Other(Node<'a>),
}

/// Elements of one length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strided<'a> {
    data: &'a [u8],
    stride: usize,
}

impl<'a> Strided<'a> {
    /// Element `index`.
    #[inline]
    pub(crate) fn get(self, index: usize) -> &'a [u8] {
        &self.data[self.stride * index..self.stride * (index + 1)]
    }
}

/// Elements with a table of their starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Started<'a> {
    pub(super) data: &'a [u8],
    /// The first entry belongs to the last element.
    pub(super) starts: &'a [u16],
}

impl<'a> Started<'a> {
    /// Number of elements; there is one.
    #[inline]
    pub(crate) fn len(self) -> usize {
        self.starts.len() + 1
    }

    /// Start of element `index`.
    #[inline]
    fn start(self, index: usize) -> usize {
        if index == 0 { 0 } else { self.starts[self.starts.len() - index].into() }
    }

    /// Element `index`.
    #[inline]
    pub(crate) fn get(self, index: usize) -> &'a [u8] {
        let is_last = index == self.starts.len();
        let end = if is_last { self.data.len() } else { self.start(index + 1) };
        &self.data[self.start(index)..end]
    }

    /// First four bytes of element `index` and, if it is shorter, of those behind it, as a
    /// big-endian number; none at the end of the leaf.
    #[inline]
    pub(crate) fn head(self, index: usize) -> Option<u32> {
        self.data[self.start(index)..].first_chunk().map(|head| u32::from_be_bytes(*head))
    }
}

/// Ends of the elements of a leaf.
#[derive(Clone, Debug)]
pub(crate) struct Ends<'a> {
    leaf: Node<'a>,
    /// Narrow table, whose first entry belongs to the last element.
    starts: std::slice::Iter<'a, u16>,
    /// Table of lengths, likewise, and the end of the element before.
    lengths: std::slice::Iter<'a, u8>,
    end: usize,
    /// Indices whose starts are in neither.
    rest: std::ops::Range<usize>,
}

impl Iterator for Ends<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if let Some(&length) = self.lengths.next_back() {
            self.end += usize::from(length);
            return Some(self.end);
        }
        match self.starts.next_back() {
            Some(&start) => Some(usize::from(start)),
            None => self.rest.next().map(|index| self.leaf.start(index)),
        }
    }
}
