//! Types of values and how a file encodes them: the one list of type numbers.

use crate::version::{Fork, Version};

/// Type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// A byte string.
    String,
    /// A list.
    List,
    /// A set.
    Set,
    /// A sorted set.
    SortedSet,
    /// A hash.
    Hash,
    /// A stream.
    Stream,
}

macro_rules! encodings {
    ($($(#[$doc:meta])* $name:ident = $number:literal of $type:ident $(in $fork:ident)?;)*) => {
        /// Encoding of a value in a file or payload.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ValueEncoding {
            $($(#[$doc])* $name,)*
        }

        impl ValueEncoding {
            /// All encodings.
            pub const ALL: &[ValueEncoding] = &[$(ValueEncoding::$name),*];

            /// Its type number.
            #[must_use]
            pub fn number(self) -> u8 {
                match self {
                    $(ValueEncoding::$name => $number,)*
                }
            }

            /// Type of its values.
            #[must_use]
            pub fn value_type(self) -> ValueType {
                match self {
                    $(ValueEncoding::$name => ValueType::$type,)*
                }
            }

            /// The only server that has it under this number.
            fn fork(self) -> Option<Fork> {
                match self {
                    $(ValueEncoding::$name => None $(.or(Some(Fork::$fork)))?,)*
                }
            }
        }
    };
}

encodings! {
    /// A string.
    String = 0 of String;
    /// Elements one after the other.
    List = 1 of List;
    /// Members one after the other.
    Set = 2 of Set;
    /// Members with scores in decimal.
    SortedSetText = 3 of SortedSet;
    /// Fields and values one after the other.
    Hash = 4 of Hash;
    /// Members with binary scores.
    SortedSet = 5 of SortedSet;
    /// A zipmap.
    HashZipmap = 9 of Hash;
    /// A ziplist.
    ListZiplist = 10 of List;
    /// An intset.
    SetIntset = 11 of Set;
    /// A ziplist of members and scores.
    SortedSetZiplist = 12 of SortedSet;
    /// A ziplist of fields and values.
    HashZiplist = 13 of Hash;
    /// Ziplists one after the other.
    ListOfZiplists = 14 of List;
    /// A stream of Redis 5.
    Stream = 15 of Stream;
    /// A listpack of fields and values.
    HashListpack = 16 of Hash;
    /// A listpack of members and scores.
    SortedSetListpack = 17 of SortedSet;
    /// Listpacks and single elements one after the other.
    ListOfListpacks = 18 of List;
    /// A stream of Redis 7.0: with its first and its last deleted id.
    Stream2 = 19 of Stream;
    /// A listpack.
    SetListpack = 20 of Set;
    /// A stream of Redis 7.2: with times at which consumers were active.
    Stream3 = 21 of Stream;
    /// Fields, values and expiries of Valkey 9.
    HashExpiring = 22 of Hash in Valkey;
    /// Expiries, fields and values of a candidate of Redis 7.4.
    HashAbsoluteExpiries = 22 of Hash in Redis;
    /// A listpack of fields, values and expiries of a candidate of Redis 7.4.
    HashListpackExpiringEarly = 23 of Hash in Redis;
    /// Expiries, counted from the first, fields and values of Redis 7.4.
    HashRelativeExpiries = 24 of Hash in Redis;
    /// The first expiry, and a listpack of fields, values and expiries of Redis 7.4.
    HashListpackExpiring = 25 of Hash in Redis;
}

impl ValueEncoding {
    /// The encoding that a type number means in a version.
    #[must_use]
    pub fn of(version: Version, number: u8) -> Option<ValueEncoding> {
        let is_meant = |encoding: &ValueEncoding| {
            encoding.number() == number && encoding.fork().is_none_or(|fork| fork == version.fork())
        };
        ValueEncoding::ALL.iter().copied().find(is_meant)
    }
}

/// Types of values that only a module can read.
pub(crate) const MODULE_TYPES: std::ops::RangeInclusive<u8> = 6..=7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_means_one_encoding_in_each_version() {
        for version in [1, 11, 12, 79, 80, 81].map(Version) {
            for number in 0..=255 {
                let meant = ValueEncoding::ALL.iter().filter(|encoding| {
                    encoding.number() == number
                        && encoding.fork().is_none_or(|fork| fork == version.fork())
                });
                assert!(meant.count() <= 1, "{number} in {version:?}");
            }
        }
        let hash = |version| ValueEncoding::of(Version(version), 22);
        assert_eq!(hash(80), Some(ValueEncoding::HashExpiring));
        assert_eq!(hash(12), Some(ValueEncoding::HashAbsoluteExpiries));
        assert_eq!(ValueEncoding::of(Version(80), 24), None);
    }
}
