//! Users as lines of a file: `aclfile`, and `user` in the configuration.

use std::collections::HashSet;
use std::io;

use super::has_spaces;
use super::rules::{ChannelsOfNewUsers, RuleError, Rules};
use super::user::User;
use super::users::Users;
use crate::config::{Configuration, Declaration, LoadError};
use crate::system_error::reason;

/// Makes the users of a configuration, for a server that starts; `read` reads its file of users.
///
/// # Errors
///
/// All that is wrong with the declarations or with the file, each with its place; nobody was made
/// then.
pub fn begin(
    users: &Users,
    configuration: &Configuration,
    read: impl FnOnce(&str) -> io::Result<Vec<u8>>,
) -> Result<(), LoadError> {
    let settings = configuration.settings();
    let channels = ChannelsOfNewUsers::of(&settings);
    let mut error = LoadError::default();
    let lines = configuration.user_lines();
    let declared = parse_lines(users, lines, channels, &mut error);
    let mut listed = None;
    if let Some(path) = &settings.users_file {
        if let Some(line) = lines.first() {
            let reason = format!("users are declared in aclfile '{path}' already: not in both");
            error.add_declaration("user", line, reason);
        }
        match load(users, path, channels, read) {
            Ok(users) => listed = Some(users),
            Err(wrong) => wrong.into_iter().for_each(|wrong| {
                error.add_users_file(path, String::from_utf8_lossy(&wrong).trim_end().to_owned());
            }),
        }
    }
    if !error.is_empty() {
        return Err(error);
    }
    match listed {
        Some(listed) => drop(users.replace(listed)),
        None => users.add(declared),
    }
    Ok(())
}

/// Users of the declarations of a configuration.
fn parse_lines(
    users: &Users,
    lines: &[Declaration],
    channels: ChannelsOfNewUsers,
    wrong: &mut LoadError,
) -> Vec<User> {
    let mut made = Vec::new();
    let mut names: HashSet<&[u8]> = HashSet::new();
    for line in lines {
        let (name, words) = line.words.split_first().expect("a declaration has a name");
        let user = match () {
            () if !names.insert(name) => Err(String::from(
                "Duplicate user found. A user can only be defined once in config files",
            )),
            () if has_spaces(name) => Err(String::from("Spaces not allowed in ACL usernames")),
            () => make_declared(users, name, channels, words),
        };
        match user {
            Ok(user) => made.push(user),
            Err(reason) => {
                let name = String::from_utf8_lossy(name);
                let reason = format!("Error in user declaration '{name}': {reason}");
                wrong.add_declaration("user", line, reason);
            }
        }
    }
    made
}

fn make_declared(
    users: &Users,
    name: &[u8],
    channels: ChannelsOfNewUsers,
    words: &[Vec<u8>],
) -> Result<User, String> {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let rules = Rules::of(&words)
        .map_err(|_| String::from("Unmatched parenthesis in selector definition"))?;
    users.make(name, channels, &rules).map_err(|(rule, reason)| match reason {
        RuleError::Unknown => format!("'{}': {}", rule.escape_ascii(), reason.text()),
        // The rule may be a password.
        _ => reason.text().to_owned(),
    })
}

/// Users of an ACL file.
///
/// # Errors
///
/// All that is wrong, as Valkey lists it: in one line when joined.
pub(crate) fn load(
    users: &Users,
    path: &str,
    channels: ChannelsOfNewUsers,
    read: impl FnOnce(&str) -> io::Result<Vec<u8>>,
) -> Result<Vec<User>, Vec<Vec<u8>>> {
    let unreadable = |error: io::Error| {
        vec![format!("Error loading ACLs, opening file '{path}': {}", reason(&error)).into_bytes()]
    };
    parse_file(users, path, &read(path).map_err(unreadable)?, channels)
}

/// Users of the contents of an ACL file, whose path is for errors.
///
/// # Errors
///
/// All that is wrong.
fn parse_file(
    users: &Users,
    path: &str,
    contents: &[u8],
    channels: ChannelsOfNewUsers,
) -> Result<Vec<User>, Vec<Vec<u8>>> {
    let mut made: Vec<User> = Vec::new();
    let mut names: HashSet<&[u8]> = HashSet::new();
    let mut errors: Vec<Vec<u8>> = Vec::new();
    for (index, line) in contents.split(|&byte| byte == b'\n').enumerate() {
        let number = index + 1;
        let line = trim(line);
        if line.is_empty() {
            continue;
        }
        let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
        let [b"user", name, rules @ ..] = &words[..] else {
            let text = " should start with user keyword followed by the username. ";
            errors.push(format!("{path}:{number}{text}").into_bytes());
            continue;
        };
        let about =
            |before: &str, after: &str| [before.as_bytes(), name, after.as_bytes()].concat();
        if !names.insert(name) {
            let after = format!("' found on line {number}. ");
            errors.push(about("WARNING: Duplicate user '", &after));
            continue;
        }
        if has_spaces(name) {
            let before = format!("{path}:{number}: username '");
            errors.push(about(&before, "' contains invalid characters. "));
            continue;
        }
        let Ok(rules) = Rules::of(rules) else {
            let text = "Unmatched parenthesis in selector definition.";
            errors.push(format!("{path}:{number}: {text}").into_bytes());
            continue;
        };
        match make_listed(users, name, channels, &rules) {
            Ok(user) => made.push(user),
            Err(wrong) => {
                let described =
                    wrong.iter().map(|(rule, reason)| describe((path, number), rule, *reason));
                errors.extend(described);
            }
        }
    }
    if errors.is_empty() {
        return Ok(made);
    }
    errors.push(
        b"WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
            .to_vec(),
    );
    Err(errors)
}

/// A user by all rules, or those of them to be reported: each that names what does not exist, and
/// the first that is wrong otherwise.
fn make_listed<'r>(
    users: &Users,
    name: &[u8],
    channels: ChannelsOfNewUsers,
    rules: &'r Rules<'_>,
) -> Result<User, Vec<(&'r [u8], RuleError)>> {
    let error = match users.make(name, channels, rules) {
        Ok(user) => return Ok(user),
        Err(error) => error,
    };
    let mut user = User::new(users.commands(), name, channels);
    let mut wrong: Vec<(&[u8], RuleError)> = Vec::new();
    let mut is_wrong_otherwise = false;
    for rule in rules.iter() {
        if let Err(reason) = user.apply(users.commands(), channels, rule) {
            let is_unknown = reason == RuleError::Unknown;
            if is_unknown || !is_wrong_otherwise {
                wrong.push((rule, reason));
            }
            is_wrong_otherwise |= !is_unknown;
        }
    }
    Err(if wrong.is_empty() { vec![error] } else { wrong })
}

fn describe((path, number): (&str, usize), rule: &[u8], reason: RuleError) -> Vec<u8> {
    let mut text = format!("{path}:{number}: ").into_bytes();
    if reason == RuleError::Unknown {
        text.extend_from_slice(b"Error in applying operation '");
        text.extend_from_slice(rule);
        text.extend_from_slice(b"': ");
    }
    text.extend_from_slice(reason.text().as_bytes());
    text.extend_from_slice(b". ");
    text
}

fn trim(line: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| b"\r\n\t ".contains(byte);
    let first = line.iter().position(|byte| !is_blank(byte)).unwrap_or(line.len());
    let last = line.iter().rposition(|byte| !is_blank(byte)).map_or(first, |last| last + 1);
    &line[first..last]
}
