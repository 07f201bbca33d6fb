//! Number of set bits of many bytes.
#![allow(unsafe_code)]

/// Words that are added bit by bit.
type Words = [u64; 4];

fn words(block: &[u8; 32]) -> Words {
    let bytes = block.as_chunks::<8>().0;
    std::array::from_fn(|at| u64::from_ne_bytes(bytes[at]))
}

/// Adds three numbers of one bit for each bit of a word: the bits of value one and of value two.
#[inline(always)]
fn add(a: Words, b: Words, c: Words) -> (Words, Words) {
    let one = std::array::from_fn(|at| a[at] ^ b[at] ^ c[at]);
    let two = std::array::from_fn(|at| a[at] & b[at] | (a[at] ^ b[at]) & c[at]);
    (one, two)
}

fn count(words: Words) -> u64 {
    words.into_iter().map(|word| u64::from(word.count_ones())).sum()
}

#[inline(always)]
fn count_of_words(words: &[[u8; 8]]) -> u64 {
    words.iter().map(|word| u64::from(u64::from_ne_bytes(*word).count_ones())).sum()
}

fn count_of_bytes(bytes: &[u8]) -> u64 {
    bytes.iter().map(|byte| u64::from(byte.count_ones())).sum()
}

/// Number of bits that are set.
#[must_use]
pub fn count_ones(bytes: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has it.
        return unsafe { count_by_vectors(bytes) };
    }
    count_by_additions(bytes)
}

/// Word by word: the compiler makes vectors of four of it, whose bits are counted by looking up
/// halves of bytes. That is as fast as the memory; additions, as below, are not faster here.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn count_by_vectors(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    count_of_words(words) + count_of_bytes(rest)
}

/// Words are added bit by bit before the bits are counted, one word of eight: not every processor
/// that this is built for has an instruction that counts, or that looks up.
fn count_by_additions(bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<256>();
    let [mut one, mut two, mut four] = [Words::default(); 3];
    let mut eights = 0;
    for block in blocks {
        let block = block.as_chunks::<32>().0;
        let at = |index: usize| words(&block[index]);
        let (sum, twos_a) = add(one, at(0), at(1));
        let (sum, twos_b) = add(sum, at(2), at(3));
        let (sum, twos_c) = add(sum, at(4), at(5));
        let (sum, twos_d) = add(sum, at(6), at(7));
        let (twos, fours_a) = add(two, twos_a, twos_b);
        let (twos, fours_b) = add(twos, twos_c, twos_d);
        let (fours, eight) = add(four, fours_a, fours_b);
        (one, two, four) = (sum, twos, fours);
        eights += count(eight);
    }
    let (words, rest) = rest.as_chunks::<8>();
    let of_blocks = 8 * eights + 4 * count(four) + 2 * count(two) + count(one);
    of_blocks + count_of_words(words) + count_of_bytes(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_blocks_words_and_bytes_are_counted_alike() {
        for length in [0, 1, 7, 8, 9, 255, 256, 257, 511, 512, 1031, 4096, 20_003] {
            let any: Vec<u8> =
                (0..length).map(|at| (at * 37 + (at >> 8) * 101 + 5) as u8).collect();
            for bytes in [any, vec![0xff; length]] {
                let one_by_one: u64 = bytes.iter().map(|byte| u64::from(byte.count_ones())).sum();
                assert_eq!(count_ones(&bytes), one_by_one, "{length} bytes");
                assert_eq!(count_by_additions(&bytes), one_by_one, "{length} bytes");
            }
        }
    }
}
