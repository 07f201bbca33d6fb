//! When and how often a key was used: the meaning of an entry's recency field.
//!
//! ```text
//! 31                              8 7          0
//! | second of the last use, 24 bits | frequency |
//! ```
//!
//! Seconds repeat after 194 days, as in Valkey: what idles longer counts as used more recently. The
//! frequency is Valkey's logarithmic counter: a new key has five, a use increments it with a chance
//! that falls with its height, and minutes without use take it down. It is kept under the LFU
//! policies only; under others it is always that of a new key, so that a key that was used in this
//! second is told by one comparison, and a change of the policy finds a sane value.

use rand_xoshiro::rand_core::Rng;

/// Frequency of a new key.
const NEW_FREQUENCY: u8 = 5;
const SECONDS_MASK: u32 = 0x00ff_ffff;

/// Parameters of the frequency: `lfu-log-factor` and `lfu-decay-time`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrequencyScale {
    /// Slowness of its growth.
    pub log_factor: u32,
    /// Minutes without use after which it is one less; 0 is never.
    pub decay_minutes: u32,
}

/// Value of an entry's recency field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UseStamp(u32);

impl UseStamp {
    /// Value that no use compares equal to, or nearly: a counted use is never skipped.
    pub(crate) const NEVER: UseStamp = UseStamp(u32::MAX);

    /// Stamp of an entry.
    pub(crate) fn of_field(field: u32) -> UseStamp {
        UseStamp(field)
    }

    /// Stamp of a new key.
    pub(crate) fn new(now_s: u64) -> UseStamp {
        UseStamp::with_frequency(now_s, NEW_FREQUENCY)
    }

    /// Stamp of a key with a frequency, used now.
    pub(crate) fn with_frequency(now_s: u64, frequency: u8) -> UseStamp {
        UseStamp((now_s as u32 & SECONDS_MASK) << 8 | u32::from(frequency))
    }

    /// Value for an entry's field.
    #[inline(always)]
    pub(crate) fn field(self) -> u32 {
        self.0
    }

    /// Second of the last use, 24 bits.
    pub(crate) fn second(self) -> u32 {
        self.0 >> 8
    }

    /// Seconds since the last use.
    pub(crate) fn idle_s(self, now_s: u64) -> u32 {
        (now_s as u32).wrapping_sub(self.second()) & SECONDS_MASK
    }

    /// Frequency now: one less for each `decay_minutes` that began since the last use.
    pub(crate) fn frequency(self, now_s: u64, scale: FrequencyScale) -> u8 {
        let used_s = now_s.saturating_sub(u64::from(self.idle_s(now_s)));
        let minutes = now_s / 60 - used_s / 60;
        let lost = minutes.checked_div(u64::from(scale.decay_minutes)).unwrap_or(0);
        (self.0 as u8).saturating_sub(u8::try_from(lost).unwrap_or(u8::MAX))
    }

    /// The stamp behind another use.
    pub(crate) fn used(self, now_s: u64, scale: FrequencyScale, random: &mut impl Rng) -> UseStamp {
        let frequency = self.frequency(now_s, scale);
        let height = u64::from(frequency.saturating_sub(NEW_FREQUENCY));
        let rarity = height * u64::from(scale.log_factor) + 1;
        // One of `rarity` uses counts.
        let counts = (u128::from(random.next_u64()) * u128::from(rarity)) >> 64 == 0;
        UseStamp::with_frequency(now_s, frequency.saturating_add(u8::from(counts)))
    }
}

#[cfg(test)]
mod tests {
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::SeedableRng;

    use super::*;

    const SCALE: FrequencyScale = FrequencyScale { log_factor: 10, decay_minutes: 1 };

    #[test]
    fn idle_time_survives_the_wrap_of_seconds() {
        let at = (1 << 24) * 100 - 10;
        let stamp = UseStamp::new(at);
        assert_eq!(stamp.idle_s(at), 0);
        assert_eq!(stamp.idle_s(at + 25), 25);
        assert_eq!(stamp.frequency(at + 25, SCALE), 5);
    }

    #[test]
    fn frequency_falls_by_one_per_minute_that_began() {
        let stamp = UseStamp::with_frequency(59, 100);
        assert_eq!(stamp.frequency(59, SCALE), 100);
        assert_eq!(stamp.frequency(60, SCALE), 99);
        assert_eq!(stamp.frequency(60 * 40, SCALE), 60);
        assert_eq!(stamp.frequency(60 * 1000, SCALE), 0);
        let slow = FrequencyScale { decay_minutes: 10, ..SCALE };
        assert_eq!(stamp.frequency(60 * 25, slow), 98);
        let never = FrequencyScale { decay_minutes: 0, ..SCALE };
        assert_eq!(stamp.frequency(60 * 1000, never), 100);
    }

    /// Valkey's table for `lfu-log-factor 10`: about 10 behind 100 uses, 18 behind 1,000, 142
    /// behind 100,000.
    #[test]
    fn frequency_grows_as_valkey_documents() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut behind = |uses: u32, scale: FrequencyScale| {
            let new = UseStamp::new(0);
            let last = (0..uses).fold(new, |stamp, _| stamp.used(0, scale, &mut random));
            u32::from(last.frequency(0, scale))
        };
        for (uses, wanted) in [(100, 9..=11), (1000, 17..=20), (100_000, 138..=150)] {
            let mean = (0..20).map(|_| behind(uses, SCALE)).sum::<u32>() / 20;
            assert!(wanted.contains(&mean), "{mean} behind {uses} uses");
        }
        assert_eq!(behind(300, FrequencyScale { log_factor: 0, ..SCALE }), 255);
    }
}
