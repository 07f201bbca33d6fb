//! Allocations whose size a client chooses: they fail with an error reply, not with the process.
//!
//! - One block (a copy, a table, a result) is allocated through this module, and fails by itself.
//! - Many small blocks that are stored (the nodes of a tree, the arguments of a large request)
//!   cannot fail one by one. Whether there is as much for this worker is asked before the change
//!   begins: [`Room`].
//! - Replies fail by themselves, see
//!   [`ReplyBuffer::has_failed`](tidemill_resp::encode::ReplyBuffer::has_failed).
//!
//! Everything else is bounded by constants. The worker's reserve is for it
//! ([`Host::keep_reserve`](crate::shared::Host::keep_reserve)), and without it writes are
//! refused.

use std::borrow::Cow;

use tidemill_resp::request::ArgumentView;
use tidemill_store::{EntryRef, NewString, NewValue, StringValue};

use crate::error::CommandError;
use crate::limits::{EDITED_PATH_BYTES_MAX, LARGE_BYTES_MIN, NAME_COPIES_MAX};
use crate::shared::Shared;

/// An empty vector with room for `count` elements.
///
/// # Errors
///
/// [`CommandError::NoMemory`].
pub(crate) fn with_capacity<T>(count: usize) -> Result<Vec<T>, CommandError> {
    let mut vector = Vec::new();
    let bytes = count.saturating_mul(size_of::<T>());
    vector.try_reserve_exact(count).map_err(|_| CommandError::NoMemory(bytes as u64))?;
    Ok(vector)
}

/// Adds an element at the end.
///
/// # Errors
///
/// [`CommandError::NoMemory`].
pub(crate) fn push<T>(vector: &mut Vec<T>, element: T) -> Result<(), CommandError> {
    let wanted_bytes = size_of::<T>() as u64 * (vector.len() as u64 + 1);
    vector.try_reserve(1).map_err(|_| CommandError::NoMemory(wanted_bytes))?;
    vector.push(element);
    Ok(())
}

/// Adds bytes at the end.
///
/// # Errors
///
/// [`CommandError::NoMemory`].
pub(crate) fn extend(vector: &mut Vec<u8>, bytes: &[u8]) -> Result<(), CommandError> {
    let wanted_bytes = (vector.len() + bytes.len()) as u64;
    vector.try_reserve(bytes.len()).map_err(|_| CommandError::NoMemory(wanted_bytes))?;
    vector.extend_from_slice(bytes);
    Ok(())
}

/// All elements of an iterator.
///
/// # Errors
///
/// [`CommandError::NoMemory`].
pub(crate) fn collect<T>(elements: impl Iterator<Item = T>) -> Result<Vec<T>, CommandError> {
    let mut vector = with_capacity(elements.size_hint().0)?;
    for element in elements {
        push(&mut vector, element)?;
    }
    Ok(vector)
}

/// Several slices as one.
///
/// # Errors
///
/// [`CommandError::NoMemory`].
pub(crate) fn concat(parts: &[&[u8]]) -> Result<Vec<u8>, CommandError> {
    let mut bytes = with_capacity(parts.iter().map(|part| part.len()).sum())?;
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    Ok(bytes)
}

/// Zeros.
///
/// # Errors
///
/// [`CommandError::NoMemory`].
pub(crate) fn zeros(length: usize) -> Result<Vec<u8>, CommandError> {
    let mut bytes = with_capacity(length)?;
    bytes.resize(length, 0);
    Ok(bytes)
}

/// A long string that is to be written.
///
/// # Errors
///
/// [`CommandError::NoMemory`].
pub(crate) fn new_string(length: usize) -> Result<NewString, CommandError> {
    NewString::with_length(length).ok_or(CommandError::NoMemory(length as u64))
}

/// The value of a string that is to be stored. A large one is shared with the argument that was
/// received into memory of its own, or copied here; what is left to copy later is small.
///
/// # Errors
///
/// [`CommandError::NoMemory`].
#[inline]
pub(crate) fn string_value<'v>(
    args: &ArgumentView<'_>,
    bytes: &'v [u8],
) -> Result<NewValue<'v>, CommandError> {
    if is_large(bytes) { large_value(args, bytes) } else { Ok(NewValue::String(bytes)) }
}

/// True if a string is so long that [`string_value`] does not leave it to be copied later.
#[inline]
pub(crate) fn is_large(bytes: &[u8]) -> bool {
    bytes.len() as u64 >= LARGE_BYTES_MIN
}

