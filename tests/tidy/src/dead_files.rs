//! Files that nothing declares, names or runs.
//!
//! - Rust: a file that no `mod` line declares and cargo does not find by its place.
//! - Go: a package of tests that no target of `make` runs, a package that nothing imports.
//! - Everything else (scripts, documents, data of tests): a file whose name occurs in no other
//!   file. The changelog is no such place: it names what was.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Finding, Repository, Rule, Site, citations};

/// Folders whose files are read by listing the folder, each with the file that does it.
const READ_WHOLE: [(&str, &str); 5] = [
    ("tests/planted/", "scripts/planted"),
    ("packaging/", "scripts/deb"),
    ("crates/resp/fuzz/corpus/", "crates/resp/tests/fuzz.rs"),
    ("crates/rdb/fuzz/corpus/", "crates/rdb/tests/fuzz.rs"),
    ("crates/bench/experiments/", "crates/bench/src/experiment/shipped.rs"),
];

/// Names of files that a tool finds.
const FOUND_BY_TOOLS: [&str; 6] =
    ["Cargo.toml", "go.mod", "go.sum", "go.work", "go.work.sum", ".gitignore"];

/// All dead files.
#[must_use]
pub fn dead(repository: &Repository) -> Vec<Finding> {
    let mut findings = undeclared_rust(repository);
    findings.extend(idle_go_packages(repository));
    findings.extend(unnamed_files(repository));
    findings.extend(idle_folders(repository));
    findings
}

fn finding(path: &str, fact: &str) -> Finding {
    Finding::new(Rule::DeadFile, path, 1, Site::new(path, 0, fact))
}

/// Folder and name of a path.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// Rust files that neither cargo nor a `mod` line finds.
fn undeclared_rust(repository: &Repository) -> Vec<Finding> {
    let undeclared = |(path, _): &(&str, &str)| !is_target(path) && !is_declared(repository, path);
    let files = repository.with_ending(".rs").filter(undeclared);
    files.map(|(path, _)| finding(path, "no `mod` line declares this file")).collect()
}

/// True if cargo finds a file by its place.
fn is_target(path: &str) -> bool {
    let (folder, name) = split(path);
    let is_root = matches!(name, "lib.rs" | "main.rs") && folder.ends_with("/src");
    let of_targets = ["/tests", "/benches", "/examples", "/src/bin", "/fuzz_targets"];
    let (above, _) = split(folder);
    is_root
        || name == "build.rs"
        || of_targets.iter().any(|targets| folder.ends_with(targets))
        || name == "main.rs" && of_targets.iter().any(|targets| above.ends_with(targets))
}

/// True if the module around a file declares it, or an attribute names its file.
fn is_declared(repository: &Repository, path: &str) -> bool {
    let (folder, name) = split(path);
    let (folder, module) =
        if name == "mod.rs" { split(folder) } else { (folder, name.trim_end_matches(".rs")) };
    let declares = |text: &str| {
        text.lines().any(|line| {
            let declared = line.trim().strip_suffix(';').and_then(|line| line.split_once("mod "));
            declared.is_some_and(|(before, name)| {
                name == module && (before.is_empty() || before.ends_with(' '))
            })
        })
    };
    let around = ["mod.rs", "lib.rs", "main.rs"].map(|name| format!("{folder}/{name}"));
    let around = around.into_iter().chain([format!("{folder}.rs")]);
    let mut around = around.filter_map(|path| repository.text(&path));
    let attribute = format!("{name}\"]");
    let of_package = format!("{}/", path.split('/').take(2).collect::<Vec<_>>().join("/"));
    let mut in_package = repository.texts().filter(|(other, _)| other.starts_with(&of_package));
    around.any(declares)
        || in_package.any(|(other, text)| {
            let is_beside = is_target(other) && split(other).0 == folder;
            is_beside && declares(text) || text.contains("#[path") && text.contains(&attribute)
        })
}

