//! Header of a reply: the line that announces a length.

/// Number of values, from zero on, that have a ready-made header, 1 KiB in all: most lengths, and
/// no division for them.
const READY_COUNT: usize = 128;

/// As bytes in order: room for the kind, up to three digits, CR LF; the last byte is the length.
const READY: [u64; READY_COUNT] = {
    let mut headers = [0; READY_COUNT];
    let mut value = 0;
    while value < READY_COUNT {
        headers[value] = ready(value);
        value += 1;
    }
    headers
};

const fn ready(value: usize) -> u64 {
    let mut header = [0u8; 8];
    let digit_count = if value < 10 {
        1
    } else if value < 100 {
        2
    } else {
        3
    };
    let mut rest = value;
    let mut at = digit_count;
    while at > 0 {
        header[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        at -= 1;
    }
    header[digit_count + 1] = b'\r';
    header[digit_count + 2] = b'\n';
    header[7] = digit_count as u8 + 3;
    u64::from_le_bytes(header)
}

/// Header of a small length, and the number of its bytes.
#[inline]
pub(super) fn ready_header(kind: u8, value: usize) -> Option<([u8; 8], usize)> {
    let header = *READY.get(value)?;
    Some(((header | u64::from(kind)).to_le_bytes(), (header >> 56) as usize))
}

/// Appends `<kind><value>\r\n`.
#[inline]
pub(crate) fn write_header(out: &mut Vec<u8>, kind: u8, value: i64) {
    match ready_header(kind, value as usize) {
        Some((header, header_bytes)) => {
            let length = out.len() + header_bytes;
            // Eight bytes at once and cut, because a copy of variable length is a call.
            out.extend_from_slice(&header);
            out.truncate(length);
        }
        None => write_long_header(out, kind, value),
    }
}

fn write_long_header(out: &mut Vec<u8>, kind: u8, value: i64) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    out.extend_from_slice(b"\r\n");
}
