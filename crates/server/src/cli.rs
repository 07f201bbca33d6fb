//! `tidemill server`: command line of the server.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tidemill_engine::REDIS_VERSION;
use tidemill_engine::acl::{self, Users};
use tidemill_engine::command::CommandTable;
use tidemill_engine::config::{self, CommandLine, Configuration, Draft, LoadError, directive_list};
pub use tidemill_engine::config::{FAMILIES, STATEMENTS, STATEMENTS_TITLE, nearest};
use tidemill_engine::execute;
use tidemill_engine::system_error::reason;
use tidemill_host::output::{check_file, note, print_text};

use crate::config::DiskFiles;
use crate::listen;
use crate::options;
use crate::process::background;
use crate::process::crash;
use crate::process::supervisor::Supervisor;
use crate::start::{self, Start};
use crate::tls::context::TlsContext;

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

/// Prints a text to the standard output. Exit status 1 when it cannot be written; a reader that is
/// gone needs no text, and there is no error then.
#[must_use]
pub fn print(text: impl AsRef<[u8]>) -> ExitCode {
    match print_text(text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note(format_args!("tidemill: {error}"));
            ExitCode::from(1)
        }
    }
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
            note(format_args!("command line: {argument:?} is not valid UTF-8"));
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
    let Checked { configuration, commands, tls } = match check(&line) {
        Ok(checked) => checked,
        Err(error) => {
            note(error);
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
        note(error);
        return ExitCode::from(1);
    }
    let supervisor = Supervisor::detect(&config.supervised);
    let start =
        Start { configuration, commands, config, supervisor, file, commit, saves_by_default };
    serve(&start, tls)
}

/// Runs the server for a caller that has started `redis-server` or `valkey-server`. Its version is
/// that of Redis as clients see it: who reads this asks for what the server can do.
///
/// As [`run`] otherwise.
pub fn run_as_redis(args: Vec<OsString>, commit: &'static str) -> ExitCode {
    let asks_version = args.iter().any(|argument| argument == "--version");
    if asks_version || args.first().is_some_and(|first| first == "-v") {
        return print(format!(
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
        return Some(print(help()));
    }
    if asks("--list-directives") {
        return Some(print(directive_list()));
    }
    if asks("--version") || first == Some("-v") {
        let version = env!("CARGO_PKG_VERSION");
        let bits = usize::BITS;
        return Some(print(format!("Tidemill server v={version} sha={commit} bits={bits}\n")));
    }
    None
}

/// A configuration without a fault.
struct Checked {
    configuration: Configuration,
    /// The commands, by the names that the configuration gives them.
    commands: &'static CommandTable,
    /// Keys and certificates; none without a port for TLS.
    tls: Option<TlsContext>,
}

/// Reads the configuration of a command line and judges all of it: directives, declarations, and
/// values that name something of this host. Blocks.
///
/// # Errors
///
/// [`LoadError`] with all that is wrong. Behind a fault of a directive, values that depend on
/// others are not judged: the fault may be of the one that they depend on.
fn check(line: &CommandLine) -> Result<Checked, LoadError> {
    let mut draft = config::read(line, &DiskFiles);
    let is_sound = draft.is_sound();
    let commands = execute::renamed_commands(draft.configuration()).unwrap_or_else(|faults| {
        draft.add(faults);
        // Rules of users call commands by their own names.
        execute::commands()
    });
    let read = |path: &str| {
        if is_sound || Path::new(path).is_absolute() {
            std::fs::read(path)
        } else {
            // `dir`, in which it begins, may be what is wrong.
            Ok(Vec::new())
        }
    };
    if let Err(faults) = acl::begin(&Users::new(commands), draft.configuration(), read) {
        draft.add(faults);
    }
    let tls = if is_sound { check_host(&mut draft) } else { None };
    Ok(Checked { configuration: draft.finish()?, commands, tls })
}

/// Judges values that name something of this host, but for addresses: only listening can tell, and
/// the server that is checked may be running. Returns keys and certificates, if there is a port for
/// TLS.
fn check_host(draft: &mut Draft) -> Option<TlsContext> {
    if let Err(reason) = options::placement(draft.configuration()) {
        draft.refuse("cpu-placement", reason);
    }
    let config = draft.configuration().server();
    if let (Some(_), Some(name)) = (&config.unix_socket, &config.unix_socket_group)
        && let Err(error) = listen::group(name)
    {
        draft.refuse("unixsocketgroup", reason(&error));
    }
    if let Some(Err(error)) = config.log_file.as_deref().map(|path| check_file(Path::new(path))) {
        draft.refuse("logfile", format!("Can't open the log file: {}", reason(&error)));
    }
    start::tls_context(&config).unwrap_or_else(|error| {
        draft.refuse("tls-port", format!("Failed to configure TLS: {error}"));
        None
    })
}

/// Runs a server whose log is open, in the background if it is configured so.
fn serve(start: &Start, tls: Option<TlsContext>) -> ExitCode {
    let is_in_background = background::is_wanted(&start.config, start.supervisor);
    // Before the terminal is left, so that a port in use is reported to the terminal.
    let prepared = start::prepare(start, tls).and_then(|prepared| {
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
                note(format_args!("tidemill server: {error}"));
            }
            ExitCode::from(1)
        }
    }
}

/// A path that means the same in every directory.
fn absolute(path: &str) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path))
}