/// Go packages with tests in the module of the end-to-end tests that no target runs, and packages
/// that no other imports.
fn idle_go_packages(repository: &Repository) -> Vec<Finding> {
    let mut packages: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for (path, text) in repository.with_ending(".go") {
        packages.entry(split(path).0).or_default().push((path, text));
    }
    let is_for_make = |path: &str| path == "Makefile" || path.starts_with("mk/");
    let targets: Vec<&str> =
        repository.texts().filter(|(path, _)| is_for_make(path)).map(|(_, text)| text).collect();
    let mut findings = Vec::new();
    for (folder, files) in &packages {
        let has_tests = files.iter().any(|(path, _)| path.ends_with("_test.go"));
        let below = folder.strip_prefix("tests/");
        if let Some(below) = below.filter(|_| has_tests) {
            let package = format!("./{below}");
            if !targets.iter().any(|text| holds_word(text, &package)) {
                findings.push(finding(folder, "no target of make runs the tests of this package"));
            }
        }
        let is_program = files.iter().any(|(_, text)| text.starts_with("package main"))
            || files.iter().any(|(_, text)| text.contains("\npackage main\n"));
        let is_root = repository.text(&format!("{folder}/go.mod")).is_some();
        if has_tests || is_program || is_root {
            continue;
        }
        let name = format!("/{}\"", below.unwrap_or(split(folder).1));
        let is_imported = packages.iter().filter(|(other, _)| *other != folder);
        let mut texts = is_imported.flat_map(|(_, files)| files).map(|(_, text)| *text);
        if !texts.any(|text| text.contains(&name)) {
            findings.push(finding(folder, "nothing imports this package"));
        }
    }
    findings
}

/// Files that are no sources of Rust or Go and whose name occurs in no other file.
fn unnamed_files(repository: &Repository) -> Vec<Finding> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for path in repository.paths() {
        *counts.entry(split(path).1).or_default() += 1;
    }
    let linked: BTreeSet<(String, &str)> = repository
        .with_ending(".md")
        .flat_map(|(path, text)| citations::links(path, text).map(move |link| (link, path)))
        .collect();
    let is_linked = |path: &str| linked.iter().any(|(link, from)| link == path && *from != path);
    let is_exempt = |path: &str| {
        let (folder, name) = split(path);
        let is_source = path.ends_with(".rs") || path.ends_with(".go");
        let is_read_whole = READ_WHOLE.iter().any(|(folder, _)| path.starts_with(folder));
        folder.is_empty()
            || folder == ".ci"
            || is_source
            || is_read_whole
            || path.contains("/proptest-regressions/")
            || FOUND_BY_TOOLS.contains(&name)
    };
    let is_named = |path: &str| {
        let (folder, name) = split(path);
        // A name that occurs twice, or reads like any word, is told by the folder before it.
        let word = if counts[name] > 1 || !name.contains('.') {
            format!("{}/{name}", split(folder).1)
        } else {
            name.to_owned()
        };
        let mut others = repository.texts().filter(|(other, _)| is_witness(other, path));
        let module = name.strip_suffix(".py");
        others.any(|(_, text)| {
            holds_word(text, &word) || module.is_some_and(|module| imports_python(text, module))
        }) || is_linked(path)
            || name == "README.md" && is_linked(folder)
    };
    let dead = repository.paths().filter(|path| !is_exempt(path) && !is_named(path));
    dead.map(|path| finding(path, "nothing names this file")).collect()
}

/// True if a Python source imports a module.
fn imports_python(text: &str, module: &str) -> bool {
    let names = |line: &str| {
        let from = line.strip_prefix("from ").map(|rest| rest.split(" import").next());
        let imported = line.strip_prefix("import ").or(from.flatten());
        imported.is_some_and(|names| names.split(", ").any(|name| name.trim() == module))
    };
    text.lines().any(|line| names(line.trim_start()))
}

/// True if a file may name another one: neither itself, nor the changelog, nor a list of this
/// crate.
fn is_witness(witness: &str, path: &str) -> bool {
    let is_list = witness.starts_with("tests/tidy/") && !path.starts_with("tests/tidy/");
    witness != path && witness != "CHANGELOG.md" && !is_list
}

