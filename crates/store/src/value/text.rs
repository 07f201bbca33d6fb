//! Texts: large mutable strings, as bytes in chunks, by position.
//!
//! A chunk is a leaf of one element. A run of zeros is a leaf that stores its length alone, so that
//! a bitmap whose last bit is set costs a few nodes and not 512 MiB. A write copies the chunks it
//! touches and the path to them.

use std::marker::PhantomData;
use std::ops::Range;

use smallvec::SmallVec;

use super::collection::{Collection, TreeEdit};
use super::kind::Kind;
use crate::hash::Seed;
use crate::heap::Heap;
use crate::member::Section;
use crate::tree::arena::Arena;
use crate::tree::check::check_tree;
use crate::tree::cursor::{Cursor, leaf_at};
use crate::tree::inner;
use crate::tree::leaf;
use crate::tree::limits::{CHUNK_BYTES, LEAF_BYTES_MIN};
use crate::tree::node::{Child, HEADER_BYTES, Link, Node, flags};
use crate::tree::order::{Order, sums};
use crate::tree::update::{Pieces, TreePath, only_piece, sum_up};
use crate::tree::{Built, BuiltLeaf, Root};

/// Order of bytes by position.
struct Bytes;

impl Order for Bytes {
    type Key = u64;

    fn measure(leaf: Node<'_>) -> u64 {
        chunk_of(leaf).len()
    }

    fn is_underfull(leaf: Node<'_>) -> bool {
        chunk_of(leaf).len() < (LEAF_BYTES_MIN - HEADER_BYTES) as u64
    }

    fn merge(arena: &mut Arena, left: Link, right: Link) -> Option<Link> {
        let joined = match (chunk_of(left.node()), chunk_of(right.node())) {
            (Chunk::Zeros(first), Chunk::Zeros(second)) => zeros(arena, first + second),
            (first, second) if first.len() + second.len() <= CHUNK_BYTES as u64 => {
                leaf::single(arena, 0, &[first.stored(), second.stored()])
            }
            _ => return None,
        };
        arena.discard(left);
        arena.discard(right);
        Some(joined)
    }
}

static ZEROS: [u8; CHUNK_BYTES] = [0; CHUNK_BYTES];

/// Piece of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk<'g> {
    /// These bytes.
    Bytes(&'g [u8]),
    /// A number of zero bytes, which are not stored.
    Zeros(u64),
}

impl<'g> Chunk<'g> {
    /// Number of bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Chunk::Bytes(bytes) => bytes.len() as u64,
            Chunk::Zeros(count) => *count,
        }
    }

    /// True if there are no bytes; chunks of a text have some.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Part from `range.start` to `range.end`.
    fn slice(self, range: Range<u64>) -> Chunk<'g> {
        match self {
            Chunk::Bytes(bytes) => Chunk::Bytes(&bytes[range.start as usize..range.end as usize]),
            Chunk::Zeros(_) => Chunk::Zeros(range.end - range.start),
        }
    }

    /// Bytes of a chunk of at most `CHUNK_BYTES`.
    fn stored(self) -> &'g [u8] {
        match self {
            Chunk::Bytes(bytes) => bytes,
            Chunk::Zeros(count) => &ZEROS[..count as usize],
        }
    }
}

fn chunk_of<'a>(leaf: Node<'a>) -> Chunk<'a> {
    if !leaf.has(flags::ZEROS) {
        return Chunk::Bytes(leaf.data());
    }
    let count = leaf.data().first_chunk().expect("a run of zeros holds its length");
    Chunk::Zeros(u64::from_le_bytes(*count))
}

fn zeros(arena: &mut Arena, count: u64) -> Link {
    leaf::single(arena, flags::ZEROS, &[&count.to_le_bytes()])
}

fn length(link: Link) -> u64 {
    sums::<Bytes>(link.node()).measure
}

/// One version of a text, for as long as `'g`.
#[derive(Clone, Copy, Debug)]
pub struct Text<'g> {
    root: Node<'g>,
}

