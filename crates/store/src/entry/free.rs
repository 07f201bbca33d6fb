//! Retiring and freeing of entries, with their values or without.
#![allow(unsafe_code)]

use std::alloc::dealloc;
use std::ptr::NonNull;

use tidemill_rcu::Garbage;

use super::shared::{shared_bytes, shared_from_raw};
use super::{Disposal, EntryRef, SHARED, TREE, Value, layout};
use crate::heap::Heap;

/// # Safety
///
/// `raw` holds one count that the caller gives up.
pub(super) unsafe fn free_shared(raw: NonNull<u8>) {
    // SAFETY: the caller's promise.
    drop(unsafe { shared_from_raw(raw) });
}

/// # Safety
///
/// `pointer` must come from `OwnedEntry::build`, and no reference to the entry may be left.
pub(super) unsafe fn free_entry(pointer: NonNull<u8>) {
    // SAFETY: the entry is still whole.
    let entry = unsafe { EntryRef::from_pointer(pointer) };
    let header = entry.header();
    let layout = layout(header.flags, entry.storage(), entry.key_length(), entry.inline_length());
    // SAFETY: allocated by `build` with the layout that the same fields gave.
    unsafe { dealloc(pointer.as_ptr(), layout) };
}

/// Retires an entry that its slot's owner has just taken out of the table, and its value as
/// `disposal` says. Returns the bytes of both, also when the value is kept.
///
/// # Safety
///
/// The entry must be out of reach for readers that begin now, and retired only once.
pub(crate) unsafe fn retire(entry: EntryRef<'_>, disposal: Disposal, heap: &Heap) -> usize {
    let value_bytes = match entry.value() {
        Value::String(bytes) if entry.storage() == SHARED => {
            let raw = entry.shared_pointer();
            let bytes = shared_bytes(bytes.len());
            // SAFETY: the entry's reference count of the string goes to the garbage.
            heap.retire(unsafe { Garbage::new(raw, bytes, free_shared) });
            bytes
        }
        Value::String(_) => 0,
        Value::Tree(root) => {
            let bytes = root.total_bytes();
            if disposal == Disposal::RetireValue {
                // SAFETY: the caller's promise covers the value.
                unsafe { root.retire(heap) };
            }
            bytes
        }
    };
    let entry_bytes = entry.counted_bytes();
    // SAFETY: by the caller's promise no thread can newly reach the entry.
    heap.retire(unsafe { Garbage::new(entry.pointer, entry_bytes, free_entry) });
    entry_bytes + value_bytes
}

/// Retires an entry that was taken out of its table before, and its value as `disposal` says.
///
/// A tree that is kept is not read: others may have retired nodes of it since, which are freed.
///
/// # Safety
///
/// As for [`retire`].
pub(crate) unsafe fn retire_left(entry: EntryRef<'_>, disposal: Disposal, heap: &Heap) {
    if disposal == Disposal::KeepValue && entry.storage() == TREE {
        let entry_bytes = entry.counted_bytes();
        // SAFETY: by the caller's promise no thread can newly reach the entry.
        return heap.retire(unsafe { Garbage::new(entry.pointer, entry_bytes, free_entry) });
    }
    // SAFETY: the caller's promise. A tree that is retired belongs to the entry alone.
    unsafe { retire(entry, disposal, heap) };
}

/// Gives up what a copy that [`EntryRef::copy_to`] made owns.
///
/// # Safety
///
/// The copy is not used any more.
pub(crate) unsafe fn release_copy(copy: EntryRef<'_>) {
    if copy.storage() == SHARED {
        // SAFETY: the copy owns one count.
        unsafe { free_shared(copy.shared_pointer()) };
    }
}

/// Frees an entry at once that was taken out of its table, and its value as `disposal` says.
///
/// # Safety
///
/// No reference to the entry or, unless it is kept, to its value may be left.
pub(crate) unsafe fn free_left(entry: EntryRef<'_>, disposal: Disposal) {
    if disposal == Disposal::RetireValue || entry.root().is_none() {
        // SAFETY: the caller's promise.
        return unsafe { free_whole(entry) };
    }
    // SAFETY: the caller's promise.
    unsafe { free_entry(entry.pointer) };
}

/// Frees an entry and its value at once.
///
/// # Safety
///
/// No reference to the entry or its value may be left.
pub(crate) unsafe fn free_whole(entry: EntryRef<'_>) {
    match entry.value() {
        // SAFETY: the entry's reference count of the string is given up.
        Value::String(_) if entry.storage() == SHARED => unsafe {
            free_shared(entry.shared_pointer());
        },
        Value::String(_) => {}
        // SAFETY: the caller's promise covers the value.
        Value::Tree(root) => unsafe { root.free() },
    }
    // SAFETY: the caller's promise.
    unsafe { free_entry(entry.pointer) };
}
