//! Versions of collections, pinned: see [`pin`](crate::pin) for the protocol.
#![allow(unsafe_code)]

use crate::hash::Seed;
use crate::member::Section;
use crate::pin::Pin;
use crate::tree::Root;
use crate::value::{Collection, Kind};

/// One version of a collection, unchanged for as long as this lives: outside of read sections,
/// whatever happens to the key. Meanwhile the memory of changed collections is not freed, so it
/// should not live long.
///
/// May be moved to another thread. Dropping it takes a mutex that is held for moments only.
#[derive(Debug)]
pub struct Version {
    root: Root,
    kind: Kind,
    _pin: Pin,
}

impl Version {
    /// Pins the version under a root.
    ///
    /// # Safety
    ///
    /// The root is of a collection of this kind, which is current in a slot whose lock the caller
    /// holds.
    pub(crate) unsafe fn of(root: Root, kind: Kind) -> Version {
        Version { root, kind, _pin: Pin::begin() }
    }

    /// View of the collection, if it is a `C`. `seed` is the keyspace's.
    #[must_use]
    pub fn view<'v, C: Collection>(&'v self, seed: &'v Seed) -> Option<C::View<'v>> {
        if self.kind != C::KIND {
            return None;
        }
        // SAFETY: nothing of the version is freed before `self` is dropped, which the lifetime of
        // the returned view forbids; see [`pin`](crate::pin).
        let section = unsafe { Section::assume() };
        // SAFETY: a root of this kind is a `C`'s, and was current when it was pinned.
        Some(unsafe { C::view(self.root, seed, section) })
    }
}
