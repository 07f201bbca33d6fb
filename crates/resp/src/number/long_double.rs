//! The 80-bit floating-point numbers of x87, in which `INCRBYFLOAT` and `HINCRBYFLOAT` compute.
//!
//! Doing it in 64 bits would print other digits (`0.1 + 0.2`), so the format is emulated: reading
//! and adding by `rustc_apfloat`, printing here, because the one form needed is fixed-point with 17
//! digits.

use rustc_apfloat::ieee::X87DoubleExtended;
use rustc_apfloat::{Float, Round, Status};

/// Length in bytes from which on a text is not read as a number: Valkey's buffer.
const TEXT_BYTES_MAX: usize = 5 * 1024;

/// Digits printed behind the point before trailing zeros are removed.
const FRACTION_DIGIT_COUNT: usize = 17;

/// 10^17.
const FRACTION_SCALE: u128 = 100_000_000_000_000_000;

/// Bits of the significand, its leading one included.
const SIGNIFICAND_BITS: i32 = 64;

/// Bias of the exponent.
const EXPONENT_BIAS: i32 = 16_383;

/// A number in x87's 80-bit format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LongDouble(X87DoubleExtended);

impl std::ops::Add for LongDouble {
    type Output = LongDouble;

    /// The sum, rounded to nearest.
    fn add(self, other: LongDouble) -> LongDouble {
        LongDouble((self.0 + other.0).value)
    }
}

impl LongDouble {
    /// True if it is neither infinite nor NaN, as `INCRBYFLOAT` demands of its result.
    #[must_use]
    pub fn is_finite(self) -> bool {
        self.0.is_finite()
    }

    /// The product with a factor, rounded up to a whole number; the nearest there is where that is
    /// out of range.
    #[must_use]
    pub fn times_rounded_up(self, factor: i64) -> i64 {
        let product = (self.0 * LongDouble::from(factor).0).value;
        let whole = product.to_i128_r(64, Round::TowardPositive, &mut false).value;
        i64::try_from(whole).expect("the value was asked for in 64 bits")
    }
}

impl From<i64> for LongDouble {
    fn from(value: i64) -> LongDouble {
        LongDouble(X87DoubleExtended::from_i128(i128::from(value)).value)
    }
}

