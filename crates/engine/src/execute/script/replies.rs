//! Replies between commands, scripts and clients.

use tidemill_resp::encode::{Protocol, ReplyBuffer};
use tidemill_resp::number::parse_integer;
use tidemill_script::Reply;

use crate::memory;

/// A reply that a command of this server wrote, as scripts receive it; none if there is no memory
/// for it a second time. `has_room` tells whether there is some for a number of bytes, in pieces.
pub(super) fn parse(bytes: &[u8], has_room: impl FnOnce(u64) -> bool) -> Option<Reply> {
    if !has_room(bytes.len() as u64) {
        return None;
    }
    let mut reader = Reader { rest: bytes, lacks_memory: false };
    let reply = reader.reply().unwrap_or(Reply::Null);
    (!reader.lacks_memory).then_some(reply)
}

/// As [`parse`]; a bulk string is not copied.
pub(super) fn parse_owned(mut bytes: Vec<u8>, has_room: impl FnOnce(u64) -> bool) -> Option<Reply> {
    let Some(length) = as_bulk(&bytes).map(<[u8]>::len) else {
        return parse(&bytes, has_room);
    };
    bytes.truncate(bytes.len() - b"\r\n".len());
    bytes.drain(..bytes.len() - length);
    Some(Reply::Bulk(bytes))
}

/// The text of a reply that is one bulk string.
pub(super) fn as_bulk(bytes: &[u8]) -> Option<&[u8]> {
    let (&b'$', rest) = bytes.split_first()? else { return None };
    let digits = rest.iter().position(|&byte| byte == b'\r')?;
    let length = usize::try_from(parse_integer(&rest[..digits])?).ok()?;
    let (text, end) = rest.get(digits + 2..)?.split_at_checked(length)?;
    (end == b"\r\n").then_some(text)
}

struct Reader<'b> {
    rest: &'b [u8],
    /// It ended for want of memory.
    lacks_memory: bool,
}

impl<'b> Reader<'b> {
    fn line(&mut self) -> Option<&'b [u8]> {
        let end = memchr(self.rest)?;
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest.get(2..)?;
        Some(line)
    }

    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let taken = self.rest.get(..count)?;
        self.rest = self.rest.get(count + 2..)?;
        Some(taken)
    }

    /// Several elements, one after the other.
    fn several<T>(
        &mut self,
        count: usize,
        one: impl Fn(&mut Reader<'b>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let Ok(mut all) = memory::with_capacity(count) else {
            self.lacks_memory = true;
            return None;
        };
        for _ in 0..count {
            all.push(one(self)?);
        }
        Some(all)
    }

    fn replies(&mut self, count: usize) -> Option<Vec<Reply>> {
        self.several(count, Reader::reply)
    }

    fn reply(&mut self) -> Option<Reply> {
        let (&kind, line) = self.line()?.split_first()?;
        let count = || parse_integer(line).and_then(|count| usize::try_from(count).ok());
        Some(match kind {
            b'+' => Reply::Status(line.to_vec()),
            b'-' => Reply::Error(line.to_vec()),
            b':' => Reply::Integer(parse_integer(line)?),
            b'#' => Reply::Bool(line == b"t"),
            b',' => Reply::Double(std::str::from_utf8(line).ok()?.parse().ok()?),
            b'(' => Reply::BigNumber(line.to_vec()),
            b'$' => match count() {
                Some(count) => Reply::Bulk(self.take(count)?.to_vec()),
                None => Reply::Null,
            },
            b'=' => {
                let text = self.take(count()?)?;
                let (format, text) = text.split_first_chunk()?;
                Reply::Verbatim { format: *format, text: text.get(1..)?.to_vec() }
            }
            b'*' | b'>' => match count() {
                Some(count) => Reply::Array(self.replies(count)?),
                None => Reply::Null,
            },
            b'~' => Reply::Set(self.replies(count()?)?),
            b'%' => {
                let pair = |reader: &mut Reader<'b>| Some((reader.reply()?, reader.reply()?));
                Reply::Map(self.several(count()?, pair)?)
            }
            b'|' => {
                self.replies(2 * count()?)?;
                self.reply()?
            }
            _ => Reply::Null,
        })
    }
}

fn memchr(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|&byte| byte == b'\r')
}

