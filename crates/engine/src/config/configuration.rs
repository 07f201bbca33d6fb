//! The values of all directives, and CONFIG GET and SET on them.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use super::directive::{Change, Directive, Kind};
use super::error::{FaultSource, SetError};
use super::table::FAMILIES;
use super::value::{self, Reason};
use crate::error::until_nul;
use crate::glob;

/// A `user <name> <rule> ...` or `rename-command <name> <new name>`, which is judged by those who
/// know the commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// Line, or directive of the command line.
    pub(super) place: FaultSource,
    /// Words behind the first one, at least a name.
    pub words: Vec<Vec<u8>>,
}

/// The values of all directives. Immutable once made: a change makes another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// In the order of [`directives`].
    values: Vec<String>,
    /// Declarations of users, which are no values: `ACL` changes users, and CONFIG shows none.
    users: Vec<Declaration>,
    /// Commands that clients call by other names; no values either.
    renames: Vec<Declaration>,
}

/// Reason why a directive does not take a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Invalid {
    /// It is none of the directive's kind.
    Malformed(Reason),
    /// It promises what does not exist.
    Unsupported(String),
}

/// Reason for which a directive that is set at start keeps its value.
const IMMUTABLE: &str = "can't set immutable config";

/// All directives in the order of the table.
pub(super) fn directives() -> impl Iterator<Item = &'static Directive> {
    FAMILIES.iter().flat_map(|family| family.directives)
}

/// All directives by their place in the table.
static BY_PLACE: LazyLock<Vec<&'static Directive>> = LazyLock::new(|| directives().collect());

/// Places of directives by their names and aliases, in lower case. A change of one directive makes
/// the settings anew, which looks most of them up.
static PLACES: LazyLock<HashMap<String, usize>> = LazyLock::new(|| {
    let mut places = HashMap::new();
    for (index, directive) in directives().enumerate() {
        for name in directive.names() {
            places.entry(name.to_ascii_lowercase()).or_insert(index);
        }
    }
    places
});

/// The directive with this name or alias, in any case, and its place in the table.
pub(super) fn find(name: &str) -> Option<(usize, &'static Directive)> {
    let place = PLACES.get(name).or_else(|| PLACES.get(&name.to_ascii_lowercase()));
    place.map(|&index| (index, directive_at(index)))
}

/// The place in the table of the directive with this name or alias, in any case, and that name as
/// the table spells it.
fn find_name(name: &str) -> Option<(usize, &'static str)> {
    let (index, directive) = find(name)?;
    let own_name = directive.names().find(|own| own.eq_ignore_ascii_case(name))?;
    Some((index, own_name))
}

impl Default for Configuration {
    fn default() -> Configuration {
        Configuration {
            values: directives().map(|directive| directive.default.to_owned()).collect(),
            users: Vec::new(),
            renames: Vec::new(),
        }
    }
}

