//! Integration tests that are a binary of their own.
//!
//! Each binary is linked with all of its crate, which is most of the time between an edit and its
//! verdict. So a crate has one, `all`, and a further one gives its reason in its
//! header, which holds the words [`REASON`].

use crate::{Finding, Repository, Rule, Site};

/// Words in the header of a test that cannot share a process.
const REASON: &str = "process of its own";

/// Test binaries of the crates beside `all` whose header gives no reason.
#[must_use]
pub fn without_reason(repository: &Repository) -> Vec<Finding> {
    let files = repository.with_ending(".rs").filter(|(path, _)| is_further_binary(path));
    let bare = files.filter(|(_, text)| !header(text).contains(REASON));
    let fact = "a test binary beside `all`, whose header does not say why";
    bare.map(|(path, _)| Finding::new(Rule::TestBinary, path, 1, Site::new(path, 1, fact)))
        .collect()
}

/// True for a file, or the `main.rs` of a folder other than `all`, in the tests of a crate.
fn is_further_binary(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    match parts[..] {
        ["crates", _, "tests", _] => true,
        ["crates", _, "tests", folder, "main.rs"] => folder != "all",
        _ => false,
    }
}

/// Text of a file's header, without line ends.
fn header(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_binary_of_a_crate_needs_a_reason_in_its_header() {
        let files = [
            ("crates/x/tests/all/main.rs", "//! All.\nmod a;"),
            ("crates/x/tests/all/a.rs", ""),
            ("crates/x/tests/harness/mod.rs", ""),
            ("crates/x/tests/bare.rs", "//! Bare.\n// It has a process of its own.\n"),
            ("crates/x/tests/folder/main.rs", "//! Bare."),
            ("crates/x/tests/told.rs", "//! Told.\n//!\n//! A process of its\n//! own: it forks."),
            ("tests/tidy/tests/tidy.rs", ""),
        ];
        let found = without_reason(&Repository::of(&files)).into_iter();
        let places: Vec<String> = found.map(|finding| finding.place).collect();
        assert_eq!(places, ["crates/x/tests/bare.rs", "crates/x/tests/folder/main.rs"]);
    }
}
