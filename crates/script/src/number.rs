//! Numbers as C reads and prints them.

use crate::program::Op;

/// Result of an operation on two numbers; the second operand of a prefix operator is ignored.
#[inline]
pub(crate) fn arithmetic(op: Op, a: f64, b: f64) -> f64 {
    match op {
        Op::Add => a + b,
        Op::Sub => a - b,
        Op::Mul => a * b,
        Op::Div => a / b,
        Op::Mod => a - (a / b).floor() * b,
        Op::Pow => a.powf(b),
        _ => -a,
    }
}

fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// A text without the white space around it.
pub(crate) fn trim(text: &[u8]) -> &[u8] {
    let begin = text.iter().take_while(|byte| is_space(byte)).count();
    let blanks = text[begin..].iter().rev().take_while(|byte| is_space(byte)).count();
    &text[begin..text.len() - blanks]
}

/// Reads a whole text as a number: decimal, hexadecimal, `inf` and `nan`, with white space around.
/// As a C string, it ends at the first zero byte.
pub(crate) fn parse(text: &[u8]) -> Option<f64> {
    let (number, length) = parse_prefix(text)?;
    let mut rest = text[length..].iter().take_while(|byte| **byte != 0);
    rest.all(is_space).then_some(number)
}

/// Reads the number at the begin of a text as `strtod` does; also tells its length.
pub(crate) fn parse_prefix(text: &[u8]) -> Option<(f64, usize)> {
    let mut at = text.iter().take_while(|byte| is_space(byte)).count();
    let mut sign = 1.0;
    if let Some(b'+' | b'-') = text.get(at) {
        sign = if text[at] == b'-' { -1.0 } else { 1.0 };
        at += 1;
    }
    let rest = &text[at..];
    let starts =
        |word: &[u8]| rest.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word));
    if starts(b"infinity") {
        return Some((sign * f64::INFINITY, at + 8));
    }
    if starts(b"inf") {
        return Some((sign * f64::INFINITY, at + 3));
    }
    if starts(b"nan") {
        // `nan(1)` names one of them by letters and digits, which make no difference here.
        let named = rest.get(3) == Some(&b'(');
        let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
        let count = rest.iter().skip(4).take_while(is_part).count();
        let length = if named && rest.get(4 + count) == Some(&b')') { 5 + count } else { 3 };
        return Some((f64::NAN.copysign(sign), at + length));
    }
    if starts(b"0x")
        && let Some((number, length)) = parse_hexadecimal(&rest[2..])
    {
        return Some((sign * number, at + 2 + length));
    }
    let digits = |from: usize| rest[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(0);
    let mut end = whole;
    let mut fraction = 0;
    if rest.get(end) == Some(&b'.') {
        fraction = digits(end + 1);
        if whole + fraction > 0 {
            end += 1 + fraction;
        }
    }
    if whole + fraction == 0 {
        return None;
    }
    if let Some(b'e' | b'E') = rest.get(end) {
        let signed = end + 1 + usize::from(matches!(rest.get(end + 1), Some(b'+' | b'-')));
        let count = if signed <= rest.len() { digits(signed) } else { 0 };
        if count > 0 {
            end = signed + count;
        }
    }
    let number: f64 = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    Some((sign * number, at + end))
}

