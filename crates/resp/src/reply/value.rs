//! Reply as an owned value.

/// A reply with everything in it. Strings are bytes: the protocol does not promise text.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `+`: a status.
    SimpleString(Vec<u8>),
    /// `-` or `!`: an error, its code first.
    Error(Vec<u8>),
    /// `:`
    Integer(i64),
    /// `$`
    Bulk(Vec<u8>),
    /// `_`, `$-1` or `*-1`.
    Null,
    /// `*`
    Array(Vec<Value>),
    /// `%`, in the order sent.
    Map(Vec<(Value, Value)>),
    /// `~`, in the order sent.
    Set(Vec<Value>),
    /// `>`
    Push(Vec<Value>),
    /// `,`
    Double(f64),
    /// `#`
    Boolean(bool),
    /// `(`: the digits.
    BigNumber(Vec<u8>),
    /// `=`
    Verbatim {
        /// Three letters, `txt` or `mkd`.
        format: [u8; 3],
        /// The text behind the colon.
        text: Vec<u8>,
    },
    /// `|`: attributes, and the reply they belong to.
    Attributed {
        /// In the order sent.
        attributes: Vec<(Value, Value)>,
        /// The reply behind them.
        value: Box<Value>,
    },
}

impl Value {
    /// Bytes of a string of any kind.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::SimpleString(bytes) | Value::Bulk(bytes) => Some(bytes),
            Value::Verbatim { text, .. } => Some(text),
            _ => None,
        }
    }
}
