//! Bytes of replies, and agreement of segments, marks and deferred lengths with plain bytes.

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
fn resp3_types_degrade_as_in_redis_for_resp2() {
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
fn taking_back_leaves_the_bytes_before() {
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

/// More bytes than an address space has.
const ENDLESS_BYTES: usize = 1 << 60;

#[test]
fn an_append_without_memory_is_marked_and_can_be_taken_back() {
    let mut reply = ReplyBuffer::new(Protocol::Resp2);
    reply.bulk_shared(Bytes::from_static(b"kept"));
    reply.ok();
    reply.advance(2);
    let (kept, before) = (reply.to_vec(), reply.len());
    reply.array(2);
    reply.bulk_shared(Bytes::from_static(b"gone"));
    let mark = reply.mark();
    assert!(!reply.run.reserve(ENDLESS_BYTES));
    assert!(reply.has_failed() && reply.len() > ENDLESS_BYTES);
    reply.truncate(mark);
    assert!(reply.has_failed(), "what is missing may be missing before the mark");
    let deferred = reply.begin(Aggregate::Array);
    reply.bulk_shared(Bytes::from_static(b"behind"));
    reply.end_with(deferred, 1234);
    reply.recover(before);
    assert_eq!((reply.to_vec(), reply.len(), reply.has_failed()), (kept, before, false));
}

#[test]
fn what_room_was_made_for_finds_it_behind_what_did_not() {
    let (error, count) = ("OOM nothing left", 1000);
    let mut reply = ReplyBuffer::new(Protocol::Resp2);
    // A reply that is taken back needs room for a moment, too.
    assert!(reply.try_reserve((2 + count) * (error.len() + 3)));
    let room_bytes = reply.run.bytes.capacity();
    for _ in 0..count {
        let before = reply.len();
        reply.bulk_shared(Bytes::from_static(b"gone"));
        assert!(!reply.run.reserve(ENDLESS_BYTES));
        assert!(!reply.try_reserve(1), "what follows a gap must not be sent");
        reply.recover(before);
        reply.error(error);
    }
    assert!(!reply.try_reserve(ENDLESS_BYTES) && !reply.has_failed());
    assert_eq!(reply.to_vec(), format!("-{error}\r\n").repeat(count).into_bytes());
    assert_eq!(reply.run.bytes.capacity(), room_bytes);
}

#[test]
fn taking_back_more_than_failed_takes_the_mark_back() {
    let mut reply = ReplyBuffer::new(Protocol::Resp2);
    let mark = reply.mark();
    reply.ok();
    assert!(!reply.run.reserve(ENDLESS_BYTES));
    reply.truncate(mark);
    assert!(!reply.has_failed() && reply.is_empty());
}

#[test]
fn a_failure_passes_on_to_the_buffer_it_is_appended_to() {
    let mut output = ReplyBuffer::new(Protocol::Resp2);
    output.ok();
    let mut reply = ReplyBuffer::new(Protocol::Resp2);
    reply.ok();
    assert!(!reply.run.reserve(ENDLESS_BYTES));
    output.append(&mut reply);
    assert!(output.has_failed());
    assert!(reply.is_empty() && !reply.has_failed());
}

#[test]
fn an_aggregate_that_could_not_be_begun_is_ended_harmlessly() {
    let mut reply = ReplyBuffer::new(Protocol::Resp2);
    assert!(!reply.run.reserve(ENDLESS_BYTES));
    let deferred = reply.begin(Aggregate::Map);
    reply.end_with(deferred, 10);
    reply.recover(0);
    assert!(reply.is_empty());
}

#[test]
fn much_is_handed_over_without_a_copy() {
    let mut output = ReplyBuffer::new(Protocol::Resp3);
    output.ok();
    output.advance(5);
    let mut reply = ReplyBuffer::new(Protocol::Resp2);
    reply.bulk_shared(Bytes::from_static(b"shared"));
    reply.bulk(vec![b'x'; crate::limits::MOVED_BYTES_MIN]);
    reply.advance(7);
    let (expected, place) = (reply.to_vec(), reply.run.bytes.as_ptr());
    output.append(&mut reply);
    assert_eq!((output.to_vec(), output.run.bytes.as_ptr()), (expected, place));
    assert_eq!((output.protocol(), reply.protocol()), (Protocol::Resp3, Protocol::Resp2));
    assert!(reply.is_empty());
}

#[test]
fn parts_are_payloads_by_reference_and_all_other_bytes() {
    let mut reply = ReplyBuffer::new(Protocol::Resp2);
    assert_eq!(reply.part_count(), 0);
    reply.ok();
    assert_eq!(reply.part_count(), 1);
    for _ in 0..3 {
        reply.bulk_shared(Bytes::from_static(b"payload"));
    }
    assert_eq!(reply.part_count(), 4);
    reply.advance(reply.len() - 1);
    assert_eq!(reply.part_count(), 1, "the end of the last line");
    reply.advance(1);
    assert_eq!(reply.part_count(), 0);
}
