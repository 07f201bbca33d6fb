//! Manifest: which files make the log, in the format of Valkey's `<name>.manifest`.

use std::fmt::Write as _;

use tidemill_resp::request::{Arguments, Limits, Progress, RequestParser};

/// Longest line of a manifest in bytes, as in Valkey.
const LINE_BYTES_MAX: usize = 1024;

/// Role of a file of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileRole {
    /// The state that the log begins with.
    Base,
    /// Commands behind the base, or behind the increment before.
    Increment,
    /// Replaced by a later base, and to be removed.
    History,
}

impl FileRole {
    fn letter(self) -> char {
        match self {
            FileRole::Base => 'b',
            FileRole::Increment => 'i',
            FileRole::History => 'h',
        }
    }
}

/// One file of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestEntry {
    /// Its name in the directory of the log.
    pub name: String,
    /// Its number among files of its role.
    pub sequence: u64,
    /// Its role.
    pub role: FileRole,
}

/// Content of a manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The base, if there is one.
    pub base: Option<ManifestEntry>,
    /// Increments by ascending numbers.
    pub increments: Vec<ManifestEntry>,
    /// Files to be removed.
    pub history: Vec<ManifestEntry>,
    /// Highest number of a base so far.
    pub base_sequence: u64,
    /// Highest number of an increment so far.
    pub increment_sequence: u64,
}

/// Fault of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestError {
    /// Number of the line, from 1.
    pub line_number: usize,
    /// The line.
    pub line: String,
    /// The fault, in Valkey's words.
    pub reason: &'static str,
}

const INVALID: &str = "Invalid AOF manifest file format";

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    ///
    /// The first line that is none of a manifest: nothing may be loaded then.
    pub fn parse(text: &[u8]) -> Result<Manifest, ManifestError> {
        let mut manifest = Manifest::default();
        let mut rest = text;
        let mut line_number = 0;
        while !rest.is_empty() {
            line_number += 1;
            let end = rest.iter().position(|&byte| byte == b'\n');
            let (line, behind) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
            rest = behind;
            if line.starts_with(b"#") {
                continue;
            }
            let added = if end.is_none() || line.len() > LINE_BYTES_MAX {
                Err("The AOF manifest file contains too long line")
            } else {
                entry(line).and_then(|entry| manifest.add(entry))
            };
            added.map_err(|reason| {
                let line = String::from_utf8_lossy(line.trim_ascii()).into_owned();
                ManifestError { line_number, line, reason }
            })?;
        }
        if line_number == 0 {
            let reason = "Found an empty AOF manifest";
            return Err(ManifestError { line_number, line: String::new(), reason });
        }
        Ok(manifest)
    }

    fn add(&mut self, entry: ManifestEntry) -> Result<(), &'static str> {
        match entry.role {
            FileRole::Base if self.base.is_some() => {
                return Err("Found duplicate base file information");
            }
            FileRole::Base => {
                self.base_sequence = entry.sequence;
                self.base = Some(entry);
            }
            FileRole::Increment if entry.sequence <= self.increment_sequence => {
                return Err("Found a non-monotonic sequence number");
            }
            FileRole::Increment => {
                self.increment_sequence = entry.sequence;
                self.increments.push(entry);
            }
            FileRole::History => self.history.push(entry),
        }
        Ok(())
    }

    /// The manifest as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for entry in self.base.iter().chain(&self.history).chain(&self.increments) {
            let ManifestEntry { name, sequence, role } = entry;
            let letter = role.letter();
            let name = quoted(name);
            // Writing into a string does not fail.
            let _ = writeln!(text, "file {name} seq {sequence} type {letter}");
        }
        text
    }

    /// Adds the next increment of a log that is called `log_name`; returns its name.
    pub fn push_increment(&mut self, log_name: &str) -> String {
        self.increment_sequence += 1;
        let name = format!("{log_name}.{}.incr.aof", self.increment_sequence);
        let sequence = self.increment_sequence;
        let role = FileRole::Increment;
        self.increments.push(ManifestEntry { name: name.clone(), sequence, role });
        name
    }

    /// Puts a base in the place of the present one and of the first `replaced_count` increments,
    /// which become history; returns its name.
    pub fn replace_base(&mut self, log_name: &str, is_rdb: bool, replaced_count: usize) -> String {
        self.base_sequence += 1;
        let suffix = if is_rdb { "rdb" } else { "aof" };
        let name = format!("{log_name}.{}.base.{suffix}", self.base_sequence);
        let entry = ManifestEntry {
            name: name.clone(),
            sequence: self.base_sequence,
            role: FileRole::Base,
        };
        let replaced = self.base.replace(entry).into_iter();
        let replaced = replaced.chain(self.increments.drain(..replaced_count));
        let replaced = replaced.map(|entry| ManifestEntry { role: FileRole::History, ..entry });
        // The newest comes first, as Valkey's manifests have it.
        self.history.splice(..0, replaced.collect::<Vec<_>>().into_iter().rev());
        name
    }

    /// Files whose content is the dataset, in the order of loading.
    pub fn files(&self) -> impl Iterator<Item = &ManifestEntry> {
        self.base.iter().chain(&self.increments)
    }
}

