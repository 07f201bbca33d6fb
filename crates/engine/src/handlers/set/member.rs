//! Members as arguments, in replies, and as texts.

use tidemill_resp::encode::ReplyBuffer;
use tidemill_resp::number::{format_integer, parse_integer};
use tidemill_store::value::set::{Member, Set};

use crate::error::CommandError;
use crate::memory;

/// Member that an argument names.
#[inline]
pub(crate) fn member_of(argument: &[u8]) -> Member<'_> {
    parse_integer(argument).map_or(Member::String(argument), Member::Integer)
}

/// Answers a member.
#[inline]
pub(super) fn answer(reply: &mut ReplyBuffer, member: Member<'_>) {
    match member {
        Member::Integer(value) => reply.bulk_integer(value),
        Member::String(text) => reply.bulk(text),
    }
}

/// Bytes of an integer's text.
pub(super) fn integer_text_bytes(value: i64) -> usize {
    let digits = value.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1;
    digits + usize::from(value < 0)
}

/// Bytes of a member's text.
pub(super) fn text_bytes(member: Member<'_>) -> usize {
    match member {
        Member::Integer(value) => integer_text_bytes(value),
        Member::String(text) => text.len(),
    }
}

/// Passes the text of a member to `read`.
pub(in crate::handlers) fn with_text<T>(member: Member<'_>, read: impl FnOnce(&[u8]) -> T) -> T {
    match member {
        Member::String(text) => read(text),
        Member::Integer(value) => {
            let mut text = Vec::with_capacity(20);
            format_integer(value, &mut text);
            read(&text)
        }
    }
}

/// Texts of members, in their order; those of integers are written into `integers`.
///
/// # Errors
///
/// [`CommandError::NoMemory`].
pub(in crate::handlers) fn texts<'t>(
    set: Set<'t>,
    integers: &'t mut Vec<u8>,
) -> Result<Vec<&'t [u8]>, CommandError> {
    texts_of(set.iter(), integers)
}

/// As [`texts`], of any members.
pub(in crate::handlers) fn texts_of<'t>(
    members: impl Iterator<Item = Member<'t>> + Clone,
    integers: &'t mut Vec<u8>,
) -> Result<Vec<&'t [u8]>, CommandError> {
    for member in members.clone().filter(|member| matches!(member, Member::Integer(_))) {
        with_text(member, |text| memory::extend(integers, text))?;
    }
    let mut rest: &[u8] = integers;
    memory::collect(members.map(|member| match member {
        Member::String(text) => text,
        Member::Integer(value) => {
            let (text, behind) = rest.split_at(integer_text_bytes(value));
            rest = behind;
            text
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_what_was_added() {
        let texts = ["0", "-1", "9", "10", "-10", "x", "9223372036854775807", "01", ""];
        let texts = [&texts[..], &["-9223372036854775808", "-0", "99"]].concat();
        let members: Vec<_> = texts.iter().map(|text| member_of(text.as_bytes())).collect();
        let mut integers = Vec::new();
        let read = texts_of(members.iter().copied(), &mut integers).expect("there is memory");
        assert_eq!(read, texts.iter().map(|text| text.as_bytes()).collect::<Vec<_>>());
        for (member, text) in members.into_iter().zip(texts) {
            assert_eq!(text_bytes(member), text.len());
        }
    }
}
