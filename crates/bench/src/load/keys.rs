//! Random numbers and key patterns.
//!
//! Each connection has its own generator and its own source of key numbers per command, so that
//! drawing a key touches nothing shared. Without distinct seeds all connections draw the same
//! sequence, as memtier does by default; with them each draws its own.

use rand_distr::{Distribution, Normal, Zipf};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::load::cluster::NodeKeys;
use crate::load::replay::Replay;
use crate::load::settings::Keys;

/// Random numbers of one connection.
#[derive(Clone, Debug)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// The next 64 bits.
    #[inline]
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number in (0, 1].
    pub fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// The generator for `rand_distr`.
    pub fn source(&mut self) -> &mut Xoshiro256PlusPlus {
        &mut self.0
    }
}

/// A seed from the clock, short enough to be typed again.
pub(crate) fn drawn_seed() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(1, |since| since.as_nanos() as u64 % 1_000_000_000)
}

/// A number below `span` (at least 1). By multiplication: no value is preferred by more than
/// `span` in 2^64, which no run can see.
#[inline]
pub fn below(random: &mut Random, span: u64) -> u64 {
    ((u128::from(random.next()) * u128::from(span)) >> 64) as u64
}

/// Two numbers to a seed (the finalizer of SplitMix64).
pub fn mix(a: u64, b: u64) -> u64 {
    let mut mixed = a ^ b.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Pattern of the keys that a command uses, under memtier's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// `R`: uniform.
    Uniform,
    /// `S`: each connection walks the whole range.
    Sequential,
    /// `P`: each connection walks its own part of the range.
    Parallel,
    /// `G`: normal around the median.
    Gaussian,
    /// `Z`: zipf, the smallest key the most frequent.
    Zipf,
}

impl Pattern {
    /// From memtier's letter.
    pub fn from_letter(letter: &str) -> Option<Self> {
        Some(match letter {
            "R" | "r" => Self::Uniform,
            "S" | "s" => Self::Sequential,
            "P" | "p" => Self::Parallel,
            "G" | "g" => Self::Gaussian,
            "Z" | "z" => Self::Zipf,
            _ => return None,
        })
    }

    /// memtier's letter.
    pub fn letter(self) -> &'static str {
        match self {
            Self::Uniform => "R",
            Self::Sequential => "S",
            Self::Parallel => "P",
            Self::Gaussian => "G",
            Self::Zipf => "Z",
        }
    }
}

/// Key numbers for one command on one connection.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// Uniform: the first key and the number of keys.
    Uniform(u64, u64),
    /// One after the other, from and to inclusive, then again.
    Walk {
        /// First.
        minimum: u64,
        /// Last.
        maximum: u64,
        /// Next one given.
        next: u64,
    },
    /// Lines of a recording, `step` apart, beginning again behind the last.
    Stride {
        /// Next one given.
        next: u64,
        /// Distance to the one after it.
        step: u64,
        /// Lines.
        count: u64,
    },
    /// Redrawn until within the range.
    Gaussian(Normal<f64>, u64, u64),
    /// Rank 1 is the smallest key.
    Zipf(Zipf<f64>, u64),
    /// Keys of another source that a node of a cluster owns.
    OfNode(Box<NodeKeys>),
}

impl KeySource {
    /// The source for connection `index` of `count`.
    pub fn new(pattern: Pattern, keys: &Keys, index: u64, count: u64) -> Self {
        let span = keys.maximum - keys.minimum + 1;
        match pattern {
            Pattern::Uniform => Self::Uniform(keys.minimum, span),
            Pattern::Sequential => {
                Self::Walk { minimum: keys.minimum, maximum: keys.maximum, next: keys.minimum }
            }
            Pattern::Parallel => {
                let part = |number: u64| {
                    keys.minimum
                        + (u128::from(span) * u128::from(number) / u128::from(count)) as u64
                };
                let minimum = part(index);
                let maximum = part(index + 1).max(minimum + 1) - 1;
                Self::Walk { minimum, maximum, next: minimum }
            }
            Pattern::Gaussian => {
                let normal = Normal::new(keys.median, keys.standard_deviation)
                    .expect("the deviation was checked: finite and positive");
                Self::Gaussian(normal, keys.minimum, keys.maximum)
            }
            Pattern::Zipf => {
                let zipf = Zipf::new(span as f64, keys.zipf_exponent)
                    .expect("the exponent was checked: finite and not negative");
                Self::Zipf(zipf, keys.minimum)
            }
        }
    }

