//! The command line against a real Redis and a real Valkey on ports of the system's choice.

#![allow(clippy::unwrap_used)] // A helper that fails fails its test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use crate::common::{REDIS, Server, doubts};
use serde_json::Value;
use tidemill_bench::cli::{run_bench, run_experiment};
use tidemill_bench::load::control::Reply;
use tidemill_bench::load::replay::Recording;
use tidemill_testkit::server::free_port;

/// Runs each test on Redis 7.0 and on Valkey 9.1.
macro_rules! on_both {
    ($($test:ident),* $(,)?) => {
        mod redis {
            $(#[test] fn $test() { super::$test(crate::common::REDIS); })*
        }
        mod valkey {
            $(#[test] fn $test() { super::$test(crate::common::VALKEY); })*
        }
    };
}

on_both!(
    memtiers_json_names_are_all_there_and_the_counts_agree,
    wrong_values_are_found_by_verify,
    passwords_work_and_never_appear,
    protocols_sockets_and_command_mixes_work,
    connections_are_renewed_after_their_interval,
    lost_connections_are_made_again_only_when_asked_for_and_always_counted,
    a_server_that_is_gone_is_given_up_after_the_allowed_attempts,
    clean_up_removes_our_keys_only_and_histograms_go_to_files,
    recorded_commands_are_sent_again_as_they_were,
    a_run_that_cannot_begin_keeps_the_reports_of_those_before,
);

fn memtiers_json_names_are_all_there_and_the_counts_agree(program: &str) {
    let redis = Server::start(program, "json", &[]);
    let json = redis.directory().join("out.json");
    let words = format!("-c 4 -n 5500 --key-maximum 1000 --json-out-file {}", json.display());
    assert_eq!(redis.bench(&words), ExitCode::SUCCESS);
    let document: Value = serde_json::from_str(&redis.file("out.json")).unwrap();
    let stats = &document["ALL STATS"];
    for (row, count) in [("Sets", 2_000), ("Gets", 20_000), ("Totals", 22_000)] {
        let row = &stats[row];
        assert_eq!(row["Count"], count);
        for name in [
            "Ops/sec",
            "Hits/sec",
            "Misses/sec",
            "Latency",
            "Average Latency",
            "Min Latency",
            "Max Latency",
            "KB/sec",
            "KB/sec RX/TX",
            "Connection Errors",
            "Accumulated Latency",
        ] {
            assert!(row[name].is_number(), "{name} is missing");
        }
        let percentiles = &row["Percentile Latencies"];
        assert!(percentiles["p50.00"].is_number() && percentiles.get("p99.90").is_some());
        let encoded = &percentiles["Histogram log format"]["Compressed Histogram"];
        assert!(encoded.as_str().unwrap().starts_with("HISTFAAA"));
        let series: u64 = row["Time-Serie"]
            .as_object()
            .unwrap()
            .values()
            .map(|second| second["Count"].as_u64().unwrap())
            .sum();
        assert_eq!(series, count);
    }
    assert!(stats["Runtime"]["Total duration"].is_number());
    assert_eq!(stats["GET"].as_array().unwrap().last().unwrap()["percent"], 100.0);
    // The server counted the same.
    let mut control = redis.control();
    let calls = control.info("commandstats", "cmdstat_get").unwrap().unwrap();
    assert!(calls.starts_with("calls=20000,"), "{calls}");
    assert!(redis.file("out.txt").contains("Totals"));
}

fn wrong_values_are_found_by_verify(program: &str) {
    let redis = Server::start(program, "verify", &[]);
    let words = "-c 2 -n 30000 --key-maximum 50 -R --data-size-range 1-9000 --verify --preload \
                 --pipeline 8";
    assert_eq!(redis.bench(words), ExitCode::SUCCESS);
    let report = redis.file("out.txt");
    let compared = report.lines().find_map(|line| line.strip_prefix("Compared ")).unwrap();
    let compared: u64 = compared.split(' ').next().unwrap().parse().unwrap();
    // One in 1,024 of 54,545 GETs.
    assert!((20..120).contains(&compared) && doubts(&report).is_empty(), "{report}");
    // Other values under the same keys, and only reads.
    let mut control = redis.control();
    for key in 0..=50 {
        let key = format!("memtier-{key}");
        assert_eq!(control.call(&["SET", &key, "wrong"]).unwrap(), Reply::Text(b"OK".to_vec()));
    }
    let words = "-c 2 -n 30000 --key-maximum 50 -R --data-size-range 1-9000 --verify --ratio 0:1 \
                 --pipeline 8";
    assert_eq!(redis.bench(words), ExitCode::from(1));
    assert!(redis.file("out.txt").contains("values were not those written"));
}

fn passwords_work_and_never_appear(program: &str) {
    let redis = Server::start(program, "password", &["--requirepass", "s3cr3tword"]);
    let json = redis.directory().join("out.json");
    let words =
        format!("-c 1 -n 100 -a s3cr3tword --show-config --json-out-file {}", json.display());
    assert_eq!(redis.bench(&words), ExitCode::SUCCESS);
    assert!(!redis.file("out.json").contains("s3cr3tword"));
    assert!(!redis.file("out.txt").contains("s3cr3tword"));
    assert_eq!(redis.bench("-c 1 -n 100 -a wrong"), ExitCode::from(3));
    let words = format!(
        "-c 1 -n 100 -u redis://:s3cr3tword@127.0.0.1:{} --json-out-file {{dir}}/uri.json \
         --command-stats-breakdown line",
        redis.port
    );
    let words: Vec<&str> = words
        .split(' ')
        .chain(["--command", "AUTH s3cr3tword", "--command", "GET __key__"])
        .collect();
    assert_eq!(redis.bench_words(&words), ExitCode::SUCCESS, "{}", redis.file("out.txt"));
    let json = redis.file("uri.json");
    assert!(json.contains("\"server\": \"127.0.0.1\"") && json.contains("AUTH (secret)"), "{json}");
    assert!(!json.contains("s3cr3tword") && !redis.file("out.txt").contains("s3cr3tword"));
    passwords_of_experiments_never_appear(program, &redis);
}

/// Passwords of server, load, program and machine change are in neither journal, JSON nor HTML.
fn passwords_of_experiments_never_appear(program: &str, server: &Server) {
    let arm = |name: &str, more: &str| {
        format!(
            "[[arm]]\nname = \"{name}\"\nserver = \"{program} --port {{port}} --bind 127.0.0.1 \
             --save '' --requirepass s3cr3tword\"\nenvironment = {{ REDISCLI_AUTH = \"s3cr3tword\" \
             }}\n{more}\n"
        )
    };
    let change = "needs = \"true -a s3cr3tword\"\napply = \"AUTH=s3cr3tword true\"\nrevert = \
                  \"true --pass s3cr3tword\"";
    let load = "[[load]]\nname = \"l\"\nflags = \"-t 1 -c 2 --test-time 0.2 -a s3cr3tword\"\n";
    let skipped = "[[arm]]\nname = \"no\"\nserver = \"true\"\nneeds = \"false -a s3cr3tword\"\n";
    let text =
        format!("name = \"e\"\nblocks = 1\n{}{}{skipped}{load}", arm("a", ""), arm("b", change));
    let file = server.directory().join("e.toml");
    std::fs::write(&file, text).unwrap();
    let out = server.directory().join("experiment");
    let words = ["run", file.to_str().unwrap(), "--change-machine", "--out", out.to_str().unwrap()];
    assert_eq!(run_experiment(words.iter().map(Into::into).collect()), ExitCode::SUCCESS);
    // It goes on from a journal that does not hold the password.
    assert_eq!(run_experiment(words.iter().map(Into::into).collect()), ExitCode::SUCCESS);
    let address = format!("127.0.0.1:{}", server.port);
    let json = out.join("ab.json");
    let load = "-t 1 -c 2 --test-time 0.1 -as3cr3tword";
    let mut words =
        vec!["ab", "--apply", "true", "--revert", "true", "--blocks", "1", "--load", load];
    words.extend(["--address", &address, "--json", json.to_str().unwrap()]);
    assert_eq!(run_experiment(words.iter().map(Into::into).collect()), ExitCode::from(4));
    let mut files = 0;
    for entry in std::fs::read_dir(&out).unwrap() {
        let path = entry.unwrap().path();
        if let Ok(bytes) = std::fs::read(&path) {
            files += 1;
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains("s3cr3tword"), "{}: {text}", path.display());
        }
    }
    // Journal, JSON, HTML, the log of the last server, and the judgement.
    assert!(files >= 5, "{files}");
}

fn a_run_that_cannot_begin_keeps_the_reports_of_those_before(program: &str) {
    let redis = Server::start(program, "second", &[]);
    // The first run ends the server.
    let words: Vec<&str> = ["-c", "1", "-n", "1", "-x", "3", "--command", "SHUTDOWN NOSAVE"].into();
    assert_eq!(redis.bench_words(&words), ExitCode::from(3));
    let report = redis.file("out.txt");
    assert!(report.contains("Totals") && report.contains("1 connections were lost"), "{report}");
}

/// Answers the first thing that the first client says with these bytes, and hangs up.
fn answer_with(wire: Vec<u8>) -> (u16, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        // The client may have hung up.
        let _ = stream.write_all(&wire);
    };
    (port, std::thread::spawn(serve))
}

