//! Files of the repository: those that git tracks and those that it would track.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Paths and texts of the repository's files, or of a toy tree.
#[derive(Clone, Debug, Default)]
pub struct Repository {
    /// Text by path, with `/`; none for a file that is no text.
    files: BTreeMap<String, Option<String>>,
}

impl Repository {
    /// Root of the repository that this crate is part of.
    #[must_use]
    pub fn root() -> PathBuf {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        here.ancestors().nth(2).map_or_else(|| here.to_owned(), Path::to_owned)
    }

    /// All files below [`Repository::root`] that are not ignored.
    ///
    /// # Panics
    ///
    /// When git does not list them, for instance in an archive without `.git`.
    #[must_use]
    pub fn read() -> Repository {
        let root = Repository::root();
        let output = Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard"])
            .current_dir(&root)
            .output()
            .expect("git is installed where the repository was cloned");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git ls-files: {errors}");
        let listed = String::from_utf8_lossy(&output.stdout);
        // A file that was removed and not staged is listed still.
        let existing = listed.lines().filter(|path| root.join(path).is_file());
        let read = |path: &str| (path.to_owned(), std::fs::read_to_string(root.join(path)).ok());
        Repository { files: existing.map(read).collect() }
    }

    /// A toy tree.
    #[must_use]
    pub fn of(files: &[(&str, &str)]) -> Repository {
        let owned = |(path, text): &(&str, &str)| ((*path).to_owned(), Some((*text).to_owned()));
        Repository { files: files.iter().map(owned).collect() }
    }

    /// Paths of all files.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Paths and texts of all text files.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// Paths and texts of the text files whose path has an ending, as `.rs`.
    pub fn with_ending<'a>(&'a self, ending: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.texts().filter(move |(path, _)| path.ends_with(ending))
    }

    /// Text of a file.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// True if a file has this path, or any file is below it.
    #[must_use]
    pub fn has(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        let mut below = self.files.range(folder.clone()..);
        self.files.contains_key(path)
            || below.next().is_some_and(|(path, _)| path.starts_with(&folder))
    }
}
