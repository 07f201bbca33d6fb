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

/// Length of the first line of a source without its end, bytes; 0 if it is no shebang.
pub(crate) fn length_of(source: &[u8]) -> usize {
    if !source.starts_with(b"#!") {
        return 0;
    }
    source.iter().position(|byte| *byte == b'\n').unwrap_or(source.len())
}
