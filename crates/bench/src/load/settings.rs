//! Settings of one run: plain data, validated where it is made (`cli`, `experiment`).

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::load::command::Command;
use crate::load::tls::Tls;

/// A password: never printed, not even by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("(secret)")
    }
}

/// Address at which the server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Host name or address, and port.
    Tcp(String, u16),
    /// Unix domain socket.
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(formatter, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(formatter, "{host}:{port}"),
            Self::Unix(path) => write!(formatter, "{}", path.display()),
        }
    }
}

/// Family of a host name's addresses that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The first that resolves.
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

/// Protocol version asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Protocol that the server starts with; no HELLO is sent.
    Default,
    /// `HELLO 2`.
    Resp2,
    /// `HELLO 3`.
    Resp3,
}

/// The server and how a connection to it is set up.
#[derive(Clone, Debug)]
pub struct Target {
    /// Address.
    pub endpoint: Endpoint,
    /// Address family for host names.
    pub family: Family,
    /// ACL user.
    pub user: Option<String>,
    /// Password.
    pub password: Option<Secret>,
    /// Database number.
    pub database: u32,
    /// Protocol version.
    pub protocol: Protocol,
    /// TLS, if any.
    pub tls: Option<Tls>,
    /// Spread the connections over the masters of a Redis Cluster and route by slot.
    pub cluster: bool,
    /// Limit for connecting and for the handshake; zero means none for connecting.
    pub timeout: Duration,
}

impl Target {
    /// A plain TCP target with everything else at its default.
    pub fn tcp(host: &str, port: u16) -> Self {
        Self {
            endpoint: Endpoint::Tcp(host.into(), port),
            family: Family::Any,
            user: None,
            password: None,
            database: 0,
            protocol: Protocol::Default,
            tls: None,
            cluster: false,
            timeout: Duration::ZERO,
        }
    }

    /// True if the server is on this machine, judged by its address.
    pub fn is_local(&self) -> bool {
        match &self.endpoint {
            Endpoint::Unix(_) => true,
            Endpoint::Tcp(host, _) => {
                host.eq_ignore_ascii_case("localhost")
                    || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
            }
        }
    }
}

/// Refill policy of a connection's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// Every reply frees a place: `pipeline` requests are always on their way.
    Sliding,
    /// The next `pipeline` requests go out when all replies of the last ones are in.
    Batch,
}

/// Condition that ends a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// After this many requests per connection.
    Requests(u64),
    /// After this time, warm-up not included.
    Time(Duration),
}

/// Distances between scheduled sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Exponential distances: independent users.
    Poisson,
    /// Equal distances.
    Even,
}

/// Closed loop, or open loop with a rate.
#[derive(Clone, Debug, PartialEq)]
pub enum Pace {
    /// A request is sent when a reply made room for it.
    Closed,
    /// Requests are sent at scheduled times, whatever the server does. The steps are
    /// (seconds from the start, requests per second in all); between two steps the rate changes
    /// linearly, after the last it stays.
    Open {
        /// Distances between sends.
        arrivals: Arrivals,
        /// Rate over time, at least one step.
        steps: Vec<(f64, f64)>,
    },
}

/// Sizes of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// One size for all.
    Fixed(usize),
    /// Uniform between the two, inclusive.
    Range(usize, usize),
    /// (size, weight).
    Weighted(Vec<(usize, u32)>),
}

/// Values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values {
    /// Sizes in bytes.
    pub sizes: Sizes,
    /// Size grows with the key index over the key range instead of being drawn.
    pub size_by_key: bool,
    /// Random bytes instead of `x`.
    pub random: bool,
}

/// Keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Keys {
    /// Before the number.
    pub prefix: String,
    /// Smallest number.
    pub minimum: u64,
    /// Largest number.
    pub maximum: u64,
    /// Exponent of the zipf pattern.
    pub zipf_exponent: f64,
    /// Standard deviation of the Gaussian pattern.
    pub standard_deviation: f64,
    /// Centre of the Gaussian pattern.
    pub median: f64,
}

/// Seeds of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seeds {
    /// Seed of the run.
    pub run: u64,
    /// Each connection draws its own keys; otherwise all draw the same, as memtier does by default.
    pub distinct: bool,
}

/// Treatment of lost connections.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Reconnect {
    /// Reconnect after this many requests; 0 never.
    pub interval: u64,
    /// Reconnect when a connection is lost.
    pub on_error: bool,
    /// Give up after this many attempts in a row; 0 never.
    pub attempts_max: u32,
    /// Each further attempt waits this many times longer than the last, from 1 ms up to 30 s; 0
    /// always waits 1 ms.
    pub backoff_factor: f64,
}

/// More and more clients in steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staircase {
    /// Connections per thread at the start.
    pub start: u32,
    /// Connections per thread added by a step.
    pub step: u32,
    /// Length of a step.
    pub duration: Duration,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Server.
    pub target: Target,
    /// Load threads.
    pub threads: u32,
    /// Connections per thread.
    pub connections: u32,
    /// Requests on their way per connection, at most.
    pub pipeline: u32,
    /// Refill policy.
    pub window: Window,
    /// End of the run.
    pub end: End,
    /// Discarded at the beginning.
    pub warmup: Duration,
    /// Closed or open loop.
    pub pace: Pace,
    /// Commands in the order of sending, each as often as its ratio says.
    pub commands: Vec<Command>,
    /// Keys.
    pub keys: Keys,
    /// Values.
    pub values: Values,
    /// Seeds.
    pub seeds: Seeds,
    /// Compare sampled values with what was written.
    pub verify: bool,
    /// Lost connections.
    pub reconnect: Reconnect,
    /// More clients in steps.
    pub staircase: Option<Staircase>,
    /// Random pause before each connection is made, in microseconds: minimum and maximum.
    pub connect_jitter_us: (u64, u64),
    /// CPUs for the load threads, one after the other; empty leaves them to the scheduler.
    pub cpus: Vec<usize>,
    /// Follow the cursor that SCAN returns; at most this many times per cycle, 0 to its end.
    pub scan_cursor: Option<u32>,
}

impl Settings {
    /// A closed loop of one connection with one request at a time, for a second and without
    /// commands yet: what a load is of which nothing else is said.
    #[must_use]
    pub fn plain(target: Target) -> Settings {
        Settings {
            target,
            threads: 1,
            connections: 1,
            pipeline: 1,
            window: Window::Sliding,
            end: End::Time(Duration::from_secs(1)),
            warmup: Duration::ZERO,
            pace: Pace::Closed,
            commands: Vec::new(),
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
}
