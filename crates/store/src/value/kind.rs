//! Types of values: the one list of them.

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $number:literal, $name:literal;)*) => {
        /// Redis's types of values.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Kind {
            $($(#[$doc])* $kind = $number,)*
        }

        impl Kind {
            /// All types, by their numbers.
            pub const ALL: &[Kind] = &[$(Kind::$kind),*];

            /// Name of the type, as `TYPE` answers it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Kind::$kind => $name,)*
                }
            }
        }
    };
}

// The number is part of an entry's header, which has four bits for it.
kinds! {
    /// A byte string.
    String = 0, "string";
    /// A list of byte strings.
    List = 1, "list";
    /// A set of byte strings.
    Set = 2, "set";
    /// A set ordered by score.
    SortedSet = 3, "zset";
    /// A map from field to byte string.
    Hash = 4, "hash";
    /// A stream of entries.
    Stream = 5, "stream";
}

const _: () = {
    assert!(Kind::ALL.len() <= 16);
    let mut index = 0;
    while index < Kind::ALL.len() {
        assert!(Kind::ALL[index] as usize == index, "numbers follow each other from 0 on");
        index += 1;
    }
};
