//! Redis Cluster mode against three real nodes on ports of the system's choice.

#![allow(clippy::unwrap_used)] // A helper that fails fails its test.

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::common::{Scratch, Server, VALKEY, doubts};
use tidemill_bench::cli::run_bench;
use tidemill_bench::load::command::Command;
use tidemill_bench::load::control::{Control, Reply};
use tidemill_bench::load::settings::{End, Settings, Target};
use tidemill_bench::load::{Stop, run};
use tidemill_bench::report::warnings;
use tidemill_testkit::server::free_port;

/// Valkey nodes of a cluster, each serving a third of the slots, without replicas.
struct Cluster {
    nodes: Vec<Server>,
    scratch: Scratch,
}

impl Cluster {
    fn start(name: &str) -> Self {
        let scratch = Scratch::new(&format!("cluster-{name}"));
        let mut cluster = Self { nodes: Vec::new(), scratch };
        for node in 0..3 {
            let options = |port: u16| {
                let bus = free_port();
                let words = format!("--port {port} --cluster-port {bus} --cluster-enabled yes");
                words.split(' ').map(str::to_owned).collect()
            };
            let scratch = Scratch::new(&format!("cluster-{name}-{node}"));
            cluster.nodes.push(Server::start_on(VALKEY, scratch, options));
            let slots = [(0, 5460), (5461, 10922), (10923, 16383)][node];
            cluster.call(node, &format!("CLUSTER ADDSLOTSRANGE {} {}", slots.0, slots.1));
            if node > 0 {
                let (first, first_bus) = (cluster.nodes[0].port, cluster.bus(0));
                cluster.call(node, &format!("CLUSTER MEET 127.0.0.1 {first} {first_bus}"));
            }
        }
        cluster.settle();
        cluster
    }

