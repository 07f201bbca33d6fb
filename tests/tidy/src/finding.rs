//! Violations of a rule, grouped by the place that an exception can name.

use std::collections::BTreeMap;

use crate::limits::{FILE_LINES_STEP, FUNCTION_LINES_STEP};

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Length of a file; place: its path; measure: lines.
    FileLength,
    /// Length of a function; place: `path::function`; measure: lines.
    FunctionLength,
    /// Width of lines; place: path; measure: lines that are too wide.
    LineWidth,
    /// Imports in a circle; place: crate; measure: files of the largest circle.
    ImportCircle,
    /// Import from one room into another that its entry does not name; place: `path->module`.
    RoomImport,
    /// Name that a room or a crate must not use; place: `path->name`.
    ForbiddenName,
    /// Crate without an entry in the layout; place: its path.
    CrateLayout,
    /// Unsafe code in a file that is not listed; place: path.
    UnsafeCode,
    /// Vague phrases; place: part of the repository; measure: their count.
    Phrase,
    /// Comments that open with a question word; place: part of the repository; measure: count.
    CommentOpening,
    /// Citations of files that do not exist; place: path; measure: their count.
    DeadCitation,
    /// File that nothing names, declares or runs; place: path.
    DeadFile,
    /// Test binary beside a crate's `all` without a reason in its header; place: path.
    TestBinary,
}

impl Rule {
    /// All rules, in the order of a report.
    pub const ALL: [Rule; 13] = [
        Rule::FileLength,
        Rule::FunctionLength,
        Rule::LineWidth,
        Rule::ImportCircle,
        Rule::RoomImport,
        Rule::ForbiddenName,
        Rule::CrateLayout,
        Rule::UnsafeCode,
        Rule::Phrase,
        Rule::CommentOpening,
        Rule::DeadCitation,
        Rule::DeadFile,
        Rule::TestBinary,
    ];

    /// Name in reports and in `exceptions.txt`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Rule::FileLength => "file-length",
            Rule::FunctionLength => "function-length",
            Rule::LineWidth => "line-width",
            Rule::ImportCircle => "import-circle",
            Rule::RoomImport => "room-import",
            Rule::ForbiddenName => "forbidden-name",
            Rule::CrateLayout => "crate-layout",
            Rule::UnsafeCode => "unsafe-code",
            Rule::Phrase => "phrase",
            Rule::CommentOpening => "comment-opening",
            Rule::DeadCitation => "dead-citation",
            Rule::DeadFile => "dead-file",
            Rule::TestBinary => "test-binary",
        }
    }

    /// Remedy, for a report.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            Rule::FileLength => "split it by concept",
            Rule::FunctionLength => "split off pieces that earn a domain name",
            Rule::LineWidth => "wrap the line",
            Rule::ImportCircle => "move what both sides need into a lower module",
            Rule::RoomImport => "ask a permitted room for it, or change layout.rs with a reason",
            Rule::ForbiddenName => "take it from the caller as a value or a trait",
            Rule::CrateLayout => "add the crate to CRATES in tests/tidy/src/layout.rs",
            Rule::UnsafeCode => "use a safe module, or list the file in unsafe_files.txt",
            Rule::Phrase => "use the field's term",
            Rule::CommentOpening => "begin with the noun: duration of, true if, number of",
            Rule::DeadCitation => "cite a file of the repository by its path, or drop it",
            Rule::DeadFile => "remove the file, or name it where it is used",
            Rule::TestBinary => "make it a module of tests/all, or give the reason in its header",
        }
    }

    /// Step to which the extent of an exception is rounded up.
    #[must_use]
    pub fn step(self) -> usize {
        match self {
            Rule::FileLength => FILE_LINES_STEP,
            Rule::FunctionLength => FUNCTION_LINES_STEP,
            _ => 1,
        }
    }

    /// Rule by its name.
    #[must_use]
    pub fn named(name: &str) -> Option<Rule> {
        Rule::ALL.into_iter().find(|rule| rule.name() == name)
    }
}

/// A line that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// Path of the file below the repository.
    pub path: String,
    /// Line, counted from 1; 0 is the whole file.
    pub line: usize,
    /// Fact that breaks the rule.
    pub fact: String,
}

impl Site {
    /// A site in a file.
    #[must_use]
    pub fn new(path: &str, line: usize, fact: impl Into<String>) -> Site {
        Site { path: path.to_owned(), line, fact: fact.into() }
    }
}

/// Extent to which one place breaks one rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// Place, in the form that the rule documents.
    pub place: String,
    /// Extent, in the unit that the rule documents.
    pub measure: usize,
    /// Lines of it.
    pub sites: Vec<Site>,
}

impl Finding {
    /// A finding with one site.
    #[must_use]
    pub fn new(rule: Rule, place: impl Into<String>, measure: usize, site: Site) -> Finding {
        Finding { rule, place: place.into(), measure, sites: vec![site] }
    }

    /// Findings whose extent is the count of sites at each place.
    #[must_use]
    pub fn counted(rule: Rule, sites: impl IntoIterator<Item = (String, Site)>) -> Vec<Finding> {
        let mut by_place: BTreeMap<String, Vec<Site>> = BTreeMap::new();
        for (place, site) in sites {
            by_place.entry(place).or_default().push(site);
        }
        by_place
            .into_iter()
            .map(|(place, sites)| Finding { rule, place, measure: sites.len(), sites })
            .collect()
    }
}
