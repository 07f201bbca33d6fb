//! Families of commands that may be carried out in write runs.

/// Commands that may follow each other in a run: writes to one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteRunFamily {
    /// Pushes to lists, and pops of one element.
    Lists,
    /// Changes of fields.
    Hashes,
    /// Members that join and leave sets.
    Sets,
    /// Scores.
    SortedSets,
    /// Entries of streams.
    Streams,
}
