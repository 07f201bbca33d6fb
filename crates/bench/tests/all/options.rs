//! memtier's options do what memtier's manual says, seen from the server: one small load each.

#![allow(clippy::unwrap_used)] // A helper that fails fails its test.

use std::process::ExitCode;

use crate::common::{REDIS, Server};
use serde_json::Value;
use tidemill_bench::load::control::Reply;

/// An empty server; gives what a load left there.
struct Target {
    server: Server,
}

impl Target {
    fn new(name: &str) -> Self {
        Self { server: Server::start(REDIS, name, &[]) }
    }

    /// Runs a load on the empty database.
    fn run(&self, words: &[&str]) {
        self.call("FLUSHALL");
        self.call("CONFIG RESETSTAT");
        let code = self.server.bench_words(words);
        assert_eq!(code, ExitCode::SUCCESS, "{words:?}: {}", self.server.file("out.txt"));
    }

    fn words(&self, words: &str) {
        self.run(&words.split(' ').collect::<Vec<_>>());
    }

    fn call(&self, line: &str) -> Reply {
        let words: Vec<&str> = line.split(' ').collect();
        let reply = self.server.control().call(&words).unwrap();
        assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
        reply
    }

    fn number(&self, line: &str) -> i64 {
        match self.call(line) {
            Reply::Integer(number) => number,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn calls(&self, command: &str) -> u64 {
        let field = format!("cmdstat_{command}");
        let line = self.server.control().info("commandstats", &field).unwrap();
        let calls =
            line.and_then(|line| line.strip_prefix("calls=")?.split(',').next()?.parse().ok());
        calls.unwrap_or(0)
    }

    fn report(&self) -> String {
        self.server.file("out.txt")
    }
}

#[test]
fn keys_have_their_prefix_range_and_pattern() {
    let target = Target::new("keys");
    target.words("-c 4 -n allkeys --key-pattern P:P --ratio 1:0 --key-maximum 999");
    assert_eq!(target.number("DBSIZE"), 1000);
    target.words(
        "-c 1 -n 10 --key-pattern S:S --ratio 1:0 --key-prefix p: --key-minimum 5 --key-maximum 99",
    );
    assert_eq!(target.number("EXISTS p:5 p:14 p:4 p:15"), 2);
    // All connections draw the same keys, unless each has a seed of its own.
    target.words("-c 4 -n 50 --ratio 1:0");
    let same = target.number("DBSIZE");
    target.words("-c 4 -n 50 --ratio 1:0 --distinct-client-seed");
    let distinct = target.number("DBSIZE");
    assert!(same <= 50 && distinct > 150, "{same} {distinct}");
    // The seed decides, and one from the clock differs.
    let keys = |words: &str| {
        target.words(&format!("-c 1 -n 20 --ratio 1:0 {words}"));
        match target.call("KEYS *") {
            Reply::Array(keys) => {
                let mut keys: Vec<_> = keys.iter().filter_map(Reply::text).collect();
                keys.sort();
                keys
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(keys("--seed 7"), keys("--seed 7"));
    assert_ne!(keys("--seed 7"), keys("--seed 8"));
    assert_ne!(keys("--randomize"), keys("--randomize"));
    // A narrow bell around its centre, and a steep zipf.
    target.words(
        "-c 1 -n 500 --ratio 1:0 --key-pattern G:G --key-maximum 1000 --key-median 300 \
                  --key-stddev 1",
    );
    assert!(target.number("DBSIZE") < 15 && target.number("EXISTS memtier-300") == 1);
    target.words("-c 1 -n 500 --ratio 1:0 --key-pattern Z:Z --key-maximum 1000 --key-zipf-exp 5");
    assert!(target.number("DBSIZE") < 30 && target.number("EXISTS memtier-0") == 1);
}

#[test]
fn values_have_their_sizes_offsets_and_expiry() {
    let target = Target::new("values");
    let length = |key: u32| target.number(&format!("STRLEN memtier-{key}"));
    target.words("-c 1 -n 5 --ratio 1:0 -d 77 --key-maximum 0");
    assert_eq!(length(0), 77);
    assert_eq!(target.call("GET memtier-0"), Reply::Text(vec![b'x'; 77]));
    target.words("-c 1 -n 5 --ratio 1:0 -R --key-maximum 0");
    assert_ne!(target.call("GET memtier-0"), Reply::Text(vec![b'x'; 32]));
    let walk = "-c 1 -n 101 --ratio 1:0 --key-pattern S:S --key-maximum 100";
    target.words(&format!("{walk} --data-size-range 1-101 --data-size-pattern S"));
    assert_eq!([length(0), length(50), length(100)], [1, 51, 101]);
    target.words(&format!("{walk} --data-size-range 10-20"));
    assert!((0..=100).all(|key| (10..=20).contains(&length(key))));
    target.words(&format!("{walk} --data-size-list 10:1,300:1"));
    let large = (0..=100).filter(|&key| length(key) == 300).count();
    assert!((0..=100).all(|key| [10, 300].contains(&length(key))) && (20..80).contains(&large));
    target.words("-c 1 -n 8 --ratio 1:1 -d 5 --data-offset 10 --key-maximum 0");
    assert_eq!((length(0), target.calls("setrange"), target.calls("getrange")), (15, 4, 4));
    target.words("-c 1 -n 5 --ratio 1:0 --expiry-range 500-600 --key-maximum 0");
    assert!((400..=600).contains(&target.number("TTL memtier-0")));
    assert_eq!(target.calls("setex"), 5);
}

#[test]
fn commands_have_their_ratios_patterns_and_cursors() {
    let target = Target::new("commands");
    target.words("-c 2 -n 110 --ratio 3:8");
    assert_eq!((target.calls("set"), target.calls("get")), (60, 160));
    target.words("-c 1 -n 22 --ratio 1:10 --multi-key-get 3");
    assert_eq!((target.calls("mget"), target.calls("get")), (20, 0));
    let mix = ["--command", "SET __key__ __data__", "--command-ratio", "3"];
    let mix = mix.into_iter().chain(["--command-key-pattern", "S", "--command", "GET other"]);
    let own = ["-c", "1", "-n", "40", "--key-minimum", "5", "-d", "9"];
    target.run(&own.into_iter().chain(mix).collect::<Vec<_>>());
    assert_eq!((target.calls("set"), target.calls("get")), (30, 10));
    assert_eq!(
        (
            target.number("EXISTS memtier-5 memtier-34 memtier-35"),
            target.number("STRLEN memtier-5")
        ),
        (2, 9)
    );
    let number = ["--command", "LPUSH list __rand_int__", "-c", "1", "-n", "20"];
    target.run(&[&number[..], &["--key-minimum", "7", "--key-maximum", "9"]].concat());
    let Reply::Array(numbers) = target.call("LRANGE list 0 -1") else { panic!() };
    let known = ["000000000007", "000000000008", "000000000009"];
    assert!(numbers.iter().filter_map(Reply::text).all(|number| known.contains(&&*number)));
    assert_eq!(numbers.len(), 20);
    // Two kinds of the same command: one row, or one by line.
    let lines = ["-c", "1", "-n", "20", "--command", "GET a", "--command", "GET b"];
    target.run(&lines);
    assert!(target.report().contains("Gets") && !target.report().contains("GET a"));
    target.run(&[&lines[..], &["--command-stats-breakdown", "line"]].concat());
    assert!(target.report().contains("GET a") && target.report().contains("GET b"));
    // Keys are written by the first load and stay for the second.
    target.words("-c 1 -n allkeys --ratio 1:0 --key-pattern P:P --key-maximum 499");
    let words =
        ["-c", "1", "-n", "60", "--command", "SCAN 0 COUNT 20", "--scan-incremental-iteration"];
    let json = "{dir}/scan.json";
    let code = target.server.bench_words(&[&words[..], &["--json-out-file", json]].concat());
    assert_eq!((code, target.calls("scan")), (ExitCode::SUCCESS, 60));
    let document: Value = serde_json::from_str(&target.server.file("scan.json")).unwrap();
    assert_eq!(document["ALL STATS"]["Scans"]["Count"], 60);
}

#[test]
fn connections_are_made_as_asked_for() {
    let target = Target::new("connections");
    target.words("-c 2 -n 50 -4 -P resp2 --select-db 3 --connection-timeout 5 --ratio 1:0");
    assert!(target.server.control().info("keyspace", "db3").unwrap().is_some());
    // 127.0.0.1 is no address of the other family.
    assert_eq!(target.server.bench("-c 1 -n 1 -6"), ExitCode::from(3));
    let jitter =
        "--thread-conn-start-min-jitter-micros 100 --thread-conn-start-max-jitter-micros 2000";
    target.words(&format!("-c 5 -n 20 {jitter}"));
    // A user of its own, with the rights it needs and no more.
    target.call("ACL SETUSER loader on >word ~memtier-* +set +get");
    target.words("-c 2 -n 110 -a loader:word");
    assert_eq!(target.server.bench("-c 1 -n 1 -a loader:wrong"), ExitCode::from(3));
    let uri = format!("-u redis://loader:word@127.0.0.1:{}", target.server.port);
    target.words(&format!("-c 2 -n 110 {uri}"));
    let refused = target.server.bench("-c 1 -n 11 -a loader:word --key-prefix other-");
    assert!(target.report().contains("11 replies were errors"), "{refused:?} {}", target.report());
    // More clients in steps: who came first sent most.
    let stairs =
        "--clients-start 1 --clients-step 1 --step-duration 0.3 --client-stats {dir}/clients.csv";
    target.words(&format!("-c 4 --test-time 2 {stairs}"));
    let csv = target.server.file("clients.csv");
    let requests: Vec<u64> =
        csv.lines().skip(1).map(|line| line.split(',').nth(2).unwrap().parse().unwrap()).collect();
    assert!(requests.len() == 4 && requests[3] > 0 && requests[0] >= requests[3], "{csv}");
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_the_load_and_costs_no_other() {
    let target = Target::new("outputs");
    for option in ["--json-out-file", "--client-stats", "--hdr-file-prefix"] {
        for place in ["{dir}/none/out", "{dir}"] {
            if option == "--hdr-file-prefix" && place == "{dir}" {
                continue; // makes a name beside the directory
            }
            let code = target.server.bench_words(&["-c", "1", "-n", "10", option, place]);
            assert_eq!(code, ExitCode::from(2), "{option} {place}");
        }
    }
    assert_eq!((target.calls("get"), target.calls("set")), (0, 0));
    let full = "--client-stats /dev/full --hdr-file-prefix {dir}/hdr --json-out-file {dir}/o.json";
    let words = ["-c", "1", "-n", "10"];
    let words: Vec<&str> = words.into_iter().chain(full.split(' ')).collect();
    assert_eq!(target.server.bench_words(&words), ExitCode::from(1));
    assert!(target.report().contains("Totals"));
    assert!(!target.server.file("hdr_FULL_RUN_1.txt").is_empty());
    assert!(!target.server.file("o.json").is_empty());
}

#[test]
fn reports_show_requested_and_only_known_values() {
    let target = Target::new("reports");
    target.words("-c 1 -n 1000 --print-percentiles 50,90,99 --json-out-file {dir}/out.json");
    let report = target.report();
    assert!(report.contains("p90 Latency") && report.contains("Request Latency Distribution"));
    // 1,000 replies have 100 beyond p90 and 10 beyond p99, which says nothing.
    let totals = report.lines().find(|line| line.starts_with("Totals")).unwrap();
    let columns: Vec<&str> = totals.split_whitespace().collect();
    assert!(columns[5].parse::<f64>().is_ok() && columns[6].parse::<f64>().is_ok(), "{totals}");
    assert_eq!(columns[7], "---", "{totals}");
    let document: Value = serde_json::from_str(&target.server.file("out.json")).unwrap();
    let percentiles = &document["ALL STATS"]["Totals"]["Percentile Latencies"];
    assert!(percentiles["p90.00"].is_number() && percentiles["p99.00"].is_null());
    // Lines about the bottleneck.
    for part in [
        "Client: ",
        " us CPU per operation, ",
        " of 1 core(s), waited ",
        " % of a core, redis-server pid ",
        ", RSS ",
        "voluntary/s  involuntary/s  migrations",
        "Closed loop",
    ] {
        assert!(report.contains(part), "{part:?} is not in {report}");
    }
    let thread = report.lines().find(|line| line.starts_with("  redis-server ")).unwrap();
    assert_eq!(thread.split_whitespace().count(), 6, "{thread}");
    // The built-in server answers, not this one.
    target.words("-c 2 -n 500 --calibrate");
    assert_eq!(target.calls("get") + target.calls("set"), 0);
    assert!(target.report().contains("Totals") && target.report().contains("Client: "));
    // Discarded requests were sent nevertheless.
    target.words("-c 1 --test-time 0.3 --warmup 0.5 --json-out-file {dir}/out.json");
    let document: Value = serde_json::from_str(&target.server.file("out.json")).unwrap();
    let counted = document["ALL STATS"]["Totals"]["Count"].as_u64().unwrap();
    assert!(counted > 0 && counted < target.calls("get") + target.calls("set"), "{counted}");
    target.words("-c 1 -n 200 --hide-histogram -x 3");
    let report = target.report();
    assert!(report.contains("BEST RUN RESULTS") && report.contains("WORST RUN RESULTS"));
    assert!(!report.contains("Request Latency Distribution"));
    target.words("-c 1 -n 200 --hide-histogram -x 2 --print-all-runs");
    let report = target.report();
    assert!(report.contains("RUN #1 RESULTS") && report.contains("RUN #2 RESULTS"));
}
