//! Arguments that neither logs nor monitors show.

use tidemill_resp::request::ArgumentView;

use crate::command::Command;
use crate::config::is_secret;

const REDACTED: &[u8] = b"(redacted)";

/// The arguments of a command as logs and monitors show them: passwords are left out.
pub(crate) fn shown_arguments<'a>(
    command: &'static Command,
    args: ArgumentView<'a>,
) -> impl ExactSizeIterator<Item = &'a [u8]> {
    let is_hidden = match command.name {
        "auth" => |_: ArgumentView<'_>, index: usize| index > 0,
        "hello" => |args: ArgumentView<'_>, index: usize| {
            let is_auth = |at: usize| at > 1 && args.get(at).eq_ignore_ascii_case(b"AUTH");
            index > 2 && (is_auth(index - 1) || is_auth(index - 2))
        },
        "config|set" => |args: ArgumentView<'_>, index: usize| {
            index > 2 && index % 2 == 1 && is_secret(args.get(index - 1))
        },
        "acl|setuser" | "acl|deluser" | "acl|getuser" => {
            |_: ArgumentView<'_>, index: usize| index > 1
        }
        _ => |_: ArgumentView<'_>, _: usize| false,
    };
    (0..args.len())
        .map(move |index| if is_hidden(args, index) { REDACTED } else { args.get(index) })
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
