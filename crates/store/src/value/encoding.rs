//! Encodings as clients see them.

/// Answer of `OBJECT ENCODING`. It follows Redis's thresholds and conversions, never the layout in
/// memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Encoding {
    /// A string that is a 64-bit integer.
    Int = 0,
    /// A string of up to 44 bytes that was never modified in place.
    Embstr = 1,
    /// Any other string.
    Raw = 2,
    /// A small list, hash, set or sorted set.
    Listpack = 3,
    /// A long list.
    Quicklist = 4,
    /// A large hash or set.
    Hashtable = 5,
    /// A small set of integers.
    Intset = 6,
    /// A large sorted set.
    Skiplist = 7,
    /// A stream.
    Stream = 8,
}

impl Encoding {
    /// All encodings, by their numbers.
    pub(crate) const ALL: [Encoding; 9] = [
        Encoding::Int,
        Encoding::Embstr,
        Encoding::Raw,
        Encoding::Listpack,
        Encoding::Quicklist,
        Encoding::Hashtable,
        Encoding::Intset,
        Encoding::Skiplist,
        Encoding::Stream,
    ];

    /// Redis's name of the encoding.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Int => "int",
            Encoding::Embstr => "embstr",
            Encoding::Raw => "raw",
            Encoding::Listpack => "listpack",
            Encoding::Quicklist => "quicklist",
            Encoding::Hashtable => "hashtable",
            Encoding::Intset => "intset",
            Encoding::Skiplist => "skiplist",
            Encoding::Stream => "stream",
        }
    }
}
