use super::*;
use crate::clock::Still;
use crate::pubsub::registry::{Pressure, PubSub};
use crate::slots::mailbox::{Mailboxes, Notify};
use tidemill_store::hash::Seed;

struct Silent;

impl Notify for Silent {
    fn notify(&self) {}
}

/// One worker with its lane, and the registry.
struct Bench {
    pubsub: PubSub,
    lanes: Lanes,
    receivers: Receivers,
}

impl Bench {
    fn new() -> Bench {
        let mailboxes = Arc::new(Mailboxes::new(vec![Box::new(Silent)]));
        let (pubsub, lanes) =
            (PubSub::new(Seed::new(1, 2)), Lanes::new(1, mailboxes, Arc::new(Still)));
        Bench { pubsub, lanes, receivers: Receivers::new() }
    }

    fn subscribe(&mut self, session: u64, kind: TopicKind, name: &str) {
        let protocol = if session.is_multiple_of(2) { Protocol::Resp2 } else { Protocol::Resp3 };
        let receivers = &mut self.receivers;
        self.pubsub.subscribe((kind, name.as_bytes()), 0, |name| {
            receivers.add((session, protocol), kind, name);
        });
    }

    fn unsubscribe(&mut self, session: u64, kind: TopicKind, name: &str) {
        let receivers = &mut self.receivers;
        self.pubsub.unsubscribe((kind, name.as_bytes()), 0, || {
            receivers.remove(session, kind, name.as_bytes());
        });
    }

    fn publish(&self, channel: &str, payload: &[u8]) -> u64 {
        let topic = (TopicKind::Channel, channel.as_bytes());
        let receivers = self.pubsub.publish(&self.lanes, topic, payload, Pressure::CutOff);
        receivers.expect("it is not refused")
    }

    /// Everything that is sent, by session.
    fn sent(&mut self) -> Vec<(Dirty, Vec<u8>)> {
        let mut sent = Vec::new();
        self.receivers.begin_sending(&self.lanes, 0);
        while self.receivers.collect() {
            while let Some(dirty) = self.receivers.next_dirty() {
                let mut output = ReplyBuffer::default();
                self.receivers.take_inbox(dirty.session, &mut output);
                sent.push((dirty, output.to_vec()));
            }
        }
        sent.sort_by_key(|(dirty, _)| dirty.session);
        sent
    }

    fn texts(&mut self) -> Vec<(u64, String)> {
        let text = |(dirty, bytes): (Dirty, Vec<u8>)| {
            assert!(!dirty.is_cut_off);
            (dirty.session, String::from_utf8(bytes).expect("texts").replace("\r\n", " "))
        };
        self.sent().into_iter().map(text).collect()
    }
}

#[test]
fn each_subscription_gets_its_message_in_its_protocol() {
    let mut bench = Bench::new();
    bench.subscribe(2, TopicKind::Channel, "c");
    bench.subscribe(2, TopicKind::Pattern, "c*");
    bench.subscribe(3, TopicKind::Pattern, "*c");
    assert_eq!(bench.publish("c", b"x"), 3);
    assert_eq!(bench.publish("cc", b"y"), 2);
    let by_channel = "*3 $7 message $1 c $1 x ";
    let by_pattern = "*4 $8 pmessage $2 c* $1 c $1 x *4 $8 pmessage $2 c* $2 cc $1 y ";
    let resp3 = ">4 $8 pmessage $2 *c $1 c $1 x >4 $8 pmessage $2 *c $2 cc $1 y ";
    assert_eq!(bench.texts(), [(2, format!("{by_channel}{by_pattern}")), (3, resp3.into())]);
    assert!(bench.texts().is_empty());
}

#[test]
fn large_payloads_are_sent_by_reference_and_whole() {
    let mut bench = Bench::new();
    (0..4).for_each(|session| bench.subscribe(session, TopicKind::Channel, "c"));
    let payload = vec![b'p'; COPIED_REPLY_BYTES_MAX + 1];
    bench.publish("c", b"before");
    bench.publish("c", &payload);
    bench.publish("c", b"after");
    for (dirty, bytes) in bench.sent() {
        let kind = if dirty.session.is_multiple_of(2) { '*' } else { '>' };
        let message = |payload: &[u8]| {
            let header = format!("{kind}3\r\n$7\r\nmessage\r\n$1\r\nc\r\n${}\r\n", payload.len());
            [header.as_bytes(), payload, b"\r\n"].concat()
        };
        let all = [message(b"before"), message(&payload), message(b"after")].concat();
        assert_eq!(bytes, all);
    }
    let encoded: usize = bench.receivers.encoded.iter().map(ReplyBuffer::len).sum();
    assert!(encoded < 1000, "{encoded}");
}

#[test]
fn many_deliveries_are_encoded_some_at_a_time() {
    let mut bench = Bench::new();
    (0..3).for_each(|session| bench.subscribe(session, TopicKind::Channel, "c"));
    let payload = vec![b'p'; 1000];
    (0..2000).for_each(|_| _ = bench.publish("c", &payload));
    let mut bytes = [0; 3];
    bench.receivers.begin_sending(&bench.lanes, 0);
    let mut rounds = 0;
    while bench.receivers.collect() {
        let encoded: usize = bench.receivers.encoded.iter().map(ReplyBuffer::len).sum();
        assert!(encoded <= DELIVERED_TOGETHER_BYTES + 4000, "{encoded}");
        while let Some(dirty) = bench.receivers.next_dirty() {
            let mut output = ReplyBuffer::default();
            bench.receivers.take_inbox(dirty.session, &mut output);
            bytes[dirty.session as usize] += output.len();
        }
        rounds += 1;
    }
    assert!(rounds > 10, "{rounds}");
    assert_eq!(bytes, [2000 * 1033; 3]);
}

