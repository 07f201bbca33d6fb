//! What replies look like, and that segments, marks and deferred lengths agree with plain bytes.

use bytes::Bytes;

use super::{Aggregate, Protocol, ReplyBuffer};

fn both(write: impl Fn(&mut ReplyBuffer)) -> (String, String) {
    let text = |protocol| {
        let mut reply = ReplyBuffer::new(protocol);
        write(&mut reply);
        String::from_utf8_lossy(&reply.to_vec()).into_owned()
    };
    (text(Protocol::Resp2), text(Protocol::Resp3))
}

fn assert_both(write: impl Fn(&mut ReplyBuffer), resp2: &str, resp3: &str) {
    assert_eq!(both(write), (resp2.to_owned(), resp3.to_owned()));
}

#[test]
fn resp3_types_degrade_to_what_redis_sends_in_resp2() {
    assert_both(|reply| reply.null(), "$-1\r\n", "_\r\n");
    assert_both(|reply| reply.null_array(), "*-1\r\n", "_\r\n");
    assert_both(|reply| reply.map(2), "*4\r\n", "%2\r\n");
    assert_both(|reply| reply.set(2), "*2\r\n", "~2\r\n");
    assert_both(|reply| reply.push(2), "*2\r\n", ">2\r\n");
    assert_both(|reply| reply.double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n");
    assert_both(|reply| reply.double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n");
    assert_both(|reply| reply.boolean(true), ":1\r\n", "#t\r\n");
    assert_both(|reply| reply.big_number("123"), "$3\r\n123\r\n", "(123\r\n");
    assert_both(|reply| reply.verbatim(*b"txt", "a"), "$1\r\na\r\n", "=5\r\ntxt:a\r\n");
    assert_both(
        |reply| {
            if reply.attribute(1) {
                reply.simple_string("key");
                reply.integer(1);
            }
            reply.ok();
        },
        "+OK\r\n",
        "|1\r\n+key\r\n:1\r\n+OK\r\n",
    );
}

#[test]
fn lengths_of_every_digit_count_are_announced() {
    for value in [0, 1, 9, 10, 42, 99, 100, 127, 128, 999, 1000, 65_535, i64::MAX, -1, i64::MIN] {
        let mut reply = ReplyBuffer::new(Protocol::Resp2);
        reply.integer(value);
        assert_eq!(reply.to_vec(), format!(":{value}\r\n").into_bytes());
    }
}

#[test]
fn an_error_stays_on_its_line() {
    assert_both(|reply| reply.error("ERR a\r\nb"), "-ERR a  b\r\n", "-ERR a  b\r\n");
    assert_both(|reply| reply.error("\nERR a \r\n\n"), "-ERR a \r\n", "-ERR a \r\n");
    assert_both(|reply| reply.error("\r\n"), "-\r\n", "-\r\n");
}

#[test]
fn a_deferred_length_moves_payloads_behind_it() {
    for count in [0, 1, 9, 10, 1234] {
        let mut deferred = ReplyBuffer::new(Protocol::Resp3);
        let mut known = ReplyBuffer::new(Protocol::Resp3);
        deferred.bulk_shared(Bytes::from_static(b"before"));
        known.bulk_shared(Bytes::from_static(b"before"));
        let outer = deferred.begin(Aggregate::Array);
        known.array(1);
        let inner = deferred.begin(Aggregate::Map);
        known.map(count);
        for value in 0..count as i64 {
            for reply in [&mut deferred, &mut known] {
                reply.integer(value);
                reply.bulk_shared(Bytes::from_static(b"shared"));
            }
        }
        deferred.end_with(inner, count);
        deferred.end_with(outer, 1);
        assert_eq!(deferred.to_vec(), known.to_vec());
        assert_eq!(deferred.len(), known.len());
    }
}

#[test]
fn taking_back_leaves_what_was_there() {
    let mut reply = ReplyBuffer::new(Protocol::Resp2);
    reply.bulk_shared(Bytes::from_static(b"kept"));
    let kept = reply.to_vec();
    let mark = reply.mark();
    reply.bulk("gone");
    reply.bulk_shared(Bytes::from_static(b"gone too"));
    assert_eq!(reply.appended_bytes(mark), reply.len() - kept.len());
    reply.truncate(mark);
    assert_eq!((reply.to_vec(), reply.len()), (kept.clone(), kept.len()));
}

#[test]
fn sending_any_pieces_sends_every_byte_once() {
    // Each step size meets the boundaries between own and shared bytes differently.
    for step in 1..40 {
        let mut reply = ReplyBuffer::new(Protocol::Resp2);
        let mut sent = Vec::new();
        let mut expected = ReplyBuffer::new(Protocol::Resp2);
        for round in 0..400i64 {
            for target in [&mut reply, &mut expected] {
                target.bulk(vec![b'o'; (round % 90) as usize]);
                target.bulk_shared(Bytes::from(vec![b's'; (round % 23) as usize]));
            }
            for _ in 0..3 {
                let now: Vec<u8> = reply.segments().flatten().copied().take(step).collect();
                assert!(reply.segments().all(|segment| !segment.is_empty()));
                sent.extend_from_slice(&now);
                reply.advance(now.len());
            }
        }
        sent.extend(reply.to_vec());
        let rest = reply.len();
        reply.advance(rest);
        assert!(reply.is_empty() && reply.segments().next().is_none());
        assert_eq!(sent, expected.to_vec(), "step {step}");
    }
}

#[test]
fn appending_a_buffer_keeps_the_order_of_payloads() {
    let mut first = ReplyBuffer::new(Protocol::Resp2);
    first.bulk_shared(Bytes::from_static(b"one"));
    let mut second = ReplyBuffer::new(Protocol::Resp2);
    second.ok();
    second.advance(2);
    second.bulk_shared(Bytes::from_static(b"two"));
    let expected = [first.to_vec(), second.to_vec()].concat();
    first.append(&mut second);
    assert_eq!((first.to_vec(), first.len()), (expected.clone(), expected.len()));
    assert!(second.is_empty());
}
