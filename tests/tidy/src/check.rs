//! All rules over one tree.

use crate::layout::CrateLayout;
use crate::{
    Finding, Repository, citations, dead_files, imports, lengths, phrases, purity, rust,
    test_binaries, unsafe_code,
};

/// Violations of all rules, without regard to exceptions.
///
/// # Panics
///
/// When a Rust file is no valid Rust.
#[must_use]
pub fn findings(repository: &Repository, crates: &[CrateLayout]) -> Vec<Finding> {
    let files = rust::parse(repository);
    let rules = [
        lengths::in_rust(&files),
        lengths::in_go(repository),
        lengths::wide_lines(repository),
        imports::findings(crates, &files),
        purity::forbidden_names(crates, &files),
        purity::crates_without_layout(crates, repository),
        unsafe_code::unlisted(repository),
        phrases::vague(repository),
        citations::dead(repository),
        dead_files::dead(repository),
        test_binaries::without_reason(repository),
    ];
    rules.into_iter().flatten().collect()
}
