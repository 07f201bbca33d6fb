//! Inline requests: a line of words, as a person types it into telnet.
//!
//! The rules are those Valkey 9.1 was seen to follow. Space, tab and CR end a word; before a word
//! vertical tab and form feed are skipped too. Quotes may open and close anywhere in a word (`a"b
//! c"d` is one). In double quotes `\n \r \t \b \a` and `\xHH` are undone and any other escaped byte
//! is itself; in single quotes only `\'` is undone. A backslash escapes only when at least two
//! bytes follow it, so `"a\"` at the very end is `a\`.

use super::arguments::Arguments;

/// A quote that is never closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnbalancedQuotes;

impl std::fmt::Display for UnbalancedQuotes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("unbalanced quotes")
    }
}

impl std::error::Error for UnbalancedQuotes {}

/// Splits a line into words and undoes quotes and escapes, as in inline requests and configuration
/// files.
///
/// # Errors
/// [`UnbalancedQuotes`] when a quote is never closed.
pub fn split_arguments(line: &[u8]) -> Result<Vec<Vec<u8>>, UnbalancedQuotes> {
    let mut arguments = Vec::new();
    let mut rest = skip_blanks(line);
    while !rest.is_empty() {
        let mut word = Vec::new();
        rest = skip_blanks(read_word(rest, &mut word)?);
        arguments.push(word);
    }
    Ok(arguments)
}

/// As [`split_arguments`], into the reusable storage of `args`.
pub(super) fn split_into(line: &[u8], args: &mut Arguments) -> Result<(), UnbalancedQuotes> {
    args.begin_inline();
    let mut rest = skip_blanks(line);
    while !rest.is_empty() {
        let start = args.unquoted_mut().len();
        rest = skip_blanks(read_word(rest, args.unquoted_mut())?);
        let length = args.unquoted_mut().len() - start;
        args.push(start, length);
    }
    Ok(())
}

fn skip_blanks(line: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c);
    let start = line.iter().position(|byte| !blank(byte)).unwrap_or(line.len());
    &line[start..]
}

/// Appends the word at the start of `line` to `word` and returns the rest behind it.
fn read_word<'a>(line: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    let mut rest = line;
    while let Some((&byte, after)) = rest.split_first() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => break,
            b'"' => rest = read_double_quoted(after, word)?,
            b'\'' => rest = read_single_quoted(after, word)?,
            _ => {
                word.push(byte);
                rest = after;
            }
        }
    }
    Ok(rest)
}

fn read_double_quoted<'a>(
    line: &'a [u8],
    word: &mut Vec<u8>,
) -> Result<&'a [u8], UnbalancedQuotes> {
    let mut rest = line;
    loop {
        rest = match rest {
            [] => return Err(UnbalancedQuotes),
            [b'"', after @ ..] => return Ok(after),
            [b'\\', b'x', high, low, after @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                word.push(hex_value(*high) << 4 | hex_value(*low));
                after
            }
            [b'\\', escaped, after @ ..] if !after.is_empty() => {
                word.push(unescape(*escaped));
                after
            }
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
        }
    }
}

fn read_single_quoted<'a>(
    line: &'a [u8],
    word: &mut Vec<u8>,
) -> Result<&'a [u8], UnbalancedQuotes> {
    let mut rest = line;
    loop {
        rest = match rest {
            [] => return Err(UnbalancedQuotes),
            [b'\'', after @ ..] => return Ok(after),
            [b'\\', b'\'', after @ ..] if !after.is_empty() => {
                word.push(b'\'');
                after
            }
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
        }
    }
}

fn unescape(escaped: u8) -> u8 {
    match escaped {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}