/// Writes the result of a script for its client.
pub(super) fn write(to: &mut ReplyBuffer, reply: &Reply) {
    match reply {
        Reply::Null => to.null(),
        Reply::Status(text) => line(to, b"+", text),
        Reply::Error(text) | Reply::OwnError(text) => to.error(text),
        Reply::Integer(number) => to.integer(*number),
        Reply::Bulk(text) => to.bulk(text),
        Reply::Bool(flag) => to.boolean(*flag),
        Reply::Double(number) => to.double(*number),
        Reply::BigNumber(digits) => match to.protocol() {
            Protocol::Resp2 => to.bulk(digits),
            Protocol::Resp3 => line(to, b"(", digits),
        },
        Reply::Verbatim { format, text } => to.verbatim(*format, text),
        Reply::Array(items) => {
            to.array(items.len());
            items.iter().for_each(|item| write(to, item));
        }
        Reply::Set(items) => {
            to.set(items.len());
            items.iter().for_each(|item| write(to, item));
        }
        Reply::Map(pairs) => {
            to.map(pairs.len());
            for (key, value) in pairs {
                write(to, key);
                write(to, value);
            }
        }
    }
}

/// Errors of a script's result, each with whether the script made it itself.
pub(super) fn for_each_error(reply: &Reply, visit: &mut dyn FnMut(&[u8], bool)) {
    match reply {
        Reply::Error(text) => visit(text, false),
        Reply::OwnError(text) => visit(text, true),
        Reply::Array(items) | Reply::Set(items) => {
            items.iter().for_each(|item| for_each_error(item, visit));
        }
        Reply::Map(pairs) => {
            for (key, value) in pairs {
                for_each_error(key, visit);
                for_each_error(value, visit);
            }
        }
        _ => {}
    }
}

/// A text on one line; its own line ends were replaced by the script's library.
fn line(to: &mut ReplyBuffer, kind: &[u8], text: &[u8]) {
    to.raw(kind);
    to.raw(text);
    to.raw(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_wrote_is_what_a_script_would_write() {
        let texts: [&[u8]; 14] = [
            b"+OK\r\n",
            b"-ERR no\r\n",
            b":-7\r\n",
            b"$4\r\na\r\nb\r\n",
            b"$0\r\n\r\n",
            b"_\r\n",
            b"#t\r\n",
            b",1.5\r\n",
            b"(123456789012345678901234567890\r\n",
            b"=5\r\ntxt:a\r\n",
            b"*2\r\n:1\r\n*0\r\n",
            b"~1\r\n+a\r\n",
            b"%1\r\n$1\r\na\r\n*1\r\n$1\r\nb\r\n",
            b"*3\r\n$1\r\na\r\n_\r\n%0\r\n",
        ];
        for text in texts {
            let mut written = ReplyBuffer::new(Protocol::Resp3);
            write(&mut written, &parse(text, |_| true).expect("little memory"));
            assert_eq!(written.to_vec(), text, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn bulk_string_is_found_where_it_lies() {
        assert_eq!(as_bulk(b"$4\r\na\r\nb\r\n"), Some(&b"a\r\nb"[..]));
        assert_eq!(as_bulk(b"$0\r\n\r\n"), Some(&b""[..]));
        assert_eq!(
            parse_owned(b"$4\r\na\r\nb\r\n".to_vec(), |_| true),
            Some(Reply::Bulk(b"a\r\nb".to_vec()))
        );
        assert_eq!(parse_owned(b"$0\r\n\r\n".to_vec(), |_| true), Some(Reply::Bulk(Vec::new())));
        assert_eq!(parse_owned(b":7\r\n".to_vec(), |_| true), Some(Reply::Integer(7)));
        for other in [&b"$-1\r\n"[..], b"$4\r\nab\r\n", b"+OK\r\n", b"$", b"$1", b"", b"$1\r"] {
            assert_eq!(as_bulk(other), None);
        }
    }

    #[test]
    fn null_of_either_protocol_is_null_and_attributes_are_passed_over() {
        for text in [&b"$-1\r\n"[..], b"*-1\r\n", b"_\r\n", b"|1\r\n+a\r\n:1\r\n_\r\n"] {
            assert_eq!(parse(text, |_| true), Some(Reply::Null));
        }
        let cut_short = b"*2\r\n:1\r\n$5\r\nab\r\n";
        assert_eq!(parse(cut_short, |_| true), Some(Reply::Null));
    }
}
