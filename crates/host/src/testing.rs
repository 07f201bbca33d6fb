//! Trees of files that stand for hosts in tests.

use std::path::Path;

use tempfile::TempDir;

use crate::Root;

/// A root with these files; the directory goes when the guard does.
pub(crate) fn tree(files: &[(&str, &str)]) -> (TempDir, Root) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for (path, text) in files {
        write(directory.path(), path, text);
    }
    let root = Root::open(directory.path()).expect("the directory just made");
    (directory, root)
}

/// Writes one file and the directories above it.
pub(crate) fn write(directory: &Path, path: &str, text: &str) {
    let path = directory.join(path);
    std::fs::create_dir_all(path.parent().expect("a file has a parent")).expect("directories");
    std::fs::write(path, text).expect("a file");
}
