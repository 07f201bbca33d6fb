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
    target.copy_from_slice(payload_bytes);
    rest[..2].copy_from_slice(&b"\r\n".map(MaybeUninit::new));
    let end = out.len() + header_bytes + payload.len() + 2;
    // SAFETY: all bytes up to `end` were just written, into capacity that was there.
    unsafe { out.set_len(end) };
}
