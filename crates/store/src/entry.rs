//! Entry: one key and its value, in one allocation.
//!
//! ```text
//! 0         4      5       6     8         12
//! | recency | kind | flags | cut | lengths |
//!     expiry? | long key? | value pointer? | key ... | inline value ... |
//!
//! 0         4      5       6     8
//! | recency | kind | flags | cut | expiry? | long key? | key length, root | key ... |
//! ```
//!
//! `lengths` packs the key's length (21 bits) and the inline value's (11 bits). An entry of a tree
//! has none: its key's length is in the 16 highest bits of the root's address. A longer key carries
//! eight bytes more. An entry is immutable once published, but for `recency` (how recently
//! or how often it was read), `cut` (reserved for the snapshot that contains it), and the root of a
//! tree, except those of streams and of strings in chunks ([`EntryRef::set_root`]). A string of up
//! to [`INLINE_VALUE_BYTES_MAX`] is stored inside; a longer one is shared by reference count; every
//! other value is the root of a tree.
//!
//! Freeing an entry does not free the tree behind its value pointer: most writes to a collection
//! replace the entry and keep the tree. Code that takes a value out of the keyspace retires it
//! explicitly ([`Disposal`]).
#![allow(unsafe_code)]

mod free;
mod shared;
mod tree;

use std::alloc::{Layout, alloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use self::free::{free_entry, free_shared};
pub(crate) use self::free::{free_left, free_whole, release_copy, retire, retire_left};
pub use self::shared::SharedString;
use self::shared::{shared_bytes, shared_from_raw, shared_slice};
use crate::heap::Heap;
use crate::limits::{INLINE_VALUE_BYTES_MAX, PACKED_KEY_BYTES_MAX};
use crate::member::Section;
use crate::size_class::size_class;
use crate::tree::Root;
use crate::value::text::Text;
use crate::value::{Encoding, Kind};

/// Storage of the value, in the high half of the kind byte.
const INLINE: u8 = 0;
const SHARED: u8 = 1;
const TREE: u8 = 2;

const HAS_EXPIRY: u8 = 1;
const LONG_KEY: u8 = 2;
const HAS_VOLATILE_ITEMS: u8 = 4;
const ENCODING_SHIFT: u8 = 4;

const VALUE_LENGTH_BITS: u32 = 11;
const HEADER_BYTES: usize = 12;

/// Bytes of the header of an entry of a tree, which has no `lengths`.
const TREE_HEADER_BYTES: usize = HEADER_BYTES - size_of::<u32>();

/// Bits of the address of a root, below the length of the key.
const ROOT_BITS: u32 = 48;
const ROOT_MASK: usize = (1 << ROOT_BITS) - 1;

#[repr(C)]
struct EntryHeader {
    recency: AtomicU32,
    kind: u8,
    flags: u8,
    cut: AtomicU16,
    /// Written once, but where an entry of a tree has its root, which may change.
    lengths: AtomicU32,
}

const _: () = assert!(size_of::<EntryHeader>() == HEADER_BYTES);

/// Key and encoding of an entry that takes over the value of another one.
#[derive(Clone, Copy, Debug)]
pub struct EntryTarget<'k> {
    /// The key.
    pub key: &'k [u8],
    /// Answer of `OBJECT ENCODING` for that key.
    pub encoding: Encoding,
}

/// Value that an entry is built with.
#[derive(Debug)]
pub enum NewValue<'v> {
    /// A string; it is copied into the entry or, when long, into an allocation of its own.
    String(&'v [u8]),
    /// A long string that exists already.
    Shared(SharedString),
    /// A tree: a collection, or a string in chunks when the kind is [`Kind::String`].
    Tree(TreeValue),
}

/// Root of a tree that an entry will own. Only this crate makes one: it must be of the entry's
/// kind, and of no other entry.
///
/// ```compile_fail
/// # use tidemill_store::entry::TreeValue;
/// fn another(value: TreeValue) -> TreeValue {
///     TreeValue { ..value }
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TreeValue {
    pub(crate) root: Root,
    /// See [`Marks::has_volatile_items`].
    pub(crate) has_volatile_items: bool,
}

/// Value of a published entry.
#[derive(Clone, Copy, Debug)]
enum Value<'g> {
    String(&'g [u8]),
    Tree(Root),
}