fn parse_hexadecimal(text: &[u8]) -> Option<(f64, usize)> {
    let mut value = 0.0_f64;
    let (mut at, mut digits, mut exponent) = (0, 0, 0_i64);
    let mut is_fraction = false;
    while let Some(byte) = text.get(at) {
        if let Some(digit) = char::from(*byte).to_digit(16) {
            value = value * 16.0 + f64::from(digit);
            digits += 1;
            exponent -= if is_fraction { 4 } else { 0 };
        } else if *byte == b'.' && !is_fraction {
            is_fraction = true;
        } else {
            break;
        }
        at += 1;
    }
    if digits == 0 {
        return None;
    }
    if let Some(b'p' | b'P') = text.get(at) {
        let signed = at + 1 + usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
        let count = text.get(signed..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count > 0 {
            let digits = std::str::from_utf8(&text[signed..signed + count]).ok()?;
            let power = digits.parse::<i64>().map_or(EXPONENT_MAX, |power| power.min(EXPONENT_MAX));
            exponent += if text[at + 1] == b'-' { -power } else { power };
            at = signed + count;
        }
    }
    Some((scale(value, exponent), at))
}

/// Exponents beyond this decide alone, for texts of up to some GiB.
const EXPONENT_MAX: i64 = 1 << 40;

/// `value * 2^exponent`, also where the power alone is no number, as that of `0x1p-1074` is not.
fn scale(mut value: f64, mut exponent: i64) -> f64 {
    while exponent != 0 && value != 0.0 && value.is_finite() {
        let step = exponent.clamp(-1000, 1000);
        value *= 2.0_f64.powi(step as i32);
        exponent -= step;
    }
    value
}

/// Appends a number as the language shows it: `%.14g`.
pub(crate) fn push(out: &mut Vec<u8>, number: f64) {
    if number as i64 as f64 == number && number.abs() < 1e14 && (number != 0.0) {
        push_integer(out, number as i64);
        return;
    }
    Format { precision: Some(14), ..Format::default() }.general(out, number);
}

/// Appends an integer in decimal digits.
fn push_integer(out: &mut Vec<u8>, number: i64) {
    // 2^64 has twenty digits.
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// A conversion of `printf`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Format {
    pub(crate) is_left: bool,
    pub(crate) has_plus: bool,
    pub(crate) has_space: bool,
    pub(crate) is_alternate: bool,
    pub(crate) is_zero: bool,
    pub(crate) width: usize,
    pub(crate) precision: Option<usize>,
    pub(crate) is_upper: bool,
}

impl Format {
    /// Appends a text with sign or prefix, padded to the width.
    pub(crate) fn pad(&self, out: &mut Vec<u8>, prefix: &[u8], body: &[u8], may_zero: bool) {
        let length = prefix.len() + body.len();
        let fill = self.width.saturating_sub(length);
        let is_zero = self.is_zero && may_zero && !self.is_left;
        if !self.is_left && !is_zero {
            out.resize(out.len() + fill, b' ');
        }
        out.extend_from_slice(prefix);
        if is_zero {
            out.resize(out.len() + fill, b'0');
        }
        out.extend_from_slice(body);
        if self.is_left {
            out.resize(out.len() + fill, b' ');
        }
    }

    fn sign(&self, is_negative: bool) -> &'static [u8] {
        match (is_negative, self.has_plus, self.has_space) {
            (true, ..) => b"-",
            (_, true, _) => b"+",
            (_, _, true) => b" ",
            _ => b"",
        }
    }

    /// `%d`.
    pub(crate) fn integer(&self, out: &mut Vec<u8>, number: i64) {
        let digits = self.digits(number.unsigned_abs().to_string());
        self.pad(out, self.sign(number < 0), digits.as_bytes(), self.precision.is_none());
    }

    fn digits(&self, digits: String) -> String {
        let least = self.precision.unwrap_or(1);
        if least == 0 && digits == "0" {
            return String::new();
        }
        let zeros = least.saturating_sub(digits.len());
        format!("{}{digits}", "0".repeat(zeros))
    }

    /// `%u`, `%o`, `%x`, `%X`.
    pub(crate) fn unsigned(&self, out: &mut Vec<u8>, number: u64, base: u32) {
        let mut digits = self.digits(match base {
            8 => format!("{number:o}"),
            16 if self.is_upper => format!("{number:X}"),
            16 => format!("{number:x}"),
            _ => number.to_string(),
        });
        let mut prefix: &[u8] = b"";
        if self.is_alternate && base == 16 && number != 0 {
            prefix = if self.is_upper { b"0X" } else { b"0x" };
        }
        if self.is_alternate && base == 8 && !digits.starts_with('0') {
            digits.insert(0, '0');
        }
        self.pad(out, prefix, digits.as_bytes(), self.precision.is_none());
    }

    fn finish(&self, out: &mut Vec<u8>, number: f64, body: Option<String>) {
        let sign = self.sign(number.is_sign_negative());
        let is_finite = body.is_some();
        let mut body = body
            .unwrap_or_else(|| if number.is_nan() { "nan".to_owned() } else { "inf".to_owned() });
        if self.is_upper {
            body.make_ascii_uppercase();
        }
        self.pad(out, sign, body.as_bytes(), is_finite);
    }

    /// `%f`.
    pub(crate) fn fixed(&self, out: &mut Vec<u8>, number: f64) {
        let precision = self.precision.unwrap_or(6);
        let body = number.is_finite().then(|| {
            let point = if self.is_alternate && precision == 0 { "." } else { "" };
            format!("{:.precision$}{point}", number.abs())
        });
        self.finish(out, number, body);
    }

    /// `%e`.
    pub(crate) fn exponential(&self, out: &mut Vec<u8>, number: f64) {
        let precision = self.precision.unwrap_or(6);
        let body = number.is_finite().then(|| {
            let (mantissa, exponent) = scientific(number, precision);
            let point = if self.is_alternate && precision == 0 { "." } else { "" };
            with_exponent(&format!("{mantissa}{point}"), exponent)
        });
        self.finish(out, number, body);
    }

    /// `%g`.
    pub(crate) fn general(&self, out: &mut Vec<u8>, number: f64) {
        let precision = self.precision.unwrap_or(6).max(1);
        let body = number.is_finite().then(|| {
            let (mantissa, exponent) = scientific(number, precision - 1);
            let is_fixed = exponent >= -4 && exponent < precision as i32;
            let decimals = (precision as i32 - 1 - exponent).max(0) as usize;
            let mut text = if is_fixed { format!("{:.decimals$}", number.abs()) } else { mantissa };
            if self.is_alternate {
                if !text.contains('.') {
                    text.push('.');
                }
            } else if text.contains('.') {
                text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
            }
            if is_fixed { text } else { with_exponent(&text, exponent) }
        });
        self.finish(out, number, body);
    }
}

fn scientific(number: f64, precision: usize) -> (String, i32) {
    let text = format!("{:.precision$e}", number.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (mantissa.to_owned(), exponent.parse().unwrap_or(0))
}

fn with_exponent(mantissa: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}