fn entry(line: &[u8]) -> Result<ManifestEntry, &'static str> {
    let line = line.trim_ascii();
    if line.is_empty() || line.starts_with(b"*") {
        return Err(INVALID);
    }
    // Words and quotes are those of inline requests.
    let line = [line, b"\r\n"].concat();
    let mut words = Arguments::new();
    match RequestParser::new().parse(&line, &Limits::default(), &mut words) {
        Ok(Progress::Complete { .. }) => {}
        _ => return Err(INVALID),
    }
    if words.len() < 6 || words.len() % 2 == 1 {
        return Err(INVALID);
    }
    let (mut name, mut sequence, mut role) = (None, 0, None);
    for index in (0..words.len()).step_by(2) {
        let (key, value) = (words.get(index, &line), words.get(index + 1, &line));
        if key.eq_ignore_ascii_case(b"file") {
            if value.contains(&b'/') || value == b"." || value == b".." || value.is_empty() {
                return Err("File can't be a path, just a filename");
            }
            name = Some(String::from_utf8(value.to_vec()).map_err(|_| INVALID)?);
        } else if key.eq_ignore_ascii_case(b"seq") {
            let digits = std::str::from_utf8(value).ok();
            sequence = digits.and_then(|digits| digits.parse().ok()).unwrap_or(0);
        } else if key.eq_ignore_ascii_case(b"type") {
            role = Some(match value.first() {
                Some(b'b') => FileRole::Base,
                Some(b'i') => FileRole::Increment,
                Some(b'h') => FileRole::History,
                _ => return Err("Unknown AOF file type"),
            });
        }
    }
    match (name, sequence, role) {
        (Some(name), 1.., Some(role)) => Ok(ManifestEntry { name, sequence, role }),
        _ => Err(INVALID),
    }
}

/// A name as a word of a line: in quotes where it would not be read as one word.
fn quoted(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\');
    if name.bytes().all(is_plain) {
        return name.to_owned();
    }
    let mut text = String::from("\"");
    for byte in name.bytes() {
        match byte {
            b'"' | b'\\' => text.extend(['\\', byte as char]),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            7 => text.push_str("\\a"),
            8 => text.push_str("\\b"),
            b' '..=b'~' => text.push(byte as char),
            _ => {
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_valkey_writes_is_read_and_written_alike() {
        let text = "file appendonly.aof.2.base.rdb seq 2 type b\n\
                    file appendonly.aof.1.incr.aof seq 1 type h\n\
                    file appendonly.aof.2.incr.aof seq 2 type i\n\
                    file appendonly.aof.3.incr.aof seq 3 type i\n";
        let manifest = Manifest::parse(text.as_bytes()).expect("Valkey's");
        assert_eq!(manifest.text(), text);
        assert_eq!((manifest.base_sequence, manifest.increment_sequence), (2, 3));
        let names: Vec<_> = manifest.files().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names[0], "appendonly.aof.2.base.rdb");
        assert_eq!(names[2], "appendonly.aof.3.incr.aof");
    }

    #[test]
    fn a_new_base_makes_history_of_what_it_replaces() {
        let mut manifest = Manifest::default();
        assert_eq!(manifest.push_increment("a b"), "a b.1.incr.aof");
        assert_eq!(manifest.push_increment("a b"), "a b.2.incr.aof");
        assert_eq!(manifest.replace_base("a b", true, 1), "a b.1.base.rdb");
        assert_eq!(
            manifest.text(),
            "file \"a b.1.base.rdb\" seq 1 type b\nfile \"a b.1.incr.aof\" seq 1 type h\n\
             file \"a b.2.incr.aof\" seq 2 type i\n"
        );
        assert_eq!(Manifest::parse(manifest.text().as_bytes()).expect("ours"), manifest);
        manifest.replace_base("a b", true, 1);
        let names: Vec<_> = manifest.history.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["a b.2.incr.aof", "a b.1.base.rdb", "a b.1.incr.aof"], "newest first");
    }

    #[test]
    fn faults_are_those_of_valkey() {
        let long = format!("file {} seq 1 type i\n", "a".repeat(2000));
        let base = "file a.1.base.rdb seq 1 type b\n";
        for (text, line_number, reason) in [
            ("", 0, "Found an empty AOF manifest"),
            ("\n", 1, INVALID),
            ("# comment\n\n", 2, INVALID),
            ("file a seq 1\n", 1, INVALID),
            ("file a seq 0 type i\n", 1, INVALID),
            ("file a seq 1 type\n", 1, INVALID),
            ("*3\n", 1, INVALID),
            ("file ../a seq 1 type i\n", 1, "File can't be a path, just a filename"),
            ("file a seq 1 type x\n", 1, "Unknown AOF file type"),
            (&format!("{base}{base}"), 2, "Found duplicate base file information"),
            (
                "file a seq 2 type i\nfile b seq 2 type i\n",
                2,
                "Found a non-monotonic sequence number",
            ),
            (&long, 1, "The AOF manifest file contains too long line"),
            ("file a seq 1 type i", 1, "The AOF manifest file contains too long line"),
        ] {
            let error = Manifest::parse(text.as_bytes()).expect_err(text);
            assert_eq!((error.line_number, error.reason), (line_number, reason), "{text:?}");
        }
        let with_more = "# made by hand\nFILE a SEQ 1 TYPE i startoffset 7\n";
        assert!(Manifest::parse(with_more.as_bytes()).is_ok(), "later versions may say more");
    }
}
