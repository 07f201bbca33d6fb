//! Allocations whose size a client chooses: they fail with an error reply, not with the process.

use tidemill_store::StringValue;

use crate::error::CommandError;

/// An empty vector with room for `count` elements.
///
/// # Errors
///
/// [`CommandError::NoMemory`].
pub(crate) fn with_capacity<T>(count: usize) -> Result<Vec<T>, CommandError> {
    let mut vector = Vec::new();
    let bytes = count.saturating_mul(size_of::<T>());
    vector.try_reserve_exact(count).map_err(|_| CommandError::NoMemory(bytes as u64))?;
    Ok(vector)
}

/// So many zeros.
///
/// # Errors
///
/// [`CommandError::NoMemory`].
pub(crate) fn zeros(length: usize) -> Result<Vec<u8>, CommandError> {
    let mut bytes = with_capacity(length)?;
    bytes.resize(length, 0);
    Ok(bytes)
}

/// A copy of a string's bytes.
///
/// # Errors
///
/// [`CommandError::NoMemory`].
pub(crate) fn copy(value: StringValue<'_>) -> Result<Vec<u8>, CommandError> {
    copy_range(value, 0..value.len())
}

/// A copy of some of a string's bytes, which must be there.
///
/// # Errors
///
/// [`CommandError::NoMemory`].
pub(crate) fn copy_range(
    value: StringValue<'_>,
    range: std::ops::Range<u64>,
) -> Result<Vec<u8>, CommandError> {
    let mut bytes = with_capacity((range.end - range.start) as usize)?;
    match value {
        StringValue::Plain(plain) => {
            bytes.extend_from_slice(&plain[range.start as usize..range.end as usize]);
        }
        StringValue::Chunks(text) => text.copy_to(range, &mut bytes),
    }
    Ok(bytes)
}
