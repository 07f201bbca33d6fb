//! A fake server that logs what it really did: the load generator must find the same percentiles,
//! in a closed and in an open loop, and an open loop must show the stall that a closed one hides.
//!
//! Nothing here depends on how fast the machine is. The log gives two bounds for every latency. The
//! client cannot have sent before the server answered it last, nor later than its request arrived;
//! it cannot have received before the server answered, nor later than its next request arrived (in
//! the loads below it always has one to send) or it hung up. On an idle machine the bounds are less
//! than 0.1 ms apart, on a busy one as large as the client's real wait for a CPU.

#![allow(clippy::unwrap_used)] // A helper that fails fails its test.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidemill_bench::load::command::{Command, Role};
use tidemill_bench::load::settings::{Arrivals, End, Pace, Protocol, Settings, Target};
use tidemill_bench::load::{RunResult, run};

/// Wait of each request, by its number on the connection.
type Delay = fn(u64) -> Duration;

/// Each has a load thread of its own, so that it is closed as soon as it is done.
const CONNECTIONS: usize = 16;

/// Events that the server saw of a connection.
struct Log {
    /// Before the reply to HELLO was sent.
    greeted: Instant,
    /// Time at which each request had arrived, before its reply was sent.
    requests: Vec<(Instant, Instant)>,
    /// Time at which the client had hung up.
    ended: Instant,
}

impl Log {
    /// Bounds for the moment at which the reply to request `index` was received.
    fn received(&self, index: usize) -> (Instant, Instant) {
        let latest = self.requests.get(index + 1).map_or(self.ended, |next| next.0);
        (self.requests[index].1, latest)
    }

    /// Bounds for the moment at which request `index` was sent.
    fn sent(&self, index: usize) -> (Instant, Instant) {
        let earliest = index.checked_sub(1).map_or(self.greeted, |last| self.requests[last].1);
        (earliest, self.requests[index].0)
    }
}

/// Answers one request after the other on each connection.
fn fake_server(delay: Delay) -> (u16, JoinHandle<Vec<Log>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let accept = move || {
        let streams = listener.incoming().take(CONNECTIONS);
        let threads: Vec<_> = streams
            .map(|stream| std::thread::spawn(move || serve(stream.unwrap(), delay)))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    };
    (port, std::thread::spawn(accept))
}

fn serve(mut stream: TcpStream, delay: Delay) -> Log {
    stream.set_nodelay(true).unwrap();
    let mut buffer = [0; 4096];
    assert!(stream.read(&mut buffer).unwrap() > 0);
    let greeted = Instant::now();
    stream.write_all(b"*0\r\n").unwrap();
    let mut requests = Vec::new();
    loop {
        let count = stream.read(&mut buffer).unwrap();
        let arrived = Instant::now();
        if count == 0 {
            return Log { greeted, requests, ended: arrived };
        }
        // One request on its way: the client has no pipeline.
        assert_eq!(buffer[..count].iter().filter(|&&byte| byte == b'*').count(), 1);
        std::thread::sleep(delay(requests.len() as u64));
        requests.push((arrived, Instant::now()));
        stream.write_all(b"$-1\r\n").unwrap();
    }
}

fn settings(port: u16, pace: Pace, end: End) -> Settings {
    let mut command = Command::parse("GET __key__", (0, 9)).unwrap();
    command.role = Role::Get;
    let target = Target { protocol: Protocol::Resp2, ..Target::tcp("127.0.0.1", port) };
    let threads = CONNECTIONS as u32;
    Settings { threads, end, pace, commands: vec![command], ..Settings::plain(target) }
}

fn load(delay: Delay, pace: Pace, end: End) -> (RunResult, Vec<Log>) {
    let (port, server) = fake_server(delay);
    let stop = Arc::new(AtomicBool::new(false));
    // A process id that is given keeps the run from asking the fake server for INFO.
    let pid = Some(std::process::id());
    let result = run(&settings(port, pace, end), pid, &stop, |_| {}).unwrap();
    let logs = server.join().unwrap();
    let logged: usize = logs.iter().map(|log| log.requests.len()).sum();
    assert_eq!(result.total().latency.count(), logged as u64, "every reply is counted once");
    (result, logs)
}

/// Spread over 1 to 50 ms, the short ones more often; every fiftieth a stall.
fn delay(number: u64) -> Duration {
    if number % 50 == 40 {
        return Duration::from_millis(300);
    }
    let share = (number * 7_919 % 1_000) as f64 / 1_000.0;
    Duration::from_secs_f64(0.001 + 0.049 * share.powi(3))
}