    /// Waits until every node serves the whole cluster and agrees who owns what.
    fn settle(&self) {
        let start = Instant::now();
        let settled = |node| {
            let info = self.call(node, "CLUSTER INFO").text().unwrap();
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
        };
        while !(0..3).all(settled) {
            assert!(start.elapsed() < Duration::from_secs(30), "the cluster does not form");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn bus(&self, node: usize) -> u16 {
        let myself = self.call(node, "CLUSTER NODES").text().unwrap();
        let line = myself.lines().find(|line| line.contains("myself")).unwrap().to_string();
        let address = line.split(' ').nth(1).unwrap().to_string();
        let bus = address.split_once('@').unwrap().1;
        bus.split(',').next().unwrap().parse().unwrap()
    }

    fn call(&self, node: usize, line: &str) -> Reply {
        let target = Target::tcp("127.0.0.1", self.nodes[node].port);
        let words: Vec<&str> = line.split(' ').collect();
        let reply = Control::connect(&target).unwrap().call(&words).unwrap();
        assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
        reply
    }

    fn keys(&self) -> Vec<i64> {
        (0..3)
            .map(|node| match self.call(node, "DBSIZE") {
                Reply::Integer(count) => count,
                other => panic!("{other:?}"),
            })
            .collect()
    }

    /// Number of GETs that a node was sent.
    fn gets(&self, node: usize) -> u64 {
        self.count(node, "commandstats", "cmdstat_get", "calls=")
    }

    /// Number of requests that a node answered with MOVED.
    fn moved(&self, node: usize) -> u64 {
        self.count(node, "errorstats", "errorstat_MOVED", "count=")
    }

    /// The first number of a line of INFO; 0 while there is no such line.
    fn count(&self, node: usize, section: &str, line: &str, prefix: &str) -> u64 {
        let target = Target::tcp("127.0.0.1", self.nodes[node].port);
        let mut control = Control::connect(&target).unwrap();
        let Some(line) = control.info(section, line).unwrap() else { return 0 };
        line.strip_prefix(prefix).unwrap().split(',').next().unwrap().parse().unwrap()
    }

    fn bench(&self, words: &str) -> (ExitCode, String) {
        let out = self.scratch.0.join("out.txt");
        let own = format!(
            "-h 127.0.0.1 -p {} --cluster-mode -t 1 -o {}",
            self.nodes[1].port,
            out.display()
        );
        let code =
            run_bench(own.split(' ').chain(words.split_whitespace()).map(Into::into).collect());
        (code, std::fs::read_to_string(out).unwrap_or_default())
    }
}

#[test]
fn every_node_gets_its_own_keys_and_nothing_is_redirected() {
    let cluster = Cluster::start("plain");
    let words = "-c 2 -n 3001 --pipeline 8 --key-maximum 999 --preload --verify --cleanup";
    let (code, report) = cluster.bench(&words.replace(" --cleanup", ""));
    assert_eq!(code, ExitCode::SUCCESS, "{report}");
    assert_eq!(doubts(&report), [""; 0], "{report}");
    let keys = cluster.keys();
    assert_eq!(keys.iter().sum::<i64>(), 1000);
    assert!(keys.iter().all(|&count| count > 250), "{keys:?}");
    // The number of requests is per client, whatever the number of its connections.
    let gets: Vec<u64> = (0..3).map(|node| cluster.gets(node)).collect();
    // The mix is 1:10, and each of the six connections begins it anew.
    assert!((5_440..=5_460).contains(&gets.iter().sum::<u64>()), "{gets:?}");
    assert!(gets.iter().all(|&count| count > 1_800), "{gets:?}");
    assert_eq!(cluster.bench(words).0, ExitCode::SUCCESS);
    assert_eq!(cluster.keys(), [0, 0, 0]);
    // All keys in one slot: the other nodes get no connection.
    let (code, report) = cluster.bench("-c 2 -n 500 --key-prefix {tag}- --key-maximum 99");
    assert_eq!(code, ExitCode::SUCCESS, "{report}");
    assert_eq!(doubts(&report), [""; 0], "{report}");
}

#[test]
fn slots_that_move_under_load_are_followed() {
    let cluster = Cluster::start("move");
    let target = Target { cluster: true, ..Target::tcp("127.0.0.1", cluster.nodes[1].port) };
    let mut settings = Settings { connections: 2, ..Settings::plain(target) };
    settings.keys.maximum = 99_999;
    settings.commands = vec![Command::parse("GET __key__", (0, 99_999)).unwrap()];
    // The load is stopped once it was redirected and went on, however long that takes.
    settings.end = End::Time(Duration::from_secs(300));
    let stop = Stop::default();
    std::thread::scope(|scope| {
        let load = scope.spawn(|| run(&settings, None, &stop, |_| {}));
        let until = |is_reached: &dyn Fn() -> bool, what: &str| {
            while !is_reached() {
                assert!(!load.is_finished(), "the load ended before {what}");
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        until(&|| cluster.gets(0) > 1_000, "a slot moved");
        // 200 slots go to the third node; they hold no keys, or the first would refuse.
        let third = cluster.call(2, "CLUSTER MYID").text().unwrap();
        for slot in 0..200 {
            for node in [2, 0, 1] {
                cluster.call(node, &format!("CLUSTER SETSLOT {slot} NODE {third}"));
            }
        }
        until(&|| cluster.moved(0) > 0, "it was redirected");
        let gets = cluster.gets(2);
        until(&|| cluster.gets(2) > gets + 50_000, "it went on");
        stop.store(true, Ordering::Relaxed);
        let doubts = warnings(&settings, &load.join().unwrap().unwrap());
        let line = doubts.iter().find(|line| line.contains("MOVED or ASK")).unwrap();
        let moved: u64 = line.split_whitespace().find_map(|word| word.parse().ok()).unwrap();
        // Once per slot and connection with requests on their way, not for the rest of the run: of
        // 150,000 requests some 1,800 are for these slots.
        assert!((1..=1_000).contains(&moved), "{doubts:?}");
    });
}

#[test]
fn options_impossible_on_a_cluster_are_refused() {
    let run = |words: &str| run_bench(words.split(' ').map(Into::into).collect());
    for words in ["--multi-key-get 3", "-n allkeys", "--select-db 1", "-S /tmp/x.sock"] {
        assert_eq!(run(&format!("--cluster-mode {words}")), ExitCode::from(2), "{words}");
    }
}
