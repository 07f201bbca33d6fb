//! Answers of the parser, byte for byte those of Valkey 9.1.

use super::{
    Arguments, LargeArgument, Limits, Progress, ProtocolError, RequestParser, SharedBytes,
    UnbalancedQuotes, encode, split_arguments,
};

/// All requests of `input`, given at once, and the final result.
fn parse_all(input: &[u8], limits: &Limits) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>) {
    parse_in_pieces(&[input], limits)
}

/// As [`parse_all`], the input arriving piece by piece.
fn parse_in_pieces(
    pieces: &[&[u8]],
    limits: &Limits,
) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>) {
    let mut parser = RequestParser::new();
    let mut args = Arguments::new();
    let mut buffer: Vec<u8> = Vec::new();
    let mut requests = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match parser.parse(&buffer, limits, &mut args) {
                Ok(Progress::Complete { consumed }) => {
                    requests.push(args.view(&buffer).iter().map(<[u8]>::to_vec).collect());
                    buffer.drain(..consumed);
                }
                Ok(Progress::Incomplete { consumed, wanted }) => {
                    assert!(wanted > 0, "an incomplete request lacks something");
                    buffer.drain(..consumed);
                    break;
                }
                Err(error) => return (requests, Some(error)),
            }
        }
    }
    (requests, None)
}

fn wire(error: ProtocolError) -> Vec<u8> {
    let mut out = Vec::new();
    error.write_wire(&mut out);
    out
}

fn error_of(input: &[u8]) -> Option<ProtocolError> {
    parse_all(input, &Limits::default()).1
}

#[test]
fn pipelined_requests_come_out_in_order() {
    let mut input = encode(&[b"SET", b"key", b"a\r\nb"]);
    input.extend(encode(&[b"GET", b""]));
    input.extend(b"PING\r\n");
    let (requests, error) = parse_all(&input, &Limits::default());
    assert_eq!(error, None);
    assert_eq!(
        requests,
        vec![
            vec![b"SET".to_vec(), b"key".to_vec(), b"a\r\nb".to_vec()],
            vec![b"GET".to_vec(), b"".to_vec()],
            vec![b"PING".to_vec()],
        ]
    );
}

#[test]
fn blank_requests_are_skipped() {
    for blank in
        [&b"*0\r\n"[..], b"*-1\r\n", b"*-5\r\n", b"\r\n\r\n", b"\n", b"   \r\n", b"\x0c\x0b\r\n"]
    {
        let (requests, error) = parse_all(&[blank, b"PING\r\n"].concat(), &Limits::default());
        assert_eq!((requests, error), (vec![vec![b"PING".to_vec()]], None), "{blank:?}");
    }
}

#[test]
fn blank_requests_are_consumed_before_an_incomplete_one() {
    let mut args = Arguments::new();
    let progress =
        RequestParser::new().parse(b"\r\n*0\r\n*1\r\n$4\r\nPI", &Limits::default(), &mut args);
    assert_eq!(progress, Ok(Progress::Incomplete { consumed: 6, wanted: 4 }));
}

#[test]
fn errors_are_valkeys() {
    use ProtocolError::*;
    for (input, expected) in [
        (&b"*a\r\n"[..], InvalidMultibulkLength),
        (b"*\r\n", InvalidMultibulkLength),
        (b"*01\r\n", InvalidMultibulkLength),
        (b"*+1\r\n", InvalidMultibulkLength),
        (b"*1 \r\n", InvalidMultibulkLength),
        (b"*-0\r\n", InvalidMultibulkLength),
        (b"*2147483648\r\n", InvalidMultibulkLength),
        (b"*99999999999999999999\r\n", InvalidMultibulkLength),
        (b"*1\rX", InvalidCrlf),
        (b"*0\rX", InvalidCrlf),
        (b"*a\rX", InvalidCrlf),
        (b"*1\r\n:1\r\n", ExpectedDollar(b':')),
        (b"*1\r\n\r\n", ExpectedDollar(b'\r')),
        (b"*1\r\nx\rX", ExpectedDollar(b'x')),
        (b"*1\r\n$4\rX", InvalidCrlf),
        (b"*1\r\n$x\rX", InvalidCrlf),
        (b"*1\r\n$-1\r\n", InvalidBulkLength),
        (b"*1\r\n$\r\n", InvalidBulkLength),
        (b"*1\r\n$04\r\n", InvalidBulkLength),
        (b"*1\r\n$536870913\r\n", InvalidBulkLength),
        (b"*1\r\n$4\r\nPING\rX", InvalidCrlf),
        (b"*1\r\n$4\r\nPINGX\n", InvalidCrlf),
        (b"\"abc\r\n", UnbalancedQuotes),
        (b"ECHO a\"b\r\n", UnbalancedQuotes),
    ] {
        assert_eq!(error_of(input), Some(expected), "{}", input.escape_ascii());
    }
}