#[test]
fn a_server_that_speaks_nonsense_is_reported_and_nothing_panics() {
    let deep = b"*1\r\n".repeat(50_000);
    let line = [&b"+"[..], &[b'x'; 200_000]].concat();
    for wire in [
        &b"\r\n"[..],
        b"\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"$-5\r\n",
        b"*9999999999999999999\r\n",
        b"%999999999999999999\r\n%999999999999999999\r\n",
        b"+OK\r\n+OK\r\n",
        b"\x00\xff\xfe",
        &deep,
        &line,
    ] {
        for words in ["", "-P resp3", "--verify --ratio 0:1", "--cluster-mode", "--preload"] {
            let shown = wire[..wire.len().min(30)].escape_ascii().to_string();
            let (port, server) = answer_with(wire.to_vec());
            let out =
                std::env::temp_dir().join(format!("tidemill-nonsense-{}", std::process::id()));
            // A process id that is given keeps the run from asking for INFO.
            let own = format!(
                "-h 127.0.0.1 -p {port} -t 1 -c 1 --test-time 0.2 --key-maximum 9 --server-pid {} \
                 -o {} {words}",
                std::process::id(),
                out.display()
            );
            let code = run_bench(own.split_whitespace().map(Into::into).collect());
            let codes = [ExitCode::from(0), ExitCode::from(1), ExitCode::from(3)];
            assert!(codes.contains(&code), "{shown} {words}: {code:?}");
            let _ = std::fs::remove_file(&out);
            // The listener may still wait for a client that needed none.
            let _ = TcpStream::connect(("127.0.0.1", port));
            server.join().unwrap();
        }
    }
}

