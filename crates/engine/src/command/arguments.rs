//! The syntax of a command, as `COMMAND DOCS` shows it.

/// What an argument is.
#[derive(Clone, Copy, Debug)]
pub enum ArgumentKind {
    /// Any string.
    String,
    /// A 64-bit integer.
    Integer,
    /// A floating point number.
    Double,
    /// A key, described by the key specification of this index.
    Key(usize),
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
    /// Its name, unique among its siblings.
    pub name: &'static str,
    /// What it is.
    pub kind: ArgumentKind,
    /// The word that stands before it, or is it.
    pub token: Option<&'static str>,
    /// It may be left out.
    pub optional: bool,
    /// It may occur several times.
    pub multiple: bool,
    /// Each occurrence is preceded by the token.
    pub multiple_token: bool,
    /// The version that added it.
    pub since: Option<&'static str>,
    /// The name shown, where it differs from the name.
    pub display: Option<&'static str>,
}

impl Argument {
    /// A mandatory argument without a token.
    #[must_use]
    pub const fn new(name: &'static str, kind: ArgumentKind) -> Argument {
        Argument {
            name,
            kind,
            token: None,
            optional: false,
            multiple: false,
            multiple_token: false,
            since: None,
            display: None,
        }
    }

    /// A token on its own.
    #[must_use]
    pub const fn flag(name: &'static str, token: &'static str) -> Argument {
        Argument::new(name, ArgumentKind::PureToken).token(token)
    }

    /// With a token before it.
    #[must_use]
    pub const fn token(self, token: &'static str) -> Argument {
        Argument { token: Some(token), ..self }
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

    /// Shown under another name.
    #[must_use]
    pub const fn display(self, display: &'static str) -> Argument {
        Argument { display: Some(display), ..self }
    }
}
