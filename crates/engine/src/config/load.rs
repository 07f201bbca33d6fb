//! Reading files, standard input and the command line, as redis-server takes them.

use std::io;
use std::sync::Arc;

use tidemill_resp::request::split_arguments;

use super::configuration::{Configuration, Declaration, Invalid, directives, find};
use super::directive::Kind;
use super::draft::Draft;
use super::error::{Fault, FaultSource, LoadError, Remedy};
use super::nearest::nearest;
use super::rewrite::quote;
use super::table::{OBSOLETE, REFUSED, RENAME, STATEMENTS, is_secret, statement};
use super::value;
use crate::system_error::reason;

/// Deepest nesting of `include`: a file that includes itself ends here.
const INCLUDE_DEPTH_MAX: usize = 16;

/// Source of the loader's files: the disk for the server, a map for a test.
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
    /// True if `-` asks for more from standard input.
    pub reads_standard_input: bool,
    /// Directives with their values, in order.
    pub options: Vec<(String, Vec<String>)>,
    /// Arguments that are neither: values before the first directive, but for the file.
    pub strays: Vec<String>,
}

impl CommandLine {
    /// Sorts the arguments as Valkey does. A directive begins with `--`; behind the file the first
    /// one may do without. Its values go up to the next argument that begins with `--`, and the
    /// first of them may do so itself, unless the directive's argument holds values
    /// (`'--maxmemory 1gb'`) or is `--save`, of which no value forgets all.
    #[must_use]
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> CommandLine {
        let mut parsed = CommandLine::default();
        // True while the last directive has no value.
        let mut lacks_value = false;
        for (index, argument) in arguments.into_iter().enumerate() {
            let begins = argument.starts_with("--");
            let is_value = lacks_value
                && !(begins && parsed.options.last().is_some_and(|(name, _)| is_save(name)));
            if argument == "-" && !is_value {
                parsed.reads_standard_input = true;
            } else if begins && !is_value {
                let directive = option(&argument[2..]);
                lacks_value = directive.1.is_empty();
                parsed.options.push(directive);
            } else if let Some((_, values)) = parsed.options.last_mut() {
                values.push(argument);
                lacks_value = false;
            } else if index == 0 {
                parsed.file = Some(argument);
            } else if parsed.strays.is_empty() && find(&argument).is_some() {
                parsed.options.push((argument, Vec::new()));
                lacks_value = true;
            } else {
                parsed.strays.push(argument);
            }
        }
        parsed
    }
}

fn is_save(name: &str) -> bool {
    name.eq_ignore_ascii_case("save")
}

/// A directive with the values that its own argument holds, as a line of a file would.
fn option(text: &str) -> (String, Vec<String>) {
    let whole = || (text.to_owned(), Vec::new());
    if !text.contains(|character: char| character.is_ascii_whitespace()) {
        return whole();
    }
    let Ok(words) = split_arguments(text.as_bytes()) else { return whole() };
    let words = words.into_iter().map(String::from_utf8).collect::<Result<Vec<_>, _>>();
    match words.unwrap_or_default().split_first() {
        Some((name, values)) => (name.clone(), values.to_vec()),
        None => whole(),
    }
}

/// The configuration that a command line asks for, as of [`read`], when no more is to be judged.
///
/// # Errors
/// [`LoadError`] with all that is wrong.
pub fn load(command_line: &CommandLine, files: &dyn Files) -> Result<Configuration, LoadError> {
    read(command_line, files).finish()
}

/// Reads what a command line asks for: the file, then standard input, then the options, later ones
/// winning. Reading goes on behind a fault, so that all are found at once.
#[must_use]
pub fn read(command_line: &CommandLine, files: &dyn Files) -> Draft {
    let mut loader = Loader {
        draft: Draft::default(),
        files,
        place: FaultSource::File { path: STANDARD_INPUT.to_owned() },
        has_save: false,
        gave_up: false,
    };
    if let Some(path) = &command_line.file
        && let Err(reason) = loader.file(path, 0)
    {
        loader.draft.error.add(|| unreadable(path.clone(), reason));
    }
    if command_line.reads_standard_input {
        match files.standard_input() {
            Ok(contents) => loader.text(&contents, STANDARD_INPUT, 0),
            Err(error) => {
                loader.draft.error.add(|| unreadable(STANDARD_INPUT.to_owned(), reason(&error)));
            }
        }
    }
    for text in &command_line.strays {
        loader.draft.error.add(|| Fault {
            place: FaultSource::Argument { text: text.clone() },
            reason: String::from("a value without a directive"),
            remedy: Some(Remedy::Accepted(String::from("one file, -, --directive value ..."))),
        });
    }
    for (name, values) in &command_line.options {
        let place = FaultSource::Option { call: shown_option(name, values) };
        loader.place = place.clone();
        let mut words: Vec<&str> = values.iter().map(String::as_str).collect();
        if words.is_empty() && is_save(name) {
            // Of all directives, this one forgets on the command line, where a line would not.
            words.push("");
        }
        let bytes: Vec<&[u8]> = values.iter().map(String::as_bytes).collect();
        let outcome = match name.as_bytes() {
            word if is_user(word) => loader.user(&bytes),
            word if is_rename(word) => loader.rename(&bytes),
            _ => loader.directive(name, &words, 0),
        };
        if let Err(wrong) = outcome {
            loader.draft.error.add(|| wrong.at(place, name, OPTIONS));
        }
    }
    loader.draft
}

