//! 64-bit floating-point numbers: scores.

use std::fmt::Write;

use super::grisu;
use super::integer::parse_integer;

/// Longest result of [`format_double`]: sign, 17 digits, point, zeros or exponent.
const TEXT_BYTES_MAX: usize = 32;

/// Integral values up to this magnitude print as integers: 2^62.
const INTEGER_MAGNITUDE_MAX: f64 = 4_611_686_018_427_387_904.0;

/// Printed number, without allocation.
#[derive(Clone, Copy, Debug)]
pub struct FormattedDouble {
    bytes: [u8; TEXT_BYTES_MAX],
    length: usize,
}

impl FormattedDouble {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).expect("only ASCII is written")
    }
}

impl Write for FormattedDouble {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.length + text.len();
        let target = self.bytes.get_mut(self.length..end).ok_or(std::fmt::Error)?;
        target.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// Reads a float as `ZADD` does: decimal, or `inf`/`infinity` with a sign or without in any case.
/// No blanks, no hexadecimal, no NaN, and nothing that is too large or rounds to zero without being
/// zero.
#[must_use]
pub fn parse_double(text: &[u8]) -> Option<f64> {
    // Rounds as the digits would.
    if let Some(integer) = parse_integer(text) {
        return Some(integer as f64);
    }
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let names_infinity = text.iter().any(|byte| matches!(byte, b'n' | b'N'));
    let is_out_of_range =
        (value.is_infinite() && !names_infinity) || (value == 0.0 && significand_has_digits(text));
    (!value.is_nan() && !is_out_of_range).then_some(value)
}

/// True if any digit before the exponent differs from zero.
fn significand_has_digits(text: &[u8]) -> bool {
    let significand = text.split(|byte| matches!(byte, b'e' | b'E')).next().unwrap_or(text);
    significand.iter().any(|byte| matches!(byte, b'1'..=b'9'))
}

/// Prints a float as Redis does in scores and RESP3 doubles: nearly always the shortest digits that
/// read back as the same value, and always those Valkey prints.
#[must_use]
pub fn format_double(value: f64) -> FormattedDouble {
    let mut out = FormattedDouble { bytes: [0; TEXT_BYTES_MAX], length: 0 };
    write_double(value, &mut out).expect("no number is longer than the buffer");
    out
}

/// As [`format_double`], integral values by their shortest digits too, as Valkey does in digests:
/// `1e+15`.
#[must_use]
pub fn format_double_in_short_digits(value: f64) -> FormattedDouble {
    if !value.is_finite() || value == 0.0 {
        return format_double(value);
    }
    let mut out = FormattedDouble { bytes: [0; TEXT_BYTES_MAX], length: 0 };
    write_short_digits(value, &mut out).expect("no number is longer than the buffer");
    out
}

/// Prints a float with 17 significant digits at most, as C's `%.17g`: more than format_double takes
/// for most, with which Valkey prints scores while a hash table of them is walked.
#[must_use]
pub fn format_double_17_digits(value: f64) -> String {
    if !value.is_finite() || value == 0.0 {
        return format_double(value).as_str().to_owned();
    }
    if value.fract() == 0.0 && value.abs() < 1e17 {
        return itoa::Buffer::new().format(value as i64).to_owned();
    }
    let scientific = format!("{value:.16e}");
    let (significand, exponent) = scientific.split_once('e').expect("it was asked for");
    let exponent: i32 = exponent.parse().expect("an exponent is an integer");
    if (-4..17).contains(&exponent) {
        let decimals = (16 - exponent) as usize;
        return without_zeros(&format!("{value:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(significand), exponent.abs())
}

/// A text without the zeros at the end of its fraction.
fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

fn write_double(value: f64, out: &mut FormattedDouble) -> std::fmt::Result {
    if value.is_nan() {
        return out.write_str("nan");
    }
    if value.is_infinite() {
        return out.write_str(if value > 0.0 { "inf" } else { "-inf" });
    }
    if let Some(integer) = printed_as_integer(value) {
        return out.write_str(itoa::Buffer::new().format(integer));
    }
    if value == 0.0 {
        return out.write_str("-0");
    }
    write_short_digits(value, out)
}

/// The integer whose digits a value prints as, if it prints as one.
#[inline]
pub(crate) fn printed_as_integer(value: f64) -> Option<i64> {
    let integer = value as i64;
    let is_same = (integer as f64).to_bits() == value.to_bits();
    (is_same && value.abs() <= INTEGER_MAGNITUDE_MAX).then_some(integer)
}

fn write_short_digits(value: f64, out: &mut FormattedDouble) -> std::fmt::Result {
    if value < 0.0 {
        out.write_str("-")?;
    }
    let mut digits = [0; grisu::DIGIT_COUNT_MAX];
    let (count, exponent) = grisu::digits(value.abs(), &mut digits);
    let digits = std::str::from_utf8(&digits[..count]).expect("digits are ASCII");
    write_digits(digits, exponent, value < 0.0, out)
}

/// Lays the digits out: as an integer, with a point, or with an exponent, by the rules Valkey was
/// seen to follow.
fn write_digits(
    digits: &str,
    exponent: i32,
    is_negative: bool,
    out: &mut FormattedDouble,
) -> std::fmt::Result {
    let count = digits.len() as i32;
    let scientific = exponent + count - 1;
    if exponent >= 0 && scientific < count + 7 {
        return write!(out, "{digits}{:0<1$}", "", exponent as usize);
    }
    if exponent < 0 && (exponent > -7 || scientific.abs() < 4) {
        return match count + exponent {
            whole if whole <= 0 => write!(out, "0.{:0<1$}{digits}", "", -whole as usize),
            whole => {
                let (before, after) = digits.split_at(whole as usize);
                write!(out, "{before}.{after}")
            }
        };
    }
    let digits = &digits[..digits.len().min(18 - usize::from(is_negative))];
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    write!(out, "{first}{point}{rest}e{scientific:+}")
}
