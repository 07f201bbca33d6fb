//! First line of a script or library: `#!lua name=mylib flags=no-writes,allow-stale`.

use tidemill_resp::request::split_arguments;

/// A first line that names an engine and options.
pub(super) struct Shebang {
    /// Name of the engine, as `lua`.
    pub(super) engine: Vec<u8>,
    /// Options behind it, as `name=mylib`.
    pub(super) options: Vec<Vec<u8>>,
}

/// Reason for which a first line is no shebang that can be read.
pub(super) enum Trouble {
    /// The line has no end. A zero byte is one that Valkey does not look behind.
    NoEnd,
    /// A quote is not closed.
    Words,
}

impl Shebang {
    /// Reads the first line of a source; `None` if it does not begin with `#!`.
    pub(super) fn parse(source: &[u8]) -> Option<Result<Self, Trouble>> {
        source.starts_with(b"#!").then(|| {
            let end = source.iter().position(|byte| matches!(byte, b'\n' | 0));
            let end = end.filter(|end| source[*end] == b'\n').ok_or(Trouble::NoEnd)?;
            // The mark is part of the first word: behind a space there is an option.
            let words = split_arguments(&source[..end]).map_err(|_| Trouble::Words)?;
            let mut words = words.into_iter();
            let engine = words.next().map(|mut word| word.split_off(2)).unwrap_or_default();
            Ok(Self { engine, options: words.collect() })
        })
    }
}

/// Value of an option with this name, if it has one.
pub(super) fn value_of<'o>(option: &'o [u8], name: &[u8]) -> Option<&'o [u8]> {
    let (found, value) = option.split_at_checked(name.len())?;
    value.strip_prefix(b"=").filter(|_| found.eq_ignore_ascii_case(name))
}