#[test]
fn an_incomplete_valid_prefix_is_waited_for() {
    for input in [
        &b"*1\r"[..],
        b"*1\n$4\nPING\n",
        b"*2147483647\r\n",
        b"*1\r\nx\r",
        b"*1\r\n$536870912\r\n",
        b"*1\r\n$4\r\nPINGX",
    ] {
        assert_eq!(error_of(input), None, "{}", input.escape_ascii());
    }
}

#[test]
fn a_line_without_end_is_refused_past_64_kib() {
    for (prefix, error) in [
        (&b""[..], ProtocolError::TooBigInline),
        (b"*", ProtocolError::TooBigMultibulkCount),
        (b"*1\r\n$", ProtocolError::TooBigBulkCount),
    ] {
        let line_start = if prefix.len() > 1 { 4 } else { 0 };
        let mut input = prefix.to_vec();
        input.resize(line_start + 65_536, b'1');
        assert_eq!(error_of(&input), None);
        input.push(b'1');
        assert_eq!(error_of(&input), Some(error));
        // A line as long with its end is still too long, however it arrives.
        input.extend(b"\r\n");
        assert_eq!(error_of(&input), Some(error));
    }
}

#[test]
fn strangers_may_send_little() {
    let stranger = Limits { authenticated: false, ..Limits::default() };
    let error = |input: &[u8]| parse_all(input, &stranger).1;
    assert_eq!(error(b"*10\r\n"), None);
    assert_eq!(error(b"*11\r\n"), Some(ProtocolError::UnauthenticatedMultibulkLength));
    assert_eq!(error(b"*1\r\n$16384\r\n"), None);
    assert_eq!(error(b"*1\r\n$16385\r\n"), Some(ProtocolError::UnauthenticatedBulkLength));
    assert_eq!(error(b"*1\r\n$536870913\r\n"), Some(ProtocolError::InvalidBulkLength));
    assert_eq!(error(b"*2147483648\r\n"), Some(ProtocolError::InvalidMultibulkLength));
}

#[test]
fn the_wire_text_echoes_the_byte_but_never_a_line_end() {
    assert_eq!(
        wire(ProtocolError::ExpectedDollar(0xff)),
        b"-ERR Protocol error: expected '$', got '\xff'\r\n"
    );
    assert_eq!(
        wire(ProtocolError::ExpectedDollar(b'\r')),
        b"-ERR Protocol error: expected '$', got ' '\r\n"
    );
    assert_eq!(
        wire(ProtocolError::InvalidCrlf),
        b"-ERR Protocol error: invalid CRLF in request\r\n"
    );
}