/// Content of a string.
#[derive(Clone, Copy, Debug)]
pub enum StringValue<'g> {
    /// One run of bytes.
    Plain(&'g [u8]),
    /// Chunks: a long string that was modified in place.
    Chunks(Text<'g>),
}

impl StringValue<'_> {
    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            StringValue::Plain(bytes) => bytes.len() as u64,
            StringValue::Chunks(text) => text.len(),
        }
    }

    /// True if the string has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Properties by which a database counts its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The key expires.
    pub expires: bool,
    /// It is a collection with elements that expire, or that have expired and were not removed
    /// yet.
    pub has_volatile_items: bool,
}

/// Treatment of the value of an entry that leaves the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposal {
    /// Another entry has taken the tree over. A string is retired nevertheless: each entry has a
    /// reference count of its own.
    KeepValue,
    /// No other entry refers to the value: it is retired with the entry.
    RetireValue,
}

/// Fields of a new entry.
#[derive(Debug)]
pub struct EntrySpec<'v> {
    /// The key.
    pub key: &'v [u8],
    /// The type.
    pub kind: Kind,
    /// Answer of `OBJECT ENCODING`.
    pub encoding: Encoding,
    /// Unix time in milliseconds at which the key expires.
    pub expires_at_ms: Option<u64>,
    /// The recency field, see [`EntryRef::recency`].
    pub recency: u32,
    /// The value.
    pub value: NewValue<'v>,
}

/// Entry that is not published yet. Dropping it frees it, but not a tree that it was built with,
/// and leaves its bytes counted as live: see [`OwnedEntry::discard`].
#[derive(Debug)]
pub struct OwnedEntry {
    pointer: NonNull<u8>,
    /// Bytes of the entry and its value.
    bytes: usize,
}

impl OwnedEntry {
    /// Builds an entry and counts its bytes as live, and those of a long string once for each entry
    /// that shares it.
    #[must_use]
    pub fn new(spec: EntrySpec<'_>, heap: &Heap) -> OwnedEntry {
        match spec.value {
            NewValue::String(bytes) if bytes.len() <= INLINE_VALUE_BYTES_MAX => {
                Self::build(&spec, INLINE, None, 0, bytes, heap)
            }
            NewValue::String(bytes) => {
                let shared = SharedString::from_header_and_slice((), bytes);
                Self::with_shared(&spec, shared, heap)
            }
            NewValue::Shared(ref shared) => Self::with_shared(&spec, shared.clone(), heap),
            NewValue::Tree(TreeValue { root, .. }) => {
                Self::build(&spec, TREE, Some(root.into_raw()), root.total_bytes(), &[], heap)
            }
        }
    }

    /// Entry with a copy of another one's value (`COPY`).
    #[must_use]
    pub fn copy_of(source: EntryRef<'_>, place: EntryTarget<'_>, heap: &Heap) -> OwnedEntry {
        let copied = source.root().map(|root| {
            // SAFETY: the entry, and with it its tree, lives for the reference's lifetime.
            unsafe { root.copy(heap) }
        });
        let value = match &copied {
            Some(built) => NewValue::Tree(TreeValue {
                root: built.root().expect("a tree in an entry is not empty"),
                has_volatile_items: source.marks().has_volatile_items,
            }),
            None => source.kept_value().0,
        };
        let spec = EntrySpec {
            key: place.key,
            kind: source.kind(),
            encoding: place.encoding,
            expires_at_ms: source.expires_at_ms(),
            recency: source.recency(),
            value,
        };
        let entry = OwnedEntry::new(spec, heap);
        if let Some(built) = copied {
            // SAFETY: a copy replaces nothing.
            unsafe { built.retire_replaced() };
        }
        entry
    }

    fn with_shared(spec: &EntrySpec<'_>, shared: SharedString, heap: &Heap) -> OwnedEntry {
        let bytes = shared_bytes(shared.slice.len());
        heap.allocated(bytes);
        let raw = shared.into_raw().cast_mut().cast::<u8>();
        // SAFETY: `ThinArc::into_raw` never returns null.
        let raw = unsafe { NonNull::new_unchecked(raw) };
        Self::build(spec, SHARED, Some(raw), bytes, &[], heap)
    }

