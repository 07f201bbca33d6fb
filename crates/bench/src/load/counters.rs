//! Counts of a load thread, and the sum of the threads' counts.

use crate::histogram::{Histogram, Sparse};
use crate::limits::{SECOND_NS, THROUGHPUT_SLOT_NS};

/// Counts of one command in one second.
#[derive(Clone, Debug, Default)]
pub struct SecondResult {
    /// Replies.
    pub ops: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Replies that were not nil.
    pub hits: u64,
    /// Nil replies.
    pub misses: u64,
    /// Error replies.
    pub errors: u64,
    /// Latencies: from the intended start in an open loop, from the send in a closed one.
    pub latency: Sparse,
}

impl SecondResult {
    fn add(&mut self, other: &SecondResult) {
        self.ops += other.ops;
        self.bytes_received += other.bytes_received;
        self.bytes_sent += other.bytes_sent;
        self.hits += other.hits;
        self.misses += other.misses;
        self.errors += other.errors;
        let mut latency = self.latency.to_histogram();
        latency.add_sparse(&other.latency);
        self.latency = latency.to_sparse();
    }
}

/// Counts of one command over a run.
#[derive(Clone, Default)]
pub struct KindResult {
    /// Everything, with its latencies.
    pub total: SecondResult,
    /// Latency: from the intended start in an open loop, from the send in a closed one.
    pub latency: Histogram,
    /// Latency from the actual send; only in an open loop.
    pub service: Option<Histogram>,
    /// By second from the start of the measurement.
    pub seconds: Vec<SecondResult>,
}

impl KindResult {
    /// Adds what another thread counted.
    pub fn add(&mut self, other: &KindResult) {
        self.latency.add(&other.latency);
        if let Some(service) = &other.service {
            self.service.get_or_insert_with(Histogram::new).add(service);
        }
        if self.seconds.len() < other.seconds.len() {
            self.seconds.resize_with(other.seconds.len(), SecondResult::default);
        }
        for (ours, theirs) in self.seconds.iter_mut().zip(&other.seconds) {
            ours.add(theirs);
        }
        add_counts(&mut self.total, &other.total);
    }
}

/// All but the latencies, which a total keeps in its histogram.
fn add_counts(total: &mut SecondResult, other: &SecondResult) {
    total.ops += other.ops;
    total.bytes_received += other.bytes_received;
    total.bytes_sent += other.bytes_sent;
    total.hits += other.hits;
    total.misses += other.misses;
    total.errors += other.errors;
}

/// Counts of one thread while it runs.
pub(super) struct Counters {
    pub kinds: Vec<KindCounters>,
    /// Replies per 100 ms.
    pub slots: Vec<u64>,
    slot_ops: u64,
    next_slot_ns: u64,
    next_second_ns: u64,
}

/// Counts of one command in the second that runs.
pub(super) struct KindCounters {
    pub second: SecondResult,
    pub latency: Histogram,
    pub service: Option<Histogram>,
    result: KindResult,
}

impl KindCounters {
    /// The seconds that are over.
    pub fn closed(&self) -> &KindResult {
        &self.result
    }
}

impl Counters {
    pub fn new(kinds: usize, open_loop: bool, start_ns: u64) -> Self {
        let kinds = (0..kinds)
            .map(|_| KindCounters {
                second: SecondResult::default(),
                latency: Histogram::new(),
                service: open_loop.then(Histogram::new),
                result: KindResult::default(),
            })
            .collect();
        Self {
            kinds,
            slots: Vec::new(),
            slot_ops: 0,
            next_slot_ns: start_ns + THROUGHPUT_SLOT_NS,
            next_second_ns: start_ns + SECOND_NS,
        }
    }

    /// Closes the slots and seconds that ended before `now_ns`.
    #[inline]
    pub fn advance(&mut self, now_ns: u64) {
        while now_ns >= self.next_slot_ns {
            self.slots.push(std::mem::take(&mut self.slot_ops));
            self.next_slot_ns += THROUGHPUT_SLOT_NS;
        }
        while now_ns >= self.next_second_ns {
            self.close_second();
            self.next_second_ns += SECOND_NS;
        }
    }

    /// Counts replies of one command that arrived together and were sent together.
    #[inline]
    pub fn record(&mut self, kind: usize, latency_ns: u64, service_ns: Option<u64>, count: u64) {
        let counters = &mut self.kinds[kind];
        counters.latency.record_n(latency_ns, count);
        counters.second.ops += count;
        if let (Some(service), Some(service_ns)) = (&mut counters.service, service_ns) {
            service.record_n(service_ns, count);
        }
        self.slot_ops += count;
    }

    fn close_second(&mut self) {
        for kind in &mut self.kinds {
            let mut second = std::mem::take(&mut kind.second);
            second.latency = kind.latency.take();
            kind.result.latency.add_sparse(&second.latency);
            add_counts(&mut kind.result.total, &second);
            kind.result.seconds.push(second);
        }
    }

    /// The counts of the whole run.
    pub fn finish(mut self) -> (Vec<KindResult>, Vec<u64>) {
        self.close_second();
        let kinds = self.kinds.into_iter().map(|mut kind| {
            kind.result.service = kind.service;
            while kind.result.seconds.last().is_some_and(|second| second.ops == 0) {
                kind.result.seconds.pop();
            }
            kind.result
        });
        (kinds.collect(), self.slots)
    }
}
