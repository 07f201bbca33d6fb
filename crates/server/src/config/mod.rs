//! The configuration's files: what [`tidemill_engine::config`] reads through, and what CONFIG
//! REWRITE writes with.

mod disk;

pub(crate) use disk::read_file;
pub use disk::{DiskFiles, replace};

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    const CRATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

    /// Settings that only commands which do not exist yet will read.
    const AWAITED: &[&str] = &["replica"];

    fn sources(directory: &Path, all: &mut String) {
        for entry in fs::read_dir(directory).expect("our sources").flatten() {
            let path = entry.path();
            let name = entry.file_name().into_string().expect("our sources have plain names");
            if path.is_dir() {
                sources(&path, all);
            } else if !["typed.rs", "tests.rs"].contains(&name.as_str()) {
                all.push_str(&fs::read_to_string(path).expect("our sources"));
            }
        }
    }

    /// With the engine's test that directives reach the typed configuration: no directive is
    /// declared to work and ignored.
    #[test]
    fn every_field_of_the_typed_configuration_is_used() {
        let mut all = String::new();
        for part in ["engine/src", "persist/src", "server/src"] {
            sources(&Path::new(CRATES).join(part), &mut all);
        }
        for file in ["engine/src/config/typed.rs", "engine/src/settings.rs"] {
            let text = fs::read_to_string(Path::new(CRATES).join(file)).expect("our source");
            let fields = text.lines().filter_map(|line| {
                line.strip_prefix("    pub ")?.split_once(": ").map(|(name, _)| name)
            });
            let fields = fields.filter(|field| !field.starts_with("fn "));
            for field in fields.filter(|field| !AWAITED.contains(field)) {
                let access = format!(".{field}");
                let uses = all.match_indices(&access).filter(|(at, found)| {
                    let next = all[at + found.len()..].chars().next();
                    next.is_none_or(|next| !next.is_alphanumeric() && !"_(".contains(next))
                });
                assert!(uses.count() > 0, "nothing reads {field} of {file}");
            }
        }
    }
}