/// Reads a number as `INCRBYFLOAT` does.
#[must_use]
pub fn parse_long_double(text: &[u8]) -> Option<LongDouble> {
    if text.is_empty() || text.len() >= TEXT_BYTES_MAX {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?;
    let (is_negative, magnitude) = match text.as_bytes()[0] {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let value =
        if magnitude.eq_ignore_ascii_case("inf") || magnitude.eq_ignore_ascii_case("infinity") {
            X87DoubleExtended::INFINITY
        } else {
            parse_magnitude(magnitude)?
        };
    Some(LongDouble(if is_negative { -value } else { value }))
}

fn parse_magnitude(text: &str) -> Option<X87DoubleExtended> {
    let is_hexadecimal = text.starts_with("0x") || text.starts_with("0X");
    let has_exponent = if is_hexadecimal {
        check_grammar(&text.as_bytes()[2..], u8::is_ascii_hexdigit, b'p')?
    } else {
        check_grammar(text.as_bytes(), u8::is_ascii_digit, b'e')?
    };
    let parsed = if is_hexadecimal && !has_exponent {
        X87DoubleExtended::from_str_r(&format!("{text}p0"), Round::NearestTiesToEven)
    } else {
        X87DoubleExtended::from_str_r(text, Round::NearestTiesToEven)
    };
    let parsed = parsed.ok()?;
    let is_out_of_range = parsed.status.contains(Status::OVERFLOW)
        || (parsed.status.contains(Status::UNDERFLOW) && parsed.value.is_zero());
    (!is_out_of_range).then_some(parsed.value)
}

/// Checks for digits with at most one point among them, and perhaps an exponent behind `marker`, of
/// either case. Returns true if there is an exponent; `None` when this is no number:
/// `rustc_apfloat` is less strict than C.
fn check_grammar(text: &[u8], is_digit: fn(&u8) -> bool, marker: u8) -> Option<bool> {
    let marker_index = text.iter().position(|byte| byte.eq_ignore_ascii_case(&marker));
    let (significand, exponent) = match marker_index {
        Some(index) => (&text[..index], Some(&text[index + 1..])),
        None => (text, None),
    };
    let point_count = significand.iter().filter(|&&byte| byte == b'.').count();
    let digit_count = significand.iter().filter(|&byte| is_digit(byte)).count();
    if point_count > 1 || digit_count == 0 || point_count + digit_count != significand.len() {
        return None;
    }
    let Some(exponent) = exponent else { return Some(false) };
    let digits = match exponent {
        [b'+' | b'-', digits @ ..] => digits,
        digits => digits,
    };
    (!digits.is_empty() && digits.iter().all(u8::is_ascii_digit)).then_some(true)
}

/// Prints a number as `INCRBYFLOAT` replies and stores it: never with an exponent, 17 digits behind
/// the point, rounded half to even, trailing zeros removed.
#[must_use]
pub fn format_long_double(value: LongDouble) -> String {
    let value = value.0;
    if value.is_nan() {
        return String::from("nan");
    }
    let sign = if value.is_negative() { "-" } else { "" };
    if value.is_infinite() {
        return format!("{sign}inf");
    }
    let bits = value.to_bits();
    let significand = bits as u64;
    let biased_exponent = (bits >> 64) as i32 & 0x7fff;
    // The value is significand × 2^exponent; a biased exponent of zero means the same as one.
    let exponent = biased_exponent.max(1) - EXPONENT_BIAS - (SIGNIFICAND_BITS - 1);
    let text = if exponent >= 0 {
        format_integral(significand, exponent as u32)
    } else {
        format_fractional(significand, exponent.unsigned_abs())
    };
    if text == "0" { text } else { format!("{sign}{text}") }
}

/// significand × 2^shift in decimal.
fn format_integral(significand: u64, shift: u32) -> String {
    const LIMB_SCALE: u64 = 1_000_000_000;
    // Decimal limbs, least significant first.
    let mut limbs = vec![];
    let mut rest = significand;
    while rest > 0 {
        limbs.push(rest % LIMB_SCALE);
        rest /= LIMB_SCALE;
    }
    let mut left = shift;
    while left > 0 {
        // A limb below 2^30 shifted by 32 and a carry stay within u64.
        let step = left.min(32);
        let mut carry = 0;
        for limb in &mut limbs {
            let shifted = (*limb << step) + carry;
            *limb = shifted % LIMB_SCALE;
            carry = shifted / LIMB_SCALE;
        }
        while carry > 0 {
            limbs.push(carry % LIMB_SCALE);
            carry /= LIMB_SCALE;
        }
        left -= step;
    }
    let mut text = limbs.pop().unwrap_or(0).to_string();
    for limb in limbs.iter().rev() {
        text.push_str(&format!("{limb:09}"));
    }
    text
}

/// significand ÷ 2^shift in decimal.
fn format_fractional(significand: u64, shift: u32) -> String {
    // 64 bits times 57 bits fit u128, so the scaled value is exact and rounding happens once.
    let scaled = u128::from(significand) * FRACTION_SCALE;
    let rounded = shift_right_to_even(scaled, shift);
    let whole = rounded / FRACTION_SCALE;
    let fraction = format!("{:0width$}", rounded % FRACTION_SCALE, width = FRACTION_DIGIT_COUNT);
    match fraction.trim_end_matches('0') {
        "" => whole.to_string(),
        fraction => format!("{whole}.{fraction}"),
    }
}

fn shift_right_to_even(value: u128, shift: u32) -> u128 {
    if shift >= u128::BITS {
        // Below 2^121 / 2^128: less than a half.
        return 0;
    }
    let quotient = value >> shift;
    let remainder = value - (quotient << shift);
    let half = 1u128 << (shift - 1);
    let is_up = remainder > half || (remainder == half && quotient & 1 == 1);
    quotient + u128::from(is_up)
}