impl Configuration {
    /// The value of a directive as CONFIG GET prints it; `None` when there is no such directive.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        find(name).map(|(index, _)| self.shown(index))
    }

    /// Answer of CONFIG GET: names, aliases included, that match any of the patterns, and values;
    /// in order of names. A pattern without `*`, `?` and `[` is a name, in any case, and answered
    /// as the client spelled it; the first spelling of a name counts. All as in Valkey.
    #[must_use]
    pub fn matching<'a>(&'a self, patterns: &[&'a [u8]]) -> Vec<(&'a str, &'a str)> {
        // By the directive's own name, so that it is answered once.
        let mut found: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
        for pattern in patterns {
            let visible = until_nul(pattern);
            if visible.iter().any(|byte| b"*?[".contains(byte)) {
                let listed = directives().enumerate().filter(|(_, directive)| !directive.is_hidden);
                let names = listed.flat_map(|(index, directive)| {
                    directive.names().map(move |name| (name, self.shown(index)))
                });
                for (name, value) in
                    names.filter(|(name, _)| glob::matches(visible, name.as_bytes(), true))
                {
                    found.entry(name).or_insert((name, value));
                }
            } else if let Ok(spelled) = std::str::from_utf8(pattern)
                && let Some((index, name)) = find_name(spelled)
            {
                found.entry(name).or_insert((spelled, self.shown(index)));
            }
        }
        let mut answered: Vec<(&str, &str)> = found.into_values().collect();
        answered.sort_unstable();
        answered
    }

    /// The value of a directive as it counts: CONFIG GET may leave something out.
    pub(super) fn stored(&self, name: &str) -> Option<&str> {
        find(name).map(|(index, _)| self.values[index].as_str())
    }

    fn shown(&self, index: usize) -> &str {
        value::shown(directive_at(index).kind, &self.values[index])
    }

    /// Another configuration with all changes of a CONFIG SET. Names are checked before values, as
    /// Valkey does it, so that an unknown name is reported even behind a wrong value. Protected
    /// directives are changed only if `may_change_protected`.
    ///
    /// # Errors
    /// [`SetError`] for the first thing that is wrong; nothing is changed then.
    pub fn with_changes(
        &self,
        changes: &[(&[u8], &[u8])],
        may_change_protected: bool,
    ) -> Result<Configuration, SetError> {
        let mut named: Vec<(usize, &str)> = Vec::with_capacity(changes.len());
        for (name, _) in changes {
            let (index, own_name) = std::str::from_utf8(name)
                .ok()
                .and_then(find_name)
                .ok_or_else(|| SetError::Unknown { name: name.to_vec() })?;
            let failed =
                |reason: &str| SetError::Failed { name: name.to_vec(), reason: reason.to_owned() };
            match directive_at(index).change {
                Change::AtStart => return Err(failed(IMMUTABLE)),
                Change::Protected if !may_change_protected => {
                    return Err(failed("can't set protected config"));
                }
                // An alias beside its directive is no duplicate in Valkey: the later one counts.
                _ if named.iter().any(|(_, earlier)| *earlier == own_name) => {
                    return Err(failed("duplicate parameter"));
                }
                Change::Live | Change::Fixed | Change::Protected => named.push((index, own_name)),
            }
        }
        let mut next = self.clone();
        for ((index, own_name), (_, value)) in named.into_iter().zip(changes) {
            let is_fixed = directive_at(index).change == Change::Fixed;
            let set = match next.set_live(index, value) {
                Ok(()) if is_fixed && next.values[index] != self.values[index] => {
                    Err(Reason::Borrowed(IMMUTABLE))
                }
                set => set,
            };
            set.map_err(|reason| SetError::Failed {
                name: own_name.as_bytes().to_vec(),
                reason: reason.into_owned(),
            })?;
        }
        Ok(next)
    }

    /// The directives whose values differ from those of `other`.
    pub fn changed_since<'a>(
        &'a self,
        other: &'a Configuration,
    ) -> impl Iterator<Item = &'static Directive> + 'a {
        let values = self.values.iter().zip(&other.values);
        directives()
            .zip(values)
            .filter(|(_, (new, old))| new != old)
            .map(|(directive, _)| directive)
    }

    /// The directives among `changes` whose values differ from those of `other`, or that are
    /// applied even if they do not, in the order of the changes.
    pub fn changed_among<'a>(
        &'a self,
        changes: &'a [(&[u8], &[u8])],
        other: &'a Configuration,
    ) -> impl Iterator<Item = &'static str> + 'a {
        let named = changes.iter().filter_map(|(name, _)| find(std::str::from_utf8(name).ok()?));
        named
            .filter(|&(index, directive)| {
                directive.is_reread || self.values[index] != other.values[index]
            })
            .map(|(_, directive)| directive.name)
    }

    fn set_live(&mut self, index: usize, value: &[u8]) -> Result<(), Reason> {
        let directive = directive_at(index);
        let Ok(text) = std::str::from_utf8(value) else {
            // A value that is wrong anyhow gets the same error as any other text.
            let lossy = String::from_utf8_lossy(value);
            let words = value::words_of(directive.kind, &lossy);
            let malformed = value::canonical(directive.kind, &words, &self.values[index]).err();
            return Err(malformed.unwrap_or(Reason::Borrowed("argument must be UTF-8")));
        };
        let words = value::words_of(directive.kind, text);
        self.set_words(index, &words).map_err(|invalid| match invalid {
            Invalid::Malformed(reason) => reason,
            Invalid::Unsupported(reason) => {
                format!("{reason}. Accepted: {}", directive.accepted()).into()
            }
        })
    }

    /// Gives a directive the value these words make.
    pub(super) fn set_words(&mut self, index: usize, words: &[&str]) -> Result<(), Invalid> {
        let directive = directive_at(index);
        let canonical = value::canonical(directive.kind, words, &self.values[index])
            .map_err(Invalid::Malformed)?;
        if let Some(refusal) = directive.refusal(&canonical) {
            return Err(Invalid::Unsupported(refusal));
        }
        self.values[index] = directive.clamped_value(canonical);
        Ok(())
    }

    /// This configuration with the directory that the process is in, which only starting it can
    /// choose.
    #[must_use]
    pub fn in_directory(mut self, directory: &str) -> Configuration {
        let (index, _) = find("dir").expect("a name of the table");
        self.values[index] = directory.to_owned();
        self
    }

    /// Declarations of users, in their order.
    #[must_use]
    pub fn user_lines(&self) -> &[Declaration] {
        &self.users
    }

    pub(super) fn add_user(&mut self, line: Declaration) {
        self.users.push(line);
    }

    /// Commands that clients call by other names, or not at all, in their order: two words each.
    #[must_use]
    pub fn renames(&self) -> &[Declaration] {
        &self.renames
    }

    pub(super) fn add_rename(&mut self, line: Declaration) {
        self.renames.push(line);
    }

    /// The value at a place of the table.
    pub(super) fn value_at(&self, index: usize) -> &str {
        &self.values[index]
    }

    /// Adds save points to those of earlier lines; an empty word forgets them.
    pub(super) fn add_save_points(&mut self, index: usize, words: &[&str]) -> Result<(), Invalid> {
        debug_assert!(matches!(directive_at(index).kind, Kind::SavePoints));
        if words.is_empty() {
            return Ok(());
        }
        let before = std::mem::take(&mut self.values[index]);
        self.set_words(index, words)?;
        if !before.is_empty() && !self.values[index].is_empty() {
            self.values[index] = format!("{before} {}", self.values[index]);
        }
        Ok(())
    }
}

fn directive_at(index: usize) -> &'static Directive {
    BY_PLACE.get(index).expect("an index comes from the table")
}