impl<'g> Text<'g> {
    /// Text under a root.
    ///
    /// # Safety
    ///
    /// `root` came from a [`TextEdit`], and was reachable for readers at some moment of the
    /// section's lifetime `'g`, or is not yet published and not dropped for as long.
    #[must_use]
    pub unsafe fn from_root(root: Root, _section: Section<'g>) -> Text<'g> {
        Text { root: root.link().node() }
    }

    /// Number of bytes; never zero.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        length(self.root.link())
    }

    /// Allocated bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.root.bytes()
    }

    /// Asserts the invariants of the tree, in time linear in the length. For tests.
    #[doc(hidden)]
    pub fn check(&self) {
        check_tree::<Bytes>(self.root.link(), &mut |leaf, _, _| {
            let chunk = chunk_of(leaf);
            assert!(!chunk.is_empty() && leaf.len() == 1);
            assert!(matches!(chunk, Chunk::Zeros(_)) || chunk.len() <= CHUNK_BYTES as u64);
        });
    }

    /// Byte at `position`.
    #[must_use]
    pub fn get(&self, position: u64) -> Option<u8> {
        let (leaf, within) = leaf_at(self.root.link(), position);
        match chunk_of(leaf) {
            Chunk::Bytes(bytes) => bytes.get(usize::try_from(within).ok()?).copied(),
            Chunk::Zeros(count) => (within < count).then_some(0),
        }
    }

    /// Chunks of `range` in order; positions behind the end are left out.
    ///
    /// The slices live as long as the section: they can be written to a socket as they are.
    #[must_use]
    pub fn chunks(&self, range: Range<u64>) -> Chunks<'g> {
        let end = range.end.min(self.len());
        let start = range.start.min(end);
        let (cursor, within) = Cursor::at_position(self.root.link(), start);
        Chunks { cursor, within, left: end - start }
    }

    /// Appends the bytes of `range` to `out`, zeros written out.
    pub fn copy_to(&self, range: Range<u64>, out: &mut Vec<u8>) {
        let chunks = self.chunks(range);
        out.reserve(chunks.left as usize);
        for chunk in chunks {
            match chunk {
                Chunk::Bytes(bytes) => out.extend_from_slice(bytes),
                Chunk::Zeros(count) => out.resize(out.len() + count as usize, 0),
            }
        }
    }
}

/// Chunks of a text in order, none of them empty.
#[derive(Clone, Debug)]
pub struct Chunks<'g> {
    cursor: Cursor<'g>,
    within: u64,
    left: u64,
}

impl<'g> Iterator for Chunks<'g> {
    type Item = Chunk<'g>;

    fn next(&mut self) -> Option<Chunk<'g>> {
        if self.left == 0 {
            return None;
        }
        let mut chunk = chunk_of(self.cursor.leaf());
        if self.within >= chunk.len() {
            if !self.cursor.advance() {
                return None;
            }
            self.within = 0;
            chunk = chunk_of(self.cursor.leaf());
        }
        let end = chunk.len().min(self.within + self.left);
        let piece = chunk.slice(self.within..end);
        self.left -= piece.len();
        self.within = end;
        Some(piece)
    }
}

/// Next version of a text, under construction.
#[derive(Debug)]
pub struct TextEdit<'h> {
    arena: Arena,
    heap: &'h Heap,
    root: Option<Link>,
    // Not `Send`: an edit belongs to the thread whose heap it counts in.
    marker: PhantomData<*const ()>,
}

impl<'h> TextEdit<'h> {
    /// A new, empty text.
    #[must_use]
    pub fn create(heap: &'h Heap) -> TextEdit<'h> {
        TextEdit { arena: Arena::default(), heap, root: None, marker: PhantomData }
    }

    /// Next version of the text under `root`; of an empty one, if there is none.
    ///
    /// # Safety
    ///
    /// `root` came from a `TextEdit`, is the current version of its key, and no other code edits or
    /// retires it until this edit and the tree it built are gone.
    #[must_use]
    pub unsafe fn new(root: Option<Root>, heap: &'h Heap) -> TextEdit<'h> {
        TextEdit { root: root.map(Root::link), arena: Arena::from(root), ..TextEdit::create(heap) }
    }

    /// Number of bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.root.map_or(0, length)
    }

    /// True if there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// The text as edited so far; none if it is empty.
    #[must_use]
    pub fn view(&mut self) -> Option<Text<'_>> {
        self.settle();
        self.root.map(|root| Text { root: root.node() })
    }