#[test]
fn subscriber_over_its_limit_is_cut_off_and_others_are_not() {
    let mut bench = Bench::new();
    bench.receivers.limit_inboxes(1 << 20, 0);
    bench.subscribe(2, TopicKind::Channel, "much");
    bench.subscribe(2, TopicKind::Channel, "little");
    bench.subscribe(4, TopicKind::Channel, "little");
    let payload = vec![b'p'; 100_000];
    (0..20).for_each(|_| _ = bench.publish("much", &payload));
    bench.publish("little", b"x");
    bench.receivers.drain(&bench.lanes, 0);
    let sent = bench.sent();
    let cut_off =
        |session| sent.iter().any(|(dirty, _)| dirty.session == session && dirty.is_cut_off);
    assert!(cut_off(2) && !cut_off(4));
    assert!(sent.iter().all(|(_, bytes)| bytes.len() < 100), "nothing of it is sent");
}

/// A session that tells in the place of another is of the class of normal clients.
#[test]
fn a_redirection_is_limited_as_a_normal_client_unless_it_subscribes() {
    let key: Arc<[u8]> = vec![b'k'; 100_000].into();
    for (normal_bytes_max, is_subscriber, is_cut_off) in
        [(0, false, false), (1 << 20, false, true), (0, true, true)]
    {
        let mut bench = Bench::new();
        bench.receivers.limit_inboxes(1 << 20, normal_bytes_max);
        if is_subscriber {
            bench.subscribe(3, TopicKind::Channel, "c");
        }
        for _ in 0..20 {
            let invalidated = Invalidated::Key(Arc::clone(&key));
            let to = (3, Protocol::Resp3);
            bench.receivers.tell_redirected(to, is_subscriber, &invalidated);
        }
        let sent = bench.sent();
        let case = (normal_bytes_max, is_subscriber);
        assert_eq!(sent.len(), 1, "{case:?}");
        assert!(sent.iter().all(|(dirty, _)| dirty.is_cut_off == is_cut_off), "{case:?}");
    }
}

#[test]
fn what_is_told_by_others_counts_in_what_is_sent_together() {
    let mut bench = Bench::new();
    let tracking = Tracking { redirect: 5, ..Tracking::default() };
    bench.receivers.set_tracking((3, Protocol::Resp3), Some(tracking));
    let key: Arc<[u8]> = vec![b'k'; 1000].into();
    for _ in 0..2000 {
        let sessions = [3_u64, 3].into();
        bench.lanes.post(0, Delivery::Invalidation { sessions, key: Arc::clone(&key) });
    }
    bench.receivers.begin_sending(&bench.lanes, 0);
    let (mut rounds, mut count) = (0, 0);
    while bench.receivers.collect() || bench.receivers.has_redirected() {
        let told = bench.receivers.take_redirected();
        let bytes: usize = told.iter().map(|told| told.invalidated.bytes()).sum();
        assert!(bytes <= DELIVERED_TOGETHER_BYTES + 2000, "{bytes}");
        (rounds, count) = (rounds + 1, count + told.len());
    }
    assert!(rounds > 10, "{rounds}");
    assert_eq!(count, 4000);
}

/// Sessions subscribe, unsubscribe and end at random; each message reaches those who subscribe.
#[test]
fn random_subscriptions_receive_as_a_plain_list_does() {
    let mut random = fastrand::Rng::with_seed(5);
    let mut bench = Bench::new();
    let mut model: Vec<(u64, &str)> = Vec::new();
    let names = ["a", "b", "c"];
    for _ in 0..5000 {
        let (session, name) = (random.u64(0..12), names[random.usize(..3)]);
        match random.usize(..10) {
            0 => {
                for (_, name) in model.extract_if(.., |of| of.0 == session) {
                    bench.unsubscribe(session, TopicKind::Channel, name);
                }
                bench.receivers.end(session);
            }
            1..4 if model.contains(&(session, name)) => {
                model.retain(|of| *of != (session, name));
                bench.unsubscribe(session, TopicKind::Channel, name);
            }
            1..7 if !model.contains(&(session, name)) => {
                model.push((session, name));
                bench.subscribe(session, TopicKind::Channel, name);
            }
            _ => {
                let mut expected: Vec<u64> =
                    model.iter().filter(|of| of.1 == name).map(|of| of.0).collect();
                expected.sort_unstable();
                assert_eq!(bench.publish(name, b"m"), expected.len() as u64);
                let received: Vec<u64> = bench.texts().into_iter().map(|of| of.0).collect();
                assert_eq!(received, expected);
            }
        }
    }
    for &(session, name) in &model {
        bench.unsubscribe(session, TopicKind::Channel, name);
    }
    model.iter().for_each(|&(session, _)| bench.receivers.end(session));
    assert!(bench.receivers.topics.iter().all(HashMap::is_empty));
    assert!(bench.receivers.by_session.is_empty());
}
