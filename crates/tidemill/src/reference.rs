//! The command line as data: completion scripts for shells and manual pages, both made from the
//! declarations that the parts parse by.
//!
//! It is no parser: `main` picks the part by its first word, so that a server starts without a tree
//! of all flags.

use std::io;
use std::path::Path;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command, ValueHint};
use clap_complete::{Shell, generate};
use clap_mangen::Man;
use tidemill_server::cli::{FAMILIES, STATEMENTS, STATEMENTS_TITLE};

/// The shells that there are completions for.
pub const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// The words that `main` takes for a part.
pub const PARTS: [&str; 8] =
    ["server", "tune", "bench", "experiment", "check-aof", "check-rdb", "completions", "help"];

/// Examples of the whole program, in `--help` and in the manual.
pub const EXAMPLES: &str = "\
Examples:
  tidemill server --port 6380 --maxmemory 2gb
  tidemill server /etc/tidemill/tidemill.conf --check-config
  tidemill tune doctor
  tidemill bench -h 127.0.0.1 -p 6380 --native
  tidemill experiment run unix-socket
  source <(tidemill completions bash)
";

/// The completion script of a shell; `None` when the shell is none of [`SHELLS`].
pub fn completions(shell: &str) -> Option<String> {
    let shell = match shell {
        "bash" => Shell::Bash,
        "zsh" => Shell::Zsh,
        "fish" => Shell::Fish,
        _ => return None,
    };
    // `generate` panics when its writer fails: never the standard output.
    let mut script = Vec::new();
    generate(shell, &mut program(), "tidemill", &mut script);
    Some(String::from_utf8_lossy(&script).into_owned())
}

/// Writes the manual pages of the program, of each part and of each command of a part into a
/// directory that exists: `tidemill.1`, `tidemill-server.1`, `tidemill-tune-doctor.1`, ...
///
/// # Errors
///
/// A file cannot be written.
pub fn write_manual(directory: &Path) -> io::Result<()> {
    // A page about help has no use.
    let mut program = program()
        .mut_subcommand("help", |help| help.hide(true))
        .mut_subcommands(|part| part.disable_help_subcommand(true));
    program.build();
    write_pages(&program, "tidemill", directory)
}

fn write_pages(command: &Command, name: &str, directory: &Path) -> io::Result<()> {
    let mut page = Vec::new();
    let source = concat!("tidemill ", env!("CARGO_PKG_VERSION"));
    Man::new(command.clone()).section("1").source(source).manual("Tidemill").render(&mut page)?;
    // The generator calls what follows the options EXTRA; ours begins with the examples.
    let page = String::from_utf8_lossy(&page).replace(".SH EXTRA\nExamples:\n", ".SH EXAMPLES\n");
    std::fs::write(directory.join(format!("{name}.1")), page)?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        write_pages(sub, &format!("{name}-{}", sub.get_name()), directory)?;
    }
    Ok(())
}

/// The whole command line.
fn program() -> Command {
    let shells = Arg::new("shell").required(true).value_parser(PossibleValuesParser::new(SHELLS));
    let part = Arg::new("part").value_parser(PossibleValuesParser::new(PARTS));
    Command::new("tidemill")
        .about("Redis-protocol server for high loads, host tuner and load generator")
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .after_help(EXAMPLES)
        .subcommand(server())
        .subcommand(tidemill_host::cli::command().name("tune"))
        .subcommand(tidemill_bench::cli::bench_command().name("bench"))
        .subcommand(tidemill_bench::cli::experiment_command().name("experiment"))
        .subcommand(check_aof())
        .subcommand(
            Command::new("check-rdb")
                .about("Tells what a snapshot has, and whether it is whole; changes nothing")
                .arg(Arg::new("FILE").value_hint(ValueHint::FilePath).help("The snapshot"))
                .arg(
                    Arg::new("stats")
                        .long("stats")
                        .action(ArgAction::SetTrue)
                        .help("Tells how many keys of each type there are, and how large"),
                )
                .arg(
                    Arg::new("format")
                        .long("format")
                        .value_parser(["table", "info", "csv"])
                        .help("Form of that"),
                )
                .arg(
                    Arg::new("output")
                        .long("output")
                        .value_name("REPORT")
                        .value_hint(ValueHint::FilePath)
                        .help("File for that"),
                ),
        )
        .subcommand(
            Command::new("completions")
                .about("Prints the completion script of a shell")
                .arg(shells),
        )
        .subcommand(Command::new("help").about("Prints the help of a part").arg(part))
}

