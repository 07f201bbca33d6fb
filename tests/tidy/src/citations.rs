//! Files that documents and comments cite.

use crate::{Finding, Repository, Rule, Site};

/// Folders at the top of the repository: a word that begins with one is a path.
const FOLDERS: [&str; 7] =
    ["crates/", "tests/", "docs/", "scripts/", "mk/", "clients/", "packaging/"];

/// Endings of files whose comments are read.
const COMMENTED: [&str; 3] = [".rs", ".go", ".mk"];

/// Endings of files that a comment cites.
const CITED: [&str; 8] = [".md", ".rs", ".go", ".sh", ".py", ".toml", ".txt", ".mk"];

/// Targets of a document's links, and paths in its code spans, with their lines.
fn in_document(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_block = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        }
        if in_block {
            continue;
        }
        let mut prose = String::new();
        for (part, text) in line.split('`').enumerate() {
            if part % 2 == 0 {
                prose.push_str(text);
            } else if is_path(text) {
                found.push((index + 1, text.to_owned()));
            }
        }
        let mut rest = prose.as_str();
        while let Some(start) = rest.find("](") {
            rest = &rest[start + 2..];
            let Some(end) = rest.find(')') else { break };
            found.push((index + 1, rest[..end].to_owned()));
        }
    }
    found
}

/// True if a code span reads like a path of the repository.
fn is_path(span: &str) -> bool {
    FOLDERS.iter().any(|folder| span.starts_with(folder))
        && !span.contains([' ', '*', '<', '{', '$', ':', '|', '%'])
        && !span.ends_with("...")
}

/// Paths of files in a source's comments, with their lines.
fn in_comments(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if !line.starts_with("//") && !line.starts_with('#') {
            continue;
        }
        let is_part =
            |character: char| character.is_alphanumeric() || "_-./{$*".contains(character);
        for word in line.split(|character| !is_part(character)) {
            let word = word.trim_end_matches('.');
            if is_path(word) && CITED.iter().any(|ending| word.ends_with(ending)) {
                found.push((index + 1, word.to_owned()));
            }
        }
    }
    found
}

/// Path that a link means, by the path of its document.
fn resolve(document: &str, target: &str) -> String {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// Paths of files and folders that a document's links mean.
pub(crate) fn links<'t>(path: &'t str, text: &'t str) -> impl Iterator<Item = String> + 't {
    in_document(text).into_iter().flat_map(move |(_, target)| {
        let target = target.split('#').next().unwrap_or_default();
        [resolve(path, target), resolve("x", target)]
    })
}

/// Citations of files that do not exist, counted by file. A path that begins with a folder of the
/// cargo package around the file (`tests/` in a crate's comment) counts from there as well.
#[must_use]
pub fn dead(repository: &Repository) -> Vec<Finding> {
    let mut sites = Vec::new();
    for (path, text) in repository.texts() {
        let cited = if path.ends_with(".md") {
            in_document(text)
        } else if COMMENTED.iter().any(|ending| path.ends_with(ending)) {
            in_comments(text)
        } else {
            continue;
        };
        for (line, target) in cited {
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") || file.starts_with("mailto:") {
                continue;
            }
            let package = path.split('/').take(2).collect::<Vec<_>>().join("/");
            let candidates =
                [resolve(path, file), resolve("x", file), resolve(&format!("{package}/x"), file)];
            if !candidates.iter().any(|candidate| repository.has(candidate)) {
                let site = Site::new(path, line, format!("cites {file}, which does not exist"));
                sites.push((path.to_owned(), site));
            }
        }
    }
    Finding::counted(Rule::DeadCitation, sites)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        let tree = [("docs/b.md", ""), ("crates/x/src/lib.rs", ""), ("crates/x/tests/t.rs", "")];
        dead(&Repository::of(&[&tree[..], &[(path, text)]].concat())).len()
    }

    #[test]
    fn link_to_a_missing_file_is_found() {
        let dead = |text| found("docs/a.md", text);
        assert_eq!(dead("[b](b.md), [x](../crates/x), `crates/x/src/lib.rs`"), 0);
        assert_eq!(dead("[c](c.md)"), 1);
        assert_eq!(dead("see `crates/y/src/lib.rs`"), 1);
        assert_eq!(dead("```\n[c](c.md)\n```"), 0);
        assert_eq!(dead("`c[0](ctx, k)`, [z](https://example.org/z)"), 0);
    }

    #[test]
    fn comment_about_a_missing_file_is_found() {
        let dead = |text| found("crates/x/src/a.rs", text);
        assert_eq!(dead("// As docs/b.md and tests/t.rs say.\n"), 0);
        assert_eq!(dead("// As docs/c.md says.\n"), 1);
        assert_eq!(dead("let a = \"docs/c.md\";\n"), 0);
    }
}
