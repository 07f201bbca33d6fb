//! The syntax of a command, as `COMMAND DOCS` shows it.
//!
//! An argument is a noun and what is said about it: `integer("count").token("COUNT").optional()`.

use std::borrow::Cow;

/// Kind of an argument.
#[derive(Clone, Copy, Debug)]
pub enum ArgumentKind {
    /// Any string.
    String,
    /// A 64-bit integer.
    Integer,
    /// A floating point number.
    Double,
    /// A key.
    Key,
    /// A glob pattern.
    Pattern,
    /// A Unix time.
    UnixTime,
    /// The token alone.
    PureToken,
    /// One of several.
    OneOf(&'static [Argument]),
    /// Several in a row.
    Block(&'static [Argument]),
}

/// One argument in a command's syntax.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    /// Its name, unique among its siblings; of a word alone see [`Argument::shown_name`].
    pub name: &'static str,
    /// Its kind.
    pub kind: ArgumentKind,
    /// The word before it, or the argument itself when it is a word alone.
    pub token: Option<&'static str>,
    /// It may be left out.
    pub optional: bool,
    /// It may occur several times.
    pub multiple: bool,
    /// Each occurrence is preceded by the token.
    pub multiple_token: bool,
    /// Index of the key specification that describes it, for a key and what belongs to one.
    pub key_spec: Option<usize>,
    /// Its effect, where `COMMAND DOCS` tells it.
    pub summary: Option<&'static str>,
    /// The version that added it.
    pub since: Option<&'static str>,
    /// The version that deprecated it.
    pub deprecated_since: Option<&'static str>,
    /// The name shown, where it differs from the name.
    pub display: Option<&'static str>,
}

const fn argument(name: &'static str, kind: ArgumentKind) -> Argument {
    Argument {
        name,
        kind,
        token: None,
        optional: false,
        multiple: false,
        multiple_token: false,
        key_spec: None,
        summary: None,
        since: None,
        deprecated_since: None,
        display: None,
    }
}

/// Any string.
#[must_use]
pub const fn string(name: &'static str) -> Argument {
    argument(name, ArgumentKind::String)
}

/// A 64-bit integer.
#[must_use]
pub const fn integer(name: &'static str) -> Argument {
    argument(name, ArgumentKind::Integer)
}

/// A floating point number.
#[must_use]
pub const fn double(name: &'static str) -> Argument {
    argument(name, ArgumentKind::Double)
}

/// A Unix time.
#[must_use]
pub const fn unix_time(name: &'static str) -> Argument {
    argument(name, ArgumentKind::UnixTime)
}

/// A glob pattern.
#[must_use]
pub const fn pattern(name: &'static str) -> Argument {
    argument(name, ArgumentKind::Pattern)
}

/// A key of the command's first key specification.
#[must_use]
pub const fn key(name: &'static str) -> Argument {
    key_of(0, name)
}

/// A key of the key specification with this index.
#[must_use]
pub const fn key_of(specification: usize, name: &'static str) -> Argument {
    argument(name, ArgumentKind::Key).of_keys(specification)
}

/// A word alone, in upper case: `NX`.
#[must_use]
pub const fn word(word: &'static str) -> Argument {
    argument(word, ArgumentKind::PureToken).token(word)
}

/// One of several arguments.
#[must_use]
pub const fn one_of(name: &'static str, alternatives: &'static [Argument]) -> Argument {
    argument(name, ArgumentKind::OneOf(alternatives))
}

/// Several arguments in a row.
#[must_use]
pub const fn block(name: &'static str, parts: &'static [Argument]) -> Argument {
    argument(name, ArgumentKind::Block(parts))
}

/// `EX seconds`.
pub const EX: Argument = integer("seconds").token("EX");
/// `PX milliseconds`.
pub const PX: Argument = integer("milliseconds").token("PX");
/// `EXAT unix-time-seconds`.
pub const EXAT: Argument = unix_time("unix-time-seconds").token("EXAT");
/// `PXAT unix-time-milliseconds`.
pub const PXAT: Argument = unix_time("unix-time-milliseconds").token("PXAT");
/// `[NX | XX | GT | LT]` of commands that set an expiry.
pub const EXPIRY_CONDITION: Argument =
    one_of("condition", &[word("NX"), word("XX"), word("GT"), word("LT")]).optional();

/// Index of the first argument of which `is_it` holds, among the words of a call in which no option
/// is given and each argument occurs once; without one, the number of these words.
pub(super) fn position_of(
    arguments: &[Argument],
    is_it: fn(&Argument) -> bool,
) -> Result<usize, usize> {
    let mut index = 0;
    for argument in arguments.iter().filter(|argument| !argument.optional) {
        index += usize::from(argument.token.is_some());
        match argument.kind {
            ArgumentKind::PureToken => {}
            ArgumentKind::Block(parts) => match position_of(parts, is_it) {
                Ok(within) => return Ok(index + within),
                Err(count) => index += count,
            },
            _ if is_it(argument) => return Ok(index),
            _ => index += 1,
        }
    }
    Err(index)
}

impl Argument {
    /// With a token before it.
    #[must_use]
    pub const fn token(self, token: &'static str) -> Argument {
        Argument { token: Some(token), ..self }
    }