#[cold]
fn large_value<'v>(args: &ArgumentView<'_>, bytes: &[u8]) -> Result<NewValue<'v>, CommandError> {
    if let Some(owner) = args.owner_of(bytes) {
        return Ok(NewValue::Shared(owner.clone()));
    }
    let mut copy = new_string(bytes.len())?;
    copy.append(bytes);
    Ok(NewValue::Shared(copy.finish()))
}

/// A copy of a string's bytes.
///
/// # Errors
///
/// [`CommandError::NoMemory`].
pub(crate) fn copy(value: StringValue<'_>) -> Result<Vec<u8>, CommandError> {
    copy_range(value, 0..value.len(), 0)
}

/// A copy of a string's bytes, with room for more of them.
///
/// # Errors
///
/// [`CommandError::NoMemory`].
pub(crate) fn copy_with_room(
    value: StringValue<'_>,
    room_bytes: usize,
) -> Result<Vec<u8>, CommandError> {
    copy_range(value, 0..value.len(), room_bytes)
}

/// A string in one run of bytes: a copy when it is stored in chunks.
///
/// # Errors
///
/// [`CommandError::NoMemory`].
pub(crate) fn contiguous(value: StringValue<'_>) -> Result<Cow<'_, [u8]>, CommandError> {
    match value {
        StringValue::Plain(bytes) => Ok(Cow::Borrowed(bytes)),
        StringValue::Chunks(_) => copy(value).map(Cow::Owned),
    }
}

/// A copy of some of a string's bytes, which must be there, with room for more.
///
/// # Errors
///
/// [`CommandError::NoMemory`].
pub(crate) fn copy_range(
    value: StringValue<'_>,
    range: std::ops::Range<u64>,
    room_bytes: usize,
) -> Result<Vec<u8>, CommandError> {
    let mut bytes = with_capacity((range.end - range.start) as usize + room_bytes)?;
    match value {
        StringValue::Plain(plain) => {
            bytes.extend_from_slice(&plain[range.start as usize..range.end as usize]);
        }
        StringValue::Chunks(text) => text.copy_to(range, &mut bytes),
    }
    Ok(bytes)
}

/// Memory that there is for the worker: asked for before a change begins, because what it stores is
/// many small blocks, which cannot fail one by one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room<'k> {
    shared: &'k Shared,
}

impl<'k> Room<'k> {
    pub(crate) fn of(shared: &'k Shared) -> Room<'k> {
        Room { shared }
    }

    /// Succeeds if there is room for `bytes` more, in pieces of any size. Costs next to nothing for
    /// few bytes.
    ///
    /// # Errors
    ///
    /// [`CommandError::NoMemory`] when there are not as many.
    #[inline]
    pub(crate) fn check(self, bytes: u64) -> Result<(), CommandError> {
        if bytes < LARGE_BYTES_MIN { Ok(()) } else { self.check_large(bytes) }
    }

    #[cold]
    fn check_large(self, bytes: u64) -> Result<(), CommandError> {
        let has_room = usize::try_from(bytes).is_ok_and(|bytes| self.shared.host.has_room(bytes));
        if has_room { Ok(()) } else { Err(CommandError::NoMemory(bytes)) }
    }

    /// True if there is room for what deleting a key or field of this name beside a command copies
    /// of it. Without it, what was to be done waits for another time.
    pub(crate) fn has_name_copies(self, name: &[u8]) -> bool {
        self.check(NAME_COPIES_MAX * name.len() as u64).is_ok()
    }

    /// A copy of a name, if there is room for it and the others.
    pub(crate) fn name_copy(self, name: &[u8]) -> Option<Box<[u8]>> {
        self.has_name_copies(name).then(|| name.into())
    }

    /// Succeeds if there is room to change `count` elements of a collection: each change may copy a
    /// path of nodes, all of them together the collection.
    ///
    /// # Errors
    ///
    /// [`CommandError::NoMemory`] when the system would not give that.
    pub(crate) fn check_edit(
        self,
        entry: EntryRef<'_>,
        element_count: u64,
    ) -> Result<(), CommandError> {
        let copied_bytes = element_count.saturating_mul(EDITED_PATH_BYTES_MAX);
        if copied_bytes < LARGE_BYTES_MIN {
            return Ok(());
        }
        self.check(copied_bytes.min(entry.total_bytes() as u64))
    }
}