fn protocols_sockets_and_command_mixes_work(program: &str) {
    let redis = Server::start(program, "forms", &["--unixsocket", "r.sock"]);
    let socket = redis.directory().join("r.sock");
    for words in [
        "-c 2 -n 500 -P resp3 --select-db 3".to_string(),
        format!("-c 2 -n 500 -S {}", socket.display()),
        "-c 2 -n 500 --multi-key-get 5 --expiry-range 10-20".into(),
        "-c 2 -n 500 --window batch --pipeline 7 --key-pattern Z:G".into(),
        "-c 2 -n 500 -d 100000 --pipeline 3".into(),
        "-c 2 --test-time 0.5 --rate 2000".into(),
    ] {
        assert_eq!(redis.bench(&words), ExitCode::SUCCESS, "{words}");
        assert_eq!(doubts(&redis.file("out.txt")), [""; 0], "{words}");
    }
}

#[test]
fn wrong_options_and_unreachable_servers_have_their_exit_codes() {
    let run = |words: &str| run_bench(words.split(' ').map(Into::into).collect());
    assert_eq!(run("--pipeline 0"), ExitCode::from(2));
    assert_eq!(run("--no-such-flag"), ExitCode::from(2));
    assert_eq!(run("--cpus 5000"), ExitCode::from(2));
    assert_eq!(run("--monitor-input x"), ExitCode::from(2));
    assert_eq!(run("--monitor-input /missing --command __monitor_line@__"), ExitCode::from(2));
    assert_eq!(run("--command __monitor_line1__"), ExitCode::from(2));
    let port = free_port();
    assert_eq!(run(&format!("-h 127.0.0.1 -p {port} -n 1")), ExitCode::from(3));
}