    /// With another name, for a word alone that is not named like itself.
    #[must_use]
    pub const fn named(self, name: &'static str) -> Argument {
        Argument { name, ..self }
    }

    /// May be left out.
    #[must_use]
    pub const fn optional(self) -> Argument {
        Argument { optional: true, ..self }
    }

    /// May occur several times.
    #[must_use]
    pub const fn multiple(self) -> Argument {
        Argument { multiple: true, ..self }
    }

    /// May occur several times, each with its token.
    #[must_use]
    pub const fn multiple_token(self) -> Argument {
        Argument { multiple: true, multiple_token: true, ..self }
    }

    /// Since a version.
    #[must_use]
    pub const fn since(self, since: &'static str) -> Argument {
        Argument { since: Some(since), ..self }
    }

    /// Deprecated since a version.
    #[must_use]
    pub const fn deprecated(self, since: &'static str) -> Argument {
        Argument { deprecated_since: Some(since), ..self }
    }

    /// With a sentence about its effect.
    #[must_use]
    pub const fn summary(self, summary: &'static str) -> Argument {
        Argument { summary: Some(summary), ..self }
    }

    /// Belongs to the key specification with this index.
    #[must_use]
    pub const fn of_keys(self, specification: usize) -> Argument {
        Argument { key_spec: Some(specification), ..self }
    }

    /// Shown under another name.
    #[must_use]
    pub const fn display(self, display: &'static str) -> Argument {
        Argument { display: Some(display), ..self }
    }

    /// Name in `COMMAND DOCS`: that of a word alone is in lower case, as all names are there.
    #[must_use]
    pub fn shown_name(&self) -> Cow<'static, str> {
        match self.kind {
            ArgumentKind::PureToken => self.name.to_ascii_lowercase().into(),
            _ => self.name.into(),
        }
    }

    /// Name of its kind in `COMMAND DOCS`, and its parts.
    #[must_use]
    pub fn kind_name(&self) -> (&'static str, &'static [Argument]) {
        match self.kind {
            ArgumentKind::String => ("string", &[]),
            ArgumentKind::Integer => ("integer", &[]),
            ArgumentKind::Double => ("double", &[]),
            ArgumentKind::Key => ("key", &[]),
            ArgumentKind::Pattern => ("pattern", &[]),
            ArgumentKind::UnixTime => ("unix-time", &[]),
            ArgumentKind::PureToken => ("pure-token", &[]),
            ArgumentKind::OneOf(parts) => ("oneof", parts),
            ArgumentKind::Block(parts) => ("block", parts),
        }
    }

    /// Names of its flags in `COMMAND DOCS`.
    pub fn flag_names(&self) -> impl Iterator<Item = &'static str> {
        let flags = [
            (self.optional, "optional"),
            (self.multiple, "multiple"),
            (self.multiple_token, "multiple_token"),
        ];
        flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name)
    }
}
