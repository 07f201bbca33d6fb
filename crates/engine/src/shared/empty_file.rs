//! Empty files: what `FLUSHALL` saves where there are save points. They need no walk and no cut,
//! only the disk, which may be slow; so a thread beside the workers writes them.
//!
//! They are numbered. One file answers all requests that came before it is begun: any number of
//! clients that flush at the same time wait for two files at most. The first client that asks while
//! there is no thread sees to one; it ends when nothing is left to be written.

use std::sync::Arc;

use crate::script::Snapshot as Libraries;

/// An empty file that is to be written.
#[derive(Clone, Debug)]
pub struct EmptyFile {
    /// The last one that it answers.
    pub number: u32,
    /// Sum of the workers' changes that it has.
    pub changes: u64,
    libraries: Arc<Libraries>,
}

impl EmptyFile {
    /// Sources of the libraries of functions in it: they are no keys, and a flush keeps them.
    #[must_use]
    pub fn libraries(&self) -> Vec<Box<[u8]>> {
        self.libraries.libraries().map(|library| library.source.clone()).collect()
    }
}

/// Empty files that were asked for, and those that have been written.
#[derive(Debug, Default)]
pub(super) struct EmptyFiles {
    begun: u32,
    ended: u32,
    /// Content of the last one that was asked for.
    changes: u64,
    libraries: Arc<Libraries>,
    has_thread: bool,
}

impl EmptyFiles {
    /// Asks for one; returns its number.
    pub(super) fn begin(&mut self, changes: u64, libraries: Arc<Libraries>) -> u32 {
        self.begun = self.begun.wrapping_add(1);
        (self.changes, self.libraries) = (changes, libraries);
        self.begun
    }

    /// The file of that number and all before it are there, or have failed.
    pub(super) fn end(&mut self, number: u32) {
        if !self.has_ended(number) {
            self.ended = number;
        }
    }

    pub(super) fn has_ended(&self, number: u32) -> bool {
        // Numbers wrap; fewer than half of them are waited for at a time.
        self.ended.wrapping_sub(number).cast_signed() >= 0
    }

    pub(super) fn is_one_awaited(&self) -> bool {
        self.begun != self.ended
    }

    /// Number of the latest one, unless it has ended.
    pub(super) fn latest_awaited(&self) -> Option<u32> {
        self.is_one_awaited().then_some(self.begun)
    }

    /// The latest one, unless that of this number has ended.
    pub(super) fn awaited(&self, number: u32) -> Option<EmptyFile> {
        (!self.has_ended(number)).then(|| self.latest())
    }

    fn latest(&self) -> EmptyFile {
        let libraries = Arc::clone(&self.libraries);
        EmptyFile { number: self.begun, changes: self.changes, libraries }
    }

    pub(super) fn claim_thread(&mut self) -> bool {
        !std::mem::replace(&mut self.has_thread, true)
    }

    pub(super) fn give_up_thread(&mut self) {
        self.has_thread = false;
    }

    /// The one that the thread has to write next; it ends without one.
    pub(super) fn next_of_thread(&mut self) -> Option<EmptyFile> {
        self.has_thread = self.is_one_awaited();
        self.has_thread.then(|| self.latest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_answers_all_requests_before_it() {
        let mut files =
            EmptyFiles { begun: u32::MAX - 1, ended: u32::MAX - 1, ..Default::default() };
        let mut begin = |changes| files.begin(changes, Arc::default());
        let numbers = [begin(5), begin(6), begin(7)];
        assert!(files.claim_thread() && !files.claim_thread());
        let first = files.next_of_thread().expect("three are awaited");
        assert_eq!((first.number, first.changes), (numbers[2], 7));
        let later = files.begin(8, Arc::default());
        files.end(first.number);
        // An older file that ends late takes nothing back.
        files.end(numbers[0]);
        assert_eq!(numbers.map(|number| files.has_ended(number)), [true; 3]);
        assert!(files.is_one_awaited() && files.awaited(numbers[2]).is_none());
        assert_eq!(files.awaited(later).map(|file| file.changes), Some(8));
        assert!(!files.claim_thread(), "the thread goes on");
        let second = files.next_of_thread().expect("one is awaited");
        files.end(second.number);
        assert!(files.next_of_thread().is_none() && !files.is_one_awaited());
        assert!(files.claim_thread(), "the thread has ended");
    }
}
