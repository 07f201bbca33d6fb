//! Properties that hold for any bytes. Shared by the fuzz targets and by tests/fuzz.rs.
#![allow(dead_code, reason = "each target uses one of the checks")]

use tidemill_resp::number;
use tidemill_resp::reply::{
    ReplyError, ReplyParser, ReplyProgress, ReplyScanner, ScanCounts, Value,
};
use tidemill_resp::request::{
    Arguments, Limits, Progress, ProtocolError, RequestParser, encode, split_arguments,
};

type Request = Vec<Vec<u8>>;

/// Requests are the same however the bytes arrive, and encoding them again gives what is parsed
/// alike.
pub fn requests(data: &[u8]) {
    for authenticated in [true, false] {
        let limits = Limits { authenticated, bulk_bytes_max: 1024 * 1024 };
        let whole = parse_requests(&[data], &limits);
        assert_eq!(whole, parse_requests(&pieces(data), &limits), "pieces change requests");
        for request in &whole.0 {
            let arguments: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
            let again = parse_requests(&[&encode(&arguments)], &Limits::default());
            assert_eq!(again, (vec![request.clone()], None), "encoding changes a request");
        }
    }
    if let Ok(words) = split_arguments(data) {
        assert!(words.iter().map(Vec::len).sum::<usize>() <= data.len(), "words grow");
    }
}

/// Replies are the same however the bytes arrive, and the scanner counts what the parser builds.
pub fn replies(data: &[u8]) {
    let whole = parse_replies(&[data]);
    assert_eq!(whole, parse_replies(&pieces(data)), "pieces change replies");
    let counts = scan(&[data]);
    assert_eq!(counts, scan(&pieces(data)), "pieces change counts");
    // The scanner does not look at scalars and depths, so it may go further than the parser.
    if !matches!(whole.1, Some(ReplyError::InvalidScalar | ReplyError::TooDeep)) {
        assert_eq!(counts.0, count(&whole.0), "the scanner counts otherwise");
        // It may see an error before the parser, which waits for both bytes of a line's end, but
        // not miss one.
        assert!(counts.1.is_some() || whole.1.is_none(), "the scanner missed {:?}", whole.1);
    }
}

/// Numbers that are read are printed as something that reads as the same number.
pub fn numbers(data: &[u8]) {
    if let Some(value) = number::parse_integer(data) {
        assert_eq!(value.to_string().as_bytes(), data, "an integer with two spellings");
    }
    if let Some(value) = number::parse_double(data) {
        let text = number::format_double(value);
        assert_eq!(
            number::parse_double(text.as_str().as_bytes()),
            Some(value),
            "{}",
            text.as_str()
        );
    }
    if let Some(value) = number::parse_long_double(data) {
        let text = number::format_long_double(value);
        let again = number::parse_long_double(text.as_bytes()).expect("a printed number is one");
        // Digits behind the 17th are lost the first time and none the second.
        assert_eq!(number::format_long_double(again), text);
        let _ = number::format_long_double(value + again);
    }
    if let Ok(bits) = <[u8; 8]>::try_from(data) {
        let value = f64::from_le_bytes(bits);
        let text = number::format_double(value);
        let again = number::parse_double(text.as_str().as_bytes());
        assert!(value.is_nan() || again == Some(value), "{} of {bits:?}", text.as_str());
    }
}

/// Cuts of `data` at places that depend on its bytes, so that a failing input fails again.
fn pieces(data: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let mut rest = data;
    let mut state = data.iter().fold(1u32, |state, &byte| (state * 31 + u32::from(byte)) & 0xffff);
    while !rest.is_empty() {
        state = state.wrapping_mul(75) % 65_537 + 1;
        // Mostly single bytes, some long runs.
        let length = if state % 3 == 0 { state as usize % 40 + 1 } else { 1 };
        let (piece, after) = rest.split_at(length.min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

fn parse_requests(pieces: &[&[u8]], limits: &Limits) -> (Vec<Request>, Option<ProtocolError>) {
    let (mut parser, mut args) = (RequestParser::new(), Arguments::new());
    let (mut buffer, mut requests) = (Vec::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match parser.parse(&buffer, limits, &mut args) {
                Ok(Progress::Complete { consumed }) => {
                    assert!(!args.is_empty() && parser.is_idle());
                    requests.push(args.view(&buffer).iter().map(<[u8]>::to_vec).collect());
                    buffer.drain(..consumed);
                }
                Ok(Progress::Incomplete { consumed, wanted }) => {
                    assert!(wanted > 0 && wanted <= limits.bulk_bytes_max + 2);
                    buffer.drain(..consumed);
                    break;
                }
                Err(error) => return (requests, Some(error)),
            }
        }
    }
    (requests, None)
}

fn parse_replies(pieces: &[&[u8]]) -> (Vec<String>, Option<ReplyError>) {
    let (mut parser, mut buffer, mut replies) = (ReplyParser::new(), Vec::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match parser.parse(&buffer) {
                Ok(ReplyProgress::Complete { value, consumed }) => {
                    // As text, because NaN differs from itself.
                    replies.push(kind_and_text(&value));
                    buffer.drain(..consumed);
                }
                Ok(ReplyProgress::Incomplete { consumed, wanted }) => {
                    assert!(wanted > 0);
                    buffer.drain(..consumed);
                    break;
                }
                Err(error) => return (replies, Some(error)),
            }
        }
    }
    (replies, None)
}

/// The value's text behind a letter for what the scanner counts it as.
fn kind_and_text(value: &Value) -> String {
    let mut innermost = value;
    while let Value::Attributed { value, .. } = innermost {
        innermost = value;
    }
    let kind = match innermost {
        Value::Error(_) => 'e',
        Value::Null => 'n',
        Value::Push(_) => 'p',
        _ => 'r',
    };
    format!("{kind}{value:?}")
}

fn count(replies: &[String]) -> ScanCounts {
    let mut counts = ScanCounts::default();
    for reply in replies {
        match reply.as_bytes()[0] {
            b'p' => counts.pushes += 1,
            kind => {
                counts.replies += 1;
                counts.errors += u64::from(kind == b'e');
                counts.nulls += u64::from(kind == b'n');
            }
        }
    }
    counts
}

/// Counts up to an error.
fn scan(pieces: &[&[u8]]) -> (ScanCounts, Option<ReplyError>) {
    let mut scanner = ReplyScanner::new();
    let mut counts = ScanCounts::default();
    let error = pieces.iter().find_map(|piece| scanner.scan(piece, &mut counts).err());
    (counts, error)
}
