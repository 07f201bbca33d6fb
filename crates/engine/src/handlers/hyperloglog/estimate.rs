//! Estimate of the number of elements, by the registers' values alone.
//!
//! Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog sketches",
//! arXiv:1702.01284.

use super::registers::{COUNTED_BITS, DENSE_BYTES, REGISTER_COUNT, REGISTER_MAX, dense_eights};

/// One half over the natural logarithm of two.
const ALPHA: f64 = 0.721_347_520_444_481_7;

/// Number of registers of each value.
pub(super) struct Histogram([u32; REGISTER_MAX as usize + 1]);

impl Histogram {
    pub(super) fn new() -> Histogram {
        Histogram([0; REGISTER_MAX as usize + 1])
    }

    pub(super) fn add(&mut self, value: u8, count: usize) {
        self.0[usize::from(value & REGISTER_MAX)] += count as u32;
    }

    fn add_eight(&mut self, values: [u8; 8]) {
        // Of few elements most registers are zero.
        if values == [0; 8] {
            self.add(0, 8);
        } else {
            values.into_iter().for_each(|value| self.add(value, 1));
        }
    }

    /// Histogram of one value per register.
    pub(super) fn of_values(values: &[u8]) -> Histogram {
        debug_assert_eq!(values.len(), REGISTER_COUNT);
        let mut histogram = Histogram::new();
        values.as_chunks().0.iter().for_each(|&eight| histogram.add_eight(eight));
        histogram
    }

    /// Histogram of dense registers.
    pub(super) fn of_dense(registers: &[u8]) -> Histogram {
        debug_assert_eq!(registers.len(), DENSE_BYTES);
        let mut histogram = Histogram::new();
        dense_eights(registers).for_each(|eight| histogram.add_eight(eight));
        histogram
    }

    fn count(&self, value: u32) -> f64 {
        f64::from(self.0[value as usize])
    }

    /// Estimated number of different elements.
    pub(super) fn estimate(&self) -> u64 {
        let registers = REGISTER_COUNT as f64;
        let full = self.count(COUNTED_BITS + 1);
        let mut sum = registers * tau((registers - full) / registers);
        for value in (1..=COUNTED_BITS).rev() {
            sum = (sum + self.count(value)) * 0.5;
        }
        sum += registers * sigma(self.count(0) / registers);
        (ALPHA * registers * registers / sum).round() as u64
    }
}

/// Correction for registers that are zero.
fn sigma(share: f64) -> f64 {
    if share == 1.0 {
        return f64::INFINITY;
    }
    let (mut power, mut factor, mut sum) = (share, 1.0, share);
    loop {
        let last = sum;
        power *= power;
        sum += power * factor;
        factor += factor;
        if sum == last {
            return sum;
        }
    }
}

/// Correction for registers that have the largest value.
fn tau(share: f64) -> f64 {
    if share == 0.0 || share == 1.0 {
        return 0.0;
    }
    let (mut root, mut factor, mut sum) = (share, 1.0, 1.0 - share);
    loop {
        let last = sum;
        root = root.sqrt();
        factor *= 0.5;
        sum -= (1.0 - root) * (1.0 - root) * factor;
        if sum == last {
            return sum / 3.0;
        }
    }
}
