//! Go sources, as gofmt leaves them: a function begins with `func` in the first column and ends
//! with a brace there. A parser of Go would be another dependency for two lengths.

use crate::rust::{self, Function};

/// True if a file says that it is generated, in the form that Go's tools know.
#[must_use]
pub fn is_generated(text: &str) -> bool {
    let mut lines = text.lines().take_while(|line| !line.starts_with("package "));
    lines.any(|line| line.starts_with("// Code generated ") && line.ends_with(" DO NOT EDIT."))
}

/// Functions and methods of a file, methods as `Type.name`.
#[must_use]
pub fn functions(text: &str) -> Vec<Function> {
    let mut functions = Vec::new();
    let mut open: Option<(String, usize)> = None;
    let mut state = State::Code;
    for (index, line) in text.lines().enumerate() {
        let is_code = state == State::Code;
        state = state.behind(line);
        if !is_code {
            continue;
        }
        if let Some(rest) = line.strip_prefix("func ") {
            open = Some((name(rest), index + 1));
        }
        let ends = line.starts_with('}') || line.starts_with("func ") && line.ends_with('}');
        if ends && let Some((name, line)) = open.take() {
            functions.push(Function { name, line, line_count: index + 2 - line });
        }
    }
    rust::number_repeated(&mut functions);
    functions
}

/// Name of a function by its text behind `func `.
fn name(signature: &str) -> String {
    let until = |text: &str, end: &[char]| text.split(end).next().unwrap_or_default().to_owned();
    let Some((receiver, rest)) =
        signature.strip_prefix('(').and_then(|signature| signature.split_once(") "))
    else {
        return until(signature, &['(', '[']);
    };
    let of_type = receiver.split_once(' ').map_or(receiver, |(_, of_type)| of_type);
    let of_type = of_type.trim_start_matches('*');
    format!("{}.{}", until(of_type, &['[']), until(rest, &['(', '[']))
}

/// Lexical state at the beginning of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Code,
    RawString,
    BlockComment,
}

impl State {
    /// State behind a line.
    fn behind(self, line: &str) -> State {
        let mut state = self;
        let mut rest = line;
        loop {
            let end = match state {
                State::RawString => rest.find('`').map(|at| at + 1),
                State::BlockComment => rest.find("*/").map(|at| at + 2),
                State::Code => {
                    let (begun, at) = opening(rest);
                    state = begun;
                    match at {
                        Some(at) => rest = &rest[at..],
                        None => return State::Code,
                    }
                    continue;
                }
            };
            let Some(end) = end else { return state };
            rest = &rest[end..];
            state = State::Code;
        }
    }
}

/// First raw string or block comment that opens in a text that begins as code, and the index
/// behind its mark.
fn opening(code: &str) -> (State, Option<usize>) {
    let bytes = code.as_bytes();
    let mut quote = None;
    let mut index = 0;
    while index < bytes.len() {
        match (quote, bytes[index]) {
            (Some(_), b'\\') => index += 1,
            (Some(open), byte) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, byte @ (b'"' | b'\'')) => quote = Some(byte),
            (None, b'`') => return (State::RawString, Some(index + 1)),
            (None, b'/') if code[index..].starts_with("//") => break,
            (None, b'/') if code[index..].starts_with("/*") => {
                return (State::BlockComment, Some(index + 2));
            }
            _ => {}
        }
        index += 1;
    }
    (State::Code, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(String, usize, usize)> {
        let of = |function: Function| (function.name, function.line, function.line_count);
        functions(text).into_iter().map(of).collect()
    }

    #[test]
    fn functions_end_at_a_brace_in_the_first_column() {
        let text = "func a() {\n\tif x {\n\t}\n}\n\nfunc (m Map[K, V]) b() int { return 1 }\n";
        let want = [("a".to_owned(), 1, 4), ("Map.b".to_owned(), 6, 1)];
        assert_eq!(found(text), want);
    }

    #[test]
    fn brace_in_a_raw_string_or_comment_ends_no_function() {
        let text = "func a() {\n\tx := '`'\n\ty := `\n}\n` + \"`\" // `\n\t/*\n}\n*/\n}\n";
        assert_eq!(found(text), [("a".to_owned(), 1, 9)]);
    }

    #[test]
    fn generic_function_is_named_without_parameters() {
        assert_eq!(found("func As[T any](\n\tx T,\n) T {\n\treturn x\n}\n")[0].0, "As");
    }
}
