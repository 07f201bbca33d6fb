//! Files with unsafe code: one list that a reviewer can read.

use proc_macro2::{TokenStream, TokenTree};

use crate::{Finding, Repository, Rule, Site};

/// The list: a path per line, with its reason behind `#`.
pub const LIST: &str = "tests/tidy/unsafe_files.txt";

/// Line of the first `unsafe` in a source, in macros too; comments and strings do not count.
fn first_unsafe(tokens: TokenStream) -> Option<usize> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Ident(ident) if ident == "unsafe" => Some(ident.span().start().line),
        TokenTree::Group(group) => first_unsafe(group.stream()),
        _ => None,
    })
}

/// Paths of the list, each with its line.
fn listed(list: &str) -> Vec<(&str, usize)> {
    let numbered = list.lines().zip(1..);
    let paths = numbered
        .map(|(line, number)| (line.split_once('#').map_or(line, |(path, _)| path), number));
    paths.map(|(path, number)| (path.trim(), number)).filter(|(path, _)| !path.is_empty()).collect()
}

/// Files with unsafe code that are not on the list, and entries of the list without any.
///
/// # Panics
///
/// When a Rust file cannot be split into tokens.
#[must_use]
pub fn unlisted(repository: &Repository) -> Vec<Finding> {
    let listed = listed(repository.text(LIST).unwrap_or_default());
    let sources = repository.with_ending(".rs").filter(|(_, text)| text.contains("unsafe"));
    let with_unsafe: Vec<(&str, usize)> = sources
        .filter_map(|(path, text)| {
            let tokens = text.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
            Some((path, first_unsafe(tokens)?))
        })
        .collect();
    let mut findings = Vec::new();
    for (path, line) in &with_unsafe {
        if !listed.iter().any(|(listed, _)| listed == path) {
            let site = Site::new(path, *line, "unsafe code in a file that is not listed");
            findings.push(Finding::new(Rule::UnsafeCode, *path, 1, site));
        }
    }
    for (path, line) in listed {
        if !with_unsafe.iter().any(|(other, _)| *other == path) {
            let site = Site::new(LIST, line, format!("{path} has no unsafe code: remove the line"));
            findings.push(Finding::new(Rule::UnsafeCode, path, 1, site));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str, list: &str) -> Vec<(String, usize)> {
        let tree = [("a.rs", source), (LIST, list)];
        let findings = unlisted(&Repository::of(&tree)).into_iter();
        findings.map(|finding| (finding.sites[0].path.clone(), finding.sites[0].line)).collect()
    }

    #[test]
    fn unsafe_code_outside_the_list_is_found() {
        let at = |line| [("a.rs".to_owned(), line)];
        assert_eq!(found("\nfn a() { unsafe { b() } }\n", ""), at(2));
        assert_eq!(found("macro_rules! a { () => { unsafe { b() } } }\n", "# a.rs\n"), at(1));
        assert_eq!(found("unsafe extern \"C\" {}\n", ""), at(1));
        assert_eq!(found("unsafe impl A for B {}\n", "a.rs  # reason\n"), []);
        assert_eq!(found("/// No unsafe code.\nfn a() { \"unsafe\"; }\n", ""), []);
    }

    #[test]
    fn listed_file_without_unsafe_code_is_found() {
        assert_eq!(found("fn a() {}\n", "# list\na.rs\n"), [(LIST.to_owned(), 2)]);
    }
}
