//! Slots and hashes of four keys side by side, on processors with AVX2 and carry-less
//! multiplication.
//!
//! A pipeline brings many keys at once, whose hashes do not depend on each other. SipHash is
//! nothing but additions, rotations and exclusive ors of four words: with AVX2, four keys take the
//! instructions of one. A CRC is the remainder of a division of polynomials over GF(2); by
//! carry-less multiplication a key of up to 31 bytes takes five of these, and no table that evicts
//! keys from the nearest cache.
//!
//! The results are those of [`SlotNumber::of_key`] and [`hash`](crate::hash::hash). Longer keys,
//! and all keys on other processors, are hashed by these one at a time.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m128i, __m256i, _mm_clmulepi64_si128, _mm_cvtsi128_si32, _mm_loadu_si128, _mm_move_epi64,
    _mm_set_epi64x, _mm_set1_epi8, _mm_setr_epi8, _mm_shuffle_epi8, _mm_sub_epi8,
    _mm_unpackhi_epi64, _mm_xor_si128, _mm256_add_epi64, _mm256_and_si256, _mm256_blendv_epi8,
    _mm256_cmpeq_epi8, _mm256_cmpgt_epi8, _mm256_cmpgt_epi64, _mm256_extract_epi64,
    _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_or_si256, _mm256_permute2x128_si256,
    _mm256_set_epi64x, _mm256_set1_epi8, _mm256_set1_epi64x, _mm256_setr_epi8, _mm256_shuffle_epi8,
    _mm256_shuffle_epi32, _mm256_slli_epi64, _mm256_srli_epi64, _mm256_unpackhi_epi64,
    _mm256_unpacklo_epi64, _mm256_xor_si256,
};

use crate::hash::Seed;
use crate::key::{KeyBytes, KeyHash, LANES};
use crate::slot::SlotNumber;

/// Bytes that are loaded of each key: one vector.
const WINDOW_BYTES: usize = 32;
/// Longest key: SipHash appends a byte with its length, which must fit into the window as well.
const KEY_BYTES_MAX: usize = WINDOW_BYTES - 1;
const _: () = assert!(LANES * size_of::<u64>() == WINDOW_BYTES, "a lane for each word of a window");

/// Initial values of the four words of SipHash, before the seed is added.
const SIP_CONSTANTS: [u64; 4] =
    [0x736f_6d65_7073_6575, 0x646f_7261_6e64_6f6d, 0x6c79_6765_6e65_7261, 0x7465_6462_7974_6573];

type Window = [u8; WINDOW_BYTES];

/// Slots and hashes of four keys; none if one of them is too long, or the processor lacks the
/// instructions.
#[inline]
pub(crate) fn key_hashes(seed: &Seed, keys: &[KeyBytes<'_>; LANES]) -> Option<[KeyHash; LANES]> {
    if !is_supported() || keys.iter().any(|key| key.length() > KEY_BYTES_MAX) {
        return None;
    }
    // SAFETY: the processor has both features.
    Some(unsafe { short_key_hashes(seed, keys) })
}

/// True if the processor has the instructions.
#[inline]
fn is_supported() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("pclmulqdq")
}