    fn build(
        spec: &EntrySpec<'_>,
        storage: u8,
        value_pointer: Option<NonNull<u8>>,
        value_bytes: usize,
        inline: &[u8],
        heap: &Heap,
    ) -> OwnedEntry {
        let packed_bytes_max =
            if storage == TREE { usize::from(u16::MAX) } else { PACKED_KEY_BYTES_MAX };
        let long_key = spec.key.len() > packed_bytes_max;
        let packed_key = if long_key { 0 } else { spec.key.len() as u32 };
        let mut flags = (spec.encoding as u8) << ENCODING_SHIFT;
        flags |= if spec.expires_at_ms.is_some() { HAS_EXPIRY } else { 0 };
        flags |= if long_key { LONG_KEY } else { 0 };
        let has_volatile_items =
            matches!(spec.value, NewValue::Tree(TreeValue { has_volatile_items: true, .. }));
        flags |= if has_volatile_items { HAS_VOLATILE_ITEMS } else { 0 };
        let layout = layout(flags, storage, spec.key.len(), inline.len());
        // SAFETY: the size is never zero.
        let memory = unsafe { alloc(layout) };
        let Some(pointer) = NonNull::new(memory) else { handle_alloc_error(layout) };
        let bytes = size_class(layout.size());
        heap.allocated(bytes);
        let header = EntryHeader {
            recency: AtomicU32::new(spec.recency),
            kind: spec.kind as u8 | storage << 4,
            flags,
            cut: AtomicU16::new(0),
            lengths: AtomicU32::new(packed_key << VALUE_LENGTH_BITS | inline.len() as u32),
        };
        // SAFETY: the memory is fresh, aligned to 8 and holds at least a header; of an entry of a
        // tree, the next field overwrites the last one of it.
        unsafe { pointer.cast::<EntryHeader>().write(header) };
        let mut writer = FieldWriter { pointer, offset: header_bytes(storage) };
        if let Some(expires_at_ms) = spec.expires_at_ms {
            writer.append(&expires_at_ms.to_ne_bytes());
        }
        if long_key {
            writer.append(&(spec.key.len() as u64).to_ne_bytes());
        }
        if let Some(value) = value_pointer {
            let length = if storage == TREE { packed_key as usize } else { 0 };
            writer.append_pointer(value, length);
        }
        writer.append(spec.key);
        writer.append(inline);
        debug_assert!(writer.offset <= layout.size());
        OwnedEntry { pointer, bytes: bytes + value_bytes }
    }

    /// Bytes of the entry and of its value.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The entry as a reference, before it is published.
    #[must_use]
    pub fn as_ref(&self) -> EntryRef<'_> {
        EntryRef { pointer: self.pointer, marker: PhantomData }
    }

    /// Frees the entry, and takes its bytes, and those of a long string, out of the live ones
    /// again.
    ///
    /// Dropping the entry frees it as well, but cannot reach the count.
    pub fn discard(self, heap: &Heap) {
        let entry = self.as_ref();
        let shared =
            if entry.storage() == SHARED { entry.total_bytes() } else { entry.counted_bytes() };
        heap.discarded(shared);
    }

    /// Hands the entry over to a table.
    #[must_use]
    pub(crate) fn into_pointer(self) -> NonNull<u8> {
        let pointer = self.pointer;
        std::mem::forget(self);
        pointer
    }
}

impl Drop for OwnedEntry {
    fn drop(&mut self) {
        let entry = self.as_ref();
        if entry.storage() == SHARED {
            // SAFETY: the entry holds one count of the string and was never published.
            unsafe { free_shared(entry.shared_pointer()) };
        }
        // SAFETY: the entry was never published; `build` allocated it.
        unsafe { free_entry(self.pointer) };
    }
}

/// Writer of the variable fields of a fresh entry, one after the other.
struct FieldWriter {
    pointer: NonNull<u8>,
    offset: usize,
}

