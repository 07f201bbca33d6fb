//! First line of a script: `#!lua name=mylib flags=no-writes,allow-stale`.

/// Flags of a script, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// The script writes nothing; implies `ALLOW_OOM`.
    pub const NO_WRITES: u8 = 1;
    /// The script may run when memory is full.
    pub const ALLOW_OOM: u8 = 2;
    /// The script may run on a replica without its primary.
    pub const ALLOW_STALE: u8 = 4;
    /// The script does not run in a cluster.
    pub const NO_CLUSTER: u8 = 8;
    /// The script may use keys of several slots.
    pub const ALLOW_CROSS_SLOT_KEYS: u8 = 16;

    /// Bit of a flag's name.
    #[must_use]
    pub fn of_name(name: &[u8]) -> Option<u8> {
        match name {
            b"no-writes" => Some(Self::NO_WRITES),
            b"allow-oom" => Some(Self::ALLOW_OOM),
            b"allow-stale" => Some(Self::ALLOW_STALE),
            b"no-cluster" => Some(Self::NO_CLUSTER),
            b"allow-cross-slot-keys" => Some(Self::ALLOW_CROSS_SLOT_KEYS),
            _ => None,
        }
    }
}

/// A first line that names engine, library and flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shebang {
    /// Name of the engine, as `lua`.
    pub engine: Vec<u8>,
    /// Options behind it in their order, each with its name and its value.
    pub options: Vec<(Vec<u8>, Vec<u8>)>,
    /// Length of the line without its end, bytes.
    pub length: usize,
}

impl Shebang {
    /// Reads the first line of a source; `None` if it is not a shebang.
    #[must_use]
    pub fn parse(source: &[u8]) -> Option<Self> {
        let rest = source.strip_prefix(b"#!")?;
        let length = source.iter().position(|byte| *byte == b'\n').unwrap_or(source.len());
        let line = &rest[..length - 2];
        let mut words = words(line).into_iter();
        // A line that begins with a space names no engine.
        let names_engine = line.first().is_some_and(|byte| !byte.is_ascii_whitespace());
        let engine = if names_engine { words.next().unwrap_or_default() } else { Vec::new() };
        let options = words.map(|word| match word.iter().position(|byte| *byte == b'=') {
            Some(at) => (word[..at].to_vec(), word[at + 1..].to_vec()),
            None => (word, Vec::new()),
        });
        Some(Self { engine, options: options.collect(), length })
    }
}

/// Words of a line. Spaces within quotes are part of a word, the quotes are not.
fn words(line: &[u8]) -> Vec<Vec<u8>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<Vec<u8>>, None);
    for &byte in line {
        match quote {
            Some(end) if byte == end => quote = None,
            None if byte.is_ascii_whitespace() => words.extend(word.take()),
            None if matches!(byte, b'"' | b'\'') => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            _ => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    words
}
