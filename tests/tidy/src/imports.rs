//! Imports between the modules of a crate: circles, and arrows between rooms.
//!
//! A module is a file. It imports what its names name that begin with `crate`, `super`, `self` or a
//! child module; a name is followed to the deepest file that it names, and through `pub use` to the
//! file behind. What a module only declares (`mod x;`) is no import, what it re-exports is one.
//! Tests are left out.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::layout::{CrateLayout, Room};
use crate::limits::CIRCLE_FILES_MAX;
use crate::names::{self, Name};
use crate::rust::RustFile;
use crate::{Finding, Rule, Site};

/// Steps through which a re-export is followed.
const REEXPORT_STEPS_MAX: usize = 8;

/// Imports between the files of one crate, by module name; the crate's root is `""`.
#[derive(Debug, Default)]
pub struct Graph {
    /// Paths of all files, by module name.
    paths: BTreeMap<String, String>,
    /// Modules that a module imports, each with the first line of it.
    edges: BTreeMap<String, BTreeMap<String, usize>>,
    /// Segments of what a module re-exports, with the name that it gets.
    exports: HashMap<String, Vec<(String, Vec<String>)>>,
}

/// Name of a crate's source folder.
fn source(crate_path: &str) -> String {
    format!("{crate_path}/src/")
}

impl Graph {
    /// Imports between the files of a crate, as `crates/engine`.
    #[must_use]
    pub fn new(crate_path: &str, files: &[RustFile<'_>]) -> Graph {
        let source = source(crate_path);
        let files: Vec<(String, &RustFile<'_>)> = files
            .iter()
            .filter_map(|file| Some((module_name(file.path.strip_prefix(&source)?), file)))
            .collect();
        let for_tests = test_modules(&files);
        let is_for_tests = |module: &str| {
            for_tests.iter().any(|tests| {
                module
                    .strip_prefix(tests)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
            })
        };
        let mut graph = Graph::default();
        let files: Vec<_> = files.into_iter().filter(|(module, _)| !is_for_tests(module)).collect();
        for (module, file) in &files {
            graph.paths.insert(module.clone(), file.path.to_owned());
        }
        let named: Vec<_> =
            files.iter().map(|(module, file)| (module, names::names(file))).collect();
        for (module, names) in &named {
            graph.add_exports(module, names);
        }
        for (module, names) in &named {
            graph.add_edges(module, names);
        }
        graph
    }

    fn add_exports(&mut self, module: &str, names: &[Name]) {
        for name in names {
            let Some(exported_as) = &name.exported_as else { continue };
            let Some(absolute) = self.absolute(module, name) else { continue };
            let exports = self.exports.entry(module.to_owned()).or_default();
            exports.push((exported_as.clone(), absolute));
        }
    }

    fn add_edges(&mut self, module: &str, names: &[Name]) {
        let mut edges = BTreeMap::new();
        for name in names {
            if name.segments.len() < 2 && !name.is_import {
                continue;
            }
            let Some(absolute) = self.absolute(module, name) else { continue };
            for import in self.resolve(&absolute) {
                let line: &mut usize = edges.entry(import).or_insert(name.line);
                *line = name.line.min(*line);
            }
        }
        edges.remove(module);
        // The root only declares modules and re-exports them.
        edges.remove("");
        self.edges.insert(module.to_owned(), edges);
    }

    /// Segments of a name from the crate's root on; none for what is not of this crate.
    fn absolute(&self, module: &str, name: &Name) -> Option<Vec<String>> {
        let here = module.split("::").filter(|part| !part.is_empty()).map(str::to_owned);
        let mut base: Vec<String> = here.chain(name.scope.iter().cloned()).collect();
        let mut rest = name.segments.as_slice();
        match rest.first()?.as_str() {
            "crate" => {
                base.clear();
                rest = &rest[1..];
            }
            "self" => rest = &rest[1..],
            "super" => {}
            child => {
                let with_child = base.iter().map(String::as_str).chain([child]);
                let with_child = with_child.collect::<Vec<_>>().join("::");
                self.paths.contains_key(&with_child).then_some(())?;
            }
        }
        while rest.first().is_some_and(|segment| segment == "super") {
            base.pop();
            rest = &rest[1..];
        }
        base.extend(rest.iter().cloned());
        Some(base)
    }

    /// The deepest file that a name names, and those behind its re-exports.
    fn resolve(&self, segments: &[String]) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut open = vec![segments.to_vec()];
        for _ in 0..REEXPORT_STEPS_MAX {
            for segments in std::mem::take(&mut open) {
                let mut lengths = (0..=segments.len()).rev();
                let is_file =
                    |length: &usize| self.paths.contains_key(&segments[..*length].join("::"));
                let Some(length) = lengths.find(is_file) else { continue };
                let module = segments[..length].join("::");
                let exports = self.exports.get(&module).into_iter().flatten();
                for (exported_as, target) in exports {
                    let is_named = segments.get(length).is_some_and(|next| next == exported_as);
                    let is_whole = exported_as == "*" && length < segments.len();
                    if is_named || is_whole {
                        let behind = length + usize::from(is_named);
                        open.push([target.as_slice(), &segments[behind..]].concat());
                    }
                }
                found.insert(module);
            }
        }
        found
    }

    /// The largest set of modules that all import each other, directly or by way of others.
    #[must_use]
    pub fn largest_circle(&self) -> Vec<String> {
        let reachable: HashMap<&str, BTreeSet<&str>> =
            self.edges.keys().map(|module| (module.as_str(), self.reachable(module))).collect();
        let circle = |module: &str| -> Vec<String> {
            let others = reachable[module]
                .iter()
                .filter(|other| reachable.get(**other).is_some_and(|back| back.contains(module)));
            others.map(|other| (*other).to_owned()).collect()
        };
        self.edges.keys().map(|module| circle(module)).max_by_key(Vec::len).unwrap_or_default()
    }

    fn reachable(&self, module: &str) -> BTreeSet<&str> {
        let mut seen = BTreeSet::new();
        let mut open: Vec<&str> = self.imports(module).collect();
        while let Some(next) = open.pop() {
            if seen.insert(next) {
                open.extend(self.imports(next));
            }
        }
        seen
    }

    fn imports(&self, module: &str) -> impl Iterator<Item = &str> {
        self.edges.get(module).into_iter().flat_map(BTreeMap::keys).map(String::as_str)
    }

    /// A circle of more files than [`CIRCLE_FILES_MAX`].
    #[must_use]
    pub fn large_circle(&self, crate_path: &str) -> Option<Finding> {
        let circle = self.largest_circle();
        if circle.len() <= CIRCLE_FILES_MAX {
            return None;
        }
        let count = circle.len();
        let members = circle.join(", ");
        let fact =
            format!("{count} files import each other, at most {CIRCLE_FILES_MAX}: {members}");
        let site = Site::new(&source(crate_path), 0, fact);
        Some(Finding::new(Rule::ImportCircle, crate_path, count, site))
    }

    /// Imports from one room into another that its entry does not name. A module in no room may
    /// import anything.
    #[must_use]
    pub fn forbidden(&self, rooms: &[Room]) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (module, imports) in &self.edges {
            let Some(room) = room_of(rooms, module) else { continue };
            for (import, line) in imports {
                let Some(other) = room_of(rooms, import) else { continue };
                if other.name != room.name && !room.may_import.contains(&other.name) {
                    let path = &self.paths[module];
                    let permitted = room.may_import.join(", ");
                    let fact = format!(
                        "{} imports {import}, but may import only [{permitted}]",
                        room.name
                    );
                    let place = format!("{path}->{import}");
                    let site = Site::new(path, *line, fact);
                    findings.push(Finding::new(Rule::RoomImport, place, 1, site));
                }
            }
        }
        findings
    }
}