impl FieldWriter {
    fn append(&mut self, bytes: &[u8]) {
        // SAFETY: `layout` counted every field that `build` appends.
        let target = unsafe { self.pointer.add(self.offset) };
        // SAFETY: as above, and fresh memory does not overlap with `bytes`.
        unsafe { target.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        self.offset += bytes.len();
    }

    /// Appends a pointer, with a length of up to 16 bits in its highest ones.
    fn append_pointer(&mut self, value: NonNull<u8>, length: usize) {
        debug_assert!(length == 0 || value.addr().get() & !ROOT_MASK == 0);
        let value = value.map_addr(|address| address | length << ROOT_BITS);
        // SAFETY: `layout` counted every field that `build` appends.
        let target = unsafe { self.pointer.add(self.offset) };
        // SAFETY: as above; the field need not be aligned.
        unsafe { target.cast::<NonNull<u8>>().write_unaligned(value) };
        self.offset += size_of::<NonNull<u8>>();
    }
}

/// Published entry, valid for as long as the read-side section `'g`.
#[derive(Clone, Copy, Debug)]
pub struct EntryRef<'g> {
    pointer: NonNull<u8>,
    marker: PhantomData<&'g ()>,
}

impl<'g> EntryRef<'g> {
    /// True if both are one published entry. What hangs from it is the same then, if it was pinned
    /// where it [`may_change`](EntryRef::may_change).
    #[must_use]
    pub fn is(self, other: EntryRef<'_>) -> bool {
        self.pointer == other.pointer
    }