    /// Adds bytes at the end.
    pub fn append(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let taken = self.append_some(bytes);
            bytes = &bytes[taken..];
        }
    }

    /// Writes `bytes` from `offset` on. Bytes between the old end and `offset` become zeros, which
    /// are not stored.
    pub fn write(&mut self, offset: u64, mut bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let len = self.len();
        if offset > len {
            self.append_zeros(offset - len);
        }
        let mut at = offset;
        while !bytes.is_empty() && at < self.len() {
            let mut taken = self.write_run(at, bytes);
            if taken == 0 {
                taken = self.write_some(at, bytes);
            }
            bytes = &bytes[taken..];
            at += taken as u64;
        }
        self.append(bytes);
    }

    /// Ends the edit.
    pub fn finish(mut self) -> Built<'h> {
        self.settle();
        self.arena.finish(self.root, self.heap)
    }

    /// Makes the copies that were deferred.
    #[inline]
    fn settle(&mut self) {
        if self.arena.defers() {
            self.root = self.arena.settle::<Bytes>();
        }
    }

    fn descend(root: Link, position: u64) -> (TreePath, Link, u64) {
        let mut within = position;
        let (path, link) = TreePath::descend::<Bytes>(root, |node| {
            let (index, rest) = inner::find_position(node, within);
            within = rest;
            index
        });
        (path, link, within)
    }

    /// Appends the bytes for which the last chunk has room, and as many new chunks as the node
    /// above can take at once; returns the number of bytes.
    fn append_some(&mut self, bytes: &[u8]) -> usize {
        self.settle();
        let Some(root) = self.root else {
            let first = &bytes[..bytes.len().min(CHUNK_BYTES)];
            self.root = Some(leaf::single(&mut self.arena, 0, &[first]));
            return first.len();
        };
        let (path, link, within) = TextEdit::descend(root, length(root));
        let room = CHUNK_BYTES.saturating_sub(within as usize);
        let (last, mut taken) = if link.node().has(flags::ZEROS) || room == 0 {
            (link, 0)
        } else {
            let first = &bytes[..bytes.len().min(room)];
            (leaf::overwrite(&mut self.arena, link, within as usize, first), first.len())
        };
        let mut pieces = only_piece(last);
        for chunk in bytes[taken..].chunks(CHUNK_BYTES).take(path.room_behind()) {
            pieces.push((leaf::single(&mut self.arena, 0, &[chunk]), 0));
            taken += chunk.len();
        }
        self.root = path.replace::<Bytes>(&mut self.arena, pieces);
        taken
    }

    fn append_zeros(&mut self, count: u64) {
        self.settle();
        let run = zeros(&mut self.arena, count);
        let Some(root) = self.root else {
            self.root = Some(run);
            return;
        };
        let (path, link, _) = TextEdit::descend(root, length(root));
        self.root =
            path.replace::<Bytes>(&mut self.arena, Pieces::from_iter([(link, 0), (run, 0)]));
    }

    /// Writes the bytes that lie in the chunks from `position` on, up to a run of zeros, if they
    /// may be several; returns the number of bytes. Each node above the chunks is copied and summed
    /// up once, where single writes would do so for each chunk.
    fn write_run(&mut self, position: u64, bytes: &[u8]) -> usize {
        if bytes.len() <= CHUNK_BYTES {
            return 0;
        }
        self.settle();
        let Some(root) = self.root else { return 0 };
        let (root, taken) = overwrite_below(&mut self.arena, root, position, bytes);
        self.root = Some(root);
        taken
    }

    /// Writes the bytes that lie in the chunk at `position`; returns their number.
    fn write_some(&mut self, position: u64, bytes: &[u8]) -> usize {
        self.settle();
        let Some(root) = self.root else { return 0 };
        let (path, link, within) = TextEdit::descend(root, position);
        let chunk = chunk_of(link.node());
        let room = usize::try_from(chunk.len() - within).unwrap_or(usize::MAX);
        let bytes = &bytes[..bytes.len().min(room)];
        let Chunk::Zeros(count) = chunk else {
            let piece = leaf::overwrite(&mut self.arena, link, within as usize, bytes);
            let pieces = only_piece(piece);
            self.root = path.replace_or_defer::<Bytes>(&mut self.arena, (root, link), pieces);
            return bytes.len();
        };
        if bytes.iter().all(|&byte| byte == 0) {
            return bytes.len();
        }
        let (pieces, taken) = self.write_into_zeros(position, within, count, bytes);
        self.arena.discard(link);
        self.root = path.replace::<Bytes>(&mut self.arena, pieces);
        taken
    }

    /// Splits a run of zeros around a new chunk, which is cut at multiples of the chunk size so
    /// that later writes near by find it.
    fn write_into_zeros(
        &mut self,
        position: u64,
        within: u64,
        count: u64,
        bytes: &[u8],
    ) -> (Pieces, usize) {
        let before = within.min(position % CHUNK_BYTES as u64);
        let start = within - before;
        let end =
            (position - position % CHUNK_BYTES as u64 + CHUNK_BYTES as u64) - position + within;
        let end = end.min(count);
        let bytes = &bytes[..bytes.len().min((end - within) as usize)];
        let after = (end - within) as usize - bytes.len();
        let chunk =
            leaf::single(&mut self.arena, 0, &[&ZEROS[..before as usize], bytes, &ZEROS[..after]]);
        let mut pieces = Pieces::new();
        if start > 0 {
            pieces.push((zeros(&mut self.arena, start), 0));
        }
        pieces.push((chunk, 0));
        if end < count {
            pieces.push((zeros(&mut self.arena, count - end), 0));
        }
        (pieces, bytes.len())
    }
}