/// An option as an error shows it: the name, and its values in quotes, so that what was taken for
/// them is seen. Rules of a user may hold passwords.
fn shown_option(name: &str, values: &[String]) -> String {
    let mut shown = name.to_owned();
    let word = name.as_bytes();
    let is_known = find(name).is_some() || statement(word).is_some();
    if is_known && !is_secret(word) && !is_user(word) {
        values.iter().for_each(|value| shown += &format!(" {}", quote(value.as_bytes())));
    }
    shown
}

const STANDARD_INPUT: &str = "standard input";

/// True if a word begins the declaration of a user.
pub(super) fn is_user(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"user")
}

/// True if a word begins the renaming of a command.
fn is_rename(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(RENAME.as_bytes())
}

/// Options of the command line that are no directives.
const OPTIONS: &[&str] = &["check-config", "help", "list-directives", "version"];

struct Loader<'a> {
    draft: Draft,
    files: &'a dyn Files,
    /// Line or option at hand.
    place: FaultSource,
    has_save: bool,
    /// True if files include each other without an end, so that nothing more is read.
    gave_up: bool,
}

/// Error of a directive, whose place the caller knows.
enum Wrong {
    /// There is no such directive.
    Unknown,
    /// Its value, and what it should be if that can be said.
    Value(String, Option<String>),
}

impl Wrong {
    /// The fault at a place where the directive is called `name`, or might be called one of
    /// `others`.
    fn at(self, place: FaultSource, name: &str, others: &[&'static str]) -> Fault {
        match self {
            Wrong::Value(reason, accepted) => {
                Fault { place, reason, remedy: accepted.map(Remedy::Accepted) }
            }
            Wrong::Unknown => {
                let names = directives().flat_map(|directive| directive.names());
                let names = names.chain(STATEMENTS.iter().map(|statement| statement.name));
                let meant = nearest(name, names.chain(others.iter().copied()));
                let remedy = match meant {
                    Some(meant) => Remedy::Meant(meant.to_owned()),
                    None => Remedy::Accepted(String::from("see tidemill server --list-directives")),
                };
                Fault { place, reason: BAD_DIRECTIVE.to_owned(), remedy: Some(remedy) }
            }
        }
    }
}

const BAD_DIRECTIVE: &str = "Bad directive or wrong number of arguments";

impl Loader<'_> {
    /// Reads a file; fails when that cannot be done, with the reason.
    fn file(&mut self, path: &str, depth: usize) -> Result<(), String> {
        let contents = self.files.read(path).map_err(|error| reason(&error))?;
        self.text(&contents, path, depth);
        Ok(())
    }

    fn text(&mut self, contents: &[u8], origin: &str, depth: usize) {
        let origin: Arc<str> = Arc::from(origin);
        for (index, line) in contents.split(|&byte| byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line[0] == b'#' {
                continue;
            }
            if self.gave_up {
                return;
            }
            let word = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
            let name = String::from_utf8_lossy(word).into_owned();
            let (origin, line_number) = (Arc::clone(&origin), index + 1);
            let place = FaultSource::Line { origin, line: line_number, directive: name.clone() };
            self.place = place.clone();
            if let Err(wrong) = self.line(line, depth) {
                self.draft.error.add(|| wrong.at(place, &name, &[]));
            }
        }
    }

