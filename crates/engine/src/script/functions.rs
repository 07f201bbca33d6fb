//! Libraries of functions.
//!
//! All libraries are one immutable [`Snapshot`]; a change puts another one in its place. A worker
//! compiles the sources of the libraries that its snapshot lacks, so the state that a library keeps
//! in its variables is the worker's own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_script::Flags;

use super::cache::UndeclaredKeys;
use crate::limits::{FUNCTION_BYTES, LIBRARY_BYTES};

/// A function of a library.
#[derive(Debug)]
pub(crate) struct LibraryFunction {
    pub(crate) name: Box<[u8]>,
    pub(crate) description: Option<Box<[u8]>>,
    pub(crate) flags: Flags,
    pub(crate) undeclared: UndeclaredKeys,
}

/// A library as it was loaded.
#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) name: Box<[u8]>,
    pub(crate) source: Box<[u8]>,
    pub(crate) functions: Vec<LibraryFunction>,
}

/// Bytes of a function with these texts, as they are accounted.
pub(crate) fn function_bytes(name: &[u8], description: Option<&[u8]>) -> usize {
    FUNCTION_BYTES + name.len() + description.map_or(0, <[u8]>::len)
}

impl Library {
    /// Bytes that it takes, as they are accounted.
    pub(crate) fn bytes(&self) -> usize {
        let functions = self.functions.iter();
        let functions =
            functions.map(|each| function_bytes(&each.name, each.description.as_deref()));
        self.source.len() + LIBRARY_BYTES + functions.sum::<usize>()
    }
}

/// All libraries at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    libraries: BTreeMap<Box<[u8]>, Arc<Library>>,
    /// Libraries by the names of their functions in lower case.
    owners: BTreeMap<Box<[u8]>, (Arc<Library>, usize)>,
    /// Libraries that were removed or replaced so far.
    removals: u64,
}

impl Snapshot {
    /// The library of a name.
    pub(crate) fn library(&self, name: &[u8]) -> Option<&Arc<Library>> {
        self.libraries.get(name)
    }

    /// All libraries.
    pub(crate) fn libraries(&self) -> impl ExactSizeIterator<Item = &Arc<Library>> {
        self.libraries.values()
    }

    /// A function by its name, of which upper and lower case are the same: its library and its
    /// index there.
    pub(crate) fn function(&self, name: &[u8]) -> Option<&(Arc<Library>, usize)> {
        self.owners.get(&*name.to_ascii_lowercase())
    }

    /// Changes when a library is removed or replaced.
    pub(crate) fn removals(&self) -> u64 {
        self.removals
    }

    /// Removes all libraries.
    pub(crate) fn clear(&mut self) {
        self.removals += self.libraries.len() as u64;
        self.libraries.clear();
        self.owners.clear();
    }

    /// Number of functions.
    pub(crate) fn function_count(&self) -> usize {
        self.owners.len()
    }

    /// Bytes that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.libraries.values().map(|library| library.bytes()).sum()
    }

    /// Adds a library; one of the same name is replaced if `replaces`.
    ///
    /// # Errors
    ///
    /// Text of the collision.
    pub(crate) fn add(&mut self, library: Arc<Library>, replaces: bool) -> Result<(), Vec<u8>> {
        if self.libraries.contains_key(&library.name) {
            if !replaces {
                return Err([b"Library '", &*library.name, b"' already exists"].concat());
            }
            self.remove(&library.name);
        }
        for function in &library.functions {
            if self.function(&function.name).is_some() {
                return Err([b"Function ", &*function.name, b" already exists"].concat());
            }
        }
        for (index, function) in library.functions.iter().enumerate() {
            let name = function.name.to_ascii_lowercase().into_boxed_slice();
            self.owners.insert(name, (Arc::clone(&library), index));
        }
        self.libraries.insert(library.name.clone(), library);
        Ok(())
    }

    /// Removes a library; tells whether it was there.
    pub(crate) fn remove(&mut self, name: &[u8]) -> bool {
        let Some(library) = self.libraries.remove(name) else { return false };
        self.removals += 1;
        for function in &library.functions {
            self.owners.remove(&*function.name.to_ascii_lowercase());
        }
        true
    }
}

/// Treatment of the libraries that are there when others are restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// All are deleted before.
    Flush,
    /// A collision of names is an error.
    Append,
    /// A library of the same name is replaced.
    Replace,
}

/// Reason for which libraries are not restored. Nothing is changed then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreError {
    /// The payload is none, or damaged.
    Payload,
    /// A library does not load, or collides with one that is there: the text of the error.
    Library(Vec<u8>),
}

/// All libraries of one server.
#[derive(Debug, Default)]
pub struct Functions {
    present: Mutex<Arc<Snapshot>>,
    /// Changes with `present`.
    version: AtomicU64,
    /// Bytes that the libraries take.
    bytes: AtomicU64,
}

impl Functions {
    /// The libraries now.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.present.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Bytes that the libraries take.
    pub(crate) fn bytes(&self) -> u64 {
        // Relaxed: a statistic.
        self.bytes.load(Ordering::Relaxed)
    }

    /// Changes when the libraries do.
    pub(crate) fn version(&self) -> u64 {
        // Acquire: pairs with the Release in `change`, which precedes its answer.
        self.version.load(Ordering::Acquire)
    }

    /// Changes the libraries, all or nothing.
    ///
    /// # Errors
    ///
    /// Those of `change`.
    pub(crate) fn change<T, R>(
        &self,
        change: impl FnOnce(&mut Snapshot) -> Result<T, R>,
    ) -> Result<T, R> {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = Snapshot::clone(&present);
        let result = change(&mut next)?;
        // Relaxed: a statistic.
        self.bytes.store(next.bytes() as u64, Ordering::Relaxed);
        *present = Arc::new(next);
        // Release: pairs with the Acquire in `version`. The mutex orders changes.
        self.version.fetch_add(1, Ordering::Release);
        Ok(result)
    }
}
