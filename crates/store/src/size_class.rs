//! Sizes that the allocator gives: memory is counted by them, so that a limit of live bytes is one
//! of memory.

/// Bytes that an allocation takes: the next size class of jemalloc, of which there are four between
/// two powers of two. mimalloc's are these or finer ones.
#[inline]
pub(crate) fn size_class(bytes: usize) -> usize {
    let step = if bytes <= 128 { 16 } else { bytes.next_power_of_two() / 8 };
    // A division takes as long as the allocator's fast path: the steps are powers of two.
    (bytes + step - 1) & !(step - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_classes_waste_at_most_a_fifth_past_the_smallest() {
        for bytes in 17..100_000 {
            let class = size_class(bytes);
            assert!(class >= bytes && class.is_multiple_of(16));
            assert!(bytes < 64 || (class - bytes) * 4 < bytes, "{bytes} -> {class}");
            assert_eq!(size_class(class), class);
        }
    }

    #[test]
    fn size_classes_are_those_of_jemalloc() {
        for (bytes, class) in [
            (29, 32),
            (129, 160),
            (257, 320),
            (1000, 1024),
            (1025, 1280),
            (14_337, 16_384),
            (16_385, 20_480),
            ((4 << 20) + 1, 5 << 20),
        ] {
            assert_eq!(size_class(bytes), class, "{bytes}");
        }
    }
}
