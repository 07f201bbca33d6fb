//! Shared parts of the tests of the tree.
#![allow(unsafe_code, dead_code)]

use tidemill_store::Heap;
use tidemill_store::Section;

/// Frees everything that was retired.
///
/// # Safety
///
/// No reader is left.
pub unsafe fn free_retired(heap: &Heap) {
    // SAFETY: the caller's promise.
    unsafe { heap.retired().free_all() };
}

/// A section in which nothing is freed: the tests free only when they hold their structure
/// exclusively.
pub fn section<T>(_owner: &T) -> Section<'_> {
    // SAFETY: freeing needs the owner exclusively, so nothing is freed while the section is in use.
    unsafe { Section::assume() }
}

/// A reproducible stream of random numbers (SplitMix64).
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// Random bytes, shorter than `bound`.
    pub fn bytes(&mut self, bound: usize) -> Vec<u8> {
        (0..self.below(bound)).map(|_| self.next() as u8).collect()
    }

    /// Mostly short, now and then larger than a node.
    pub fn element(&mut self) -> Vec<u8> {
        match self.below(60) {
            0 => self.bytes(3000),
            1..4 => self.bytes(700),
            _ => self.bytes(30),
        }
    }
}