#[target_feature(enable = "avx2,pclmulqdq")]
fn short_key_hashes(seed: &Seed, keys: &[KeyBytes<'_>; LANES]) -> [KeyHash; LANES] {
    let mut copies = [[0; WINDOW_BYTES]; LANES];
    let mut slots = [SlotNumber::default(); LANES];
    let mut windows = [_mm256_set1_epi8(0); LANES];
    for (lane, (key, copy)) in keys.iter().zip(&mut copies).enumerate() {
        let length = key.length();
        let window = match key.behind().first_chunk() {
            Some(window) => window,
            None => copied(key.key(), copy),
        };
        let bytes = _mm256_and_si256(load(window), is_below(length));
        slots[lane] = if has_brace(bytes) {
            slot_by_tag(*key)
        } else {
            SlotNumber::of_crc(crc(window, length))
        };
        windows[lane] = with_length(bytes, length);
    }
    let hashes = sip_hashes(seed, words_by_lane(windows), keys);
    let mut key_hashes = [KeyHash::default(); LANES];
    for (lane, key_hash) in key_hashes.iter_mut().enumerate() {
        *key_hash = KeyHash::new(slots[lane], hashes[lane]);
    }
    key_hashes
}

/// A call of its own: inlined, the search for a tag would be vectorized here with AVX2, for long
/// keys.
#[inline(never)]
fn slot_by_tag(key: KeyBytes<'_>) -> SlotNumber {
    SlotNumber::of_key(key.key())
}

/// Window of a key at the end of its buffer.
#[cold]
fn copied<'w>(key: &[u8], copy: &'w mut Window) -> &'w Window {
    copy[..key.len()].copy_from_slice(key);
    copy
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(window: &Window) -> __m256i {
    // SAFETY: a window has 32 bytes; the load needs no alignment.
    unsafe { _mm256_loadu_si256(window.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn indices() -> __m256i {
    _mm256_setr_epi8(
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24,
        25, 26, 27, 28, 29, 30, 31,
    )
}

/// Vector with ones in the first `length` bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn is_below(length: usize) -> __m256i {
    _mm256_cmpgt_epi8(_mm256_set1_epi8(length as i8), indices())
}

/// True if a key may have a tag, which is hashed in its place.
#[inline]
#[target_feature(enable = "avx2")]
fn has_brace(bytes: __m256i) -> bool {
    _mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(b'{' as i8))) != 0
}

/// Words that SipHash takes in: those of the key, the last one with the key's length in its highest
/// byte.
#[inline]
#[target_feature(enable = "avx2")]
fn with_length(bytes: __m256i, length: usize) -> __m256i {
    let is_place = _mm256_cmpeq_epi8(indices(), _mm256_set1_epi8((length | 7) as i8));
    _mm256_or_si256(bytes, _mm256_and_si256(is_place, _mm256_set1_epi8(length as i8)))
}

/// Transposition: from the words of each key to the first words of all keys, the second ones, and
/// so on.
#[inline]
#[target_feature(enable = "avx2")]
fn words_by_lane([a, b, c, d]: [__m256i; LANES]) -> [__m256i; LANES] {
    let (even, odd) = (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
    let (even_of_others, odd_of_others) =
        (_mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d));
    [
        _mm256_permute2x128_si256::<0x20>(even, even_of_others),
        _mm256_permute2x128_si256::<0x20>(odd, odd_of_others),
        _mm256_permute2x128_si256::<0x31>(even, even_of_others),
        _mm256_permute2x128_si256::<0x31>(odd, odd_of_others),
    ]
}

/// State of four computations of SipHash.
#[derive(Clone, Copy)]
struct Sip([__m256i; 4]);

impl Sip {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(seed: &Seed) -> Sip {
        let word = |key: u64, constant: u64| _mm256_set1_epi64x((key ^ constant).cast_signed());
        let [a, b, c, d] = SIP_CONSTANTS;
        let (low, high) = seed.words();
        Sip([word(low, a), word(high, b), word(low, c), word(high, d)])
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn round(self) -> Sip {
        let Sip([a, b, c, d]) = self;
        let a = _mm256_add_epi64(a, b);
        let c = _mm256_add_epi64(c, d);
        let b = _mm256_xor_si256(rotated::<13, 51>(b), a);
        let d = _mm256_xor_si256(rotated_by_16(d), c);
        let a = _mm256_add_epi64(rotated_by_32(a), d);
        let c = _mm256_add_epi64(c, b);
        let d = _mm256_xor_si256(rotated::<21, 43>(d), a);
        let b = _mm256_xor_si256(rotated::<17, 47>(b), c);
        Sip([a, b, rotated_by_32(c), d])
    }

    /// The state after another word of each key.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn with(self, word: __m256i) -> Sip {
        let Sip([a, b, c, d]) = self;
        let Sip([a, b, c, d]) = Sip([a, b, c, _mm256_xor_si256(d, word)]).round();
        Sip([_mm256_xor_si256(a, word), b, c, d])
    }

