//! docs/configuration.md, from the table.

use std::fmt::Write;

use super::directive::{Change, Directive, Kind, Status};
use super::table::{FAMILIES, OBSOLETE, REFUSED};

const INTRODUCTION: &str = "\
# Configuration

Generated from the table of directives (crates/engine/src/config/table); a test fails when the two differ.

The server reads a redis.conf, then standard input when there is a `-`, then options, later ones winning:

```
tidemill server [file] [-] [--directive value ...] ...
```

Files know comments (`#`), quotes, and `include` with glob patterns. A line that is wrong, or that promises what does not
exist, stops the start with its file and number. Marks below: *start* can be set at start only, everything else by
`CONFIG SET` as well. \"No effect\" is accepted and shown, and the reason says why ignoring it is harmless; \"only\"
lists the values that are accepted while the rest does not exist.

Memory is given in bytes or with a unit: `k` is 1000 and `kb` is 1024, likewise `m`, `mb`, `g`, `gb`.
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
    out += "\n## Refused lines\n\n";
    for (name, missing) in REFUSED {
        out += &format!("- `{name}`: {missing}.\n");
    }
    let obsolete: Vec<String> = OBSOLETE.iter().map(|name| format!("`{name}`")).collect();
    out += &format!("\nIgnored, as Valkey ignores them: {}.\n", obsolete.join(", "));
    out
}

fn write_row(out: &mut String, directive: &Directive) -> std::fmt::Result {
    write!(out, "| `{}`", directive.name)?;
    for alias in directive.aliases {
        write!(out, "<br>`{alias}`")?;
    }
    let default = if directive.default.is_empty() { "\"\"" } else { directive.default };
    write!(out, " | {} | `{default}` | {}", describe(directive.kind), directive.summary)?;
    if directive.change != Change::Live {
        out.push_str(" *start*");
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

fn describe(kind: Kind) -> String {
    let bounds = |min: i64, max: i64| match max {
        i64::MAX => format!("from {min}"),
        max => format!("{min} to {max}"),
    };
    match kind {
        Kind::Flag => String::from("yes, no"),
        Kind::Integer { min, max } => bounds(min, max),
        Kind::Memory { min, max } => format!("memory, {}", bounds(min, max)),
        Kind::MemoryOrPercent => String::from("memory or percent"),
        Kind::Permissions => String::from("octal, 0 to 777"),
        Kind::Choice(choices) => choices.join(", "),
        Kind::Choices(choices) => format!("some of {}", choices.join(", ")),
        Kind::Text | Kind::Secret => String::from("text"),
        Kind::CpuList => String::from("CPU list, `0-3,8` or `0-7:2`"),
        Kind::Words { min: 0, .. } => String::from("words"),
        Kind::Words { min, .. } => format!("{min} words"),
        Kind::OutputBufferLimits => String::from("class, hard, soft, soft seconds"),
        Kind::SavePoints => String::from("seconds, changes"),
        Kind::Percentiles => String::from("percentages"),
        Kind::KeyspaceEvents => String::from("letters of `Ag$lshzxeKEtmdn`"),
    }
}
