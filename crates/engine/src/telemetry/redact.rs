//! Arguments that neither logs nor monitors show.

use tidemill_resp::request::ArgumentView;

use crate::command::Command;
use crate::config::is_secret;

const REDACTED: &[u8] = b"(redacted)";

fn is(option: &[u8], name: &[u8]) -> bool {
    option.eq_ignore_ascii_case(name)
}

/// The arguments of a command as logs and monitors show them: passwords are left out.
pub(crate) fn shown_arguments<'a>(
    command: &'static Command,
    args: ArgumentView<'a>,
) -> impl ExactSizeIterator<Item = &'a [u8]> {
    let is_hidden = match command.name {
        "auth" => |_: ArgumentView<'_>, index: usize| index > 0,
        "config|set" => |args: ArgumentView<'_>, index: usize| {
            index > 2 && index % 2 == 1 && is_secret(args.get(index - 1))
        },
        "acl|setuser" | "acl|deluser" | "acl|getuser" => {
            |_: ArgumentView<'_>, index: usize| index > 1
        }
        _ => |_: ArgumentView<'_>, _: usize| false,
    };
    let credentials = match command.name {
        "hello" => credentials(args, 2, |option| match () {
            () if is(option, b"AUTH") => Some((2, 2)),
            () if is(option, b"SETNAME") => Some((1, 0)),
            () => Some((0, 0)),
        }),
        "migrate" => credentials(args, 6, |option| match () {
            () if is(option, b"AUTH") => Some((1, 1)),
            () if is(option, b"AUTH2") => Some((2, 2)),
            () if is(option, b"KEYS") => None,
            () => Some((0, 0)),
        }),
        _ => Vec::new(),
    };
    (0..args.len()).map(move |index| {
        let is_hidden = is_hidden(args, index) || credentials.binary_search(&index).is_ok();
        if is_hidden { REDACTED } else { args.get(index) }
    })
}

/// Indices of names and passwords among the options from `from` on, in ascending order. `words`
/// tells how many words an option has and how many of these are hidden, or that no option is left.
fn credentials(
    args: ArgumentView<'_>,
    from: usize,
    words: impl Fn(&[u8]) -> Option<(usize, usize)>,
) -> Vec<usize> {
    let mut hidden = Vec::new();
    let mut index = from;
    while index < args.len()
        && let Some((all, secret)) = words(args.get(index))
    {
        hidden.extend((index + 1..args.len()).take(secret));
        index += 1 + all;
    }
    hidden
}

#[cfg(test)]
mod tests {
    use tidemill_resp::request::OwnedArguments;

    use super::*;

    fn shown(name: &'static str, words: &[&str]) -> Vec<String> {
        let command: &'static Command = Box::leak(Box::new(Command { name, ..Command::BASE }));
        let owned = OwnedArguments::new(words.iter().map(|word| word.as_bytes()));
        let shown = shown_arguments(command, owned.view());
        shown.map(|argument| String::from_utf8_lossy(argument).into_owned()).collect()
    }

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(shown("auth", &["AUTH", "u", "p"]), ["AUTH", "(redacted)", "(redacted)"]);
        assert_eq!(
            shown("hello", &["hello", "3", "auth", "u", "p", "SETNAME", "n"]),
            ["hello", "3", "auth", "(redacted)", "(redacted)", "SETNAME", "n"]
        );
        let named = ["HELLO", "3", "SETNAME", "AUTH", "SETNAME", "x", "AUTH", "u"];
        assert_eq!(shown("hello", &named)[..7], named[..7]);
        assert_eq!(shown("hello", &named)[7], "(redacted)");
        let start = ["MIGRATE", "h", "1", "", "0", "9"];
        for (options, seen) in [
            (["AUTH", "p", "COPY"], ["AUTH", "(redacted)", "COPY"]),
            (["auth2", "AUTH", "p"], ["auth2", "(redacted)", "(redacted)"]),
            (["KEYS", "AUTH", "p"], ["KEYS", "AUTH", "p"]),
        ] {
            assert_eq!(shown("migrate", &[&start[..], &options].concat())[6..], seen);
        }
        assert_eq!(
            shown("config|set", &["config", "set", "port", "1", "RequirePass", "p"]),
            ["config", "set", "port", "1", "RequirePass", "(redacted)"]
        );
        assert_eq!(
            shown("acl|setuser", &["acl", "setuser", "u", ">p"]),
            ["acl", "setuser", "(redacted)", "(redacted)"]
        );
        assert_eq!(shown("set", &["set", "auth", "p"]), ["set", "auth", "p"]);
    }
}
