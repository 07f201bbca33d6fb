//! Round trips of random replies: encoded and parsed back.

use bytes::Bytes;
use tidemill_resp::encode::{Aggregate, Protocol, ReplyBuffer};
use tidemill_resp::reply::{ReplyParser, ReplyProgress, ReplyScanner, ScanCounts, Value};

#[test]
fn random_replies_are_read_back() {
    let seed = std::env::var("SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    eprintln!("SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..20_000 {
        let value = random_value(&mut random, 4);
        let mut reply = ReplyBuffer::new(Protocol::Resp3);
        write(&value, &mut reply, &mut random);
        let bytes = reply.to_vec();
        let expected = ReplyProgress::Complete { value: value.clone(), consumed: bytes.len() };
        assert_eq!(ReplyParser::new().parse(&bytes), Ok(expected));
        let mut counts = ScanCounts::default();
        ReplyScanner::new().scan(&bytes, &mut counts).expect("a valid reply");
        assert_eq!(counts.replies + counts.pushes, 1, "{value:?}");
    }
}

fn random_value(random: &mut fastrand::Rng, depth: usize) -> Value {
    let kind_count = if depth == 0 { 9 } else { 14 };
    let elements = |random: &mut fastrand::Rng| -> Vec<Value> {
        (0..random.usize(0..15)).map(|_| random_value(random, depth.saturating_sub(2))).collect()
    };
    let pairs = |random: &mut fastrand::Rng| -> Vec<(Value, Value)> {
        elements(random).into_iter().map(|value| (Value::Integer(random.i64(..)), value)).collect()
    };
    match random.u32(0..kind_count) {
        0 => Value::SimpleString(line(random)),
        1 => Value::Error(line(random)),
        2 => Value::Integer(random.i64(..) >> random.u32(0..64)),
        3 => Value::Bulk((0..random.usize(0..300)).map(|_| random.u8(..)).collect()),
        4 => Value::Null,
        5 => Value::Double(random.f64() * 10f64.powi(random.i32(-300..300))),
        6 => Value::Boolean(random.bool()),
        7 => Value::BigNumber(random.u128(..).to_string().into_bytes()),
        8 => Value::Verbatim { format: *b"txt", text: line(random) },
        9 => Value::Array(elements(random)),
        10 => Value::Map(pairs(random)),
        11 => Value::Set(elements(random)),
        12 => Value::Push(elements(random)),
        _ => Value::Attributed {
            attributes: pairs(random),
            value: Box::new(random_value(random, depth - 1)),
        },
    }
}

fn line(random: &mut fastrand::Rng) -> Vec<u8> {
    (0..random.usize(0..20)).map(|_| random.u8(b' '..=b'~')).collect()
}

fn write(value: &Value, reply: &mut ReplyBuffer, random: &mut fastrand::Rng) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("ASCII was generated");
    match value {
        Value::SimpleString(bytes) => reply.simple_string(&text(bytes)),
        Value::Error(bytes) => reply.error(bytes),
        Value::Integer(value) => reply.integer(*value),
        Value::Bulk(bytes) if random.bool() => reply.bulk_shared(Bytes::from(bytes.clone())),
        Value::Bulk(bytes) => reply.bulk(bytes),
        Value::Null if random.bool() => reply.null_array(),
        Value::Null => reply.null(),
        Value::Double(value) => reply.double(*value),
        Value::Boolean(value) => reply.boolean(*value),
        Value::BigNumber(digits) => reply.big_number(&text(digits)),
        Value::Verbatim { format, text } => reply.verbatim(*format, text),
        Value::Array(elements) => write_elements(Aggregate::Array, elements, reply, random),
        Value::Set(elements) => write_elements(Aggregate::Set, elements, reply, random),
        Value::Push(elements) => write_elements(Aggregate::Push, elements, reply, random),
        Value::Map(pairs) => {
            let deferred = reply.begin(Aggregate::Map);
            write_pairs(pairs, reply, random);
            reply.end_with(deferred, pairs.len());
        }
        Value::Attributed { attributes, value } => {
            assert!(reply.attribute(attributes.len()), "RESP3 has attributes");
            write_pairs(attributes, reply, random);
            write(value, reply, random);
        }
    }
}

/// Half of the lengths are known beforehand, half are given at the end.
fn write_elements(
    aggregate: Aggregate,
    elements: &[Value],
    reply: &mut ReplyBuffer,
    random: &mut fastrand::Rng,
) {
    if random.bool() {
        reply.aggregate(aggregate, elements.len());
        elements.iter().for_each(|element| write(element, reply, random));
    } else {
        let deferred = reply.begin(aggregate);
        elements.iter().for_each(|element| write(element, reply, random));
        reply.end_with(deferred, elements.len());
    }
}

fn write_pairs(pairs: &[(Value, Value)], reply: &mut ReplyBuffer, random: &mut fastrand::Rng) {
    for (key, value) in pairs {
        write(key, reply, random);
        write(value, reply, random);
    }
}
