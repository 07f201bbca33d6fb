//! Phrases that a reader cannot search for, and comments that do not begin with their noun.

use crate::{Finding, Repository, Rule, Site, go};

/// Phrases for which the field has a term.
const BANNED: [&str; 9] = [
    "stands",
    "hears of",
    "hear of",
    "all the same",
    "as far as",
    "at ease",
    "comes to",
    "whoever",
    "so many",
];

/// Words that put the subject of a comment last.
const BANNED_OPENINGS: [&str; 10] =
    ["What", "Whether", "Which", "Why", "Who", "Whoever", "Nobody", "Somebody", "So", "Where"];

/// Endings of the files that are read.
const ENDINGS: [&str; 6] = [".rs", ".go", ".md", ".py", ".sh", ".mk"];

/// Files about phrases.
const OWN: [&str; 2] = ["tests/tidy/src/phrases.rs", "tests/tidy/src/finding.rs"];

/// Part of the repository whose phrases are counted together: a crate, the Go client, the tests,
/// the documents, the scripts, or a file at the top.
fn part(path: &str) -> String {
    let folders = if path.starts_with("crates/") || path.starts_with("clients/") { 2 } else { 1 };
    path.split('/').take(folders).collect::<Vec<_>>().join("/")
}

/// Vague phrases and comments with a wrong opening, counted by part.
#[must_use]
pub fn vague(repository: &Repository) -> Vec<Finding> {
    let is_read = |path: &str| {
        let is_prose = ENDINGS.iter().any(|ending| path.ends_with(ending));
        is_prose || path.starts_with("scripts/") || path == "Makefile"
    };
    let mut phrases = Vec::new();
    let mut openings = Vec::new();
    for (path, text) in repository.texts().filter(|(path, _)| is_read(path)) {
        if OWN.contains(&path) || path.ends_with(".go") && go::is_generated(text) {
            continue;
        }
        for (line, is_opening, fact) in in_text(path, text) {
            let sites = if is_opening { &mut openings } else { &mut phrases };
            sites.push((part(path), Site::new(path, line, fact)));
        }
    }
    let mut findings = Finding::counted(Rule::Phrase, phrases);
    findings.extend(Finding::counted(Rule::CommentOpening, openings));
    findings
}

/// Lines with a vague phrase, or with an opening of a comment that is one of the banned ones.
fn in_text(path: &str, text: &str) -> Vec<(usize, bool, String)> {
    let is_prose = path.ends_with(".md");
    let markers: &[&str] = match path.rsplit('.').next() {
        Some("rs") => &["//!", "///", "//"],
        Some("go") => &["//"],
        _ => &["#"],
    };
    let mut found = Vec::new();
    let mut is_behind_comment = false;
    for (index, line) in text.lines().enumerate() {
        let own_line = line.trim_start();
        let opened = markers.iter().find_map(|marker| own_line.strip_prefix(marker));
        let comment = if is_prose { Some(line) } else { opened.or(behind_code(line, markers)) };
        let Some(comment) = comment.map(str::trim) else {
            is_behind_comment = false;
            continue;
        };
        let first = comment.split_whitespace().next().unwrap_or_default();
        if !is_prose && !is_behind_comment && BANNED_OPENINGS.contains(&first) {
            found.push((index + 1, true, format!("comment begins with '{first}'")));
        }
        let lower = comment.to_lowercase();
        for phrase in BANNED.iter().filter(|phrase| contains_phrase(&lower, phrase)) {
            found.push((index + 1, false, format!("'{phrase}'")));
        }
        is_behind_comment = opened.is_some() && !comment.is_empty();
    }
    found
}

/// Comment behind code on its line; none if its mark may be part of a string.
fn behind_code<'l>(line: &'l str, markers: &[&str]) -> Option<&'l str> {
    let mark = markers.last().filter(|mark| **mark == "//")?;
    let (code, comment) = line.split_once(&format!(" {mark} "))?;
    code.matches('"').count().is_multiple_of(2).then_some(comment)
}

/// True if a text holds a phrase as whole words.
fn contains_phrase(text: &str, phrase: &str) -> bool {
    text.match_indices(phrase).any(|(start, _)| {
        let before = text[..start].chars().next_back();
        let behind = text[start + phrase.len()..].chars().next();
        let is_part = |neighbour: Option<char>| {
            neighbour.is_some_and(|character| character.is_alphanumeric() || character == '_')
        };
        !is_part(before) && !is_part(behind)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(Rule, usize)> {
        let findings = vague(&Repository::of(&[(path, text)])).into_iter();
        findings.map(|finding| (finding.rule, finding.measure)).collect()
    }

    #[test]
    fn comment_that_begins_with_a_question_word_is_found() {
        let one = [(Rule::CommentOpening, 1)];
        assert_eq!(found("a.rs", "/// Whether it is there.\nfn a() {}\n"), one);
        assert_eq!(found("a.rs", "#[inline]\n/// Somebody asks.\nfn a() {}\n"), one);
        assert_eq!(found("a.go", "x := 1 // What is left.\n"), one);
        assert_eq!(found("scripts/a", "# Nobody knows.\n"), one);
        assert_eq!(found("a.rs", "/// True if it is there.\nfn a() {}\n"), []);
        assert_eq!(found("a.rs", "let a = \"x // What\";\n"), []);
    }

    #[test]
    fn second_line_of_a_comment_may_begin_with_any_word() {
        assert_eq!(found("a.rs", "/// The client's state.\n/// Where it is kept.\n"), []);
    }

    #[test]
    fn phrase_is_found_as_whole_words() {
        assert_eq!(found("a.md", "It hears of changes.\nSo many of them.\n"), [(Rule::Phrase, 2)]);
        assert_eq!(found("a.md", "It becomes tomorrow; `is_at_ease`, misunderstands.\n"), []);
    }

    #[test]
    fn phrases_are_counted_by_part() {
        let tree = [("crates/x/src/a.rs", "// at ease\n"), ("crates/x/tests/b.rs", "// at ease\n")];
        let found = vague(&Repository::of(&tree));
        assert_eq!((found[0].place.as_str(), found[0].measure), ("crates/x", 2));
    }
}
