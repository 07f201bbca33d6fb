//! Values of replies, and agreement of the scanner's counts with the parser.

use super::{ReplyError, ReplyParser, ReplyProgress, ReplyScanner, ScanCounts, Value};
use crate::limits::{REPLY_DEPTH_MAX, REPLY_LINE_BYTES_MAX};

fn parse_one(input: &[u8]) -> Result<ReplyProgress, ReplyError> {
    ReplyParser::new().parse(input)
}

fn value_of(input: &[u8]) -> Value {
    match parse_one(input) {
        Ok(ReplyProgress::Complete { value, consumed }) if consumed == input.len() => value,
        other => panic!("{}: {other:?}", input.escape_ascii()),
    }
}

fn scan(input: &[u8]) -> ScanCounts {
    let mut counts = ScanCounts::default();
    ReplyScanner::new().scan(input, &mut counts).expect("valid replies");
    counts
}

#[test]
fn every_type_is_read() {
    assert_eq!(value_of(b"+OK\r\n"), Value::SimpleString(b"OK".to_vec()));
    assert_eq!(value_of(b"-ERR x\r\n"), Value::Error(b"ERR x".to_vec()));
    assert_eq!(value_of(b"!5\r\nERR x\r\n"), Value::Error(b"ERR x".to_vec()));
    assert_eq!(value_of(b":-5\r\n"), Value::Integer(-5));
    assert_eq!(value_of(b"$4\r\na\r\nb\r\n"), Value::Bulk(b"a\r\nb".to_vec()));
    for null in [&b"$-1\r\n"[..], b"*-1\r\n", b"_\r\n"] {
        assert_eq!(value_of(null), Value::Null);
    }
    assert_eq!(value_of(b",-inf\r\n"), Value::Double(f64::NEG_INFINITY));
    assert_eq!(value_of(b"#f\r\n"), Value::Boolean(false));
    assert_eq!(value_of(b"(-12\r\n"), Value::BigNumber(b"-12".to_vec()));
    assert_eq!(
        value_of(b"=5\r\ntxt:a\r\n"),
        Value::Verbatim { format: *b"txt", text: b"a".to_vec() }
    );
    let (one, two) = (Value::Integer(1), Value::Integer(2));
    assert_eq!(
        value_of(b"*2\r\n:1\r\n*0\r\n"),
        Value::Array(vec![one.clone(), Value::Array(vec![])])
    );
    assert_eq!(value_of(b"~1\r\n:1\r\n"), Value::Set(vec![one.clone()]));
    assert_eq!(value_of(b">1\r\n:1\r\n"), Value::Push(vec![one.clone()]));
    assert_eq!(value_of(b"%1\r\n:1\r\n:2\r\n"), Value::Map(vec![(one.clone(), two.clone())]));
    assert_eq!(
        value_of(b"|1\r\n:1\r\n:2\r\n$-1\r\n"),
        Value::Attributed { attributes: vec![(one, two)], value: Box::new(Value::Null) }
    );
}

#[test]
fn invalid_replies_are_refused() {
    for (input, error) in [
        (&b"x\r\n"[..], ReplyError::UnknownType(b'x')),
        (b"\r\n", ReplyError::UnknownType(b'\r')),
        (b"$-2\r\n", ReplyError::InvalidLength),
        (b"$?\r\n", ReplyError::InvalidLength),
        (b"*99999999999999999999\r\n", ReplyError::InvalidLength),
        (b"+a\rb", ReplyError::InvalidCrlf),
        (b"$1\r\nabc", ReplyError::InvalidCrlf),
    ] {
        assert_eq!(parse_one(input), Err(error), "{}", input.escape_ascii());
        let scanned = ReplyScanner::new().scan(input, &mut ScanCounts::default());
        assert_eq!(scanned, Err(error), "{}", input.escape_ascii());
    }
    for scalar in [&b":x\r\n"[..], b"#x\r\n", b"_x\r\n", b",x\r\n", b"(1a\r\n", b"=1\r\nx\r\n"] {
        assert_eq!(parse_one(scalar), Err(ReplyError::InvalidScalar));
    }
}

#[test]
fn line_of_the_greatest_length_is_read_and_a_longer_one_is_refused() {
    let line = |bytes, end| ["+", &"x".repeat(bytes), end].concat().into_bytes();
    let longest = line(REPLY_LINE_BYTES_MAX, "\r\n");
    assert_eq!(value_of(&longest), Value::SimpleString(vec![b'x'; REPLY_LINE_BYTES_MAX]));
    for cut in 1..=2 {
        let progress = parse_one(&longest[..longest.len() - cut]);
        assert!(matches!(progress, Ok(ReplyProgress::Incomplete { .. })), "{cut}: {progress:?}");
    }
    for (more, end) in [(1, "\r\n"), (2, "\r\n"), (100, "\r\n"), (1, ""), (100, ""), (100, "\rx")] {
        let found = parse_one(&line(REPLY_LINE_BYTES_MAX + more, end));
        assert_eq!(found, Err(ReplyError::TooLongLine), "{more} more, then {end:?}");
    }
}

#[test]
fn nesting_is_limited() {
    let deepest = [b"*1\r\n".repeat(REPLY_DEPTH_MAX), b":1\r\n".to_vec()].concat();
    assert!(matches!(parse_one(&deepest), Ok(ReplyProgress::Complete { .. })));
    let deeper = b"*1\r\n".repeat(REPLY_DEPTH_MAX + 1);
    assert_eq!(parse_one(&deeper), Err(ReplyError::TooDeep));
}

#[test]
fn a_claimed_length_allocates_nothing() {
    let mut parser = ReplyParser::new();
    let progress = parser.parse(b"*9223372036854775807\r\n:1\r\n");
    assert_eq!(progress, Ok(ReplyProgress::Incomplete { consumed: 26, wanted: 1 }));
    let progress = ReplyParser::new().parse(b"$9223372036854775807\r\nabc");
    assert!(matches!(progress, Ok(ReplyProgress::Incomplete { consumed: 0, .. })));
}

#[test]
fn the_scanner_counts_by_the_outermost_kind() {
    let input = b"+OK\r\n-ERR a\r\n$-1\r\n*2\r\n:1\r\n$-1\r\n*1\r\n-ERR in\r\n>1\r\n:1\r\n_\r\n\
        |1\r\n+k\r\n+v\r\n-ERR b\r\n%1\r\n$1\r\na\r\n$100\r\n";
    let mut whole = input.to_vec();
    whole.extend([b'x'; 100]);
    assert_eq!(scan(&whole), ScanCounts { replies: 7, errors: 2, nulls: 2, pushes: 1 });
    whole.extend(b"\r\n");
    assert_eq!(scan(&whole), ScanCounts { replies: 8, errors: 2, nulls: 2, pushes: 1 });
    for cut in 0..whole.len() {
        let mut scanner = ReplyScanner::new();
        let mut counts = ScanCounts::default();
        scanner.scan(&whole[..cut], &mut counts).expect("valid replies");
        scanner.scan(&whole[cut..], &mut counts).expect("valid replies");
        assert_eq!(counts, scan(&whole), "cut at {cut}");
        assert!(scanner.is_between_replies());
    }
}
