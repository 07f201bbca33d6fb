//! Everything that was read through a root, so that a capture holds neither less nor more.

use std::collections::{BTreeMap, BTreeSet};

use crate::ReadError;

/// Texts that were read, by path; of several readings of a path the first counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recording {
    pub(crate) texts: BTreeMap<String, String>,
    pub(crate) names: BTreeMap<String, Vec<String>>,
    /// Paths that were looked up and are there: files, directories and links.
    pub(crate) seen: BTreeSet<String>,
    /// Refusals that the absence of a file would not repeat.
    pub(crate) refused: BTreeMap<String, ReadError>,
}

impl Recording {
    pub(crate) fn text(&mut self, path: &str, text: &Result<String, ReadError>) {
        match text {
            Ok(text) => {
                self.texts.entry(path.to_owned()).or_insert_with(|| text.clone());
            }
            Err(error) => self.refused(path, error),
        }
    }

    pub(crate) fn names(&mut self, path: &str, names: &Result<Vec<String>, ReadError>) {
        match names {
            Ok(names) => {
                self.names.entry(path.to_owned()).or_insert_with(|| names.clone());
            }
            Err(error) => self.refused(path, error),
        }
    }

    pub(crate) fn seen(&mut self, path: &str) {
        self.seen.insert(path.to_owned());
    }

    fn refused(&mut self, path: &str, error: &ReadError) {
        if error.errno != libc::ENOENT {
            self.refused.entry(path.to_owned()).or_insert_with(|| error.clone());
        }
    }
}
