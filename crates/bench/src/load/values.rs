//! Values: cut from one slab of bytes that all threads read.
//!
//! A value is a window into the slab, so that drawing one costs a random number, and a large one is
//! sent from there without being copied. Where a value must be predictable from its key
//! (`--verify`), window and size are a function of the key.

use rand_distr::Distribution;
use rand_distr::weighted::WeightedAliasIndex;

use crate::limits::SLAB_BYTES;
use crate::load::keys::{Random, below, mix};
use crate::load::settings::{Keys, Sizes, Values};

/// The values of a run.
#[derive(Debug)]
pub struct Slab {
    bytes: Vec<u8>,
    sizes: Drawn,
    random: bool,
    by_key: Option<u64>,
    keys: (u64, u64),
    size_by_key: bool,
}

#[derive(Debug)]
enum Drawn {
    Fixed(usize),
    Range(usize, usize),
    Weighted(Vec<usize>, WeightedAliasIndex<u32>),
}

/// A window into the slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First byte.
    pub start: usize,
    /// Length in bytes.
    pub size: usize,
}

impl Slab {
    /// Fills the slab. With `predictable`, a key always has the same value (`seed` decides which).
    pub fn new(values: &Values, keys: &Keys, seed: u64, predictable: bool) -> Self {
        let (sizes, size_max) = match &values.sizes {
            Sizes::Fixed(size) => (Drawn::Fixed(*size), *size),
            Sizes::Range(minimum, maximum) => (Drawn::Range(*minimum, *maximum), *maximum),
            Sizes::Weighted(list) => {
                let weights = list.iter().map(|&(_, weight)| weight).collect();
                let index = WeightedAliasIndex::new(weights)
                    .expect("the list was checked: not empty, a positive weight");
                let sizes: Vec<usize> = list.iter().map(|&(size, _)| size).collect();
                let size_max = sizes.iter().copied().max().unwrap_or(0);
                (Drawn::Weighted(sizes, index), size_max)
            }
        };
        let bytes = if values.random {
            let mut random = Random::new(mix(seed, 0x7661_6c75_6573));
            let length = SLAB_BYTES.max(2 * size_max);
            let mut bytes = Vec::with_capacity(length + 8);
            while bytes.len() < length {
                bytes.extend_from_slice(&random.next().to_le_bytes());
            }
            bytes
        } else {
            vec![b'x'; size_max]
        };
        Self {
            bytes,
            sizes,
            random: values.random,
            by_key: predictable.then_some(seed),
            keys: (keys.minimum, keys.maximum),
            size_by_key: values.size_by_key,
        }
    }

    /// The window for a value of `key`.
    #[inline]
    pub fn draw(&self, key: u64, random: &mut Random) -> Window {
        match self.by_key {
            None => self.window(key, random),
            Some(seed) => self.window(key, &mut Random::new(mix(seed, key))),
        }
    }

    fn window(&self, key: u64, random: &mut Random) -> Window {
        let size = match &self.sizes {
            Drawn::Fixed(size) => *size,
            Drawn::Range(minimum, maximum) if self.size_by_key => {
                let span = (self.keys.1 - self.keys.0).max(1) as f64;
                let position = (key.saturating_sub(self.keys.0)) as f64 / span;
                minimum + ((maximum - minimum) as f64 * position.min(1.0)) as usize
            }
            Drawn::Range(minimum, maximum) => {
                minimum + below(random, (maximum - minimum + 1) as u64) as usize
            }
            Drawn::Weighted(sizes, index) => sizes[index.sample(random.source())],
        };
        let start = if self.random && size > 0 {
            below(random, (self.bytes.len() - size + 1) as u64) as usize
        } else {
            0
        };
        Window { start, size }
    }

    /// The bytes of a window.
    pub fn bytes(&self, window: Window) -> &[u8] {
        &self.bytes[window.start..window.start + window.size]
    }

    /// The one size all values have, if so.
    pub fn fixed_size(&self) -> Option<usize> {
        match self.sizes {
            Drawn::Fixed(size) => Some(size),
            _ => None,
        }
    }

    /// True if all values of a size are the same bytes.
    pub fn is_uniform(&self) -> bool {
        !self.random
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Keys {
        Keys {
            prefix: String::new(),
            minimum: 0,
            maximum: 1000,
            zipf_exponent: 1.0,
            standard_deviation: 1.0,
            median: 1.0,
        }
    }

    #[test]
    fn sizes_follow_the_weights() {
        let sizes = Sizes::Weighted(vec![(10, 1), (20, 3), (30, 0)]);
        let values = Values { sizes, size_by_key: false, random: false };
        let slab = Slab::new(&values, &keys(), 1, false);
        let mut random = Random::new(7);
        let mut counts = [0u32; 4];
        for _ in 0..40_000 {
            counts[slab.draw(0, &mut random).size / 10] += 1;
        }
        assert_eq!(counts[3], 0);
        // Binomial(40000, 0.75): standard deviation 87.
        assert!((counts[2] as i64 - 30_000).abs() < 500, "{counts:?}");
    }

    #[test]
    fn predictable_values_depend_on_the_key_alone() {
        let values = Values { sizes: Sizes::Range(1, 500), size_by_key: false, random: true };
        let slab = Slab::new(&values, &keys(), 9, true);
        let mut random = Random::new(1);
        let first = slab.draw(5, &mut random);
        assert_eq!(slab.draw(5, &mut random), first);
        assert_ne!(slab.draw(6, &mut random), first);
        let other = Slab::new(&values, &keys(), 9, true);
        assert_eq!(slab.bytes(first), other.bytes(other.draw(5, &mut random)));
    }

    #[test]
    fn sizes_by_key_span_the_range() {
        let values = Values { sizes: Sizes::Range(100, 200), size_by_key: true, random: false };
        let slab = Slab::new(&values, &keys(), 1, false);
        let mut random = Random::new(7);
        let sizes: Vec<_> = [0, 500, 1000].map(|key| slab.draw(key, &mut random).size).into();
        assert_eq!(sizes, [100, 150, 200]);
    }
}
