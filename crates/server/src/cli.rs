//! `tidemill server`: command line of the server.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use tidemill_engine::config::{CommandLine, load};

use crate::config::DiskFiles;
use crate::process::background;
use crate::process::crash;
use crate::process::supervisor::Supervisor;
use crate::start::{self, Start};

const USAGE: &str = "\
Usage: tidemill server [FILE] [--directive value ...]

FILE is read like a redis.conf; directives on the command line come after it.

  --check-config   reads the configuration, says what is wrong with it, and exits
  --version        prints version and commit
  --help           prints this
";

/// Runs `tidemill server` with the arguments that follow the subcommand, in a binary built from `commit`.
///
/// Blocks the calling thread until the server stops. Exit status 0 after an orderly stop, 1 when the server cannot run,
/// 2 when the configuration is wrong.
pub fn run(args: Vec<OsString>, commit: &'static str) -> ExitCode {
    let arguments: Result<Vec<String>, OsString> =
        args.into_iter().map(OsString::into_string).collect();
    let mut arguments = match arguments {
        Ok(arguments) => arguments,
        Err(argument) => {
            eprintln!("tidemill server: {argument:?} is not valid UTF-8");
            return ExitCode::from(2);
        }
    };
    match arguments.first().map(String::as_str) {
        Some("--help" | "-h") => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Some("--version" | "-v") => {
            let version = env!("CARGO_PKG_VERSION");
            println!("Tidemill server v={version} sha={commit} bits={}", usize::BITS);
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let before = arguments.len();
    arguments.retain(|argument| argument != "--check-config");
    let only_check = arguments.len() < before;
    let loaded = CommandLine::parse(arguments).and_then(|line| {
        // Before `dir` takes effect.
        let file = line.file.as_ref().map(|path| absolute(path));
        load(&line, &DiskFiles).map(|configuration| (file, configuration))
    });
    let (file, configuration) = match loaded {
        Ok(loaded) => loaded,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    if only_check {
        println!("the configuration is correct");
        return ExitCode::SUCCESS;
    }
    let configuration = match std::env::current_dir() {
        Ok(directory) => configuration.in_directory(&directory.to_string_lossy()),
        // It is gone; the server does not need it.
        Err(_) => configuration,
    };
    let config = configuration.server();
    let log_file = config.log_file.as_deref();
    let logging = crate::log::start(log_file, &config.log_level);
    if let Err(error) = logging.and_then(|()| crash::install(commit, log_file)) {
        eprintln!("{error}");
        return ExitCode::from(1);
    }
    let supervisor = Supervisor::detect(&config.supervised);
    let in_background =
        if background::is_wanted(&config, supervisor) { background::enter() } else { Ok(()) };
    let logs_to_file = config.log_file.is_some();
    let start = Start { configuration, config, supervisor, file, commit };
    match in_background.and_then(|()| start::run(&start)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::error!("{error}");
            if logs_to_file {
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