#[test]
fn inline_words_are_split_as_valkey_splits_them() {
    for (line, expected) in [
        (&br#"ECHO "a\x41\n\t\r\b\a\q\"\xzz""#[..], &[&b"ECHO"[..], b"aA\n\t\r\x08\x07q\"xzz"][..]),
        (br"ECHO 'a\'\n'", &[b"ECHO", b"a'\\n"]),
        (b"'a'b 'c'", &[b"ab", b"c"]),
        (br#"'a"b'c"d'e""#, &[br#"a"bcd'e"#]),
        (b"\"\" ''", &[b"", b""]),
        (b"a\\nb", &[b"a\\nb"]),
        (b"ECHO\x0ba\x0b", &[b"ECHO\x0ba\x0b"]),
        (b"  \x0bECHO \x0ca", &[b"ECHO", b"a"]),
        (b"a\rb\r", &[b"a", b"b"]),
        (br#""a\""#, &[b"a\\"]),
        (br"'\'", &[b"\\"]),
        (br#""\"\""#, &[b"\"\\"]),
        (br#""a\x4""#, &[b"ax4"]),
        (b"a\0b", &[b"a\0b"]),
        (b" \t ", &[]),
    ] {
        let words = split_arguments(line).expect("the quotes are balanced");
        assert_eq!(words, expected, "{}", line.escape_ascii());
    }
    for line in [&br#""a\" "#[..], br#""a\"b"#, br#""a\\"#, br"'a\' ", b"\"", b"'"] {
        assert_eq!(split_arguments(line), Err(UnbalancedQuotes), "{}", line.escape_ascii());
    }
}

#[test]
fn many_arguments_are_not_read_twice() {
    let arguments: Vec<&[u8]> = vec![b"argument"; 1000];
    let whole = encode(&arguments);
    let (mut parser, mut args) = (RequestParser::new(), Arguments::new());
    let cut = whole.len() - 5;
    let progress = parser.parse(&whole[..cut], &Limits::default(), &mut args);
    assert_eq!(progress, Ok(Progress::Incomplete { consumed: 0, wanted: 5 }));
    assert!(!parser.is_idle());
    // Would be an error if it were looked at again; the first byte says that this is no inline
    // request.
    let mut spoilt = whole.clone();
    spoilt[1..100].fill(b'?');
    // Another connection may use the same storage meanwhile.
    let mut shared = Arguments::new();
    let progress = parser.parse(&spoilt, &Limits::default(), &mut shared);
    assert_eq!(progress, Ok(Progress::Complete { consumed: whole.len() }));
    assert!(shared.view(&whole).iter().eq(arguments));
    assert!(parser.is_idle());
}

#[test]
fn a_long_request_behind_a_blank_one_survives_the_cut() {
    let whole = [b"\r\n".to_vec(), encode(&[&b"argument"[..]; 40])].concat();
    for cut in 3..whole.len() {
        let whole_pieces = parse_in_pieces(&[&whole[..cut], &whole[cut..]], &Limits::default());
        assert_eq!(whole_pieces, parse_all(&whole, &Limits::default()), "cut at {cut}");
    }
}

/// A request as it is when its last argument was received elsewhere, and the place of that.
fn without_last(request: &[u8], last: &[u8]) -> (Vec<u8>, usize, SharedBytes) {
    let position = request.len() - 2 - last.len();
    let rest = [&request[..position], b"\r\n"].concat();
    (rest, position, SharedBytes::from_header_and_slice((), last))
}

#[test]
fn last_argument_may_be_elsewhere() {
    for words in [&[&b"SET"[..], b"key", b"value"][..], &[b"PING"], &[b"ECHO", b""]] {
        let last = *words.last().expect("a request has a name");
        let (mut input, position, bytes) = without_last(&encode(words), last);
        let end = input.len();
        input.extend(b"PING\r\n");
        let large = LargeArgument { position, bytes: &bytes };
        let (mut parser, mut args) = (RequestParser::new(), Arguments::new());
        let limits = Limits::default();
        for cut in 0..end {
            let parsed = parser.parse_with_large(&input[..cut], large, &limits, &mut args);
            let Ok(Progress::Incomplete { consumed: 0, wanted: 1.. }) = parsed else {
                panic!("{parsed:?} of {cut} bytes");
            };
        }
        let parsed = parser.parse_with_large(&input, large, &limits, &mut args);
        assert_eq!(parsed, Ok(Progress::Complete { consumed: end }));
        let view = args.view(&input);
        assert!(view.iter().eq(words.iter().copied()));
        assert_eq!(view.get(words.len() - 1), last);
        assert_eq!(view.get_in_buffer(words.len() - 1), (last, last.len()));
        assert_eq!(view.large_bytes(), last.len());
        // An owner is told of these bytes, and not of equal ones.
        let owner = view.owner_of(view.get(words.len() - 1)).expect("it is the one elsewhere");
        assert_eq!(owner.ptr(), bytes.ptr());
        let equal = last.to_vec();
        assert!(view.owner_of(&equal).is_none());
        assert_eq!(SharedBytes::strong_count(&bytes), 2, "of the arguments and of us");
        args.release_large();
        assert_eq!(SharedBytes::strong_count(&bytes), 1);
        // The line end is where the argument would begin.
        input[position] = b'x';
        let parsed = parser.parse_with_large(&input, large, &limits, &mut args);
        assert_eq!(parsed, Err(ProtocolError::InvalidCrlf));
    }
}

#[test]
fn place_of_the_last_argument_is_known_once_its_length_is() {
    let request = encode(&[b"SET", b"key", &[b'v'; 300]]);
    let start = request.len() - 302;
    let parser = RequestParser::new();
    for cut in 0..request.len() {
        let place = (cut >= start).then_some(start..start + 300);
        assert_eq!(parser.last_argument(&request[..cut]), place, "{cut} bytes");
    }
    for other in [
        &b""[..],
        b"PING",
        b"*0\r\n",
        b"*-1\r\n",
        b"*x\r\n",
        b"*1\r\n:300\r\n",
        b"*1\r\n$-1\r\n",
        b"*2\r\n$9223372036854775807\r\n",
    ] {
        assert_eq!(parser.last_argument(other), None, "{:?}", other.escape_ascii());
    }
    assert_eq!(parser.last_argument(b"*1\r\n$300\r\n"), Some(10..310));
}