#[test]
fn an_experiment_goes_on_from_its_journal() {
    let directory = std::env::temp_dir().join(format!("tidemill-resume-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("e.toml");
    let arm = |name: &str| {
        // Each process leaves a line: the size of what its environment is padded with.
        let server = "sh -c 'echo ${#TIDEMILL_PADDING} >> sizes; exec redis-server --port {port} \
                      --save \\\"\\\"'";
        format!("[[arm]]\nname = \"{name}\"\nserver = \"{server}\"\n")
    };
    let load = "[[load]]\nname = \"l\"\nflags = \"-t 1 -c 2 --test-time 0.2\"\n";
    let text = format!("name = \"e\"\nblocks = 2\n{}{}{load}", arm("a"), arm("b"));
    std::fs::write(&file, text).unwrap();
    let out = directory.join("out");
    let run = || {
        let words = ["run", file.to_str().unwrap(), "--out", out.to_str().unwrap()];
        run_experiment(words.iter().map(Into::into).collect())
    };
    assert_eq!(run(), ExitCode::SUCCESS);
    let journal = out.join("journal.jsonl");
    let whole = std::fs::read_to_string(&journal).unwrap();
    assert_eq!(whole.lines().count(), 1 + 2 * 3);
    // Cut in the middle of the fourth run, as a crash would.
    let kept: usize = whole.split_inclusive('\n').take(4).map(str::len).sum();
    std::fs::write(&journal, &whole[..kept + 20]).unwrap();
    assert_eq!(run(), ExitCode::SUCCESS);
    let again = std::fs::read_to_string(&journal).unwrap();
    assert_eq!(again.lines().count(), 7);
    assert_eq!(again[..kept], whole[..kept]);
    let order = |text: &str| -> Vec<(Value, Value)> {
        let lines = text.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|line| (line["block"].clone(), line["arm"].clone())).collect()
    };
    assert_eq!(order(&again), order(&whole));
    // A fresh process for each of the six runs and the three that were made again, in other
    // environments.
    let sizes = std::fs::read_to_string(out.join("sizes")).unwrap();
    assert_eq!(sizes.lines().count(), 6 + 3, "{sizes}");
    assert!(sizes.lines().collect::<std::collections::BTreeSet<_>>().len() > 4, "{sizes}");
    let html = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(!html.contains("http") && !html.contains("<script"));
    std::fs::remove_dir_all(&directory).unwrap();
}

/// Judges a change that takes the list away for which each request waits half a second (harmful),
/// or brings it back (helpful), on a real server; gives the exit code and the length of the list
/// afterwards. No machine is so busy that the difference drowns.
fn judge_list(name: &str, harmful: bool, extra: &[&str]) -> (ExitCode, Reply) {
    let redis = Server::start(REDIS, name, &[]);
    let cli = |command: &str| format!("redis-cli -e -p {} {command}", redis.port);
    let (bring, take) = (cli("rpush l element"), cli("del l"));
    let (apply, revert) = if harmful { (&take, &bring) } else { (&bring, &take) };
    let revert_twice_is_harmless = format!("{take} && {revert}");
    let status = Command::new("sh").args(["-c", &revert_twice_is_harmless]).status().unwrap();
    assert!(status.success());
    let address = format!("127.0.0.1:{}", redis.port);
    let json = redis.directory().join("ab.json");
    let load = "-t 1 -c 2 --test-time 0.15 --command 'BLMOVE l l LEFT RIGHT 0.5'";
    let mut words = vec!["ab", "--apply", apply, "--revert", &revert_twice_is_harmless];
    words.extend(["--address", &address, "--load", load, "--blocks", "8"]);
    words.extend(["--json", json.to_str().unwrap()]);
    words.extend(extra);
    let code = run_experiment(words.iter().map(Into::into).collect());
    if let Ok(text) = std::fs::read_to_string(&json) {
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["kept"], code == ExitCode::SUCCESS);
        assert_eq!(document["with"].as_array().unwrap().len(), 8);
    }
    let mut control = redis.control();
    (code, control.call(&["LLEN", "l"]).unwrap())
}

#[test]
fn ab_rolls_a_harmful_change_back_and_keeps_a_helpful_one() {
    assert_eq!(judge_list("ab-harmful", true, &[]), (ExitCode::from(4), Reply::Integer(1)));
    assert_eq!(judge_list("ab-helpful", false, &[]), (ExitCode::SUCCESS, Reply::Integer(1)));
}

#[test]
fn ab_reverts_when_a_run_fails() {
    // A metric the load does not give fails the first run, a wrong one no run at all.
    let (code, length) = judge_list("ab-fails", true, &["--metric", "set_p99_ms"]);
    assert_eq!((code, length), (ExitCode::from(1), Reply::Integer(1)));
    let (code, length) = judge_list("ab-wrong", true, &["--metric", "speed"]);
    assert_eq!((code, length), (ExitCode::from(2), Reply::Integer(1)));
}