/// The server's command line: its directives are its options.
fn server() -> Command {
    let switch = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    let file = Arg::new("FILE").value_hint(ValueHint::FilePath).help(
        "Read like a redis.conf; then standard input when there is a -, then the options; later \
         ones win",
    );
    let directives = FAMILIES.iter().flat_map(|family| {
        family.directives.iter().map(|directive| {
            let default = if directive.default.is_empty() { "\"\"" } else { directive.default };
            Arg::new(directive.name)
                .long(directive.name)
                .value_name("VALUE")
                .num_args(1..)
                .help_heading(family.title)
                .help(format!("{} [default: {default}]", directive.summary.replace('`', "'")))
        })
    });
    let statements = STATEMENTS.iter().map(|statement| {
        Arg::new(statement.name)
            .long(statement.name)
            .value_name("VALUE")
            .num_args(1..)
            .help_heading(STATEMENTS_TITLE)
            .help(statement.summary.replace('`', "'"))
    });
    Command::new("server")
        .about("Multi-core, Redis-compatible server")
        .arg(file)
        .arg(switch("check-config", "Tells all that is wrong with the configuration, and exits"))
        .arg(switch("list-directives", "Lists all directives with values and defaults, and exits"))
        .arg(switch("version", "Prints version and commit"))
        .args(directives)
        .args(statements)
        .after_help(tidemill_server::cli::EXAMPLES.trim_start())
}

/// Command line of the check of an append-only file.
fn check_aof() -> Command {
    let file = Arg::new("FILE").required(true).value_hint(ValueHint::FilePath);
    let fix = Arg::new("fix").long("fix").action(ArgAction::SetTrue);
    let until = Arg::new("truncate-to-timestamp").long("truncate-to-timestamp");
    Command::new("check-aof")
        .about("Checks and repairs an append-only file")
        .arg(file.help("A manifest, or one file of commands"))
        .arg(fix.help("Cuts the last file where it stops being whole, after asking"))
        .arg(
            until
                .value_name("SECONDS")
                .conflicts_with("fix")
                .help("Cuts the last file before the first command later than a Unix time"),
        )
        .after_help(
            "Examples:\n  tidemill check-aof appendonlydir/appendonly.aof.manifest\n  tidemill \
             check-aof --fix appendonlydir/appendonly.aof.manifest",
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_consistent() {
        program().debug_assert();
    }

    #[test]
    fn every_part_is_in_the_tree() {
        let program = program();
        let names: Vec<&str> = program.get_subcommands().map(Command::get_name).collect();
        assert_eq!(names, PARTS);
    }

    /// The words of an example, without quotes; several commands may be joined by `&&`.
    fn commands(line: &str) -> Vec<Vec<String>> {
        let words = |command: &str| {
            let mut words: Vec<String> = Vec::new();
            for (index, part) in command.split('\'').enumerate() {
                match index % 2 {
                    0 => words.extend(part.split_whitespace().map(str::to_owned)),
                    _ => words.push(part.to_owned()),
                }
            }
            words.retain(|word| word != "sudo");
            words
        };
        line.split("&&").map(words).collect()
    }

    #[test]
    fn examples_are_accepted() {
        let program = program();
        let mut example_count = 0;
        for command in std::iter::once(&program).chain(program.get_subcommands()) {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples = text
                .lines()
                .map(str::trim_start)
                .filter(|line| line.starts_with("tidemill ") || line.starts_with("sudo tidemill "));
            for words in examples.flat_map(commands) {
                let parsed = self::program().try_get_matches_from(&words);
                assert!(parsed.is_ok(), "{words:?}: {}", parsed.expect_err("no match"));
                example_count += 1;
            }
        }
        assert!(example_count > 15, "{example_count}");
    }

    #[test]
    fn only_known_shells_have_a_script() {
        assert_eq!(completions("tcsh"), None);
        assert!(SHELLS.iter().all(|shell| completions(shell).is_some()));
    }
}
