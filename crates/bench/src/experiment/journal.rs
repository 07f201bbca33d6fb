//! The runs of an experiment as they end, one JSON line each, so that it can be interrupted at any
//! moment.
//!
//! The first line says what is run: seed and experiment file, without its passwords. A line that
//! was being written when the process was killed has no end; it is cut off, and its run is made
//! again. Only the last line can be like that: any other that cannot be read was damaged by
//! another program, and runs must not be lost for that.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::experiment::record::Record;
use crate::experiment::spec::{AA_ARM, Spec};

const VERSION: u32 = 1;

/// First line.
#[derive(Serialize, Deserialize)]
struct Header {
    version: u32,
    seed: u64,
    spec: Spec,
}

/// An open journal. No other process can open it meanwhile.
pub(super) struct Journal {
    file: File,
    /// Seed of the order.
    pub seed: u64,
    /// The runs it held when it was opened.
    pub records: Vec<Record>,
}

impl Journal {
    /// Opens the journal of an experiment (without its passwords), or begins it.
    ///
    /// # Errors
    /// When it belongs to another experiment, is in use, damaged, or cannot be written.
    pub fn open(path: &Path, spec: &Spec) -> Result<Self, String> {
        open(path, spec).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Writes a run, so that it is kept whatever happens.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn append(&mut self, record: &Record) -> io::Result<()> {
        write_line(&mut self.file, record)
    }
}

fn open(path: &Path, spec: &Spec) -> Result<Journal, String> {
    let text = |error: io::Error| error.to_string();
    let mut options = OpenOptions::new();
    let mut file =
        options.read(true).write(true).create(true).truncate(false).open(path).map_err(text)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err("another process runs this experiment".into()),
        Err(TryLockError::Error(error)) => return Err(error.to_string()),
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(text)?;
    let mut lines = bytes.split_inclusive(|&byte| byte == b'\n');
    // Without an end it is a header that was being written: nothing was run yet.
    let Some(first) = lines.next().filter(|line| line.ends_with(b"\n")) else {
        return begin(file, spec).map_err(text);
    };
    let header: Header = serde_json::from_slice(first).map_err(|error| error.to_string())?;
    if header.version != VERSION {
        return Err(format!("version {}, not {VERSION}", header.version));
    }
    let json = |spec: &Spec| serde_json::to_value(spec).unwrap_or_default();
    if json(&header.spec) != json(spec) {
        return Err("belongs to another experiment; give another directory with --out".into());
    }
    let mut records: Vec<Record> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut whole_bytes = first.len();
    for (number, line) in (2..).zip(lines.by_ref()) {
        match serde_json::from_slice::<Record>(line) {
            Ok(record) if line.ends_with(b"\n") => {
                let run = (record.block, record.arm.clone(), record.load.clone());
                if !has_run(spec, &record) || !seen.insert(run) {
                    return Err(format!(
                        "line {number} is no run of this experiment, or there twice"
                    ));
                }
                records.push(record);
            }
            Err(error) if whole_bytes + line.len() < bytes.len() => {
                return Err(format!("line {number} is damaged: {error}"));
            }
            _ => break,
        }
        whole_bytes += line.len();
    }
    file.set_len(whole_bytes as u64).map_err(text)?;
    file.seek(SeekFrom::End(0)).map_err(text)?;
    Ok(Journal { file, seed: header.seed, records })
}

fn has_run(spec: &Spec, record: &Record) -> bool {
    let has_arm = spec.arms.iter().any(|arm| arm.name == record.arm) || record.arm == AA_ARM;
    let has_load = spec.loads.iter().any(|load| load.name == record.load);
    record.block < spec.blocks && has_arm && has_load
}

fn begin(mut file: File, spec: &Spec) -> io::Result<Journal> {
    let seed = spec.seed.unwrap_or_else(crate::load::keys::drawn_seed);
    file.set_len(0)?;
    file.rewind()?;
    write_line(&mut file, &Header { version: VERSION, seed, spec: spec.clone() })?;
    Ok(Journal { file, seed, records: Vec::new() })
}

fn write_line(file: &mut File, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    file.write_all(&line)?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::spec::TEMPLATE;
    use crate::load::keys::{Random, below};

    struct Scratch(std::path::PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let name = format!("tidemill-journal-{name}-{}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn spec() -> Spec {
        Spec::parse(&TEMPLATE.replace("\"valkey\"", "\"ärm\"")).unwrap()
    }

    fn record(block: usize) -> Record {
        Record {
            block,
            arm: "ärm".into(),
            load: "mixed".into(),
            started_ms: 1,
            metrics: [("ops_per_second".to_string(), 1.5)].into(),
            slots: vec![1, 2],
            curve: vec![(50.0, 0.1)],
            autocorrelation: Some(0.25),
            tails: Vec::new(),
            marks: Vec::new(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn a_journal_cut_at_any_byte_goes_on_with_its_whole_lines() {
        let scratch = Scratch::new("cut");
        let mut journal = Journal::open(&scratch.0, &spec()).unwrap();
        let seed = journal.seed;
        for block in 0..3 {
            journal.append(&record(block)).unwrap();
        }
        drop(journal);
        let whole = std::fs::read(&scratch.0).unwrap();
        // Around every end of a line, and here and there within.
        let near_end =
            |at: &usize| whole[at.saturating_sub(2)..whole.len().min(at + 2)].contains(&b'\n');
        for length in (0..whole.len()).filter(|at| at % 29 == 0 || near_end(at)) {
            std::fs::write(&scratch.0, &whole[..length]).unwrap();
            let mut journal = Journal::open(&scratch.0, &spec()).unwrap();
            let ends = whole[..length].iter().filter(|&&byte| byte == b'\n').count();
            assert_eq!(journal.records.len(), ends.saturating_sub(1), "cut at {length}");
            assert!(ends == 0 || journal.seed == seed, "cut at {length}");
            journal.append(&record(7)).unwrap();
            drop(journal);
            let again = Journal::open(&scratch.0, &spec()).unwrap();
            assert_eq!(again.records.last().map(|record| record.block), Some(7), "cut at {length}");
            assert_eq!(again.records.len(), ends.max(1), "cut at {length}");
        }
    }

    #[test]
    fn a_line_damaged_in_the_middle_is_an_error_and_nothing_is_lost() {
        let scratch = Scratch::new("damaged");
        let mut journal = Journal::open(&scratch.0, &spec()).unwrap();
        for block in 0..3 {
            journal.append(&record(block)).unwrap();
        }
        drop(journal);
        let whole = std::fs::read_to_string(&scratch.0).unwrap();
        let damaged = whole.replace("\"block\":1", "\"block\":x");
        std::fs::write(&scratch.0, &damaged).unwrap();
        let error = Journal::open(&scratch.0, &spec()).map(|_| ()).unwrap_err();
        assert!(error.contains("line 3 is damaged"), "{error}");
        assert_eq!(std::fs::read_to_string(&scratch.0).unwrap(), damaged);
        for other in ["\"block\":0", "\"block\":10", "\"block\":18446744073709551615"] {
            std::fs::write(&scratch.0, whole.replace("\"block\":1", other)).unwrap();
            let error = Journal::open(&scratch.0, &spec()).map(|_| ()).unwrap_err();
            assert!(error.contains("line 3 is no run of this experiment"), "{other}: {error}");
        }
    }

    #[test]
    fn a_journal_is_of_one_experiment_and_in_one_process() {
        let scratch = Scratch::new("same");
        let journal = Journal::open(&scratch.0, &spec()).unwrap();
        let error = |spec: &Spec| Journal::open(&scratch.0, spec).map(|_| ()).unwrap_err();
        assert!(error(&spec()).contains("another process"), "{}", error(&spec()));
        drop(journal);
        let other = Spec { blocks: 3, ..spec() };
        assert!(error(&other).contains("another experiment"), "{}", error(&other));
        let text = std::fs::read_to_string(&scratch.0).unwrap();
        std::fs::write(&scratch.0, text.replace("\"version\":1", "\"version\":2")).unwrap();
        assert!(error(&spec()).contains("version 2"), "{}", error(&spec()));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic() {
        let scratch = Scratch::new("bytes");
        let mut journal = Journal::open(&scratch.0, &spec()).unwrap();
        journal.append(&record(0)).unwrap();
        drop(journal);
        let whole = std::fs::read(&scratch.0).unwrap();
        let mut random = Random::new(4);
        for _ in 0..500 {
            let mut bytes = whole.clone();
            for _ in 0..4 {
                let at = below(&mut random, bytes.len() as u64) as usize;
                bytes[at] = random.next() as u8;
            }
            std::fs::write(&scratch.0, &bytes).unwrap();
            let _ = Journal::open(&scratch.0, &spec());
        }
    }
}
