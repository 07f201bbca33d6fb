//! Bytes per second of what loading and saving cost: checksums, compression, decoding and encoding
//! of values.
//!
//! Prints the median, best and worst of interleaved rounds, so that a busy machine hits all lines
//! alike. The bytes are those of the payload, of compression those of the text.

use std::convert::Infallible;
use std::hint::black_box;
use std::time::Instant;

use tidemill_rdb::encode::{Compression, Compressor, NodeLimit};
use tidemill_rdb::payload::{self, Payload};
use tidemill_rdb::{Checksum, VersionCheck};

const ROUND_COUNT: usize = 21;
const ELEMENT_COUNT: usize = 20_000;

struct Case {
    name: &'static str,
    bytes: usize,
    run: Box<dyn FnMut()>,
    megabytes_per_s: Vec<f64>,
}

fn main() {
    let texts: Vec<String> = (0..ELEMENT_COUNT).map(|index| format!("element:{index}")).collect();
    let text = texts.concat().into_bytes();
    let mut cases = [
        case("checksum", 1 << 20, {
            let bytes = vec![7; 1 << 20];
            move || {
                black_box(Checksum::of(black_box(&bytes)));
            }
        }),
        case("compress a text", text.len(), {
            let text = text.clone();
            move || drop(black_box(string(Compression::Lzf, &text)))
        }),
        decode("decompress a text", string(Compression::Lzf, &text)),
        decode("decode a list of listpacks", list(&texts)),
        decode("decode a hash", hash(&texts)),
        case("encode a list of listpacks", list(&texts).len(), {
            let texts = texts.clone();
            move || drop(black_box(list(&texts)))
        }),
        case("encode a hash", hash(&texts).len(), move || drop(black_box(hash(&texts)))),
    ];
    for round in 0..=ROUND_COUNT {
        for case in &mut cases {
            let start = Instant::now();
            (case.run)();
            let speed = case.bytes as f64 / 1e6 / start.elapsed().as_secs_f64();
            // The first round warms up.
            if round > 0 {
                case.megabytes_per_s.push(speed);
            }
        }
    }
    println!("{:30} {:>8} {:>8} {:>8}", "MB/s", "median", "best", "worst");
    for case in &mut cases {
        case.megabytes_per_s.sort_by(|one, other| other.total_cmp(one));
        let [best, .., worst] = case.megabytes_per_s[..] else { unreachable!("there are rounds") };
        let median = case.megabytes_per_s[ROUND_COUNT / 2];
        println!("{:30} {median:8.0} {best:8.0} {worst:8.0}", case.name);
    }
}

fn case(name: &'static str, bytes: usize, run: impl FnMut() + 'static) -> Case {
    Case { name, bytes, run: Box::new(run), megabytes_per_s: Vec::new() }
}

/// Reads a payload with its checksum, and counts the elements.
fn decode(name: &'static str, payload: Vec<u8>) -> Case {
    case(name, payload.len(), move || {
        let payload = Payload::new(black_box(&payload), VersionCheck::Strict, true);
        let mut count = 0u64;
        let decoded = payload.expect("a payload").decode(|item| {
            black_box(&item);
            count += 1;
            Ok::<(), Infallible>(())
        });
        assert!(decoded.is_ok() && count > 0);
    })
}

fn string(compression: Compression, text: &[u8]) -> Vec<u8> {
    payload::encode(compression, &mut Compressor::default(), |encoder, place| {
        encoder.string(place, text)
    })
    .expect("memory")
}

fn list(texts: &[String]) -> Vec<u8> {
    let elements = texts.iter().map(String::as_bytes);
    let limit = NodeLimit::of_bytes(8192);
    payload::encode(Compression::None, &mut Compressor::default(), |encoder, place| {
        encoder.list(place, elements, limit)
    })
    .expect("memory")
}

fn hash(texts: &[String]) -> Vec<u8> {
    let fields = texts.iter().map(|text| (text.as_bytes(), text.as_bytes()));
    let count = texts.len() as u64;
    payload::encode(Compression::None, &mut Compressor::default(), |encoder, place| {
        encoder.hash(place, count, fields)
    })
    .expect("memory")
}
