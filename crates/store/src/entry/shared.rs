//! String outside of its entry, shared by reference count.

use std::ptr::NonNull;

use triomphe::ThinArc;

use crate::size_class::size_class;

/// String too long for its entry, shared by reference count; immutable.
pub type SharedString = ThinArc<(), u8>;

/// Bytes of a shared string of `length` bytes, as they are counted: reference count, length,
/// content.
pub(super) fn shared_bytes(length: usize) -> usize {
    size_class(2 * size_of::<usize>() + length)
}

/// # Safety
///
/// `raw` must come from `SharedString::into_raw`, and the caller must not end up owning more counts
/// than there are.
pub(super) unsafe fn shared_from_raw(raw: NonNull<u8>) -> SharedString {
    // SAFETY: the caller's promise.
    unsafe { SharedString::from_raw(raw.as_ptr().cast_const().cast()) }
}

/// # Safety
///
/// `raw` must come from `SharedString::into_raw`, and some count must be held for all of `'g`.
pub(super) unsafe fn shared_slice<'g>(raw: NonNull<u8>) -> &'g [u8] {
    // SAFETY: the caller's promise; the count is not dropped here.
    let held = std::mem::ManuallyDrop::new(unsafe { shared_from_raw(raw) });
    let bytes = NonNull::from(&held.slice);
    // SAFETY: the string is immutable and lives for `'g` by the caller's promise.
    unsafe { bytes.as_ref() }
}