    /// Makes a reference from a pointer that a table holds.
    ///
    /// # Safety
    ///
    /// `pointer` comes from [`OwnedEntry::into_pointer`] and is not freed during `'g`.
    #[inline]
    pub(crate) unsafe fn from_pointer(pointer: NonNull<u8>) -> EntryRef<'g> {
        EntryRef { pointer, marker: PhantomData }
    }

    pub(crate) fn pointer(self) -> NonNull<u8> {
        self.pointer
    }

    #[inline]
    fn header(self) -> &'g EntryHeader {
        // SAFETY: the entry lives for `'g`; its header was written by `build` and only its atomics
        // change.
        unsafe { self.pointer.cast::<EntryHeader>().as_ref() }
    }

    /// Lengths of key and value, of an entry that is no tree's.
    #[inline]
    fn lengths(self) -> u32 {
        // Relaxed: it came with the entry.
        self.header().lengths.load(Ordering::Relaxed)
    }

    #[inline]
    fn storage(self) -> u8 {
        self.header().kind >> 4
    }

    /// The bytes at `offset`.
    ///
    /// # Safety
    ///
    /// `build` must have written `length` bytes there.
    #[inline]
    unsafe fn bytes_at(self, offset: usize, length: usize) -> &'g [u8] {
        // SAFETY: the caller's promise.
        let start = unsafe { self.pointer.add(offset) };
        // SAFETY: as above; these bytes never change while the entry lives.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), length) }
    }

    fn word_at(self, offset: usize) -> u64 {
        // SAFETY: only called for the eight-byte fields that the flags announce.
        let bytes = unsafe { self.bytes_at(offset, 8) };
        u64::from_ne_bytes(bytes.try_into().expect("eight bytes were asked for"))
    }

    #[inline]
    fn expiry_bytes(self) -> usize {
        if self.header().flags & HAS_EXPIRY != 0 { 8 } else { 0 }
    }

    #[inline]
    fn fixed_bytes(self) -> usize {
        fixed_bytes(self.header().flags, self.storage())
    }

    #[inline]
    fn key_length(self) -> usize {
        let storage = self.storage();
        if self.header().flags & LONG_KEY != 0 {
            self.word_at(header_bytes(storage) + self.expiry_bytes()) as usize
        } else if storage == TREE {
            // Relaxed: the length stays when the root changes.
            self.root_field().load(Ordering::Relaxed).addr() >> ROOT_BITS
        } else {
            self.packed_key_length()
        }
    }

    /// Length of a key that is neither long nor that of a tree.
    #[inline]
    fn packed_key_length(self) -> usize {
        (self.lengths() >> VALUE_LENGTH_BITS) as usize
    }

    #[inline]
    fn inline_length(self) -> usize {
        if self.storage() == TREE {
            return 0;
        }
        (self.lengths() & ((1 << VALUE_LENGTH_BITS) - 1)) as usize
    }

    /// Address of the string outside of the entry.
    #[inline]
    fn shared_pointer(self) -> NonNull<u8> {
        let offset = self.fixed_bytes() - size_of::<NonNull<u8>>();
        // SAFETY: called only when the value is shared; its address is then the last fixed field.
        let field = unsafe { self.pointer.add(offset) };
        // SAFETY: as above; the field need not be aligned.
        unsafe { field.cast::<NonNull<u8>>().read_unaligned() }
    }

    /// True if only the header is before the key, and the value is behind it.
    #[inline]
    fn is_simple(self) -> bool {
        self.storage() == INLINE && self.header().flags & (HAS_EXPIRY | LONG_KEY) == 0
    }

    /// The key.
    #[must_use]
    #[inline]
    pub fn key(self) -> &'g [u8] {
        if self.is_simple() {
            // SAFETY: without other fixed fields, `build` wrote the key behind the header.
            return unsafe { self.bytes_at(HEADER_BYTES, self.packed_key_length()) };
        }
        // SAFETY: `build` wrote the key behind the fixed fields.
        unsafe { self.bytes_at(self.fixed_bytes(), self.key_length()) }
    }

    /// The type.
    #[must_use]
    #[inline]
    pub fn kind(self) -> Kind {
        Kind::ALL[usize::from(self.header().kind & 0xf)]
    }

    /// Answer of `OBJECT ENCODING`.
    #[must_use]
    pub fn encoding(self) -> Encoding {
        Encoding::ALL[usize::from(self.header().flags >> ENCODING_SHIFT)]
    }

    /// Unix time in milliseconds at which the key expires, if it does.
    #[must_use]
    #[inline]
    pub fn expires_at_ms(self) -> Option<u64> {
        (self.header().flags & HAS_EXPIRY != 0).then(|| self.word_at(header_bytes(self.storage())))
    }

    /// Properties by which its database counts it.
    #[must_use]
    #[inline]
    pub fn marks(self) -> Marks {
        let flags = self.header().flags;
        Marks {
            expires: flags & HAS_EXPIRY != 0,
            has_volatile_items: flags & HAS_VOLATILE_ITEMS != 0,
        }
    }

    /// The string, if it is one.
    #[must_use]
    #[inline]
    pub fn string(self) -> Option<StringValue<'g>> {
        if self.kind() != Kind::String {
            return None;
        }
        Some(match self.value() {
            Value::String(bytes) => StringValue::Plain(bytes),
            // SAFETY: a tree of kind String is a text's; it lives as long as the entry.
            Value::Tree(root) => StringValue::Chunks(unsafe { Text::from_root(root, section()) }),
        })
    }

    /// A string that is inside of its entry and never expires, as most short ones. None says
    /// nothing: [`EntryRef::string`] finds every string.
    #[must_use]
    #[inline]
    pub fn simple_string(self) -> Option<&'g [u8]> {
        let is_string = self.header().kind & 0xf == Kind::String as u8;
        (is_string && self.is_simple()).then(|| {
            let offset = HEADER_BYTES + self.packed_key_length();
            // SAFETY: `build` wrote the value behind the key, which is behind the header.
            unsafe { self.bytes_at(offset, self.inline_length()) }
        })
    }

    /// Bytes of a string that is no tree, if the entry is of this kind and holds one.
    pub(crate) fn plain_of(self, kind: Kind) -> Option<&'g [u8]> {
        match self.value() {
            Value::String(bytes) if self.kind() == kind => Some(bytes),
            _ => None,
        }
    }

    /// Address and bytes of a string that is stored outside.
    pub(crate) fn shared_block(self) -> Option<(NonNull<u8>, usize)> {
        (self.storage() == SHARED)
            .then(|| (self.shared_pointer(), self.total_bytes() - self.counted_bytes()))
    }

    /// The value for an entry that replaces this one and keeps its value, and the disposal of this
    /// entry's own.
    #[must_use]
    pub(crate) fn kept_value(self) -> (NewValue<'g>, Disposal) {
        if let Some(shared) = self.shared() {
            return (NewValue::Shared(shared), Disposal::RetireValue);
        }
        match self.value() {
            Value::String(bytes) => (NewValue::String(bytes), Disposal::RetireValue),
            Value::Tree(root) => {
                let has_volatile_items = self.marks().has_volatile_items;
                (NewValue::Tree(TreeValue { root, has_volatile_items }), Disposal::KeepValue)
            }
        }
    }

    #[inline]
    fn value(self) -> Value<'g> {
        match self.storage() {
            INLINE => {
                let offset = self.fixed_bytes() + self.key_length();
                // SAFETY: `build` wrote the inline value behind the key.
                Value::String(unsafe { self.bytes_at(offset, self.inline_length()) })
            }
            SHARED => {
                // SAFETY: the entry holds a count of the string, so it lives for `'g`.
                Value::String(unsafe { shared_slice(self.shared_pointer()) })
            }
            _ => {
                // SAFETY: `OwnedEntry::new` stored a root here.
                Value::Tree(unsafe { Root::from_raw(self.root_pointer()) })
            }
        }
    }

    /// Another reference to the string, when it is stored outside the entry.
    #[must_use]
    pub fn shared(self) -> Option<SharedString> {
        (self.storage() == SHARED).then(|| {
            // SAFETY: the entry holds one count and lives for `'g`; the copy made here is forgotten
            // right away.
            let held = unsafe { shared_from_raw(self.shared_pointer()) };
            let extra = held.clone();
            std::mem::forget(held);
            extra
        })
    }

    /// Recency (seconds, LRU) or frequency (LFU) of the key's use; the engine gives it its
    /// meaning.
    #[must_use]
    #[inline]
    pub fn recency(self) -> u32 {
        // Relaxed: a statistic; no other memory is read because of it.
        self.header().recency.load(Ordering::Relaxed)
    }

    /// Sets the recency field, the one field of a published entry that readers write.
    #[inline]
    pub fn set_recency(self, recency: u32) {
        // Relaxed: as in `recency`; of two concurrent updates either may win.
        self.header().recency.store(recency, Ordering::Relaxed);
    }

    /// Epoch of the cut that has the entry, or was begun before the entry was published.
    #[inline]
    pub(crate) fn epoch(self) -> u16 {
        // Relaxed: accessed under the slot's lock only.
        self.header().cut.load(Ordering::Relaxed)
    }

    /// Sets the epoch. The slot is locked, or the entry is not published.
    #[inline]
    pub(crate) fn set_epoch(self, epoch: u16) {
        // Relaxed: as in `epoch`.
        self.header().cut.store(epoch, Ordering::Relaxed);
    }

    /// Bytes that [`retire`] takes out of the live ones, and bytes of the entry with its value.
    pub(crate) fn retired_bytes(self, disposal: Disposal) -> (usize, usize) {
        let all = self.total_bytes();
        match (self.root(), disposal) {
            (Some(root), Disposal::KeepValue) => (all - root.total_bytes(), all),
            _ => (all, all),
        }
    }

    /// Copies the entry, with a count of its own of a string that is stored outside.
    ///
    /// # Safety
    ///
    /// The entry's slot is locked; `target` is aligned to eight bytes, has room for
    /// [`EntryRef::entry_bytes`] and does not overlap with the entry.
    pub(crate) unsafe fn copy_to(self, target: NonNull<u8>) {
        std::mem::forget(self.shared());
        // Apart from the rest: readers write it meanwhile.
        let recency = self.recency();
        // SAFETY: the caller's promise.
        unsafe { target.cast::<u32>().write(recency) };
        let rest = size_of::<u32>();
        // SAFETY: the caller's promise; an entry is larger than its first field.
        let source = unsafe { self.pointer.add(rest) };
        // SAFETY: as above.
        let target = unsafe { target.add(rest) };
        // SAFETY: the caller's promise. Nothing else of a published entry changes but the epoch,
        // under the slot's lock.
        unsafe { target.copy_from_nonoverlapping(source, self.entry_bytes() - rest) };
    }

    /// Bytes of the entry alone, without a value that is stored outside, as they are counted: by
    /// the allocator's size class.
    #[inline]
    fn counted_bytes(self) -> usize {
        size_class(self.entry_bytes())
    }

    /// Bytes that the entry alone has, without a value that is stored outside.
    #[must_use]
    #[inline]
    pub fn entry_bytes(self) -> usize {
        let header = self.header();
        layout(header.flags, self.storage(), self.key_length(), self.inline_length()).size()
    }

    /// Bytes of the entry and of its value, as they are counted.
    #[must_use]
    pub fn total_bytes(self) -> usize {
        self.counted_bytes()
            + match self.value() {
                Value::String(bytes) if self.storage() == SHARED => shared_bytes(bytes.len()),
                Value::String(_) => 0,
                Value::Tree(root) => root.total_bytes(),
            }
    }
}

