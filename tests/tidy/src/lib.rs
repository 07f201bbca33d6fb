//! Rules of the project's style that a program can keep.
//!
//! Each rule is a function from a [`Repository`] to [`Finding`]s, so that its tests can give it a
//! toy tree with a planted violation. `tests/tidy.rs` runs all rules over the repository and
//! compares the findings with `exceptions.txt`, which names every violation of today with its
//! extent: a new violation fails, and so does an exception that is larger than needed. So the file
//! can only shrink.
//!
//! Data, each in one place: [`layout`] (crates, rooms, what they may import and name), [`limits`],
//! [`phrases`] (words), `unsafe_files.txt`, `exceptions.txt`. To add a rule: a variant of [`Rule`],
//! a function with a planted violation among its tests, a line in [`check::findings`].
//!
//! Not a linter of code: what clippy, rustfmt, gofmt and `go vet` find is theirs.

pub mod check;
pub mod citations;
pub mod dead_files;
pub mod exceptions;
pub mod finding;
pub mod go;
pub mod imports;
pub mod layout;
pub mod lengths;
pub mod limits;
pub mod names;
pub mod phrases;
pub mod purity;
pub mod repository;
pub mod rust;
pub mod test_binaries;
pub mod unsafe_code;

pub use finding::{Finding, Rule, Site};
pub use repository::Repository;