/// Overwrites chunks below one node from position `within` of it on, up to the end of `bytes` or of
/// the node, or a run of zeros. Returns the node in its place, and the number of bytes: without any
/// the node is left as it is.
///
/// Chunks keep their lengths, so that no node is split or merged.
fn overwrite_below(arena: &mut Arena, link: Link, within: u64, bytes: &[u8]) -> (Link, usize) {
    let node = link.node();
    if node.is_leaf() {
        let Chunk::Bytes(old) = chunk_of(node) else { return (link, 0) };
        let bytes = &bytes[..bytes.len().min(old.len() - within as usize)];
        return (leaf::overwrite(arena, link, within as usize, bytes), bytes.len());
    }
    let (first, mut within) = inner::find_position(node, within);
    let mut children: SmallVec<[Child<u64>; 64]> = SmallVec::new();
    let mut taken = 0;
    for index in first..node.len() {
        let child = inner::child::<u64>(node, index);
        let (link, count) = overwrite_below(arena, child.link, within, &bytes[taken..]);
        if count == 0 {
            break;
        }
        children.push(Child { link, ..child });
        taken += count;
        if taken == bytes.len() || (count as u64) < child.measure - within {
            break;
        }
        within = 0;
    }
    if children.is_empty() {
        return (link, 0);
    }
    let node = inner::splice(arena, link, first, children.len(), &children);
    sum_up::<Bytes>(node);
    (node, taken)
}

// SAFETY: no other type is of this kind; views and edits read what edits built.
unsafe impl Collection for Text<'_> {
    const KIND: Kind = Kind::String;

    type View<'g> = Text<'g>;

    type Edit<'h> = TextEdit<'h>;

    unsafe fn view<'g>(root: Root, _seed: &'g Seed, section: Section<'g>) -> Text<'g> {
        // SAFETY: the caller's promise.
        unsafe { Text::from_root(root, section) }
    }

    unsafe fn edit<'h>(root: Option<Root>, _seed: &'h Seed, heap: &'h Heap) -> TextEdit<'h> {
        // SAFETY: the caller's promise.
        unsafe { TextEdit::new(root, heap) }
    }

    fn append_plain(edit: &mut TextEdit<'_>, bytes: &[u8]) {
        edit.append(bytes);
    }
}

impl<'h> TreeEdit<'h> for TextEdit<'h> {
    fn base(&self) -> Option<Root> {
        self.arena.base()
    }

    fn finish(self) -> Built<'h> {
        self.finish()
    }

    fn finish_leaf(&mut self) -> Option<BuiltLeaf<'h>> {
        self.arena.finish_leaf(self.heap)
    }
}