    fn line(&mut self, line: &[u8], depth: usize) -> Result<(), Wrong> {
        let wrong = |reason: &str| Wrong::Value(reason.to_owned(), None);
        let words =
            split_arguments(line).map_err(|_| wrong("Unbalanced quotes in configuration line"))?;
        if let Some((name, words)) = words.split_first()
            && (is_user(name) || is_rename(name))
        {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            return if is_user(name) { self.user(&words) } else { self.rename(&words) };
        }
        let words: Result<Vec<&str>, _> =
            words.iter().map(|word| std::str::from_utf8(word)).collect();
        match words.map_err(|_| wrong("argument must be UTF-8"))?.split_first() {
            Some((name, words)) => self.directive(name, words, depth),
            None => Ok(()),
        }
    }

    fn user(&mut self, words: &[&[u8]]) -> Result<(), Wrong> {
        if words.is_empty() {
            return Err(misused("user"));
        }
        let declaration = self.declaration(words);
        self.draft.configuration.add_user(declaration);
        Ok(())
    }

    fn rename(&mut self, words: &[&[u8]]) -> Result<(), Wrong> {
        if words.len() != 2 {
            return Err(misused(RENAME));
        }
        let declaration = self.declaration(words);
        self.draft.configuration.add_rename(declaration);
        Ok(())
    }

    fn declaration(&self, words: &[&[u8]]) -> Declaration {
        let words = words.iter().map(|word| word.to_vec()).collect();
        Declaration { place: self.place.clone(), words }
    }

    fn directive(&mut self, name: &str, words: &[&str], depth: usize) -> Result<(), Wrong> {
        if name.eq_ignore_ascii_case("include") {
            let [path] = words else { return Err(misused("include")) };
            return self.include(path, depth);
        }
        if let Some((_, missing)) = REFUSED.iter().find(|(word, _)| name.eq_ignore_ascii_case(word))
        {
            return Err(Wrong::Value(format!("'{name}' is not supported: {missing}"), None));
        }
        if OBSOLETE.iter().any(|word| name.eq_ignore_ascii_case(word)) {
            return Ok(());
        }
        let (index, directive) = find(name).ok_or(Wrong::Unknown)?;
        let refused = |reason: String| Wrong::Value(reason, Some(directive.accepted()));
        let words = match words {
            [text] if !text.is_empty() => value::words_of(directive.kind, text),
            words => words.to_vec(),
        };
        // No choice at all is refused with the list of choices.
        let may_lack_words =
            directive.kind.may_be_empty() || matches!(directive.kind, Kind::Choices(_));
        if words.is_empty() && !may_lack_words {
            return Err(refused(String::from("wrong number of arguments")));
        }
        let outcome = if matches!(directive.kind, Kind::SavePoints) && self.has_save {
            self.draft.configuration.add_save_points(index, &words)
        } else {
            self.draft.configuration.set_words(index, &words)
        };
        self.has_save |= matches!(directive.kind, Kind::SavePoints);
        outcome.map_err(|invalid| match invalid {
            Invalid::Malformed(reason) => refused(reason.into_owned()),
            Invalid::Unsupported(reason) => refused(reason),
        })?;
        self.draft.places.insert(index, self.place.clone());
        if directive.name == "dir" {
            // At once, as in Valkey: paths of later lines begin there.
            let directory = self.draft.configuration.value_at(index);
            self.files.enter(directory).map_err(|error| {
                Wrong::Value(reason(&error), Some(String::from("a directory that can be entered")))
            })?;
        }
        Ok(())
    }

    fn include(&mut self, path: &str, depth: usize) -> Result<(), Wrong> {
        if depth == INCLUDE_DEPTH_MAX {
            // Whatever else is wrong would be found once per file on the way here, or without an
            // end.
            self.gave_up = true;
            return Err(Wrong::Value(
                format!("'include' is nested more than {INCLUDE_DEPTH_MAX} deep"),
                None,
            ));
        }
        let paths = if path.contains(['*', '?', '[']) {
            self.files.matching(path)
        } else {
            vec![path.to_owned()]
        };
        let mut failures = Vec::new();
        for path in paths {
            if let Err(reason) = self.file(&path, depth + 1) {
                failures.push(format!("can't open config file '{path}': {reason}"));
            }
        }
        if failures.is_empty() { Ok(()) } else { Err(Wrong::Value(failures.join(", "), None)) }
    }
}

/// Error of a statement whose words are not those that it takes.
fn misused(word: &str) -> Wrong {
    let accepted = statement(word.as_bytes()).map(|statement| statement.accepted.to_owned());
    Wrong::Value(BAD_DIRECTIVE.to_owned(), accepted)
}

fn unreadable(path: String, reason: String) -> Fault {
    Fault { place: FaultSource::File { path }, reason, remedy: None }
}
