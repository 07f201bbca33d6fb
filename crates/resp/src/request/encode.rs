//! Requests as clients send them: an array of bulk strings.

use crate::encode::write_header;

/// Appends a request with these arguments.
pub fn encode_into(arguments: &[&[u8]], out: &mut Vec<u8>) {
    write_header(out, b'*', arguments.len() as i64);
    for argument in arguments {
        write_header(out, b'$', argument.len() as i64);
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}

/// Request with these arguments.
#[must_use]
pub fn encode(arguments: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_into(arguments, &mut out);
    out
}
