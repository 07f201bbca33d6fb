//! `tidemill server`: command line of the server.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use tidemill_engine::REDIS_VERSION;
use tidemill_engine::acl::{self, Users};
use tidemill_engine::command::CommandTable;
use tidemill_engine::config::{CommandLine, Configuration, directive_list, load};
pub use tidemill_engine::config::{FAMILIES, nearest};
use tidemill_engine::execute::renamed_commands;

use crate::config::DiskFiles;
use crate::options;
use crate::process::background;
use crate::process::crash;
use crate::process::supervisor::Supervisor;
use crate::start::{self, Start};

const USAGE: &str = "\
Usage: tidemill server [FILE] [-] [--directive value ...]

FILE is read like a redis.conf, then standard input if there is a -, then the directives of the
command line; later ones win.

  --check-config      reads the configuration, says all that is wrong with it, and exits
  --list-directives   lists all directives with their values and defaults
  --version           prints version and commit
  --help              prints this
";

/// Examples of command lines.
pub const EXAMPLES: &str = "
Examples:

  tidemill server --port 6380 --maxmemory 2gb --requirepass secret
  tidemill server /etc/tidemill.conf --loglevel verbose
  tidemill server /etc/tidemill.conf --check-config
";

/// Directives that the help names with their defaults; `--list-directives` has all.
const FIRST_DIRECTIVES: [&str; 10] = [
    "port",
    "bind",
    "protected-mode",
    "requirepass",
    "maxmemory",
    "maxclients",
    "databases",
    "worker-threads",
    "daemonize",
    "logfile",
];

/// Text that `--help` prints.
fn help() -> String {
    let mut text = format!(
        "{USAGE}{EXAMPLES}\nDirectives, with their defaults in brackets, are described in \
         docs/configuration.md. Among them:\n\n"
    );
    let all = || FAMILIES.iter().flat_map(|family| family.directives);
    for directive in
        FIRST_DIRECTIVES.iter().filter_map(|name| all().find(|directive| directive.name == *name))
    {
        let default = if directive.default.is_empty() { "\"\"" } else { directive.default };
        text += &format!("  --{:<16} {} [{default}]\n", directive.name, directive.summary);
    }
    text.replace('`', "'")
}

/// Prints a text; a reader that is gone needs none, and no panic either.
fn print(text: &str) -> ExitCode {
    let _ = io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

/// Runs `tidemill server` with the arguments that follow the subcommand, in a binary built from
/// `commit`.
///
/// Blocks the calling thread until the server stops. Exit status 0 after an orderly stop, 1 when
/// the server cannot run, 2 when the configuration is wrong.
pub fn run(args: Vec<OsString>, commit: &'static str) -> ExitCode {
    let arguments: Result<Vec<String>, OsString> =
        args.into_iter().map(OsString::into_string).collect();
    let mut arguments = match arguments {
        Ok(arguments) => arguments,
        Err(argument) => {
            eprintln!("command line: {argument:?} is not valid UTF-8");
            return ExitCode::from(2);
        }
    };
    if let Some(status) = answer(&arguments, commit) {
        return status;
    }
    let before = arguments.len();
    arguments.retain(|argument| argument != "--check-config");
    let only_check = arguments.len() < before;
    let line = CommandLine::parse(arguments);
    // Before `dir` takes effect.
    let file = line.file.as_ref().map(|path| absolute(path));
    let (configuration, commands) = match checked_configuration(&line) {
        Ok(checked) => checked,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    if only_check {
        return print("the configuration is correct\n");
    }
    let default = Configuration::default();
    let saves_by_default = ["save", "dir", "dbfilename"]
        .iter()
        .all(|name| configuration.value(name) == default.value(name));
    let configuration = match std::env::current_dir() {
        Ok(directory) => configuration.in_directory(&directory.to_string_lossy()),
        // It is gone; the server does not need it.
        Err(_) => configuration,
    };
    let config = configuration.server();
    let logging = crate::log::start(&config);
    let log_file = config.log_file.as_deref();
    if let Err(error) = logging.and_then(|()| crash::install(commit, log_file)) {
        eprintln!("{error}");
        return ExitCode::from(1);
    }
    let supervisor = Supervisor::detect(&config.supervised);
    serve(&Start { configuration, commands, config, supervisor, file, commit, saves_by_default })
}

/// Runs the server for a caller that has started `redis-server` or `valkey-server`. Its version is
/// that of Redis as clients see it: who reads this asks for what the server can do.
///
/// As [`run`] otherwise.
pub fn run_as_redis(args: Vec<OsString>, commit: &'static str) -> ExitCode {
    if args.first().is_some_and(|first| first == "--version" || first == "-v") {
        return print(&format!(
            "Redis server v={REDIS_VERSION} sha={commit}:0 malloc=jemalloc bits={} \
             build=tidemill-{}\n",
            usize::BITS,
            env!("CARGO_PKG_VERSION")
        ));
    }
    run(args, commit)
}

/// Answers options that ask for a text instead of a server.
fn answer(arguments: &[String], commit: &str) -> Option<ExitCode> {
    let asks = |option: &str| arguments.iter().any(|argument| argument == option);
    let first = arguments.first().map(String::as_str);
    if asks("--help") || matches!(first, Some("-h" | "help")) {
        return Some(print(&help()));
    }
    if asks("--list-directives") {
        return Some(print(&directive_list()));
    }
    if let Some("--version" | "-v") = first {
        let version = env!("CARGO_PKG_VERSION");
        println!("Tidemill server v={version} sha={commit} bits={}", usize::BITS);
        return Some(ExitCode::SUCCESS);
    }
    None
}

/// Configuration of a command line and its file, with a placement that can be read and users that
/// can be made, and the commands as it names them.
fn checked_configuration(
    line: &CommandLine,
) -> Result<(Configuration, &'static CommandTable), String> {
    let configuration = load(line, &DiskFiles).map_err(|error| error.to_string())?;
    options::placement(&configuration).map_err(|reason| format!("tidemill server: {reason}"))?;
    let commands = renamed_commands(&configuration).map_err(|error| error.to_string())?;
    let users = Users::new(commands);
    acl::begin(&users, &configuration, |path| std::fs::read(path))
        .map_err(|error| error.to_string())?;
    Ok((configuration, commands))
}

/// Runs a server whose log is open, in the background if it is configured so.
fn serve(start: &Start) -> ExitCode {
    let is_in_background = background::is_wanted(&start.config, start.supervisor);
    // Before the terminal is left, so that a port in use is reported to the terminal.
    let prepared = start::prepare(start).and_then(|prepared| {
        if is_in_background {
            background::enter()?;
        }
        Ok(prepared)
    });
    match prepared.and_then(|prepared| start::run(start, prepared)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error.lines().for_each(|line| log::error!("{line}"));
            if start.config.log_file.is_some() {
                eprintln!("tidemill server: {error}");
            }
            ExitCode::from(1)
        }
    }
}

/// A path that means the same in every directory.
fn absolute(path: &str) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path))
}
