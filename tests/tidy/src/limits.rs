//! Limits of the rules.

/// Lines of a file; of a Rust file without its inline tests.
pub const FILE_LINES_MAX: usize = 800;

/// Lines of a function, from its signature to its closing brace.
pub const FUNCTION_LINES_MAX: usize = 70;

/// Columns of a line of code or comment, in characters.
pub const LINE_COLUMNS_MAX: usize = 100;

/// Columns of a tab in Go.
pub const TAB_COLUMNS: usize = 4;

/// Files of one crate that all import each other, directly or by way of others.
pub const CIRCLE_FILES_MAX: usize = 8;

/// Step of an exception for a long file, lines: an edit of a few lines needs no new exception.
pub const FILE_LINES_STEP: usize = 50;

/// Step of an exception for a long function, lines.
pub const FUNCTION_LINES_STEP: usize = 10;