    /// This state where `lanes` has ones, and `old` elsewhere.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn only(self, lanes: __m256i, old: Sip) -> Sip {
        let (Sip([a, b, c, d]), Sip([old_a, old_b, old_c, old_d])) = (self, old);
        Sip([
            _mm256_blendv_epi8(old_a, a, lanes),
            _mm256_blendv_epi8(old_b, b, lanes),
            _mm256_blendv_epi8(old_c, c, lanes),
            _mm256_blendv_epi8(old_d, d, lanes),
        ])
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn finish(self) -> __m256i {
        let Sip([a, b, c, d]) = self;
        let c = _mm256_xor_si256(c, _mm256_set1_epi64x(0xff));
        let Sip([a, b, c, d]) = Sip([a, b, c, d]).round().round().round();
        _mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d))
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn rotated<const LEFT: i32, const RIGHT: i32>(words: __m256i) -> __m256i {
    const { assert!(LEFT + RIGHT == 64) };
    _mm256_or_si256(_mm256_slli_epi64::<LEFT>(words), _mm256_srli_epi64::<RIGHT>(words))
}

#[inline]
#[target_feature(enable = "avx2")]
fn rotated_by_16(words: __m256i) -> __m256i {
    let order = _mm256_setr_epi8(
        6, 7, 0, 1, 2, 3, 4, 5, 14, 15, 8, 9, 10, 11, 12, 13, 6, 7, 0, 1, 2, 3, 4, 5, 14, 15, 8, 9,
        10, 11, 12, 13,
    );
    _mm256_shuffle_epi8(words, order)
}

#[inline]
#[target_feature(enable = "avx2")]
fn rotated_by_32(words: __m256i) -> __m256i {
    _mm256_shuffle_epi32::<0b10_11_00_01>(words)
}

