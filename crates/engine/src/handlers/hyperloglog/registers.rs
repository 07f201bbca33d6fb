//! Registers, and what an element does to one.

/// Bits of an element's hash that number its register.
const INDEX_BITS: u32 = 14;

/// Registers of a HyperLogLog.
pub(super) const REGISTER_COUNT: usize = 1 << INDEX_BITS;

/// Bits of the hash whose zeros are counted; a register is at most one more.
pub(super) const COUNTED_BITS: u32 = u64::BITS - INDEX_BITS;

/// Bits of a dense register.
const REGISTER_BITS: usize = 6;

/// Largest value of a dense register.
pub(super) const REGISTER_MAX: u8 = (1 << REGISTER_BITS) - 1;

/// Bytes of all dense registers.
pub(super) const DENSE_BYTES: usize = REGISTER_COUNT * REGISTER_BITS / 8;

/// Trace of an element: its register, and the value that this has at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trace {
    pub(super) register: usize,
    pub(super) value: u8,
}

impl Trace {
    pub(super) fn of(element: &[u8]) -> Trace {
        let hash = murmur2(element, 0xadc8_3b19);
        let counted = hash >> INDEX_BITS | 1 << COUNTED_BITS;
        Trace {
            register: hash as usize % REGISTER_COUNT,
            value: counted.trailing_zeros() as u8 + 1,
        }
    }
}

/// MurmurHash2, the variant of 64 bits.
fn murmur2(bytes: &[u8], seed: u64) -> u64 {
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;
    let (words, rest) = bytes.as_chunks::<8>();
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(FACTOR);
        word ^= word >> SHIFT;
        hash = (hash ^ word.wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
    }
    hash ^= hash >> SHIFT;
    hash = hash.wrapping_mul(FACTOR);
    hash ^ hash >> SHIFT
}

/// First byte of a dense register, and the bit of it that the register begins at.
fn place(register: usize) -> (usize, usize) {
    (register * REGISTER_BITS / 8, register * REGISTER_BITS % 8)
}

/// Value of a dense register of which `byte` gives the bytes.
pub(super) fn dense_value(register: usize, byte: impl Fn(usize) -> u8) -> u8 {
    let (first, shift) = place(register);
    // The last register ends with the last byte.
    let second = if shift + REGISTER_BITS > 8 { byte(first + 1) } else { 0 };
    (u16::from_le_bytes([byte(first), second]) >> shift) as u8 & REGISTER_MAX
}

/// Sets a dense register, whose bytes are read by `byte`: returns the first of its bytes, its new
/// bytes and their number.
pub(super) fn with_dense_value(
    register: usize,
    value: u8,
    byte: impl Fn(usize) -> u8,
) -> (usize, [u8; 2], usize) {
    let (first, shift) = place(register);
    let count = if shift + REGISTER_BITS > 8 { 2 } else { 1 };
    let second = if count == 2 { byte(first + 1) } else { 0 };
    let old = u16::from_le_bytes([byte(first), second]);
    let new = old & !(u16::from(REGISTER_MAX) << shift) | u16::from(value) << shift;
    (first, new.to_le_bytes(), count)
}

/// Spreads eight values of six bits, which a word begins with, over its bytes.
fn spread(packed: u64) -> u64 {
    let halves = packed & 0xff_ffff | (packed & 0xff_ffff << 24) << 8;
    let pairs = halves & 0xfff_0000_0fff | (halves & 0xff_f000_00ff_f000) << 4;
    pairs & 0x003f_003f_003f_003f | (pairs & 0x0fc0_0fc0_0fc0_0fc0) << 2
}

/// Packs eight values, one in each byte of a word, into the bits that it begins with.
fn pack(values: u64) -> u64 {
    let pairs = values & 0x003f_003f_003f_003f | values >> 2 & 0x0fc0_0fc0_0fc0_0fc0;
    let halves = pairs & 0xfff_0000_0fff | pairs >> 4 & 0xff_f000_00ff_f000;
    halves & 0xff_ffff | halves >> 8 & 0xff_ffff << 24
}

