//! Reading files, standard input and the command line, as redis-server takes them.

use std::io;

use tidemill_resp::request::split_arguments;

use super::configuration::{Configuration, find};
use super::directive::Kind;
use super::error::LoadError;
use super::table::{OBSOLETE, REFUSED};
use super::value;
use crate::system_error::reason;

/// Deepest nesting of `include`: a file that includes itself ends here.
const INCLUDE_DEPTH_MAX: usize = 16;

/// Where the loader reads files. The server's goes to the disk, a test's to a map.
pub trait Files {
    /// The contents of a file.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;

    /// The paths that match a glob pattern, in order; none is no error.
    fn matching(&self, pattern: &str) -> Vec<String>;

    /// Makes a directory the one that relative paths begin in.
    ///
    /// # Errors
    /// When the process cannot go there.
    fn enter(&self, directory: &str) -> io::Result<()>;

    /// All of standard input.
    ///
    /// # Errors
    /// When it cannot be read.
    fn standard_input(&self) -> io::Result<Vec<u8>>;
}

/// The server's command line: `[file] [-] [--directive value ...] ...`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// The configuration file.
    pub file: Option<String>,
    /// Whether `-` asks for more from standard input.
    pub reads_standard_input: bool,
    /// Directives with their values, in order.
    pub options: Vec<(String, Vec<String>)>,
}

impl CommandLine {
    /// Sorts the arguments. A directive's values go up to the next argument that begins with `--`.
    ///
    /// # Errors
    /// When a value stands before the first directive.
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<CommandLine, LoadError> {
        let mut parsed = CommandLine::default();
        for (index, argument) in arguments.into_iter().enumerate() {
            if argument == "-" {
                parsed.reads_standard_input = true;
            } else if let Some(name) = argument.strip_prefix("--") {
                parsed.options.push((name.to_owned(), Vec::new()));
            } else if let Some((_, values)) = parsed.options.last_mut() {
                values.push(argument);
            } else if index == 0 {
                parsed.file = Some(argument);
            } else {
                return Err(LoadError::Line {
                    origin: String::from("command line"),
                    line: index + 1,
                    text: argument,
                    reason: String::from("a value without a directive"),
                });
            }
        }
        Ok(parsed)
    }
}

/// The configuration that a command line asks for: the file, then standard input, then the options, later ones winning.
///
/// # Errors
/// [`LoadError`] with the place of the first line that is refused.
pub fn load(command_line: &CommandLine, files: &dyn Files) -> Result<Configuration, LoadError> {
    let mut loader = Loader { configuration: Configuration::default(), files, has_save: false };
    if let Some(path) = &command_line.file {
        loader.file(path, 0)?;
    }
    if command_line.reads_standard_input {
        let origin = "standard input";
        let contents = files.standard_input().map_err(|error| unreadable(origin, &error))?;
        loader.text(&contents, origin, 0)?;
    }
    for (index, (name, values)) in command_line.options.iter().enumerate() {
        let words: Vec<&str> = values.iter().map(String::as_str).collect();
        loader.directive(name, &words, 0).map_err(|fault| {
            let quoted: Vec<String> = words.iter().map(|word| format!(" \"{word}\"")).collect();
            let text = format!("{name}{}", quoted.concat());
            fault.at("command line", index + 1, &text)
        })?;
    }
    Ok(loader.configuration)
}

struct Loader<'a> {
    configuration: Configuration,
    files: &'a dyn Files,
    has_save: bool,
}

/// Something wrong with a line, whose place the caller knows, or in an included file, with its own place.
enum Fault {
    Here(String),
    Elsewhere(LoadError),
}

impl Fault {
    fn at(self, origin: &str, line: usize, text: &str) -> LoadError {
        match self {
            Fault::Elsewhere(error) => error,
            Fault::Here(reason) => {
                LoadError::Line { origin: origin.to_owned(), line, text: text.to_owned(), reason }
            }
        }
    }
}

const BAD_DIRECTIVE: &str = "Bad directive or wrong number of arguments";

impl Loader<'_> {
    fn file(&mut self, path: &str, depth: usize) -> Result<(), LoadError> {
        let contents = self.files.read(path).map_err(|error| unreadable(path, &error))?;
        self.text(&contents, &format!("'{path}'"), depth)
    }

    fn text(&mut self, contents: &[u8], origin: &str, depth: usize) -> Result<(), LoadError> {
        for (index, line) in contents.split(|&byte| byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line[0] == b'#' {
                continue;
            }
            self.line(line, depth)
                .map_err(|fault| fault.at(origin, index + 1, &String::from_utf8_lossy(line)))?;
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8], depth: usize) -> Result<(), Fault> {
        let here = |reason: &str| Fault::Here(reason.to_owned());
        let words =
            split_arguments(line).map_err(|_| here("Unbalanced quotes in configuration line"))?;
        let words: Result<Vec<&str>, _> =
            words.iter().map(|word| std::str::from_utf8(word)).collect();
        match words.map_err(|_| here("argument must be UTF-8"))?.split_first() {
            Some((name, words)) => self.directive(name, words, depth),
            None => Ok(()),
        }
    }

    fn directive(&mut self, name: &str, words: &[&str], depth: usize) -> Result<(), Fault> {
        let here = |reason: &str| Fault::Here(reason.to_owned());
        if name.eq_ignore_ascii_case("include") {
            let [path] = words else { return Err(here(BAD_DIRECTIVE)) };
            return self.include(path, depth);
        }
        if let Some((_, missing)) = REFUSED.iter().find(|(word, _)| name.eq_ignore_ascii_case(word))
        {
            return Err(Fault::Here(format!("'{name}' is not supported: {missing}")));
        }
        if OBSOLETE.iter().any(|word| name.eq_ignore_ascii_case(word)) {
            return Ok(());
        }
        let (index, directive) = find(name).ok_or_else(|| here(BAD_DIRECTIVE))?;
        let words = match words {
            [text] if !text.is_empty() => value::words_of(directive.kind, text),
            words => words.to_vec(),
        };
        if words.is_empty() && !matches!(directive.kind, Kind::Words { min: 0, .. }) {
            return Err(here("wrong number of arguments"));
        }
        let outcome = if matches!(directive.kind, Kind::SavePoints) && self.has_save {
            self.configuration.add_save_points(index, &words)
        } else {
            self.configuration.set_words(index, &words)
        };
        self.has_save |= matches!(directive.kind, Kind::SavePoints);
        outcome.map_err(|reason| Fault::Here(reason.into_owned()))?;
        if directive.name == "dir" {
            // At once, as in Valkey: paths of later lines begin there.
            let directory = self.configuration.value_at(index);
            self.files.enter(directory).map_err(|error| Fault::Here(reason(&error)))?;
        }
        Ok(())
    }

    fn include(&mut self, path: &str, depth: usize) -> Result<(), Fault> {
        if depth == INCLUDE_DEPTH_MAX {
            return Err(Fault::Here(format!(
                "'include' is nested more than {INCLUDE_DEPTH_MAX} deep"
            )));
        }
        let paths = if path.contains(['*', '?', '[']) {
            self.files.matching(path)
        } else {
            vec![path.to_owned()]
        };
        for path in paths {
            self.file(&path, depth + 1).map_err(Fault::Elsewhere)?;
        }
        Ok(())
    }
}

fn unreadable(path: &str, error: &io::Error) -> LoadError {
    LoadError::Unreadable { path: path.to_owned(), reason: reason(error) }
}
