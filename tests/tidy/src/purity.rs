//! Names that a crate or a room must not use: files, sockets and clocks of the sans-I/O crates,
//! shared state of the handlers.

use std::collections::{BTreeMap, BTreeSet};

use crate::imports::{module_name, room_of};
use crate::layout::CrateLayout;
use crate::names::{self, Name};
use crate::rust::RustFile;
use crate::{Finding, Repository, Rule, Site};

/// Forbidden names outside of tests, once for each file and name.
#[must_use]
pub fn forbidden_names(crates: &[CrateLayout], files: &[RustFile<'_>]) -> Vec<Finding> {
    let mut lines: BTreeMap<(String, &'static str), usize> = BTreeMap::new();
    for layout in crates.iter().filter(|layout| has_rule(layout)) {
        let source = format!("{}/src/", layout.path);
        let for_tests = test_folders(files, &source);
        for file in files {
            let Some(below) = file.path.strip_prefix(&source) else { continue };
            if for_tests.iter().any(|tests| file.path.starts_with(tests)) {
                continue;
            }
            let room = room_of(layout.rooms, &module_name(below));
            let never_names = room.map_or(&[][..], |room| room.never_names);
            for name in names::names(file) {
                let paths = layout.never.iter().copied().flatten();
                let paths = paths.filter(|never| is_within(&name, never));
                let words = never_names.iter().filter(|never| holds_word(&name, never));
                for never in paths.chain(words) {
                    let line = lines.entry((file.path.to_owned(), *never)).or_insert(name.line);
                    *line = name.line.min(*line);
                }
            }
        }
    }
    let finding = |((path, never), line): ((String, &str), usize)| {
        let site = Site::new(&path, line, format!("names {never}, which this part must not"));
        Finding::new(Rule::ForbiddenName, format!("{path}->{never}"), 1, site)
    };
    lines.into_iter().map(finding).collect()
}

fn has_rule(layout: &CrateLayout) -> bool {
    !layout.never.is_empty() || layout.rooms.iter().any(|room| !room.never_names.is_empty())
}

/// Beginnings of the paths of modules that are compiled for tests only.
fn test_folders(files: &[RustFile<'_>], source: &str) -> Vec<String> {
    let of_file = |file: &RustFile<'_>| {
        let folder = file.path.trim_end_matches(".rs");
        let folder = ["/mod", "/lib", "/main"]
            .iter()
            .find_map(|root| folder.strip_suffix(root))
            .unwrap_or(folder)
            .to_owned();
        let both = |name: String| [format!("{folder}/{name}.rs"), format!("{folder}/{name}/")];
        names::test_modules(file).flat_map(both).collect::<Vec<_>>()
    };
    files.iter().filter(|file| file.path.starts_with(source)).flat_map(of_file).collect()
}

/// True if a name is the forbidden one or one below it, or an import of a module above it, which
/// would let the code name it in two steps.
fn is_within(name: &Name, never: &str) -> bool {
    let never: Vec<&str> = never.split("::").collect();
    let common = name.segments.iter().zip(&never).take_while(|(one, other)| one == other).count();
    common == never.len() || name.is_import && common == name.segments.len()
}

fn holds_word(name: &Name, never: &str) -> bool {
    name.segments.iter().any(|segment| segment == never)
}

/// Crates of the repository without an entry in the layout.
#[must_use]
pub fn crates_without_layout(crates: &[CrateLayout], repository: &Repository) -> Vec<Finding> {
    let manifest = |path: &str| Some(path.strip_suffix("/Cargo.toml")?.to_owned());
    let is_member = |path: &String| path.starts_with("crates/") && path.matches('/').count() == 1;
    let listed: BTreeSet<&str> = crates.iter().map(|layout| layout.path).collect();
    let unlisted = repository.paths().filter_map(manifest).filter(is_member);
    let unlisted = unlisted.filter(|path| !listed.contains(path.as_str()));
    let fact = "a crate without an entry in the layout";
    unlisted
        .map(|path| {
            let site = Site::new(&format!("{path}/Cargo.toml"), 0, fact);
            Finding::new(Rule::CrateLayout, path, 1, site)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Room;
    use crate::rust::of_text;

    const HANDLERS: &[Room] =
        &[Room { name: "handlers", may_import: &[], never_names: &["Shared"] }];

    fn found(path: &'static str, text: &'static str) -> usize {
        let never: &'static [&'static [&'static str]] = &[&["std::fs"], &["std::net::TcpStream"]];
        let layout = CrateLayout { path: "crates/x", rooms: HANDLERS, never };
        forbidden_names(&[layout], &[of_text(path, text)]).len()
    }

    #[test]
    fn forbidden_paths_are_found() {
        let in_crate = |text| found("crates/x/src/a.rs", text);
        assert_eq!(in_crate("use std::{fs::File, io};"), 1);
        assert_eq!(in_crate("fn f() { std::fs::read(p) }"), 1);
        assert_eq!(in_crate("fn f() { m!(std::fs::read(p)) }"), 1);
        assert_eq!(in_crate("use std::net; fn f(s: net::TcpStream) {}"), 1);
        assert_eq!(in_crate("use std::*;"), 2);
        assert_eq!(in_crate("use std::net::IpAddr; fn f() -> std::net::IpAddr { g() }"), 0);
        assert_eq!(in_crate("#[cfg(test)] mod tests { use std::fs; }"), 0);
        assert_eq!(found("crates/y/src/a.rs", "use std::fs;"), 0);
    }

    #[test]
    fn forbidden_word_is_found_in_its_room_only() {
        let text = "fn f(shared: &x::Shared) {}";
        assert_eq!(found("crates/x/src/handlers/a.rs", text), 1);
        assert_eq!(found("crates/x/src/a.rs", text), 0);
    }

    #[test]
    fn test_module_in_a_file_of_its_own_is_left_out() {
        let layout = CrateLayout { path: "crates/x", rooms: &[], never: &[&["std::fs"]] };
        let files = [
            of_text("crates/x/src/a.rs", "#[cfg(test)] mod model;"),
            of_text("crates/x/src/a/model.rs", "use std::fs;"),
        ];
        assert!(forbidden_names(&[layout], &files).is_empty());
    }

    #[test]
    fn crate_without_entry_is_found() {
        let tree = [("crates/x/Cargo.toml", ""), ("crates/x/fuzz/Cargo.toml", "")];
        let found = crates_without_layout(&[], &Repository::of(&tree));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, "crates/x");
    }
}