/// Values of all dense registers, eight at a time.
pub(super) fn dense_eights(registers: &[u8]) -> impl Iterator<Item = [u8; 8]> {
    registers.as_chunks::<6>().0.iter().map(|&[a, b, c, d, e, f]| {
        spread(u64::from_le_bytes([a, b, c, d, e, f, 0, 0])).to_le_bytes()
    })
}

/// Registers that are raised or packed together: loops of this fixed length become vectors.
const GROUP_REGISTERS: usize = 64;
const GROUP_BYTES: usize = GROUP_REGISTERS * REGISTER_BITS / 8;

/// Raises values, one per register, to those of all dense registers.
pub(super) fn raise_to_dense(values: &mut [u8], registers: &[u8]) {
    let groups = values.as_chunks_mut::<GROUP_REGISTERS>().0.iter_mut();
    for (values, packed) in groups.zip(registers.as_chunks::<GROUP_BYTES>().0) {
        let mut dense = [[0; 8]; GROUP_REGISTERS / 8];
        dense.iter_mut().zip(dense_eights(packed)).for_each(|(eight, dense)| *eight = dense);
        let pairs = values.iter_mut().zip(dense.as_flattened());
        pairs.for_each(|(value, dense)| *value = (*dense).max(*value));
    }
}

/// Sets all dense registers to values, one per register.
pub(super) fn set_all_dense(registers: &mut [u8], values: &[u8]) {
    let groups = registers.as_chunks_mut::<GROUP_BYTES>().0.iter_mut();
    for (packed, values) in groups.zip(values.as_chunks::<GROUP_REGISTERS>().0) {
        let mut words = [0; GROUP_REGISTERS / 8];
        for (word, &eight) in words.iter_mut().zip(values.as_chunks().0) {
            *word = pack(u64::from_le_bytes(eight));
        }
        for (six, word) in packed.as_chunks_mut::<6>().0.iter_mut().zip(words) {
            six.copy_from_slice(&word.to_le_bytes()[..6]);
        }
    }
}

/// Raises the register of a trace among all dense ones; true if it was smaller.
pub(super) fn raise_dense(registers: &mut [u8], Trace { register, value }: Trace) -> bool {
    let is_raised = value > dense_value(register, |at| registers[at]);
    if is_raised {
        set_dense(registers, register, value);
    }
    is_raised
}

/// Sets a register among all dense ones.
pub(super) fn set_dense(registers: &mut [u8], register: usize, value: u8) {
    let (first, bytes, count) = with_dense_value(register, value, |at| registers[at]);
    registers[first..first + count].copy_from_slice(&bytes[..count]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_registers_do_not_touch_each_other() {
        let mut registers = vec![0; DENSE_BYTES];
        let mut model = vec![0; REGISTER_COUNT];
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..100_000 {
            let (register, value) = (random.usize(..REGISTER_COUNT), random.u8(..=REGISTER_MAX));
            set_dense(&mut registers, register, value);
            model[register] = value;
        }
        for (register, &value) in model.iter().enumerate() {
            assert_eq!(dense_value(register, |at| registers[at]), value);
        }
    }

    #[test]
    fn all_registers_at_once_are_as_one_by_one() {
        let mut random = fastrand::Rng::with_seed(6);
        let random_values = |random: &mut fastrand::Rng| -> Vec<u8> {
            (0..REGISTER_COUNT).map(|_| random.u8(..=REGISTER_MAX)).collect()
        };
        let (stored, mut values) = (random_values(&mut random), random_values(&mut random));
        let (mut registers, mut at_once) = (vec![0; DENSE_BYTES], vec![0xff; DENSE_BYTES]);
        for (register, &value) in stored.iter().enumerate() {
            set_dense(&mut registers, register, value);
        }
        set_all_dense(&mut at_once, &stored);
        assert!(at_once == registers);
        let raised: Vec<u8> =
            values.iter().zip(&stored).map(|(&value, &stored)| value.max(stored)).collect();
        raise_to_dense(&mut values, &registers);
        assert!(values == raised);
    }
}