/// Runs an experiment file of one 0.2 s block; gives the exit code and its report, if there is one.
fn run_text(name: &str, text: &str, extra: &[&str]) -> (ExitCode, Option<Value>) {
    let directory = std::env::temp_dir().join(format!("tidemill-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("e.toml");
    std::fs::write(&file, format!("name = \"{name}\"\nblocks = 1\n{text}")).unwrap();
    let out = directory.join("out");
    let words = ["run", file.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let words = words.iter().chain(extra).map(Into::into).collect();
    let code = run_experiment(words);
    let report = std::fs::read_to_string(out.join("report.json")).ok();
    std::fs::remove_dir_all(&directory).unwrap();
    (code, report.map(|text| serde_json::from_str(&text).unwrap()))
}

fn metric(report: &Value, arm: &str, name: &str) -> f64 {
    let runs = report["runs"].as_array().unwrap();
    let run = runs.iter().find(|run| run["arm"] == arm).unwrap();
    run["metrics"][name].as_f64().unwrap()
}

fn skip_reason(report: &Value, arm: &str) -> String {
    let skipped = report["skipped"].as_array().unwrap();
    let entry = skipped.iter().find(|entry| entry[0] == arm).unwrap();
    entry[1].as_str().unwrap().to_string()
}

#[test]
fn arms_have_instances_and_idle_connections_and_are_skipped_by_server_settings() {
    let server = "server = \"redis-server --port {port} --bind 127.0.0.1 --save ''\"\n";
    // The list of clients tells how many connections were open, the load's own among them.
    let load = "[[load]]\nname = \"l\"\nflags = \"-t 1 -c 2 -n 100 -P resp3 \
                --command='CLIENT LIST'\"\n";
    let text = format!(
        "aa = false\nprimary = [\"ops_per_second\"]\n\
         [[arm]]\nname = \"plain\"\n{server}\
         [[arm]]\nname = \"three\"\ninstances = 3\n{server}\
         [[arm]]\nname = \"idle\"\nidle_connections = 1000\n{server}\
         [[arm]]\nname = \"cluster\"\nrequires = {{ redis_mode = \"cluster\" }}\n{server}\
         [[arm]]\nname = \"flavour\"\nrequires = {{ rcu_flavour = \"qsbr\" }}\n{server}\
         [[arm]]\nname = \"crowd\"\nidle_connections = 100000000\n{server}\
         [[arm]]\nname = \"missing\"\nserver = \"no-such-server\"\n{load}"
    );
    let (code, report) = run_text("arms", &text, &[]);
    let report = report.unwrap();
    assert_eq!(code, ExitCode::SUCCESS);
    assert!(skip_reason(&report, "cluster").contains("redis_mode standalone"));
    assert!(skip_reason(&report, "flavour").contains("reports no rcu_flavour"));
    assert!(skip_reason(&report, "crowd").contains("open files"));
    assert!(skip_reason(&report, "missing").contains("not installed"));
    // A list of 1,000 clients costs far more than one of three, however long either waits for a
    // CPU.
    let cost = |arm| metric(&report, arm, "server_cpu_us");
    assert!(cost("idle") > cost("plain") * 5.0, "{} {}", cost("idle"), cost("plain"));
    assert!(metric(&report, "three", "ops_per_second") > 0.0);
}

#[test]
fn saves_are_marked_and_measured() {
    let server = |options: &str| {
        format!(
            "server = \"redis-server --port {{port}} --bind 127.0.0.1 --dir {{directory}} \
             {options}\"\n"
        )
    };
    let text = format!(
        "aa = false\nmarks = true\nprimary = [\"ops_per_second\", \"snapshot_copy_mb\"]\n\
         [[arm]]\nname = \"idle\"\n{}[[arm]]\nname = \"saving\"\n{}\
         [[load]]\nname = \"l\"\nflags = \"-t 1 -c 4 --ratio 1:1 -d 100 --test-time 4 --preload \
         --key-maximum 20000\"\n",
        server("--save ''"),
        server("--save '1 1'"),
    );
    let (code, report) = run_text("saves", &text, &[]);
    let report = report.unwrap();
    assert_eq!(code, ExitCode::SUCCESS);
    let of = |arm: &str| {
        let runs = report["runs"].as_array().unwrap();
        runs.iter().find(|run| run["arm"] == arm).unwrap().clone()
    };
    let marks = |arm: &str| of(arm)["marks"].as_array().unwrap().clone();
    assert!(marks("idle").is_empty(), "{:?}", marks("idle"));
    assert!(marks("saving").iter().any(|mark| mark[1] == "save ends"), "{:?}", marks("saving"));
    assert!(marks("saving").iter().all(|mark| (0.0..60.0).contains(&mark[0].as_f64().unwrap())));
    assert!(of("idle")["metrics"].get("snapshot_copy_mb").is_none());
    assert!(metric(&report, "saving", "snapshot_copy_mb") > 0.0);
    assert!(metric(&report, "saving", "server_peak_mb") > 1.0);
    assert_eq!(metric(&report, "idle", "get_hit_percent"), 100.0);
}

#[test]
fn subscribers_receive_what_the_load_publishes() {
    let server = "server = \"redis-server --port {port} --bind 127.0.0.1 --save ''\"\n";
    let text = format!(
        "aa = false\nprimary = [\"delivered_mb_per_second\"]\n\
         [[arm]]\nname = \"ten\"\nsubscribers = 10\n{server}\
         [[arm]]\nname = \"none\"\n{server}\
         [[load]]\nname = \"l\"\nflags = \"-t 1 -c 2 -d 64 --test-time 0.5 \
         --command='PUBLISH fan-out __data__'\"\n"
    );
    let (code, report) = run_text("fan-out", &text, &[]);
    let report = report.unwrap();
    assert_eq!(code, ExitCode::SUCCESS);
    // Each message has 64 bytes and some of the protocol, ten times. The subscribers are timed from
    // their first message on, a little beyond the load.
    let messages = metric(&report, "ten", "ops_per_second");
    let megabytes = metric(&report, "ten", "delivered_mb_per_second");
    assert!(megabytes > messages * 640.0 / 1e6 / 4.0, "{megabytes} MB/s of {messages} messages");
    assert!(megabytes < messages * 2000.0 / 1e6, "{megabytes} MB/s of {messages} messages");
    let none = report["runs"].as_array().unwrap().iter().find(|run| run["arm"] == "none").unwrap();
    assert!(none["metrics"].get("delivered_mb_per_second").is_none());
}

#[test]
fn programs_measure_under_the_arms_change_and_the_change_is_undone() {
    let directory = std::env::temp_dir().join(format!("tidemill-mark-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let (script, mark) = (directory.join("measure.sh"), directory.join("mark"));
    let measure = format!(
        "if [ -e {} ]; then value=2; else value=1; fi\necho \"{{\\\"ops_per_second\\\": \
         $value}}\"\n",
        mark.display()
    );
    std::fs::write(&script, &measure).unwrap();
    let program = format!("program = \"sh {}\"\n", script.display());
    let (apply, revert) =
        (format!("touch {}", mark.display()), format!("rm -f {}", mark.display()));
    let text = format!(
        "aa = false\nprimary = [\"ops_per_second\"]\n\
         [[arm]]\nname = \"without\"\n{program}\
         [[arm]]\nname = \"with\"\napply = \"{apply}\"\nrevert = \"{revert}\"\n{program}\
         [[load]]\nname = \"l\"\nflags = \"\"\n"
    );
    let (code, report) = run_text("change-refused", &text, &[]);
    assert_eq!((code, report), (ExitCode::from(3), None));
    let (code, report) = run_text("change-allowed", &text, &["--change-machine"]);
    assert_eq!(code, ExitCode::SUCCESS);
    let report = report.unwrap();
    assert_eq!(metric(&report, "without", "ops_per_second"), 1.0);
    assert_eq!(metric(&report, "with", "ops_per_second"), 2.0);
    assert!(!mark.exists());
    // A program that fails ends the experiment; the change is still undone.
    std::fs::write(&script, measure.replace("value=2", "exit 7")).unwrap();
    let (code, _) = run_text("change-fails", &text, &["--change-machine"]);
    assert_eq!(code, ExitCode::from(1));
    assert!(!mark.exists());
    std::fs::remove_dir_all(&directory).unwrap();
}

fn stat(redis: &Server, field: &str) -> u64 {
    let mut control = redis.control();
    control.info("stats", field).unwrap().unwrap().parse().unwrap()
}

/// Waits until a load is well under way, with all of its connections; `before` is how many GETs
/// there were without it.
fn await_load(server: &Server, before: u64) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while calls(server, "get") < before + 200 {
        assert!(Instant::now() < deadline, "the load does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn connections_are_renewed_after_their_interval(program: &str) {
    let redis = Server::start(program, "interval", &[]);
    for words in ["", "--pipeline 4", "--pipeline 4 --window batch", "--rate 5000 --pipeline 3"] {
        let before = stat(&redis, "total_connections_received");
        let load = format!("-c 2 -n 100 --reconnect-interval 10 {words}");
        let load = if words.starts_with("--rate") {
            load.replace("-n 100", "--test-time 0.5")
        } else {
            load
        };
        assert_eq!(redis.bench(&load), ExitCode::SUCCESS, "{words}: {}", redis.file("out.txt"));
        let made = stat(&redis, "total_connections_received") - before;
        // Ten sockets for each of two connections, and some that look at INFO.
        assert!((20..=30).contains(&made) || words.starts_with("--rate") && made > 100, "{made}");
        assert!(redis.file("out.txt").contains("Reconnected"), "{words}");
        assert_eq!(doubts(&redis.file("out.txt")), [""; 0], "{words}");
    }
}

fn lost_connections_are_made_again_only_when_asked_for_and_always_counted(program: &str) {
    let redis = Server::start(program, "lost", &[]);
    // Once the load runs; gives how many requests there were by then.
    let kill = |before: u64| {
        await_load(&redis, before);
        let mut control = redis.control();
        control.call(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).unwrap();
        calls(&redis, "get")
    };
    for (words, goes_on) in
        [("", false), ("--reconnect-on-error", true), ("--reconnect-on-error --rate 3000", true)]
    {
        let load = format!("-c 3 --test-time 5 {words}");
        let before = calls(&redis, "get");
        let (code, until_then) = std::thread::scope(|scope| {
            let load = scope.spawn(|| redis.bench(&load));
            let until_then = kill(before);
            (load.join().unwrap(), until_then)
        });
        assert_eq!(code, ExitCode::from(1), "{words}");
        let report = redis.file("out.txt");
        assert!(report.contains("WARNING: 3 connections were lost"), "{report}");
        assert_eq!(report.contains("Reconnected 3 times"), goes_on, "{report}");
        assert!(!goes_on || calls(&redis, "get") > until_then + 100, "{words}");
    }
}

fn a_server_that_is_gone_is_given_up_after_the_allowed_attempts(program: &str) {
    let mut redis = Server::start(program, "gone", &[]);
    let words = "-c 3 --test-time 60 --reconnect-on-error --max-reconnect-attempts 4 \
                 --reconnect-backoff-factor 2";
    let own = format!(
        "-h 127.0.0.1 -p {} -t 1 -o {}/out.txt {words}",
        redis.port,
        redis.directory().display()
    );
    let start = Instant::now();
    let load = std::thread::spawn(move || run_bench(own.split(' ').map(Into::into).collect()));
    await_load(&redis, 0);
    redis.kill();
    assert_eq!(load.join().unwrap(), ExitCode::from(1));
    assert!(start.elapsed() < Duration::from_secs(30));
    let report = redis.file("out.txt");
    let lost = report.split_once(" connections were lost").expect(&report).0;
    let lost: u32 = lost.rsplit(' ').next().unwrap().parse().expect(&report);
    // A process that ends may close its connections first and its port last: those that are made
    // in between are lost like the first ones.
    assert!((3..=15).contains(&lost), "{report}");
}

fn clean_up_removes_our_keys_only_and_histograms_go_to_files(program: &str) {
    let redis = Server::start(program, "cleanup", &[]);
    let mut control = redis.control();
    control.call(&["SET", "memtier-x", "theirs"]).unwrap();
    control.call(&["SET", "memtier-1000", "theirs"]).unwrap();
    let prefix = redis.directory().join("hdr");
    let words = format!(
        "-c 2 -n 1100 --key-maximum 999 --preload --cleanup -x 2 --hdr-file-prefix {}",
        prefix.display()
    );
    assert_eq!(redis.bench(&words), ExitCode::SUCCESS);
    assert_eq!(control.call(&["DBSIZE"]).unwrap(), Reply::Integer(2));
    for (name, count) in [("FULL", 2200), ("SET", 200), ("GET", 2000)] {
        for run in 1..=2 {
            let text = redis.file(&format!("hdr_{name}_RUN_{run}.txt"));
            assert!(text.contains(&format!("Total count    = {count:>12}")), "{text}");
        }
    }
}

/// Output of MONITOR until a client says PING with `last`, in a thread of its own.
fn record(server: &Server, last: &'static str) -> std::thread::JoinHandle<Vec<u8>> {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    stream.write_all(b"MONITOR\r\n").unwrap();
    let mut reader = BufReader::new(stream);
    let mut text = Vec::new();
    // The answer to MONITOR: from here on everything is recorded.
    reader.read_until(b'\n', &mut text).unwrap();
    std::thread::spawn(move || {
        let mut line = Vec::new();
        loop {
            line.clear();
            reader.read_until(b'\n', &mut line).unwrap();
            assert!(!line.is_empty(), "MONITOR ended");
            if String::from_utf8_lossy(&line).contains(last) {
                return text;
            }
            text.extend_from_slice(&line);
        }
    })
}

fn recorded_commands_are_sent_again_as_they_were(program: &str) {
    let options = ["--enable-debug-command", "yes"];
    let (source, target) = (
        Server::start(program, "recorded", &options),
        Server::start(program, "replayed", &options),
    );
    let recording = record(&source, "the last command");
    let words = "-c 2 -n 300 -R -d 60 --key-maximum 40 --ratio 1:1 --select-db 0";
    assert_eq!(source.bench(words), ExitCode::SUCCESS);
    let mut control = source.control();
    let script = "return redis.call('rpush', KEYS[1], ARGV[1])";
    control.call(&["EVAL", script, "1", "list", "bytes \r\n \u{7} and \"quotes\""]).unwrap();
    control.call(&["PING", "the last command"]).unwrap();
    let text = recording.join().unwrap();
    let path = target.directory().join("monitor.txt");
    std::fs::write(&path, &text).unwrap();
    let count = Recording::parse(&text).commands.len();
    assert!(count > 600, "{count}");
    let replay = format!(
        "--monitor-input {{dir}}/monitor.txt --command __monitor_line@__ -c 1 -n {count} \
         --json-out-file {{dir}}/out.json"
    );
    assert_eq!(target.bench(&replay), ExitCode::SUCCESS, "{}", target.file("out.txt"));
    let digest =
        |server: &Server| server.control().call(&["DEBUG", "DIGEST"]).unwrap().text().unwrap();
    assert_eq!(digest(&target), digest(&source));
    let document: Value = serde_json::from_str(&target.file("out.json")).unwrap();
    let stats = &document["ALL STATS"];
    for (row, count) in [("Sets", 300), ("Gets", 300), ("Evals", 1)] {
        assert_eq!(stats[row]["Count"], count, "{row}");
    }
    // The script pushed once; its push was recorded too and must not be sent by itself.
    let length = target.control().call(&["LLEN", "list"]).unwrap();
    assert_eq!(length, Reply::Integer(1));
    // Four connections take the lines in turn, together each as often; one line by its number.
    let before = calls(&target, "get");
    let threads = replay.replace("-c 1", "-c 4");
    assert_eq!(target.bench(&threads), ExitCode::SUCCESS, "{}", target.file("out.txt"));
    assert_eq!(calls(&target, "get") - before, 4 * 300);
    let random = replay.replace("__monitor_line@__", "__monitor_line@__ --monitor-pattern R");
    assert_eq!(target.bench(&random), ExitCode::SUCCESS, "{}", target.file("out.txt"));
    let flush =
        b"+1.5 [0 127.0.0.1:1] \"flushall\"\r\n+1.6 [0 127.0.0.1:1] \"set\" \"only\" \"1\"\r\n";
    std::fs::write(&path, flush).unwrap();
    let words = "--monitor-input {dir}/monitor.txt --command __monitor_line1__ --command \
                 __monitor_line2__ --command-ratio 3 -c 1 -n 8";
    assert_eq!(target.bench(words), ExitCode::SUCCESS, "{}", target.file("out.txt"));
    assert_eq!(target.control().call(&["DBSIZE"]).unwrap(), Reply::Integer(1));
    assert_eq!((calls(&target, "flushall"), calls(&target, "set") >= 6), (2, true));
}

/// Number of times that a server ran a command.
fn calls(server: &Server, command: &str) -> u64 {
    let line = server.control().info("commandstats", &format!("cmdstat_{command}")).unwrap();
    let Some(line) = line else { return 0 };
    line.strip_prefix("calls=").unwrap().split(',').next().unwrap().parse().unwrap()
}