/// Section in which an entry reference was obtained.
fn section<'g>() -> Section<'g> {
    // SAFETY: the caller that made the `EntryRef<'g>` promised that the entry lives for `'g`, and
    // its value lives as long.
    unsafe { Section::assume() }
}

#[inline]
fn header_bytes(storage: u8) -> usize {
    if storage == TREE { TREE_HEADER_BYTES } else { HEADER_BYTES }
}

#[inline]
fn fixed_bytes(flags: u8, storage: u8) -> usize {
    header_bytes(storage)
        + if flags & HAS_EXPIRY != 0 { 8 } else { 0 }
        + if flags & LONG_KEY != 0 { 8 } else { 0 }
        + if storage == INLINE { 0 } else { size_of::<NonNull<u8>>() }
}

#[inline]
fn layout(flags: u8, storage: u8, key_bytes: usize, inline_bytes: usize) -> Layout {
    let size = fixed_bytes(flags, storage) + key_bytes + inline_bytes;
    Layout::from_size_align(size, 8).expect("a key is far shorter than the address space")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Seed;
    use crate::value::list::{List, ListEdit};

    #[test]
    fn an_entry_of_a_tree_has_its_key_whatever_its_length() {
        let (heap, seed) = (Heap::new(), Seed::new(1, 2));
        for length in [0, 1, 15, 255, 65_534, 65_535, 65_536, 65_537, PACKED_KEY_BYTES_MAX + 1] {
            for expires_at_ms in [None, Some(0), Some(u64::MAX)] {
                let mut edit = ListEdit::create(&heap);
                edit.push_back(b"element");
                let built = edit.finish();
                let root = built.root().expect("it has an element");
                let key = vec![0xa5; length];
                let spec = EntrySpec {
                    key: &key,
                    kind: Kind::List,
                    encoding: Encoding::Listpack,
                    expires_at_ms,
                    recency: u32::MAX,
                    value: NewValue::Tree(TreeValue { root, has_volatile_items: false }),
                };
                let entry = OwnedEntry::new(spec, &heap);
                let found = entry.as_ref();
                assert!(found.key() == key, "a key of {length} bytes");
                assert_eq!((found.kind(), found.root()), (Kind::List, Some(root)));
                assert_eq!((found.expires_at_ms(), found.recency()), (expires_at_ms, u32::MAX));
                let list = found.view::<List<'_>>(&seed).expect("a list was stored");
                assert_eq!(list.get(0), Some(&b"element"[..]));
                let fixed = 16 + length + if expires_at_ms.is_some() { 8 } else { 0 };
                let long = if length > usize::from(u16::MAX) { 8 } else { 0 };
                assert_eq!(found.entry_bytes(), fixed + long);
                entry.discard(&heap);
                drop(built);
                assert_eq!(heap.live_bytes(), 0);
            }
        }
    }

    #[test]
    fn simple_strings_are_those_that_the_header_alone_tells() {
        let heap = Heap::new();
        for key_length in [0, 15, PACKED_KEY_BYTES_MAX, PACKED_KEY_BYTES_MAX + 1] {
            for value_length in [0, 1, INLINE_VALUE_BYTES_MAX, INLINE_VALUE_BYTES_MAX + 1] {
                for expires_at_ms in [None, Some(7)] {
                    let (key, value) = (vec![0xa5; key_length], vec![0x5a; value_length]);
                    let spec = EntrySpec {
                        key: &key,
                        kind: Kind::String,
                        encoding: Encoding::Raw,
                        expires_at_ms,
                        recency: 1,
                        value: NewValue::String(&value),
                    };
                    let entry = OwnedEntry::new(spec, &heap);
                    let found = entry.as_ref();
                    assert!(found.key() == key, "a key of {key_length} bytes");
                    let Some(StringValue::Plain(bytes)) = found.string() else {
                        panic!("a string")
                    };
                    assert!(bytes == value, "{value_length} bytes");
                    let is_simple = key_length <= PACKED_KEY_BYTES_MAX
                        && value_length <= INLINE_VALUE_BYTES_MAX
                        && expires_at_ms.is_none();
                    assert!(found.simple_string() == is_simple.then_some(&value[..]));
                    entry.discard(&heap);
                }
            }
        }
    }
}
