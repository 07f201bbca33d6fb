//! Keys that a sample is taken of.

/// Class of keys that are counted by slot and sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyClass {
    /// All keys.
    #[default]
    All,
    /// Keys with an expiry.
    Expiring,
}
