//! Digits of a double by Grisu2 (Loitsch, "Printing Floating-Point Numbers Quickly and Accurately
//! with Integers", PLDI 2010).
//!
//! The standard library prints the shortest digits, always. Valkey prints those of Grisu2, which in
//! three of a thousand doubles are not the shortest (371.455838 becomes 371.45583800000003) though
//! they always read back. Scores are compared as text by clients and stored in files, so the same
//! digits matter more than the best ones. It follows that every rounding below, also of the cached
//! powers, is part of the result.

use std::sync::LazyLock;

use rustc_apfloat::ieee::X87DoubleExtended;
use rustc_apfloat::{Float, Round};

/// Most digits that Grisu2 makes.
pub(super) const DIGIT_COUNT_MAX: usize = 18;

/// Cached powers of ten: 10^-348, 10^-340, ... 10^340.
const POWER_COUNT: i32 = 87;
const POWER_FIRST: i32 = -348;
const POWER_STEP: i32 = 8;

/// Binary exponents that a scaled value must have, so that its integral part fits 32 bits.
const SCALED_EXPONENT_MIN: i32 = -60;
const SCALED_EXPONENT_MAX: i32 = -32;

const FRACTION_BITS: i32 = 52;
const HIDDEN_BIT: u64 = 1 << FRACTION_BITS;
const EXPONENT_BIAS: i32 = 1023 + FRACTION_BITS;

/// significand × 2^exponent.
#[derive(Clone, Copy)]
struct Scaled {
    significand: u64,
    exponent: i32,
}

/// Powers of ten to 64 bits, rounded to nearest: the significand of an 80-bit long double is just
/// that.
static POWERS: LazyLock<Vec<Scaled>> = LazyLock::new(|| {
    (0..POWER_COUNT).map(|index| power_of_ten(POWER_FIRST + index * POWER_STEP)).collect()
});

fn power_of_ten(power: i32) -> Scaled {
    let value = X87DoubleExtended::from_str_r(&format!("1e{power}"), Round::NearestTiesToEven)
        .expect("a power of ten is a number")
        .value;
    let bits = value.to_bits();
    Scaled { significand: bits as u64, exponent: (bits >> 64) as i32 - 16_383 - 63 }
}

/// Writes the digits of a positive finite `value` and returns their number and the exponent `e` of
/// value = digits × 10^e.
pub(super) fn digits(value: f64, out: &mut [u8; DIGIT_COUNT_MAX]) -> (usize, i32) {
    let exact = decompose(value);
    let (lower, upper) = boundaries(exact);
    let (power, power_of_ten) = power_for(upper.exponent);
    let value = normalize(exact).times(power);
    let mut upper = upper.times(power);
    let mut lower = lower.times(power);
    // One unit inwards each, because the products are off by up to half a unit.
    lower.significand += 1;
    upper.significand -= 1;
    let (count, exponent) = generate(value, lower, upper, out);
    (count, exponent - power_of_ten)
}

fn decompose(value: f64) -> Scaled {
    let bits = value.to_bits();
    let fraction = bits & (HIDDEN_BIT - 1);
    match (bits >> FRACTION_BITS) as i32 & 0x7ff {
        0 => Scaled { significand: fraction, exponent: 1 - EXPONENT_BIAS },
        exponent => {
            Scaled { significand: fraction | HIDDEN_BIT, exponent: exponent - EXPONENT_BIAS }
        }
    }
}

fn normalize(value: Scaled) -> Scaled {
    let shift = value.significand.leading_zeros();
    Scaled { significand: value.significand << shift, exponent: value.exponent - shift as i32 }
}

/// Midpoints to the neighbours below and above, with one exponent. The neighbour below a power of
/// two is nearer.
fn boundaries(value: Scaled) -> (Scaled, Scaled) {
    let upper = normalize(Scaled {
        significand: (value.significand << 1) + 1,
        exponent: value.exponent - 1,
    });
    let shift = if value.significand == HIDDEN_BIT { 2 } else { 1 };
    let lower = (value.significand << shift) - 1;
    let lower = lower << (value.exponent - shift - upper.exponent);
    (Scaled { significand: lower, exponent: upper.exponent }, upper)
}

/// Cached power that scales a value with this exponent into the wanted range, and its exponent to
/// base ten.
fn power_for(exponent: i32) -> (Scaled, i32) {
    const LOG10_OF_2: f64 = std::f64::consts::LOG10_2;
    let guess = -f64::from(exponent + POWER_COUNT) * LOG10_OF_2;
    let mut index = ((guess - f64::from(POWER_FIRST)) / f64::from(POWER_STEP)) as usize;
    loop {
        let power = POWERS[index];
        let scaled = exponent + power.exponent + 64;
        if scaled < SCALED_EXPONENT_MIN {
            index += 1;
        } else if scaled > SCALED_EXPONENT_MAX {
            index -= 1;
        } else {
            return (power, POWER_FIRST + index as i32 * POWER_STEP);
        }
    }
}

impl Scaled {
    /// Upper half of the product, rounded half up.
    fn times(self, other: Scaled) -> Scaled {
        let product = u128::from(self.significand) * u128::from(other.significand);
        Scaled {
            significand: ((product + (1 << 63)) >> 64) as u64,
            exponent: self.exponent + other.exponent + 64,
        }
    }
}

/// Generates digits of `upper` until the rest is within the interval, then moves the last one
/// towards `value`.
fn generate(
    value: Scaled,
    lower: Scaled,
    upper: Scaled,
    out: &mut [u8; DIGIT_COUNT_MAX],
) -> (usize, i32) {
    let shift = -upper.exponent as u32;
    let one = 1u64 << shift;
    let mut distance = upper.significand - value.significand;
    let mut interval = upper.significand - lower.significand;
    let mut integral = upper.significand >> shift;
    let mut fraction = upper.significand & (one - 1);
    let mut count = 0;
    for power in (0..10).rev() {
        let unit = 10u64.pow(power);
        push_digit(out, &mut count, integral / unit);
        integral %= unit;
        let rest = (integral << shift) + fraction;
        if rest <= interval {
            approach(&mut out[count - 1], distance, interval, rest, unit << shift);
            return (count, power as i32);
        }
    }
    let mut exponent = 0;
    loop {
        fraction *= 10;
        interval *= 10;
        distance = distance.wrapping_mul(10);
        exponent -= 1;
        push_digit(out, &mut count, fraction >> shift);
        fraction &= one - 1;
        if fraction < interval {
            approach(&mut out[count - 1], distance, interval, fraction, one);
            return (count, exponent);
        }
    }
}

/// Appends a digit, unless it is a leading zero.
fn push_digit(out: &mut [u8; DIGIT_COUNT_MAX], count: &mut usize, digit: u64) {
    if digit > 0 || *count > 0 {
        out[*count] = b'0' + digit as u8;
        *count += 1;
    }
}

/// Lowers the last digit while that brings it nearer to the value and stays within the interval.
fn approach(last: &mut u8, distance: u64, interval: u64, mut rest: u64, unit: u64) {
    while rest < distance
        && interval - rest >= unit
        && (rest + unit < distance || distance - rest > rest + unit - distance)
    {
        *last -= 1;
        rest += unit;
    }
}