/// Smallest and largest possible value of each latency.
#[derive(Default)]
struct Bounds {
    lower: Vec<f64>,
    upper: Vec<f64>,
}

impl Bounds {
    /// Takes a latency that began and ended within these bounds; `shift` is added to its beginning.
    fn add(&mut self, begun: (Instant, Instant), shift: f64, ended: (Instant, Instant)) {
        let seconds = |from: Instant, to: Instant| match to.checked_duration_since(from) {
            Some(after) => after.as_secs_f64(),
            None => -from.duration_since(to).as_secs_f64(),
        };
        self.lower.push(seconds(begun.1, ended.0) - shift);
        self.upper.push(seconds(begun.0, ended.1) - shift);
    }

    /// The order of the bounds bounds the order of the values, so the percentile lies between
    /// theirs.
    fn check(mut self, name: &str, percentile_ns: impl Fn(f64) -> u64) {
        self.lower.sort_by(f64::total_cmp);
        self.upper.sort_by(f64::total_cmp);
        for percentile in [50.0, 75.0, 90.0, 95.0, 99.0, 99.9] {
            let rank = (percentile / 100.0 * self.lower.len() as f64).ceil() as usize - 1;
            let (lower, upper) = (self.lower[rank] * 1e3, self.upper[rank] * 1e3);
            let found = percentile_ns(percentile) as f64 / 1e6;
            println!("{name} p{percentile}: {found:.3} ms; by the log {lower:.3} to {upper:.3} ms");
            assert!(
                found > lower * 0.99 && found < upper * 1.01,
                "{name} p{percentile}: {found} ms, by the log {lower} to {upper} ms"
            );
        }
    }
}

fn service_bounds(logs: &[Log]) -> Bounds {
    let mut bounds = Bounds::default();
    for log in logs {
        for index in 0..log.requests.len() {
            bounds.add(log.sent(index), 0.0, log.received(index));
        }
    }
    bounds
}

#[test]
fn a_closed_loop_finds_the_percentiles_of_the_servers_log() {
    let (result, logs) = load(delay, Pace::Closed, End::Requests(200));
    let total = result.total();
    service_bounds(&logs).check("closed", |percentile| total.latency.percentile_ns(percentile));
}

#[test]
fn an_open_loop_finds_the_percentiles_of_the_servers_log() {
    // More than the server takes, so that each connection always has a request to send: what is due
    // in 0.3 s takes it 1.2 s. On a busy machine it takes longer, and replies are waited for 5 s.
    let rate = 250.0;
    let steps = vec![(0.0, rate * CONNECTIONS as f64)];
    let pace = Pace::Open { arrivals: Arrivals::Even, steps };
    let (result, logs) = load(delay, pace, End::Time(Duration::from_millis(300)));
    let total = result.total();
    let service = total.service.unwrap();
    service_bounds(&logs).check("service", |percentile| service.percentile_ns(percentile));
    // The schedule begins when all are connected, its first request within the first interval.
    let connected = logs.iter().map(|log| log.greeted).max().unwrap();
    let mut response = Bounds::default();
    for log in &logs {
        let first = (connected, log.requests[0].0);
        for index in 0..log.requests.len() {
            response.add(first, index as f64 / rate, log.received(index));
        }
    }
    response.check("response", |percentile| total.latency.percentile_ns(percentile));
}

fn one_stall(number: u64) -> Duration {
    Duration::from_millis(if number == 20 { 400 } else { 1 })
}

#[test]
fn an_open_loop_shows_the_stall_that_a_closed_loop_hides() {
    let steps = vec![(0.0, 100.0 * CONNECTIONS as f64)];
    let open = Pace::Open { arrivals: Arrivals::Even, steps };
    let (closed, _) = load(one_stall, Pace::Closed, End::Requests(200));
    let (open, _) = load(one_stall, open, End::Time(Duration::from_secs(1)));
    // Of 100 requests of a connection, 40 are scheduled while it stalls: a quarter of all wait 150
    // ms or more, however fast the machine is. One in 200 met the stall itself.
    let response = open.total().latency.percentile_ns(75.0);
    assert!(response > 100_000_000, "{response}");
    // Factors that only a machine without a free CPU for a second could bring about.
    assert!(open.total().service.unwrap().percentile_ns(95.0) < response / 2);
    assert!(closed.total().latency.percentile_ns(95.0) < response / 2);
}