/// Circles and forbidden imports of all crates in the layout.
#[must_use]
pub fn findings(crates: &[CrateLayout], files: &[RustFile<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for layout in crates {
        let graph = Graph::new(layout.path, files);
        findings.extend(graph.large_circle(layout.path));
        findings.extend(graph.forbidden(layout.rooms));
    }
    findings
}

/// The room of a module: the longest name that it begins with.
#[must_use]
pub fn room_of<'r>(rooms: &'r [Room], module: &str) -> Option<&'r Room> {
    let holds = |room: &&Room| {
        module == room.name
            || module.strip_prefix(room.name).is_some_and(|rest| rest.starts_with("::"))
    };
    rooms.iter().filter(holds).max_by_key(|room| room.name.len())
}

/// The module of a file, by its path below `src`.
#[must_use]
pub fn module_name(path: &str) -> String {
    let path = path.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    let path = if matches!(path, "lib" | "main" | "mod") { "" } else { path };
    path.replace('/', "::")
}

/// Modules that are compiled for tests only; what is below them is, too.
fn test_modules(files: &[(String, &RustFile<'_>)]) -> BTreeSet<String> {
    let of_file = |(module, file): &(String, &RustFile<'_>)| {
        let path_of = |name: String| {
            if module.is_empty() { name } else { format!("{module}::{name}") }
        };
        names::test_modules(file).map(path_of).collect::<Vec<_>>()
    };
    files.iter().flat_map(of_file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rust::of_text;

    fn graph(files: &[(&'static str, &'static str)]) -> Graph {
        let files: Vec<_> = files.iter().map(|(path, text)| of_text(path, text)).collect();
        Graph::new("crates/x", &files)
    }

    const ROOMS: [Room; 3] = [
        Room { name: "handlers", may_import: &["access"], never_names: &[] },
        Room { name: "access", may_import: &["shared"], never_names: &[] },
        Room { name: "shared", may_import: &[], never_names: &[] },
    ];

    fn forbidden(files: &[(&'static str, &'static str)]) -> Vec<(String, usize)> {
        let findings = graph(files).forbidden(&ROOMS).into_iter();
        findings.map(|finding| (finding.place, finding.sites[0].line)).collect()
    }

    #[test]
    fn circle_by_way_of_a_third_module_is_found() {
        let graph = graph(&[
            ("crates/x/src/lib.rs", "mod a; mod b; mod c; mod d;"),
            ("crates/x/src/a.rs", "use crate::b::B;"),
            ("crates/x/src/b.rs", "use super::c::{C, D as E};"),
            ("crates/x/src/c.rs", "fn f() -> crate::a::A { todo!() }"),
            ("crates/x/src/d.rs", "use crate::a::A;"),
        ]);
        assert_eq!(graph.largest_circle(), ["a", "b", "c"]);
        assert!(graph.large_circle("crates/x").is_none());
    }

    #[test]
    fn circle_over_the_limit_is_found() {
        let files: Vec<(String, String)> = (0..=CIRCLE_FILES_MAX)
            .map(|index| {
                let next = (index + 1) % (CIRCLE_FILES_MAX + 1);
                (format!("crates/x/src/m{index}.rs"), format!("use crate::m{next}::M;"))
            })
            .collect();
        let files: Vec<_> = files.iter().map(|(path, text)| of_text(path, text)).collect();
        let found = Graph::new("crates/x", &files).large_circle("crates/x").expect("a circle");
        assert_eq!((found.rule, found.measure), (Rule::ImportCircle, CIRCLE_FILES_MAX + 1));
    }

    #[test]
    fn re_export_is_an_import_and_declaration_is_none() {
        let graph = graph(&[
            ("crates/x/src/a/mod.rs", "mod b; mod c; pub use b::B;"),
            ("crates/x/src/a/b.rs", "use super::c::C;"),
            ("crates/x/src/a/c.rs", "use crate::a::B;"),
        ]);
        assert_eq!(graph.largest_circle(), ["a", "a::b", "a::c"]);
    }

    #[test]
    fn tests_do_not_count() {
        let graph = graph(&[
            ("crates/x/src/a.rs", "use crate::b::B;"),
            ("crates/x/src/b.rs", "#[cfg(test)] mod tests { use crate::a::A; }"),
            ("crates/x/src/c.rs", "use crate::d::D; #[cfg(test)] mod model;"),
            ("crates/x/src/c/model.rs", "mod part;"),
            ("crates/x/src/c/model/part.rs", "use crate::c::C;"),
            ("crates/x/src/d.rs", ""),
        ]);
        assert!(graph.largest_circle().is_empty());
    }

    #[test]
    fn upward_import_is_found_with_its_line() {
        let found = forbidden(&[
            ("crates/x/src/shared.rs", "\n\nuse crate::access::Cx;"),
            ("crates/x/src/access.rs", "use crate::shared::Shared;"),
            ("crates/x/src/handlers/a.rs", "use crate::{access::Cx, shared::Shared};"),
            ("crates/x/src/loose.rs", "use crate::shared::Shared;"),
        ]);
        let handler = ("crates/x/src/handlers/a.rs->shared".to_owned(), 1);
        assert_eq!(found, [handler, ("crates/x/src/shared.rs->access".to_owned(), 3)]);
    }

    #[test]
    fn import_is_found_behind_re_exports_aliases_and_in_macros() {
        let shared = ("crates/x/src/shared/mod.rs", "");
        let pause = ("crates/x/src/shared/pause.rs", "");
        let found = |access, handler| {
            forbidden(&[
                ("crates/x/src/lib.rs", "pub use shared::Shared;"),
                shared,
                pause,
                ("crates/x/src/access.rs", access),
                ("crates/x/src/handlers/a.rs", handler),
            ])
            .len()
        };
        assert_eq!(found("pub use crate::shared::Shared as S;", "use crate::access::S;"), 1);
        assert_eq!(found("pub use crate::shared::*;", "use crate::access::Shared;"), 1);
        assert_eq!(found("", "use crate::Shared;"), 1);
        assert_eq!(found("", "use crate::shared as s; fn f() { s::pause::g() }"), 2);
        assert_eq!(found("", "fn f() { assert!(crate::shared::pause::g()) }"), 1);
        assert_eq!(found("use crate::shared::Shared;", "use crate::access::Cx;"), 0);
    }
}