    /// Line numbers of a recording for connection `index` of `count`: in turn, the connections take
    /// lines as cards are dealt, so that together they send each as often and know nothing of each
    /// other.
    pub fn of_replay(replay: &Replay, index: u64, count: u64) -> Self {
        let lines = replay.len().max(1);
        match replay.is_random() {
            true => Self::Uniform(0, lines),
            false => Self::Stride { next: index % lines, step: count % lines, count: lines },
        }
    }

    /// The next key number.
    #[inline]
    pub fn next(&mut self, random: &mut Random) -> u64 {
        match self {
            Self::Uniform(minimum, span) => *minimum + below(random, *span),
            Self::Walk { minimum, maximum, next } => {
                let key = *next;
                *next = if key >= *maximum { *minimum } else { key + 1 };
                key
            }
            Self::Stride { next, step, count } => {
                let line = *next;
                *next = (line + *step) % *count;
                line
            }
            Self::Gaussian(normal, minimum, maximum) => loop {
                let key = normal.sample(random.source()).round();
                if key >= *minimum as f64 && key <= *maximum as f64 {
                    return key as u64;
                }
            },
            Self::Zipf(zipf, minimum) => *minimum + zipf.sample(random.source()) as u64 - 1,
            Self::OfNode(keys) => keys.next(random),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(minimum: u64, maximum: u64) -> Keys {
        let centre = (minimum + maximum) as f64 / 2.0;
        Keys {
            prefix: "k".into(),
            minimum,
            maximum,
            zipf_exponent: 1.0,
            standard_deviation: (maximum - minimum) as f64 / 6.0,
            median: centre,
        }
    }

    fn draw(pattern: Pattern, keys: &Keys, count: usize) -> Vec<u64> {
        let mut source = KeySource::new(pattern, keys, 0, 1);
        let mut random = Random::new(42);
        (0..count).map(|_| source.next(&mut random)).collect()
    }

    #[test]
    fn uniform_keys_pass_a_chi_square_test() {
        let mut counts = [0f64; 100];
        for key in draw(Pattern::Uniform, &keys(10, 109), 100_000) {
            counts[key as usize - 10] += 1.0;
        }
        let chi_square: f64 = counts.iter().map(|count| (count - 1000.0).powi(2) / 1000.0).sum();
        // 99 degrees of freedom: p = 0.001 at 148.2.
        assert!(chi_square < 148.2, "{chi_square}");
    }

    #[test]
    fn zipf_keys_have_harmonic_frequencies() {
        let drawn = draw(Pattern::Zipf, &keys(0, 999), 200_000);
        let harmonic: f64 = (1..=1000).map(|rank| 1.0 / f64::from(rank)).sum();
        for rank in [1u64, 2, 5, 10, 100] {
            let expected = 200_000.0 / harmonic / rank as f64;
            let seen = drawn.iter().filter(|&&key| key == rank - 1).count() as f64;
            assert!(
                (seen - expected).abs() < 5.0 * expected.sqrt(),
                "rank {rank}: {seen} {expected}"
            );
        }
        assert!(drawn.iter().all(|&key| key <= 999));
    }

    #[test]
    fn gaussian_keys_have_the_moments_asked_for() {
        let drawn = draw(Pattern::Gaussian, &keys(0, 60_000), 100_000);
        let mean = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64;
        let variance =
            drawn.iter().map(|&key| (key as f64 - mean).powi(2)).sum::<f64>() / drawn.len() as f64;
        assert!((mean - 30_000.0).abs() < 200.0, "{mean}");
        // Cut at three deviations: the deviation shrinks to 0.986 of 10,000.
        assert!((variance.sqrt() - 9_866.0).abs() < 150.0, "{}", variance.sqrt());
    }

    #[test]
    fn parallel_parts_cover_the_range_once() {
        let keys = keys(1, 1000);
        let mut seen = Vec::new();
        for index in 0..7 {
            let KeySource::Walk { minimum, maximum, .. } =
                KeySource::new(Pattern::Parallel, &keys, index, 7)
            else {
                unreachable!()
            };
            seen.extend(minimum..=maximum);
        }
        assert_eq!(seen, (1..=1000).collect::<Vec<_>>());
    }

    #[test]
    fn sequential_keys_wrap() {
        assert_eq!(draw(Pattern::Sequential, &keys(3, 5), 5), [3, 4, 5, 3, 4]);
    }
}
