//! docs/configuration.md, from the table.

use std::fmt::Write;

use super::directive::{Change, Directive, Status};
use super::table::{FAMILIES, OBSOLETE, REFUSED, STATEMENTS, STATEMENTS_TITLE, Statement};

const INTRODUCTION: &str = "\
# Configuration

Generated from the table of directives (crates/engine/src/config/table); a test fails when the two
differ.

The server reads a redis.conf, then standard input when there is a `-`, then options, later ones
winning:

```
tidemill server [file] [-] [--directive value ...] ...
```

Files know comments (`#`), quotes, and `include` with glob patterns. Lines that are wrong, or that
promise what does not exist, stop the start; all of them are told, each with its file and number,
and `--check-config` does no more than that. Certificates and the group of the Unix socket are
judged too, once every directive is right by itself. `tidemill server --list-directives` prints what
is below. Marks below: *start* can be set at start only, *protected* by `CONFIG SET` of clients that
`enable-protected-configs` trusts, everything else by `CONFIG SET` as well; `CONFIG SET` of one of
Tidemill's own that is set at start takes the value that it has. \"No effect\" is accepted and
shown, and the reason says why ignoring it is harmless; \"only\" lists the values that are accepted
while the rest does not exist.

Memory is given in bytes or with a unit: `k` is 1000 and `kb` is 1024, likewise `m`, `mb`, `g`,
`gb`.
";

const RENAMED: &str = "
## Renamed commands

`rename-command <command> <name>` lets clients and scripts call a command by another name only, and
`rename-command <command> \"\"` not at all. Lines of a file take effect one behind the other.
`CONFIG REWRITE` keeps them, and nothing changes them while the server runs. As in Valkey, rules of
users, `INFO`, `CLIENT LIST`, `ACL LOG` and most errors call the command by its own name. Unlike in
Valkey the append-only file does so too: lines may come and go without harm to it. A log that Valkey
wrote while a command of it was renamed cannot be loaded here.

An ACL is the better means where there is a choice: `user default -@dangerous`.
";

/// The manual of all directives, in Markdown.
#[must_use]
pub fn manual() -> String {
    let mut out = String::from(INTRODUCTION);
    for family in FAMILIES {
        out += &format!(
            "\n## {}\n\n| directive | value | default | what it does |\n|---|---|---|---|\n",
            family.title
        );
        for directive in family.directives {
            write_row(&mut out, directive).expect("a String takes everything");
        }
    }
    out += &format!("\n## {STATEMENTS_TITLE}\n\n");
    for Statement { name, accepted, summary } in STATEMENTS {
        out += &format!("- `{name}`: {accepted}. {summary}\n");
    }
    out += RENAMED;
    out += "\n## Refused lines\n\n";
    for (name, missing) in REFUSED {
        out += &format!("- `{name}`: {missing}.\n");
    }
    let obsolete: Vec<String> = OBSOLETE.iter().map(|name| format!("`{name}`")).collect();
    out += &format!("\nIgnored, as Valkey ignores them: {}.\n", obsolete.join(", "));
    out
}

/// The directives for a terminal: a line each with values, default and meaning, by family.
#[must_use]
pub fn directive_list() -> String {
    let mut out = String::new();
    for family in FAMILIES {
        out += &format!("{}\n", family.title);
        for directive in family.directives {
            let default = if directive.default.is_empty() { "\"\"" } else { directive.default };
            let mark = match (directive.status, directive.change) {
                (Status::WithoutEffect(_), _) => " (no effect)",
                (_, Change::Live) => "",
                (_, Change::AtStart | Change::Fixed) => " (start)",
                (_, Change::Protected) => " (protected)",
            };
            out += &format!(
                "  {:<40} {} [{default}]: {}{mark}\n",
                directive.name,
                directive.accepted(),
                directive.summary
            );
        }
        out.push('\n');
    }
    out += &format!("{STATEMENTS_TITLE}\n");
    for Statement { name, accepted, summary } in STATEMENTS {
        out += &format!("  {name:<40} {accepted}: {summary} (start)\n");
    }
    out.push('\n');
    out = out.replace('`', "'");
    out += "In brackets the default. (start): not by CONFIG SET. (protected): by CONFIG SET of \
            clients that enable-protected-configs trusts. (no effect): accepted, because ignoring \
            it is harmless.\n";
    out
}

fn write_row(out: &mut String, directive: &Directive) -> std::fmt::Result {
    write!(out, "| `{}`", directive.name)?;
    for alias in directive.aliases {
        write!(out, "<br>`{alias}`")?;
    }
    let default = if directive.default.is_empty() { "\"\"" } else { directive.default };
    write!(out, " | {} | `{default}` | {}", directive.kind.describe(), directive.summary)?;
    match directive.change {
        Change::Live => {}
        Change::AtStart | Change::Fixed => out.push_str(" *start*"),
        Change::Protected => out.push_str(" *protected*"),
    }
    match directive.status {
        Status::Works => {}
        Status::WithoutEffect(why) => write!(out, " **No effect**: {why}.")?,
        Status::Only { accepted, missing } => {
            let accepted: Vec<String> =
                accepted
                    .iter()
                    .map(|value| {
                        if value.is_empty() { String::from("`\"\"`") } else { format!("`{value}`") }
                    })
                    .collect();
            write!(out, " **Only** {}: {missing}.", accepted.join(", "))?;
        }
    }
    out.push_str(" |\n");
    Ok(())
}