/// Folders in [`READ_WHOLE`] that are empty or that their reader does not name.
fn idle_folders(repository: &Repository) -> Vec<Finding> {
    let is_read = |folder: &str, reader: &str| {
        let name = split(folder.trim_end_matches('/')).1;
        repository.text(reader).is_some_and(|text| text.contains(name))
    };
    let is_there = |folder: &str| repository.has(folder.trim_end_matches('/'));
    let idle =
        READ_WHOLE.iter().filter(|(folder, reader)| is_there(folder) && !is_read(folder, reader));
    idle.map(|(folder, _)| finding(folder, "its reader in READ_WHOLE does not name it")).collect()
}

/// True if a text holds a word that no further character of a name surrounds.
fn holds_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(start, _)| {
        let before = text[..start].chars().next_back();
        let behind = text[start + word.len()..].chars().next();
        let is_part = |neighbour: Option<char>| {
            neighbour
                .is_some_and(|character| character.is_alphanumeric() || "_-".contains(character))
        };
        !is_part(before) && !is_part(behind)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        dead(&Repository::of(files)).into_iter().map(|finding| finding.place).collect()
    }

    #[test]
    fn script_and_document_that_nothing_names_are_found() {
        let dead = found(&[
            ("Makefile", "\t@scripts/used target/unused\n"),
            ("CHANGELOG.md", "scripts/unused, gone.md"),
            ("scripts/used", "cat text.txt\n"),
            ("scripts/unused", "echo scripts/unused\n"),
            ("scripts/text.txt", ""),
            ("tests/a.py", "import json, b\nfrom c import d\n"),
            ("tests/b.py", ""),
            ("tests/c.py", "run('tests/a.py')"),
            ("tests/d.py", ""),
            ("docs/gone.md", ""),
            ("docs/kept.md", "[the other](other/)"),
            ("docs/other/README.md", "see kept.md"),
        ]);
        assert_eq!(dead, ["docs/gone.md", "scripts/unused", "tests/d.py"]);
    }

    #[test]
    fn rust_file_that_nothing_declares_is_found() {
        let dead = found(&[
            ("crates/x/src/lib.rs", "pub mod a;\n#[cfg(test)]\nmod tests;\n"),
            ("crates/x/src/a/mod.rs", "mod b;"),
            ("crates/x/src/a/b.rs", "pub(crate) mod c;"),
            ("crates/x/src/a/b/c.rs", ""),
            ("crates/x/src/a/orphan.rs", "mod a;"),
            ("crates/x/src/tests.rs", ""),
            ("crates/x/tests/t.rs", "mod harness;\n#[path = \"../fuzz/checks.rs\"]\nmod checks;"),
            ("crates/x/tests/harness/mod.rs", ""),
            ("crates/x/tests/orphan/mod.rs", ""),
            ("crates/x/fuzz/checks.rs", ""),
            ("crates/x/benches/y/main.rs", "mod ours;"),
            ("crates/x/benches/y/ours.rs", ""),
            ("crates/x/build.rs", ""),
        ]);
        assert_eq!(dead, ["crates/x/src/a/orphan.rs", "crates/x/tests/orphan/mod.rs"]);
    }

    #[test]
    fn go_package_that_nothing_runs_or_imports_is_found() {
        let dead = found(&[
            ("Makefile", "go test ./run ./runner\n"),
            ("tests/go.mod", "module tidemill/tests\n"),
            ("tests/run/a_test.go", "package run\n\nimport \"tidemill/tests/internal/used\"\n"),
            ("tests/runs/a_test.go", "package runs\n"),
            ("tests/internal/used/a.go", "package used\n"),
            ("tests/internal/unused/a.go", "package unused\n"),
            ("tests/tool/main.go", "// Tool.\npackage main\n"),
        ]);
        assert_eq!(dead, ["tests/internal/unused", "tests/runs"]);
    }

    #[test]
    fn folder_that_its_reader_no_longer_names_is_found() {
        let planted = ("tests/planted/a.patch", "");
        assert!(
            found(&[planted, ("scripts/planted", "planted"), ("mk/a", "scripts/planted a")])
                .iter()
                .all(|place| place == "mk/a")
        );
        assert!(found(&[planted]).contains(&"tests/planted/".to_owned()));
    }
}
