//! Replies between scripts and their caller.

/// Reply of a command to a script.
#[derive(Debug)]
pub enum Answer<'h> {
    /// Bulk string, as the host keeps it until its next command: nearly all replies are one.
    Bulk(&'h [u8]),
    /// Any reply.
    Reply(Reply),
}

/// A reply of a command to a script, or of a script to its client.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// No value: null bulk string, null array or RESP3's null.
    Null,
    /// Simple string.
    Status(Vec<u8>),
    /// Error of a command, with its code, without the minus sign.
    Error(Vec<u8>),
    /// Error that the script made, likewise: no command answered it.
    OwnError(Vec<u8>),
    /// Integer.
    Integer(i64),
    /// Bulk string.
    Bulk(Vec<u8>),
    /// Boolean of RESP3.
    Bool(bool),
    /// Double of RESP3.
    Double(f64),
    /// Big number of RESP3, its digits.
    BigNumber(Vec<u8>),
    /// Verbatim string of RESP3.
    Verbatim {
        /// Name of what the text is, `txt` for any.
        format: [u8; 3],
        /// The text.
        text: Vec<u8>,
    },
    /// Array.
    Array(Vec<Reply>),
    /// Map of RESP3.
    Map(Vec<(Reply, Reply)>),
    /// Set of RESP3.
    Set(Vec<Reply>),
}
