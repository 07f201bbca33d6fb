//! Libraries of functions.
//!
//! All libraries are one immutable [`Snapshot`]; a change puts another one in its place. The two
//! share what is not changed, since a change runs while all other workers are stopped. Workers keep
//! the snapshot of their last call, and files that are being written keep that of their cut, each
//! for any time and on any thread: so no snapshot is changed once it was put in its place.
//!
//! A worker compiles the sources of the libraries that its snapshot lacks, so the state that a
//! library keeps in its variables is the worker's own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rpds::RedBlackTreeMapSync;
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

/// All libraries at one moment. A clone costs two pointers, and a change of the clone copies the
/// paths to the changed entries alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    libraries: RedBlackTreeMapSync<Box<[u8]>, Arc<Library>>,
    /// Libraries by the names of their functions in lower case.
    owners: RedBlackTreeMapSync<Box<[u8]>, (Arc<Library>, usize)>,
    /// Bytes that the libraries take.
    bytes: usize,
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
        let removals = self.removals + self.libraries.size() as u64;
        *self = Snapshot { removals, ..Snapshot::default() };
    }

    /// Number of functions.
    pub(crate) fn function_count(&self) -> usize {
        self.owners.size()
    }

    /// Bytes that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a library; one of the same name is replaced if `replaces`.
    ///
    /// # Errors
    ///
    /// Text of the collision.
    pub(crate) fn add(&mut self, library: Arc<Library>, replaces: bool) -> Result<(), Vec<u8>> {
        if self.library(&library.name).is_some() {
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
            let name = function.name.to_ascii_lowercase().into();
            self.owners.insert_mut(name, (Arc::clone(&library), index));
        }
        self.bytes += library.bytes();
        self.libraries.insert_mut(library.name.clone(), library);
        Ok(())
    }

    /// Removes a library; tells whether it was there.
    pub(crate) fn remove(&mut self, name: &[u8]) -> bool {
        let Some(library) = self.library(name).cloned() else { return false };
        self.libraries.remove_mut(name);
        self.removals += 1;
        self.bytes -= library.bytes();
        for function in &library.functions {
            self.owners.remove_mut(&*function.name.to_ascii_lowercase());
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

    /// Changes the libraries, all or nothing: `change` has a clone, which takes the place of the
    /// present ones if it succeeds. It costs what the changed libraries cost; the libraries that it
    /// removes are freed by the last reader of their snapshot.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn library(name: &str, functions: impl Iterator<Item = String>) -> Arc<Library> {
        let function = |name: String| LibraryFunction {
            name: name.into_bytes().into(),
            description: None,
            flags: Flags::default(),
            undeclared: UndeclaredKeys::default(),
        };
        let (name, source) = (name.as_bytes().into(), b"source"[..].into());
        Arc::new(Library { name, source, functions: functions.map(function).collect() })
    }

    fn small(number: usize) -> Arc<Library> {
        library(&format!("small{number}"), std::iter::once(format!("Function{number}")))
    }

    fn functions_with(library: Arc<Library>) -> Functions {
        let functions = Functions::default();
        functions.change(|present| present.add(library, false)).expect("it is the first one");
        functions
    }

    #[test]
    fn change_costs_what_the_changed_library_costs() {
        let large = library("large", (0..100_000).map(|number| format!("large{number}")));
        let functions = functions_with(Arc::clone(&large));
        // As a worker has it that calls a function now and then.
        let before = functions.snapshot();
        // Each entry that names the library holds it.
        let entries = Arc::strong_count(&large);
        functions.change(|present| present.add(small(0), false)).expect("its name is new");
        functions.change(|present| present.add(small(0), true)).expect("it is replaced");
        let removed = functions.change(|present| Ok::<_, ()>(present.remove(b"small0")));
        assert_eq!(removed, Ok(true));
        let copied = Arc::strong_count(&large) - entries;
        assert!(copied < 300, "{copied} entries of 100,000 were copied");
        assert_eq!((before.libraries().len(), before.function_count()), (1, 100_000));
    }

    #[test]
    fn change_that_fails_changes_nothing() {
        let functions = functions_with(small(1));
        functions.change(|present| present.add(small(2), false)).expect("its name is new");
        let (before, version, bytes) =
            (functions.snapshot(), functions.version(), functions.bytes());
        let failed = functions.change(|present| {
            present.clear();
            present.add(small(3), false)?;
            present.add(library("other", std::iter::once("FUNCTION3".to_owned())), true)
        });
        assert_eq!(failed, Err(b"Function FUNCTION3 already exists".to_vec()));
        assert!(Arc::ptr_eq(&before, &functions.snapshot()));
        assert_eq!((functions.version(), functions.bytes()), (version, bytes));
        assert_eq!((before.libraries().len(), before.function_count()), (2, 2));
        assert!(before.function(b"fUNCTION2").is_some() && before.function(b"function3").is_none());
    }

    #[test]
    fn bytes_are_those_of_the_libraries_that_are_there() {
        let functions = functions_with(small(1));
        let bytes = small(1).bytes();
        assert_eq!(functions.bytes(), bytes as u64);
        functions.change(|present| present.add(small(2), false)).expect("its name is new");
        functions.change(|present| present.add(small(2), true)).expect("it is replaced");
        assert_eq!(functions.snapshot().bytes(), 2 * bytes);
        let removed = functions.change(|present| Ok::<_, ()>(present.remove(b"small1")));
        assert_eq!((removed, functions.bytes()), (Ok(true), bytes as u64));
        let cleared: Result<(), ()> = functions.change(|present| {
            present.clear();
            Ok(())
        });
        assert_eq!((cleared, functions.snapshot().bytes()), (Ok(()), 0));
        assert_eq!((functions.bytes(), functions.snapshot().function_count()), (0, 0));
    }
}
