//! A fake server that logs the delays it really made: the load generator must find the same
//! percentiles, in a closed and in an open loop, and an open loop must show the stall that a closed
//! one hides.

#![allow(clippy::unwrap_used)] // A helper that fails fails its test.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidemill_bench::load::command::{Command, Role};
use tidemill_bench::load::settings::{
    Arrivals, End, Keys, Pace, Reconnect, Seeds, Settings, Sizes, Target, Values, Window,
};
use tidemill_bench::load::{RunResult, run};

/// How long each request waits, by its number on the connection.
type Delay = fn(u64) -> Duration;

/// Times of arrival and reply.
type Log = Mutex<Vec<(Instant, Instant)>>;

/// Answers one request after the other on each connection and logs (arrival, reply) times.
fn fake_server(delay: Delay) -> (u16, Arc<Log>, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let log = Arc::new(Mutex::new(Vec::new()));
    let shared = log.clone();
    let thread = std::thread::spawn(move || {
        let mut servers = Vec::new();
        for stream in listener.incoming().take(CONNECTIONS) {
            let log = shared.clone();
            servers.push(std::thread::spawn(move || serve(stream.unwrap(), delay, &log)));
        }
        for server in servers {
            server.join().unwrap();
        }
    });
    (port, log, thread)
}

const CONNECTIONS: usize = 8;

fn serve(mut stream: TcpStream, delay: Delay, log: &Log) {
    stream.set_nodelay(true).unwrap();
    let mut buffer = [0; 4096];
    let mut own = Vec::new();
    let mut number = 0;
    while let Ok(count) = stream.read(&mut buffer) {
        if count == 0 {
            break;
        }
        let arrived = Instant::now();
        // Requests are told apart by their array header.
        let requests = buffer[..count].iter().filter(|&&byte| byte == b'*').count();
        for _ in 0..requests {
            std::thread::sleep(delay(number));
            number += 1;
            let replied = Instant::now();
            if stream.write_all(b"$-1\r\n").is_err() {
                break;
            }
            own.push((arrived, replied));
        }
    }
    log.lock().unwrap().extend(own);
}

fn settings(port: u16, pace: Pace, end: End) -> Settings {
    let mut command = Command::parse("GET __key__", (0, 9)).unwrap();
    command.role = Role::Get;
    Settings {
        target: Target::tcp("127.0.0.1", port),
        threads: 1,
        connections: CONNECTIONS as u32,
        pipeline: 1,
        window: Window::Sliding,
        end,
        warmup: Duration::ZERO,
        pace,
        commands: vec![command],
        keys: Keys {
            prefix: "k".into(),
            minimum: 0,
            maximum: 9,
            zipf_exponent: 1.0,
            standard_deviation: 1.0,
            median: 5.0,
        },
        values: Values { sizes: Sizes::Fixed(1), size_by_key: false, random: false },
        seeds: Seeds { run: 1, distinct: true },
        verify: false,
        reconnect: Reconnect::default(),
        staircase: None,
        connect_jitter_us: (0, 0),
        cpus: Vec::new(),
        scan_cursor: None,
    }
}

fn load(delay: Delay, pace: Pace, end: End) -> (RunResult, Vec<f64>) {
    let (port, log, thread) = fake_server(delay);
    let stop = Arc::new(AtomicBool::new(false));
    // A process id that is given keeps the run from asking the fake server for INFO.
    let pid = Some(std::process::id());
    let result = run(&settings(port, pace, end), pid, &stop, |_| {}).unwrap();
    thread.join().unwrap();
    let mut logged: Vec<f64> = log
        .lock()
        .unwrap()
        .iter()
        .map(|(arrived, replied)| replied.duration_since(*arrived).as_nanos() as f64)
        .collect();
    logged.sort_by(f64::total_cmp);
    (result, logged)
}

fn one_to_fifty_ms(number: u64) -> Duration {
    // Spread over 1 to 50 ms without repeating soon.
    Duration::from_micros(1_000 + number * 7_919 % 49_000)
}

fn stall(number: u64) -> Duration {
    if number == 20 { Duration::from_millis(400) } else { Duration::from_millis(1) }
}

fn logged_percentile(logged: &[f64], percentile: f64) -> f64 {
    logged[(percentile / 100.0 * logged.len() as f64).ceil() as usize - 1]
}

/// The first percentile that differs from the log by more than 1 % and 0.3 ms of wake-up time.
fn first_difference(name: &str, pace: Pace) -> Option<String> {
    let (result, logged) = load(one_to_fifty_ms, pace, End::Time(Duration::from_secs(4)));
    let total = result.total();
    assert_eq!(total.latency.count(), logged.len() as u64, "{name}: every reply is counted once");
    // Service time: what the server made of it, queueing in the client left out.
    let service = total.service.as_ref().unwrap_or(&total.latency);
    [25.0, 50.0, 75.0, 90.0].into_iter().find_map(|percentile| {
        let (found, expected) =
            (service.percentile_ns(percentile) as f64, logged_percentile(&logged, percentile));
        let line =
            format!("{name} p{percentile}: {:.3} ms, logged {:.3} ms", found / 1e6, expected / 1e6);
        println!("{line}");
        let near = found > expected * 0.99 && found < expected * 1.01 + 300_000.0;
        (!near).then_some(line)
    })
}

#[test]
fn percentiles_of_the_servers_log_are_recovered() {
    let open = Pace::Open { arrivals: Arrivals::Even, steps: vec![(0.0, 200.0)] };
    for (name, pace) in [("closed", Pace::Closed), ("open", open)] {
        // On a busy machine a reply may wait for the client's CPU, which is no error of the count:
        // a wrong figure stays wrong, a late wake-up does not come three times.
        let differences: Vec<_> =
            (0..3).map_while(|_| first_difference(name, pace.clone())).collect();
        assert!(differences.len() < 3, "{differences:?}");
    }
}

#[test]
fn an_open_loop_shows_the_stall_that_a_closed_loop_hides() {
    let rate = 800.0;
    let open = Pace::Open { arrivals: Arrivals::Even, steps: vec![(0.0, rate)] };
    let (closed, _) = load(stall, Pace::Closed, End::Time(Duration::from_secs(1)));
    let (open, _) = load(stall, open, End::Time(Duration::from_secs(1)));
    // Eight of about 5,000 requests met the stall themselves.
    assert!(closed.total().latency.percentile_ns(95.0) < 20_000_000);
    // Of those scheduled in its 400 ms, most waited long: far more than 5 % of all.
    assert!(open.total().latency.percentile_ns(90.0) > 100_000_000);
    assert!(open.total().service.unwrap().percentile_ns(95.0) < 20_000_000);
}
