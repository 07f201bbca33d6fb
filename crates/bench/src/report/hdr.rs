//! HdrHistogram's formats, for tools that read them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

use crate::histogram::Histogram;

/// The latencies in microseconds, three digits, as memtier encodes them: V2, deflated, base64.
/// Empty text if the library refuses, which it does for nothing that is recorded here.
pub(crate) fn compressed(latency: &Histogram) -> String {
    let mut bytes = Vec::new();
    match V2DeflateSerializer::new().serialize(&to_microseconds(latency), &mut bytes) {
        Ok(_) => STANDARD.encode(&bytes),
        Err(_) => String::new(),
    }
}

/// HdrHistogram of the latencies in microseconds.
pub(crate) fn to_microseconds(latency: &Histogram) -> hdrhistogram::Histogram<u64> {
    let mut converted = hdrhistogram::Histogram::new(3).expect("three digits are allowed");
    converted.auto(true);
    for (value_ns, count) in latency.values() {
        // Resizing makes every value recordable.
        let _ = converted.record_n((value_ns / 1000).max(1), count);
    }
    converted
}
