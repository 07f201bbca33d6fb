//! Faults in an experiment file, with line and column.
//!
//! The parser knows the place of a syntax or type error. A fault of another kind, such as a second
//! arm of the same name, is found in the finished value, which has no places: there the keys that
//! lead to it are kept, and looked up in the text.

use toml::de::DeTable;

/// A wrong entry.
#[derive(Debug)]
pub(crate) struct Fault {
    path: Vec<Step>,
    /// Description of the fault.
    pub text: String,
}

/// A step from a value to one within it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Key(&'static str),
    Index(usize),
}

impl Fault {
    /// The path may go on beyond what the file holds: the last value that is there is named then.
    pub(super) fn new(path: &[Step], text: impl Into<String>) -> Self {
        Self { path: path.to_vec(), text: text.into() }
    }

    /// The text behind its place in the file's text.
    pub(super) fn describe(&self, source: &str) -> String {
        format!("{}: {}", place(source, self.offset(source)), self.text)
    }

    fn offset(&self, source: &str) -> usize {
        let Ok(root) = DeTable::parse(source) else { return 0 };
        let mut offset = 0;
        let (mut table, mut array) = (Some(root.get_ref()), None);
        for step in &self.path {
            let value = match *step {
                Step::Key(key) => table.and_then(|table| table.get(key)),
                Step::Index(index) => {
                    array.and_then(|array: &toml::de::DeArray<'_>| array.get(index))
                }
            };
            let Some(value) = value else { break };
            offset = value.span().start;
            (table, array) = (value.get_ref().as_table(), value.get_ref().as_array());
        }
        offset
    }
}

/// The parser's own error, with its place if it has one.
pub(super) fn describe_error(error: &toml::de::Error, source: &str) -> String {
    match error.span() {
        Some(span) => format!("{}: {}", place(source, span.start), error.message()),
        None => error.message().to_string(),
    }
}

/// Line and column, both from 1; columns count characters.
fn place(source: &str, offset: usize) -> String {
    let before = &source.as_bytes()[..offset.min(source.len())];
    let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
    let begin = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let column = String::from_utf8_lossy(&before[begin..]).chars().count() + 1;
    format!("line {line}, column {column}")
}
