//! Garbage: memory that readers may still see, and the function that frees it.
#![allow(unsafe_code)]

use std::mem;
use std::ptr::NonNull;

/// Memory that no thread can newly reach, and the function that frees it. Three words; dropping it
/// leaks the memory.
#[derive(Debug)]
pub struct Garbage {
    pointer: NonNull<u8>,
    /// Size in bytes, and `DEEP` in the highest bit, which no size has.
    size: usize,
    free: unsafe fn(NonNull<u8>),
}

const DEEP: usize = 1 << (usize::BITS - 1);

const _: () = assert!(mem::size_of::<Garbage>() == 3 * mem::size_of::<usize>());

// SAFETY: the contract of `new` demands that `free` may run on any thread.
unsafe impl Send for Garbage {}

impl Garbage {
    /// Garbage of `bytes` bytes that `free` gives back.
    ///
    /// # Safety
    ///
    /// `free(pointer)` must be sound to call once, on any thread, once no reader holds a reference
    /// into the memory. The garbage must be retired only to lists of the domain whose readers may
    /// hold such references.
    #[inline]
    #[must_use]
    pub unsafe fn new(pointer: NonNull<u8>, bytes: usize, free: unsafe fn(NonNull<u8>)) -> Garbage {
        debug_assert!(bytes < DEEP);
        Garbage { pointer, size: bytes, free }
    }

    /// As [`Garbage::new`], for a structure so large that freeing it would stall the thread that
    /// retired it: a list with a [`Reclaimer`](crate::Reclaimer) leaves it to that thread.
    ///
    /// # Safety
    ///
    /// As [`Garbage::new`].
    #[must_use]
    pub unsafe fn deep(
        pointer: NonNull<u8>,
        bytes: usize,
        free: unsafe fn(NonNull<u8>),
    ) -> Garbage {
        debug_assert!(bytes < DEEP);
        Garbage { pointer, size: bytes | DEEP, free }
    }

    /// Garbage of a box that was unlinked. Only its own heap allocation counts as its size.
    ///
    /// # Safety
    ///
    /// No thread can newly reach the value, and the garbage must be retired only to lists of the
    /// domain whose readers may still hold references to it.
    #[must_use]
    pub unsafe fn from_box<T: Send>(value: Box<T>) -> Garbage {
        unsafe fn free<T>(pointer: NonNull<u8>) {
            // SAFETY: the pointer came from `Box::into_raw` of the same type, and `free` is called
            // once.
            drop(unsafe { Box::from_raw(pointer.cast::<T>().as_ptr()) });
        }
        let pointer = NonNull::from(Box::leak(value)).cast();
        // SAFETY: `free` gives back the box; our caller promises the rest.
        unsafe { Garbage::new(pointer, mem::size_of::<T>(), free::<T>) }
    }

    /// Number of bytes that freeing gives back.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.size & !DEEP
    }

    /// True if freeing takes long.
    #[must_use]
    pub fn is_deep(&self) -> bool {
        self.size & DEEP != 0
    }

    /// Prefetches the first cache line for writing. Readers' caches may hold copies of it, and an
    /// allocator's free writes there: without this each free waits for its own line.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a prefetch has no effect on the program, whatever the address; where the
        // instruction is not known it is executed as a no-op.
        unsafe {
            std::arch::asm!(
                "prefetchw [{}]",
                in(reg) self.pointer.as_ptr(),
                options(nostack, preserves_flags, readonly)
            );
        }
    }

    /// Frees the memory now.
    ///
    /// # Safety
    ///
    /// No reader may hold a reference into the memory.
    pub unsafe fn free(self) {
        // SAFETY: `new` made `free` sound under exactly the condition that this function demands.
        unsafe { (self.free)(self.pointer) }
    }
}

/// Garbage whose grace period is over: dropping it frees the memory, on the dropping thread.
#[derive(Debug)]
pub(crate) struct Elapsed(Garbage);

impl Elapsed {
    /// # Safety
    ///
    /// No reader may hold a reference into the memory.
    pub(crate) unsafe fn new(garbage: Garbage) -> Elapsed {
        Elapsed(garbage)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// See [`Garbage::prefetch`].
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        self.0.prefetch();
    }

    pub(crate) fn is_deep(&self) -> bool {
        self.0.is_deep()
    }
}

impl Drop for Elapsed {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: promised to `new`; a value is dropped once.
        unsafe { (self.0.free)(self.0.pointer) }
    }
}
