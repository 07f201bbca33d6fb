//! Answers of commands that fail, word for word as Valkey 9.1 gives them.

use std::borrow::Cow;
use std::fmt;

/// Answer in the place of a reply that found no memory.
pub(crate) const NO_MEMORY_FOR_REPLY: &str = "OOM no memory for the reply";

/// Answer to a command that takes memory while the system has none left.
pub(crate) const NO_MEMORY_LEFT: &str = "OOM command not allowed: the system has no memory left";

/// A command's error. Its text is rendered here and nowhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// The key holds another type.
    WrongType,
    /// The options do not parse.
    Syntax,
    /// An argument or value is no 64-bit integer.
    NotAnInteger,
    /// An argument is no finite number.
    NotAFloat,
    /// The key does not exist, where it must.
    NoSuchKey,
    /// An index lies outside the collection.
    IndexOutOfRange,
    /// A command's argument count is wrong; the name is the command's.
    Arity(Cow<'static, str>),
    /// The server is out of memory by its own `maxmemory`.
    OutOfMemory,
    /// Writes are refused because the last background save failed.
    NotSaved,
    /// Data is being loaded.
    Loading,
    /// The system does not give the server this number of bytes for the command.
    NoMemory(u64),
    /// The reply would be larger than a string may be.
    ReplyTooLarge,
    /// The client has not authenticated.
    NotAuthenticated,
    /// Any other text, with its code, without the leading dash.
    Text(Cow<'static, str>),
    /// A text that quotes what a client sent, which need not be text.
    Bytes(Vec<u8>),
}

impl CommandError {
    /// An error with the code `ERR`.
    #[must_use]
    pub fn err(text: impl fmt::Display) -> CommandError {
        CommandError::Text(Cow::Owned(format!("ERR {text}")))
    }

    /// An error, code included, that quotes what a client sent: up to its first NUL, where a C
    /// string ends.
    #[must_use]
    pub fn quoting(before: &str, quoted: &[u8], after: &str) -> CommandError {
        CommandError::Bytes([before.as_bytes(), until_nul(quoted), after.as_bytes()].concat())
    }

    /// The error of a container that reads its subcommands itself and knows none of this name and
    /// length.
    #[must_use]
    pub fn subcommand_syntax(container: &str, subcommand: &[u8]) -> CommandError {
        CommandError::quoting(
            "ERR unknown subcommand or wrong number of arguments for '",
            &subcommand[..subcommand.len().min(QUOTED_BYTES_MAX)],
            &format!("'. Try {container} HELP."),
        )
    }

    /// The wire text: code, space, explanation; without the leading dash.
    #[must_use]
    pub fn wire(&self) -> Cow<'_, [u8]> {
        let text = match self {
            CommandError::WrongType => {
                "WRONGTYPE Operation against a key holding the wrong kind of value"
            }
            CommandError::Syntax => "ERR syntax error",
            CommandError::NotAnInteger => "ERR value is not an integer or out of range",
            CommandError::NotAFloat => "ERR value is not a valid float",
            CommandError::NoSuchKey => "ERR no such key",
            CommandError::IndexOutOfRange => "ERR index out of range",
            CommandError::ReplyTooLarge => {
                "ERR reply exceeds maximum allowed size (proto-max-bulk-len)"
            }
            CommandError::Arity(name) => {
                let text = format!("ERR wrong number of arguments for '{name}' command");
                return Cow::Owned(text.into_bytes());
            }
            CommandError::OutOfMemory => "OOM command not allowed when used memory > 'maxmemory'.",
            CommandError::Loading => "LOADING Tidemill is loading the dataset in memory",
            CommandError::NotSaved => {
                "MISCONF Tidemill is configured to save RDB snapshots, but it's currently unable \
                 to persist to disk. Commands that may modify the data set are disabled, because \
                 this instance is configured to report errors during writes if RDB snapshotting \
                 fails (stop-writes-on-bgsave-error option). Please check the Tidemill logs for \
                 details about the RDB error."
            }
            CommandError::NoMemory(bytes) => {
                let text = format!("OOM no memory for {bytes} bytes that the command needs");
                return Cow::Owned(text.into_bytes());
            }
            CommandError::NotAuthenticated => "NOAUTH Authentication required.",
            CommandError::Text(text) => text,
            CommandError::Bytes(bytes) => return Cow::Borrowed(bytes),
        };
        Cow::Borrowed(text.as_bytes())
    }
}

/// Bytes of a command's name, or of all its arguments, that an error about them quotes.
pub(crate) const QUOTED_BYTES_MAX: usize = 128;

/// Part of an argument that Valkey sees where it takes it for a C string.
pub(crate) fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

impl From<&'static str> for CommandError {
    /// A fixed text, code included.
    fn from(text: &'static str) -> CommandError {
        CommandError::Text(Cow::Borrowed(text))
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&String::from_utf8_lossy(&self.wire()))
    }
}

impl std::error::Error for CommandError {}
