//! Short payload in its frame, appended with one check of the capacity instead of three: the reply
//! of a `GET`.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use super::run::Run;

/// Appends the first `header_bytes` of `header`, `payload` and a line end.
///
/// # Panics
/// When `header_bytes` is above eight.
#[inline]
pub(super) fn append_framed(run: &mut Run, header: [u8; 8], header_bytes: usize, payload: &[u8]) {
    assert!(header_bytes <= header.len());
    // The whole header is written, because a copy of variable length is a call; the payload
    // overwrites the bytes behind `header_bytes`.
    if !run.reserve(header.len() + payload.len() + 2) {
        return;
    }
    let out = &mut run.bytes;
    let spare = out.spare_capacity_mut();
    spare[..8].copy_from_slice(&header.map(MaybeUninit::new));
    let (target, rest) = spare[header_bytes..].split_at_mut(payload.len());
    // SAFETY: initialized bytes are valid as bytes that need not be.
    let payload_bytes = unsafe { &*(std::ptr::from_ref(payload) as *const [MaybeUninit<u8>]) };
    copy(target, payload_bytes);
    rest[..2].copy_from_slice(&b"\r\n".map(MaybeUninit::new));
    let end = out.len() + header_bytes + payload.len() + 2;
    // SAFETY: all bytes up to `end` were just written, into capacity that was there.
    unsafe { out.set_len(end) };
}

/// Copies bytes of one length, up to 64 without a call: their first and their last ones, which
/// overlap.
#[inline]
fn copy<T: Copy>(target: &mut [T], source: &[T]) {
    fn copy_ends<const LENGTH: usize, T: Copy>(target: &mut [T], source: &[T]) -> Option<()> {
        *target.first_chunk_mut::<LENGTH>()? = *source.first_chunk()?;
        *target.last_chunk_mut::<LENGTH>()? = *source.last_chunk()?;
        Some(())
    }
    let copied = match source.len() {
        8..=16 => copy_ends::<8, T>(target, source),
        17..=32 => copy_ends::<16, T>(target, source),
        33..=64 => copy_ends::<32, T>(target, source),
        _ => None,
    };
    if copied.is_none() {
        target.copy_from_slice(source);
    }
}

#[cfg(test)]
mod tests {
    use super::copy;

    #[test]
    fn bytes_of_each_length_are_copied() {
        for length in 0..=130 {
            let source: Vec<u8> = (1..=length).collect();
            let mut target = vec![0; length.into()];
            copy(&mut target, &source);
            assert_eq!(target, source);
        }
    }
}
