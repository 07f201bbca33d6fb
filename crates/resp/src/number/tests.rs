//! Numbers read and printed, compared with Valkey 9.1's answers.

use super::{
    format_double, format_double_17_digits, format_double_in_short_digits, format_long_double,
    parse_double, parse_integer, parse_long_double,
};

#[test]
fn integers_have_one_spelling() {
    assert_eq!(parse_integer(b"0"), Some(0));
    assert_eq!(parse_integer(b"-1"), Some(-1));
    assert_eq!(parse_integer(b"9223372036854775807"), Some(i64::MAX));
    assert_eq!(parse_integer(b"-9223372036854775808"), Some(i64::MIN));
    for text in [
        &b""[..],
        b"-",
        b"+1",
        b"01",
        b"-0",
        b"00",
        b" 1",
        b"1 ",
        b"1.0",
        b"9223372036854775808",
        b"-9223372036854775809",
        b"99999999999999999999",
        b"18446744073709551617",
        b"1a",
    ] {
        assert_eq!(parse_integer(text), None, "{}", text.escape_ascii());
    }
}

#[test]
fn doubles_are_read_and_printed_as_in_zadd_and_zscore() {
    for (text, expected) in [
        ("1", "1"),
        ("1e17", "100000000000000000"),
        ("1e19", "1e+19"),
        ("1e21", "1e+21"),
        ("123456789012345680000", "123456789012345680000"),
        ("1e-5", "0.00001"),
        ("0.000001", "0.000001"),
        ("0.0000012345", "1.2345e-6"),
        ("1e-7", "1e-7"),
        ("5e-324", "5e-324"),
        ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ("0.1234567890123456", "0.1234567890123456"),
        ("Infinity", "inf"),
        ("-INF", "-inf"),
        (".5", "0.5"),
        ("5.", "5"),
        ("+5", "5"),
        ("1.e5", "100000"),
        ("00012", "12"),
        ("9007199254740993", "9007199254740992"),
        ("9223372036854775807", "9223372036854776000"),
        ("4611686018427387904", "4611686018427387904"),
        ("12345678901234567890123", "12345678901234568000000"),
    ] {
        let value = parse_double(text.as_bytes()).expect(text);
        assert_eq!(format_double(value).as_str(), expected, "{text}");
    }
}

#[test]
fn doubles_are_printed_in_short_digits_as_in_digests() {
    for (value, expected) in [
        (0.0, "0"),
        (-0.0, "-0"),
        (f64::NEG_INFINITY, "-inf"),
        (1.0, "1"),
        (-100.0, "-100"),
        (1e7, "10000000"),
        (1e8, "1e+8"),
        (1e15, "1e+15"),
        (-123_456_789_000.0, "-123456789000"),
        (4_611_686_018_427_387_904.0, "4611686018427388000"),
        (0.5, "0.5"),
    ] {
        assert_eq!(format_double_in_short_digits(value).as_str(), expected, "{value}");
    }
}

#[test]
fn doubles_have_17_digits_at_most_as_in_zscan() {
    for (value, expected) in [
        (0.1, "0.10000000000000001"),
        (3e-7, "2.9999999999999999e-07"),
        (1e-4, "0.0001"),
        (1e-5, "1.0000000000000001e-05"),
        (1e16, "10000000000000000"),
        (1e17, "1e+17"),
        (-2.5, "-2.5"),
        (1e300, "1.0000000000000001e+300"),
        (5e-324, "4.9406564584124654e-324"),
        (123456789.125, "123456789.125"),
        // Half way between two: to the even one.
        (f64::powi(0.5, 25), "2.9802322387695312e-08"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
        (-0.0, "-0"),
    ] {
        assert_eq!(format_double_17_digits(value), expected);
    }
}

#[test]
fn texts_that_zadd_refuses_are_no_doubles() {
    for text in [
        "nan", "1e400", "-1e400", "1e-400", "0x10", " 1", "1 ", "", "--5", "1e", "e1", "1_0", "in",
        "infinit", "nan(1)", "1f", "\u{661}",
    ] {
        assert_eq!(parse_double(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn integers_are_the_doubles_that_their_digits_are() {
    for text in [
        "0",
        "-0",
        "7",
        "-7",
        "007",
        "+7",
        "65536",
        "4294967297",
        "9007199254740993",
        "9007199254740995",
        "-9007199254740993",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "18446744073709551617",
    ] {
        let expected = text.parse::<f64>().expect("a number").to_bits();
        assert_eq!(parse_double(text.as_bytes()).map(f64::to_bits), Some(expected), "{text}");
    }
}

#[test]
fn long_doubles_add_as_in_incrbyfloat() {
    let add = |left: &[u8], right: &[u8]| {
        let left = parse_long_double(left).expect("a number");
        let right = parse_long_double(right).expect("a number");
        format_long_double(left + right)
    };
    assert_eq!(add(b"0.1", b"0.2"), "0.3");
    assert_eq!(add(b"3.0e3", b"200"), "3200");
    assert_eq!(add(b"1e17", b"0.5"), "100000000000000000.5");
    assert_eq!(add(b"10.5", b"-10.5"), "0");
}