/// SipHash-1-3 of four keys; `words` holds the input of all keys, word by word.
#[inline]
#[target_feature(enable = "avx2")]
fn sip_hashes(seed: &Seed, words: [__m256i; LANES], keys: &[KeyBytes<'_>; LANES]) -> [u64; LANES] {
    let last = |lane: usize| keys[lane].length() / 8;
    let last_all = last(0).max(last(1)).max(last(2)).max(last(3));
    let signed = |lane: usize| last(lane) as i64;
    let last_each = _mm256_set_epi64x(signed(3), signed(2), signed(1), signed(0));
    let mut state = Sip::new(seed).with(words[0]);
    for (index, &word) in words.iter().enumerate().skip(1) {
        if index > last_all {
            break;
        }
        let has_word = _mm256_cmpgt_epi64(last_each, _mm256_set1_epi64x(index as i64 - 1));
        state = state.with(word).only(has_word, state);
    }
    let hashes = state.finish();
    [
        _mm256_extract_epi64::<0>(hashes).cast_unsigned(),
        _mm256_extract_epi64::<1>(hashes).cast_unsigned(),
        _mm256_extract_epi64::<2>(hashes).cast_unsigned(),
        _mm256_extract_epi64::<3>(hashes).cast_unsigned(),
    ]
}

/// Polynomial of CRC-16/XMODEM: x^16 + x^12 + x^5 + 1.
const POLYNOMIAL: u32 = 0x1_1021;

/// Quotient and remainder of x^`exponent` divided by the polynomial.
const fn divided_power(exponent: u32) -> (u128, u32) {
    let (mut quotient, mut remainder) = (0, 1);
    let mut power = 0;
    while power < exponent {
        remainder <<= 1;
        quotient <<= 1;
        if remainder & 1 << 16 != 0 {
            remainder ^= POLYNOMIAL;
            quotient |= 1;
        }
        power += 1;
    }
    (quotient, remainder)
}

const POWER_64: i64 = divided_power(64).1 as i64;
const POWER_128: i64 = divided_power(128).1 as i64;
const POWER_192: i64 = divided_power(192).1 as i64;

/// Quotient of x^80 without its highest term, x^64.
const QUOTIENT: i64 = divided_power(80).0 as u64 as i64;
const _: () = assert!(divided_power(80).0 >> 64 == 1);

/// CRC-16/XMODEM of the first `length` bytes.
///
/// The key is a polynomial N, its first byte the highest; zeros ahead of it change nothing, for
/// this CRC begins with zero. The result is N·x^16 mod P. The part above the lowest 64 bits of N is
/// multiplied by the remainder of its power of x, twice, which leaves some U of 64 bits. The
/// quotient of U·x^16 is then ⌊U·⌊x^80 / P⌋ / x^64⌋ without error (Barrett).
#[inline]
#[target_feature(enable = "avx2,pclmulqdq")]
fn crc(window: &Window, length: usize) -> u16 {
    let ahead = length.saturating_sub(16);
    let high = reversed(&window[..16], ahead);
    let low = reversed(&window[ahead..ahead + 16], length - ahead);
    let powers = _mm_set_epi64x(POWER_192, POWER_128);
    let constants = _mm_set_epi64x(POWER_64, QUOTIENT);
    let folded = _mm_xor_si128(
        _mm_xor_si128(
            _mm_clmulepi64_si128::<0x11>(high, powers),
            _mm_clmulepi64_si128::<0x00>(high, powers),
        ),
        _mm_xor_si128(_mm_clmulepi64_si128::<0x11>(low, constants), _mm_move_epi64(low)),
    );
    let folded = _mm_xor_si128(folded, _mm_clmulepi64_si128::<0x11>(folded, constants));
    let product = _mm_clmulepi64_si128::<0x00>(folded, constants);
    let quotient = _mm_xor_si128(_mm_unpackhi_epi64(product, product), folded);
    // Remainder of a dividend whose lowest 16 bits are zero: the low bits of the quotient times
    // x^12 + x^5 + 1.
    let quotient = _mm_cvtsi128_si32(quotient) as u16;
    quotient ^ quotient << 5 ^ quotient << 12
}

/// The first `length` bytes of `bytes`, the last one lowest; zeros above.
#[inline]
#[target_feature(enable = "avx2")]
fn reversed(bytes: &[u8], length: usize) -> __m128i {
    let bytes: &[u8; 16] = bytes.first_chunk().expect("the halves of a window have sixteen bytes");
    // SAFETY: the array has sixteen bytes; the load needs no alignment.
    let bytes = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
    let indices = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    // A negative index gives a zero.
    _mm_shuffle_epi8(bytes, _mm_sub_epi8(_mm_set1_epi8(length as i8 - 1), indices))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::hash;

    /// Pseudo-random numbers (SplitMix64).
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ mixed >> 31
        }

        fn below(&mut self, bound: usize) -> usize {
            (self.next() % bound as u64) as usize
        }
    }

    /// Hashes keys that lie one behind the other, the last one at the end of its buffer, and
    /// compares each with the results of the crates `siphasher` and `crc`.
    fn check(random: &mut Random, lengths: [usize; LANES], alphabet: &[u8]) {
        let buffer: Vec<u8> = (0..lengths.iter().sum::<usize>())
            .map(|_| alphabet[random.below(alphabet.len())])
            .collect();
        let seed = Seed::new(random.next(), random.next());
        let mut keys = [KeyBytes::default(); LANES];
        let mut start = 0;
        for (key, length) in keys.iter_mut().zip(lengths) {
            *key = KeyBytes::new(&buffer[start..], length);
            start += length;
        }
        let Some(hashes) = key_hashes(&seed, &keys) else {
            return assert!(
                !is_supported() || lengths.iter().any(|&length| length > KEY_BYTES_MAX)
            );
        };
        for (key, found) in keys.iter().zip(hashes) {
            let key = key.key();
            assert_eq!(found.slot, SlotNumber::of_key(key), "slot of {}", key.escape_ascii());
            assert_eq!(found.hash, hash(&seed, key), "hash of {}", key.escape_ascii());
        }
    }

    #[test]
    fn four_keys_are_hashed_as_each_alone() {
        let mut random = Random(1);
        let all: Vec<u8> = (0..=u8::MAX).collect();
        for length in 0..=KEY_BYTES_MAX {
            check(&mut random, [length; LANES], &all);
            check(&mut random, [length; LANES], b"\0");
            check(&mut random, [length; LANES], b"\xff");
        }
        for round in 0..20_000 {
            let lengths = [(); LANES].map(|()| random.below(KEY_BYTES_MAX + 1));
            check(&mut random, lengths, if round % 2 == 0 { &all } else { b"{}ab" });
        }
    }

    #[test]
    fn a_key_that_is_too_long_is_not_hashed_in_part() {
        let mut random = Random(2);
        for lane in 0..LANES {
            for length in [KEY_BYTES_MAX + 1, 33, 64, 200] {
                let mut lengths = [16; LANES];
                lengths[lane] = length;
                check(&mut random, lengths, b"abc");
            }
        }
    }
}
