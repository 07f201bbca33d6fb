//! Results that are computed without locks and stored, beside writers on threads of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use tidemill_engine::commit::Sinks;
use tidemill_engine::config::Configuration;
use tidemill_engine::shared::{Shared, SharedSpec};
use tidemill_rcu::{Domain, Qsbr};
use tidemill_store::hash::Seed;
use tidemill_testkit::surroundings::{SilentHost, SilentNotifier};

use super::harness::Server;
use super::harness::seat::{Running, Seat};

/// Members of a source: enough that a result is computed without locks.
const MEMBERS: usize = 6000;

const STORES: usize = 150;

fn words(text: &str) -> Vec<Vec<u8>> {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn shared() -> Arc<Shared> {
    Arc::new(Shared::new(SharedSpec {
        commands: tidemill_engine::execute::commands(),
        database_count: 1,
        seed: Seed::new(1, 2),
        notifiers: (0..2).map(|_| Box::new(SilentNotifier) as _).collect(),
        clock: Box::new(Running(Instant::now())),
        configuration: Configuration::default(),
        host: Box::new(SilentHost::default()),
        sinks: Sinks::default(),
    }))
}

/// Lets a writer add a member to a target that is also a source, again and again, while another
/// client stores unions over it. Nothing of what was added may be gone at the end.
fn loses_no_addition(setup: &str, add: fn(u64) -> String, store: &str, count: &str) {
    let shared = shared();
    let domain = Domain::<Qsbr>::new().expect("qsbr asks nothing of the system");
    let mut seat = Seat::new(&shared, &domain, 0);
    let members: String =
        (0..MEMBERS).map(|nth| format!(" {}", setup_member(setup, nth))).collect();
    for key in ["big", "target"] {
        seat.call(&words(&format!("{setup} {key}{members}")));
    }
    drop(seat);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (shared, domain, stop) = (&shared, &domain, &stop);
        let writer = scope.spawn(move || {
            let mut seat = Seat::new(shared, domain, 1);
            let mut added = 0;
            while !stop.load(Ordering::Relaxed) && added < 20_000 {
                seat.call(&words(&add(added)));
                added += 1;
            }
            added
        });
        let mut seat = Seat::new(shared, domain, 0);
        for _ in 0..STORES {
            let reply = seat.call(&words(store));
            assert!(reply.starts_with(':'), "{reply}");
        }
        stop.store(true, Ordering::Relaxed);
        let added = writer.join().expect("the writer ends");
        let reply = seat.call(&words(count));
        assert_eq!(reply, format!(":{}\r\n", MEMBERS as u64 + added));
    });
}

fn setup_member(setup: &str, nth: usize) -> String {
    if setup == "ZADD" { format!("{nth} m{nth}") } else { format!("m{nth}") }
}

#[test]
fn a_stored_union_of_sets_loses_no_addition_to_its_target() {
    let add = |nth| format!("SADD target new{nth}");
    loses_no_addition("SADD", add, "SUNIONSTORE target target big", "SCARD target");
}

#[test]
fn a_stored_union_of_sorted_sets_loses_no_addition_to_its_target() {
    let add = |nth| format!("ZADD target 1 new{nth}");
    loses_no_addition("ZADD", add, "ZUNIONSTORE target 2 target big", "ZCARD target");
}

#[test]
fn large_results_are_stored_as_small_ones_are() {
    let mut server = Server::with_events(1, 1_000_000, true);
    let client = server.connect(0);
    let mut call = |command: &str| {
        let reply = server.call(client, &command.split(' ').collect::<Vec<_>>());
        let events: Vec<String> = server
            .publications
            .take()
            .iter()
            .map(|publication| format!("{} {}", publication.event, publication.key))
            .collect();
        (reply.trim_end().to_owned(), events.join(", "))
    };
    for (key, range) in [("a", 0..6000), ("b", 3000..9000)] {
        let members: String = range.clone().map(|nth| format!(" m{nth}")).collect();
        call(&format!("SADD {key}{members}"));
        let members: String = range.map(|nth| format!(" {nth} m{nth}")).collect();
        call(&format!("ZADD z{key}{members}"));
    }
    call("PEXPIRE b 5000");
    let expect = |reply: &str, events: &str| (reply.to_owned(), events.to_owned());
    assert_eq!(call("SUNIONSTORE d a b"), expect(":9000", "new d, sunionstore d"));
    assert_eq!(call("SINTERSTORE d a b"), expect(":3000", "sinterstore d"));
    assert_eq!(call("SDIFFSTORE d a b"), expect(":3000", "sdiffstore d"));
    assert_eq!(call("SISMEMBER d m2999").0, ":1");
    assert_eq!(call("SISMEMBER d m3000").0, ":0");
    assert_eq!(call("SDIFFSTORE d a a"), expect(":0", "del d"));
    assert_eq!(call("ZUNIONSTORE d 2 za zb"), expect(":9000", "new d, zunionstore d"));
    assert_eq!(call("ZSCORE d m4000").0, "$4\r\n8000");
    assert_eq!(call("ZINTERSTORE d 2 za zb"), expect(":3000", "zinterstore d"));
    assert_eq!(call("ZDIFFSTORE d 2 za zb"), expect(":3000", "zdiffstore d"));
    assert_eq!(call("ZRANGESTORE d za 0 -1"), expect(":6000", "zrangestore d"));
    assert_eq!(
        call("SUNIONSTORE d za a").0,
        "-WRONGTYPE Operation against a key holding the \
                                              wrong kind of value"
    );
    call("MULTI");
    call("SUNIONSTORE d a b");
    let reply = call("EXEC").0;
    assert_eq!(reply, "*1\r\n:9000");
}
