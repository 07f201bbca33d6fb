//! A load thread: the hot loop.
//!
//! Per readiness event: one receive, one clock reading, one pass of the scanner, the next requests
//! rendered, one send. The clock reading after the receive stamps the arrival of the replies and
//! the departure of the requests that follow, so the time between the two (rendering, about 20 ns
//! a request) is counted as latency and never hidden.

mod reconnect;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};

use crate::hardware::{HardwareUsage, Watch};
use crate::limits::{
    DRAIN_LIMIT, EVENTS_PER_WAIT, PUBLISH_INTERVAL, RECEIVE_BUFFER_BYTES, VERIFY_ONE_IN,
    WHOLE_REPLY_BYTES_MAX,
};
use crate::load::cluster::Cluster;
use crate::load::command::{Role, Template};
use crate::load::connection::{Connection, Pending, Sent};
use crate::load::counters::{Counters, KindResult};
use crate::load::scan::{Reply, ReplyKind};
use crate::load::schedule::Schedule;
use crate::load::settings::{End, Endpoint, Settings, Window};
use crate::load::values::Slab;
use crate::process::ThreadUsage;

/// State that all threads of a run share; read only but for `published`, in which each thread
/// writes its own entry.
pub(super) struct Shared {
    pub cluster: Option<std::sync::Arc<Cluster>>,
    pub settings: Settings,
    pub templates: Vec<Template>,
    pub slab: std::sync::Arc<Slab>,
    pub stop: AtomicBool,
    pub published: Vec<Published>,
}

/// A thread's counters for the progress line, on cache lines of their own.
#[repr(align(128))]
#[derive(Default)]
pub(super) struct Published {
    pub ops: AtomicU64,
    pub bytes: AtomicU64,
    pub latency_sum_ns: AtomicU64,
    pub connections: AtomicU64,
    pub measuring: AtomicBool,
}

/// Number of failures by kind, and their reasons.
#[derive(Clone, Debug, Default)]
pub struct Trouble {
    /// Connections that broke.
    pub connections_lost: u64,
    /// Requests on their way when their connection broke.
    pub requests_lost: u64,
    /// Connections made again.
    pub reconnects: u64,
    /// Requests without a reply when the run ended.
    pub unanswered: u64,
    /// Scheduled requests that were never sent, for lack of room.
    pub unsent: u64,
    /// Error replies.
    pub error_replies: u64,
    /// MOVED and ASK among them.
    pub redirections: u64,
    /// Replies compared with what was written.
    pub verified: u64,
    /// Verified replies that differed.
    pub verify_failures: u64,
    /// The first error of any kind, as text.
    pub first: Option<String>,
}

impl Trouble {
    pub(super) fn add(&mut self, other: &Trouble) {
        self.connections_lost += other.connections_lost;
        self.requests_lost += other.requests_lost;
        self.reconnects += other.reconnects;
        self.unanswered += other.unanswered;
        self.unsent += other.unsent;
        self.error_replies += other.error_replies;
        self.redirections += other.redirections;
        self.verified += other.verified;
        self.verify_failures += other.verify_failures;
        if self.first.is_none() {
            self.first.clone_from(&other.first);
        }
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        if self.first.is_none() {
            self.first = Some(text());
        }
    }
}

/// Requests and replies of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectionResult {
    /// Requests sent while measuring.
    pub issued: u64,
    /// Replies received while measuring.
    pub completed: u64,
}

pub(super) struct WorkerResult {
    pub kinds: Vec<KindResult>,
    pub slots: Vec<u64>,
    pub trouble: Trouble,
    pub usage: ThreadUsage,
    pub hardware: Option<HardwareUsage>,
    pub last_reply_ns: u64,
    pub connections: Vec<ConnectionResult>,
}

impl WorkerResult {
    pub fn empty() -> Self {
        Self {
            kinds: Vec::new(),
            slots: Vec::new(),
            trouble: Trouble::default(),
            usage: ThreadUsage::default(),
            hardware: None,
            last_reply_ns: 0,
            connections: Vec::new(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Warmup,
    Measure,
    Drain,
}

pub(super) struct Worker<'a> {
    shared: &'a Shared,
    index: usize,
    epoch: Instant,
    epoll: OwnedFd,
    timer: OwnedFd,
    connections: Vec<Option<Connection>>,
    alive: usize,
    schedule: Option<Schedule>,
    next_connection: usize,
    dirty: Vec<usize>,
    buffer: Vec<u8>,
    counters: Counters,
    trouble: Trouble,
    phase: Phase,
    in_flight: u64,
    backlog: u64,
    active: usize,
    measure_from_ns: u64,
    deadline_ns: u64,
    last_reply_ns: u64,
    results: Vec<ConnectionResult>,
    lost: Vec<Lost>,
    known_nodes: usize,
}

/// A connection that waits to be made again.
struct Lost {
    index: usize,
    at_ns: u64,
    connection: Connection,
}

const TIMER_TOKEN: u64 = u64::MAX;

impl<'a> Worker<'a> {
    /// `epoch` is the common start of all threads.
    pub fn new(
        shared: &'a Shared,
        index: usize,
        connections: Vec<Connection>,
        schedule: Option<Schedule>,
        epoch: Instant,
    ) -> io::Result<Self> {
        let settings = &shared.settings;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = rustix::time::timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        epoll::add(&epoll, &timer, epoll::EventData::new_u64(TIMER_TOKEN), epoll::EventFlags::IN)?;
        for (token, connection) in connections.iter().enumerate() {
            connection.stream.set_nonblocking()?;
            let data = epoll::EventData::new_u64(token as u64);
            epoll::add(&epoll, &connection.stream, data, epoll::EventFlags::IN)?;
        }
        let measure_from_ns = settings.warmup.as_nanos() as u64;
        let deadline_ns = match settings.end {
            End::Time(time) => measure_from_ns + time.as_nanos() as u64,
            End::Requests(_) => u64::MAX,
        };
        let kinds = shared.templates.len();
        let mut worker = Self {
            shared,
            index,
            epoch,
            epoll,
            timer,
            alive: connections.len(),
            active: connections.len(),
            results: vec![ConnectionResult::default(); connections.len()],
            connections: connections.into_iter().map(Some).collect(),
            schedule,
            next_connection: 0,
            dirty: Vec::new(),
            buffer: vec![0; RECEIVE_BUFFER_BYTES],
            counters: Counters::new(kinds, false, 0),
            trouble: Trouble::default(),
            phase: Phase::Warmup,
            in_flight: 0,
            backlog: 0,
            measure_from_ns,
            deadline_ns,
            last_reply_ns: measure_from_ns,
            lost: Vec::new(),
            known_nodes: shared.cluster.as_ref().map_or(0, |cluster| cluster.nodes().len()),
        };
        if let Some(staircase) = settings.staircase {
            worker.active = (staircase.start as usize).min(worker.connections.len());
        }
        Ok(worker)
    }

    fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    fn is_issuing(&self) -> bool {
        self.phase != Phase::Drain
    }

    /// Runs to the end and hands over what was counted.
    pub fn run(mut self) -> io::Result<WorkerResult> {
        let mut usage_start = ThreadUsage::of_this_thread();
        let mut hardware = Watch::of_this_thread();
        let mut events = Vec::with_capacity(EVENTS_PER_WAIT);
        let mut next_publish_ns = 0;
        if self.measure_from_ns == 0 {
            self.begin_measuring();
        }
        for index in 0..self.active {
            self.refill(index, self.now_ns());
        }
        loop {
            self.wait(&mut events)?;
            for event in events.drain(..) {
                let (token, flags) = (event.data.u64(), event.flags);
                if token == TIMER_TOKEN {
                    let _ = rustix::io::read(&self.timer, &mut [0; 8]);
                } else {
                    self.handle(token as usize, flags);
                }
            }
            let now_ns = self.now_ns();
            if self.phase == Phase::Warmup && now_ns >= self.measure_from_ns {
                self.begin_measuring();
                usage_start = ThreadUsage::of_this_thread();
                hardware = Watch::of_this_thread();
            }
            self.reconnect_due(now_ns);
            self.send_due(now_ns);
            if now_ns >= next_publish_ns {
                self.publish();
                self.climb(now_ns);
                self.follow_cluster();
                next_publish_ns = now_ns + PUBLISH_INTERVAL.as_nanos() as u64;
            }
            if self.is_finished(now_ns) {
                return Ok(self.finish(usage_start, hardware));
            }
        }
    }

    fn wait(&mut self, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        let mut timeout = PUBLISH_INTERVAL;
        if self.phase == Phase::Warmup {
            let left_ns = self.measure_from_ns.saturating_sub(self.now_ns());
            timeout = timeout.min(Duration::from_nanos(left_ns) + Duration::from_millis(1));
        } else if self.deadline_ns != u64::MAX && self.phase == Phase::Measure {
            let left_ns = self.deadline_ns.saturating_sub(self.now_ns());
            timeout = timeout.min(Duration::from_nanos(left_ns) + Duration::from_millis(1));
        }
        if let Some(at_ns) = self.lost.iter().map(|lost| lost.at_ns).min() {
            let left_ns = at_ns.saturating_sub(self.now_ns());
            timeout = timeout.min(Duration::from_nanos(left_ns) + Duration::from_millis(1));
        }
        let sends = self.is_issuing() && self.alive > 0;
        if let Some(schedule) = self.schedule.as_ref().filter(|_| sends) {
            let left_ns = schedule.next_ns().saturating_sub(self.now_ns());
            if left_ns == 0 {
                timeout = Duration::ZERO;
            } else {
                self.arm_timer(left_ns)?;
            }
        }
        let timeout =
            Timespec { tv_sec: 0, tv_nsec: (timeout.as_millis().min(999) * 1_000_000) as i64 };
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn arm_timer(&self, after_ns: u64) -> io::Result<()> {
        let value = Timespec {
            tv_sec: (after_ns / 1_000_000_000) as i64,
            tv_nsec: (after_ns % 1_000_000_000) as i64,
        };
        let interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let setting = Itimerspec { it_interval: interval, it_value: value };
        rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &setting)?;
        Ok(())
    }

    fn begin_measuring(&mut self) {
        self.phase = Phase::Measure;
        self.counters = Counters::new(
            self.shared.templates.len(),
            self.schedule.is_some(),
            self.measure_from_ns,
        );
        let lost = self.lost.iter_mut().map(|lost| &mut lost.connection);
        for connection in self.connections.iter_mut().flatten().chain(lost) {
            connection.issued = 0;
            connection.completed = 0;
        }
        self.trouble = Trouble::default();
    }

    #[inline]
    fn handle(&mut self, index: usize, flags: epoll::EventFlags) {
        if flags.contains(epoll::EventFlags::OUT) {
            self.flush(index);
        }
        if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR)
            && self.connections[index].is_some()
        {
            self.receive(index);
        }
    }

    #[inline]
    fn receive(&mut self, index: usize) {
        self.receive_once(index);
        while self.connections[index].as_ref().is_some_and(Connection::holds_plaintext) {
            self.receive_once(index);
        }
    }

    #[inline]
    fn receive_once(&mut self, index: usize) {
        let Some(connection) = &mut self.connections[index] else { return };
        let kept = connection.kept.len();
        if self.buffer.len() < kept + RECEIVE_BUFFER_BYTES / 2 {
            self.buffer.resize(2 * (kept + RECEIVE_BUFFER_BYTES), 0);
        }
        self.buffer[..kept].copy_from_slice(&connection.kept);
        match connection.receive(&mut self.buffer[kept..]) {
            Ok(Some(0)) => self.lose(index, "the server closed the connection"),
            Ok(Some(count)) => {
                let now_ns = self.now_ns();
                match self.take_replies(index, kept + count, now_ns) {
                    Ok(()) => self.refill(index, now_ns),
                    Err(error) => self.lose(index, &error),
                }
            }
            Ok(None) => {}
            Err(error) => self.lose(index, &error.to_string()),
        }
    }

    #[inline]
    fn take_replies(&mut self, index: usize, length: usize, now_ns: u64) -> Result<(), String> {
        let Self { connections, counters, buffer, trouble, shared, phase, .. } = self;
        let Some(connection) = &mut connections[index] else { return Ok(()) };
        let measuring = *phase != Phase::Warmup;
        if measuring {
            counters.advance(now_ns);
        }
        let Connection {
            scanner, pending, intended, checks, cursor, continuations, endpoint, ..
        } = connection;
        let whole = !checks.is_empty() || shared.settings.scan_cursor.is_some();
        let mut tally = Tally { counters, now_ns, run: None, measuring };
        let mut replies = 0u64;
        let mut surplus = false;
        let used = scanner
            .scan(&buffer[..length], whole, |reply| {
                if reply.kind == ReplyKind::Push {
                    return;
                }
                let Some(request) = pending.pop_front() else {
                    surplus = true;
                    return;
                };
                replies += 1;
                let template = &shared.templates[request.kind as usize];
                tally.count(request, intended.pop_front(), template, &reply);
                if reply.kind == ReplyKind::Error {
                    note_error(trouble, template, &reply);
                    if let Some(cluster) = &shared.cluster {
                        follow_error(cluster, &reply, endpoint);
                    }
                }
                if request.checked {
                    let key = checks.pop_front().unwrap_or_default();
                    check_value(trouble, template, &shared.slab, key, &reply);
                }
                if let Some(limit) = shared.settings.scan_cursor {
                    remember_cursor(cursor, &reply);
                    end_cycle(cursor, continuations, limit);
                }
            })
            .map_err(|error| error.to_string())?;
        tally.close();
        connection.kept.clear();
        connection.kept.extend_from_slice(&buffer[used..length]);
        connection.completed += replies;
        self.in_flight -= replies;
        self.last_reply_ns = now_ns;
        if connection.kept.len() > WHOLE_REPLY_BYTES_MAX {
            return Err("the server sent a longer reply than any value is".into());
        }
        if surplus { Err("the server sent a reply nobody asked for".into()) } else { Ok(()) }
    }

    /// Sends what the connection may send now.
    #[inline]
    fn refill(&mut self, index: usize, mut now_ns: u64) {
        if index >= self.active {
            return;
        }
        let settings = &self.shared.settings;
        let Some(connection) = &self.connections[index] else { return };
        let waiting = connection.pending.len();
        let mut room = match settings.window {
            Window::Sliding => settings.pipeline as usize - waiting,
            Window::Batch if waiting == 0 => settings.pipeline as usize,
            Window::Batch => 0,
        };
        if self.schedule.is_some() {
            room = room.min(connection.intended.len() - waiting);
            self.backlog -= room as u64;
        } else {
            if !self.is_issuing() {
                return;
            }
            if let (End::Requests(_), Phase::Measure) = (settings.end, self.phase) {
                let left = connection.limit - connection.issued.min(connection.limit);
                room = room.min(left as usize);
            }
        }
        let interval = settings.reconnect.interval;
        if interval > 0 && room > 0 {
            let used = connection.issued_on_socket;
            if used >= interval {
                if waiting > 0 || !self.renew(index) {
                    self.backlog += if self.schedule.is_some() { room as u64 } else { 0 };
                    return;
                }
                // The time it took to connect is not the server's answer time.
                now_ns = self.now_ns();
                room = room.min(interval as usize);
            } else {
                let wanted = room;
                room = room.min((interval - used) as usize);
                self.backlog += if self.schedule.is_some() { (wanted - room) as u64 } else { 0 };
            }
        }
        if room > 0 {
            self.issue(index, room, now_ns);
            self.flush(index);
        }
    }

    /// Renders the connection's next `count` requests.
    #[inline]
    fn issue(&mut self, index: usize, count: usize, now_ns: u64) {
        let Self { connections, counters, shared, phase, .. } = self;
        let Some(connection) = &mut connections[index] else { return };
        for _ in 0..count {
            let kind = connection.next_kind(&shared.templates);
            let template = &shared.templates[kind];
            let rendered = template.render(
                &mut connection.keys[kind],
                &mut connection.random,
                &connection.cursor,
                &mut connection.output,
            );
            let kind = kind + rendered.kind_offset as usize;
            let checked = shared.settings.verify
                && template.command().role == Role::Get
                && connection.random.next() % VERIFY_ONE_IN == 0;
            if checked {
                connection.checks.push_back(rendered.key);
            }
            connection.pending.push_back(Pending { sent_ns: now_ns, kind: kind as u32, checked });
            if *phase != Phase::Warmup {
                counters.kinds[kind].second.bytes_sent += rendered.bytes;
            }
        }
        connection.issued += count as u64;
        connection.issued_on_socket += count as u64;
        self.in_flight += count as u64;
    }

    #[inline]
    fn flush(&mut self, index: usize) {
        let Some(connection) = &mut self.connections[index] else { return };
        let waits = match connection.flush(&self.shared.slab) {
            Sent::Everything => false,
            Sent::Blocked => true,
            Sent::Lost(error) => return self.lose(index, &error.to_string()),
        };
        if waits == connection.waits_for_room {
            return;
        }
        connection.waits_for_room = waits;
        let mut flags = epoll::EventFlags::IN;
        if waits {
            flags |= epoll::EventFlags::OUT;
        }
        let data = epoll::EventData::new_u64(index as u64);
        if let Err(error) = epoll::modify(&self.epoll, &connection.stream, data, flags) {
            self.lose(index, &error.to_string());
        }
    }

    /// Open loop: hands the arrivals that are due to the connections, then sends.
    fn send_due(&mut self, now_ns: u64) {
        let Some(mut schedule) = self.schedule.take() else { return };
        while self.is_issuing()
            && self.alive > 0
            && schedule.next_ns() <= now_ns
            && schedule.next_ns() < self.deadline_ns
        {
            let index = self.next_alive();
            if let Some(connection) = &mut self.connections[index] {
                connection.intended.push_back(schedule.next_ns());
                self.backlog += 1;
                self.dirty.push(index);
            }
            schedule.advance();
        }
        self.schedule = Some(schedule);
        let mut dirty = std::mem::take(&mut self.dirty);
        for index in dirty.drain(..) {
            self.refill(index, now_ns);
        }
        self.dirty = dirty;
    }

    fn next_alive(&mut self) -> usize {
        loop {
            self.next_connection = (self.next_connection + 1) % self.active.max(1);
            if self.connections[self.next_connection].is_some() {
                return self.next_connection;
            }
        }
    }

    /// Staircase: brings in the connections whose step has come.
    fn climb(&mut self, now_ns: u64) {
        let Some(staircase) = self.shared.settings.staircase else { return };
        let steps = now_ns / (staircase.duration.as_nanos() as u64).max(1);
        let added = steps.saturating_mul(u64::from(staircase.step));
        let wanted = u64::from(staircase.start).saturating_add(added);
        let wanted = wanted.min(self.connections.len() as u64) as usize;
        for index in self.active..wanted {
            self.active = index + 1;
            self.refill(index, now_ns);
        }
    }

    fn publish(&self) {
        // Relaxed: each value is shown alone, and nothing depends on it.
        let published = &self.shared.published[self.index];
        let (mut ops, mut bytes, mut latency_sum_ns) = (0, 0, 0);
        for kind in &self.counters.kinds {
            ops += kind.closed().total.ops + kind.second.ops;
            bytes += kind.closed().total.bytes_received + kind.closed().total.bytes_sent;
            bytes += kind.second.bytes_received + kind.second.bytes_sent;
            latency_sum_ns += kind.closed().latency.sum_ns() + kind.latency.sum_ns();
        }
        published.ops.store(ops, Ordering::Relaxed);
        published.bytes.store(bytes, Ordering::Relaxed);
        published.latency_sum_ns.store(latency_sum_ns, Ordering::Relaxed);
        published.connections.store(self.alive as u64, Ordering::Relaxed);
        published.measuring.store(self.phase != Phase::Warmup, Ordering::Relaxed);
    }

    fn is_finished(&mut self, now_ns: u64) -> bool {
        // Relaxed: nothing but the flag itself is read.
        let stopped = self.shared.stop.load(Ordering::Relaxed);
        if self.phase != Phase::Drain && (now_ns >= self.deadline_ns || stopped) {
            self.phase = Phase::Drain;
            self.deadline_ns = now_ns;
        }
        if self.phase == Phase::Drain {
            for lost in std::mem::take(&mut self.lost) {
                self.give_up(lost.index, &lost.connection);
            }
        }
        if self.alive == 0 && self.lost.is_empty() {
            return true;
        }
        match self.phase {
            Phase::Warmup => false,
            Phase::Measure => match self.shared.settings.end {
                End::Time(_) => false,
                End::Requests(_) => {
                    self.in_flight == 0
                        && self.lost.is_empty()
                        && self.connections.iter().flatten().all(|one| one.issued >= one.limit)
                }
            },
            Phase::Drain => {
                self.in_flight + self.backlog == 0
                    || now_ns >= self.deadline_ns + DRAIN_LIMIT.as_nanos() as u64
            }
        }
    }

    fn finish(mut self, usage_start: ThreadUsage, hardware: Option<Watch>) -> WorkerResult {
        let hardware = hardware.and_then(|mut watch| watch.read());
        self.publish();
        self.trouble.unanswered = self.in_flight;
        self.trouble.unsent += self.backlog;
        for (index, connection) in self.connections.iter().enumerate() {
            if let Some(connection) = connection {
                self.results[index] =
                    ConnectionResult { issued: connection.issued, completed: connection.completed };
            }
        }
        let (kinds, slots) = self.counters.finish();
        WorkerResult {
            kinds,
            slots,
            trouble: self.trouble,
            usage: ThreadUsage::of_this_thread().since(&usage_start),
            hardware,
            last_reply_ns: self.last_reply_ns,
            connections: self.results,
        }
    }
}

/// Gathers replies of one receive that share command and send time into one histogram update.
struct Tally<'a> {
    counters: &'a mut Counters,
    now_ns: u64,
    run: Option<(u32, u64, u64)>,
    measuring: bool,
}

impl Tally<'_> {
    #[inline]
    fn count(
        &mut self,
        request: Pending,
        intended_ns: Option<u64>,
        template: &Template,
        reply: &Reply<'_>,
    ) {
        if !self.measuring {
            return;
        }
        let second = &mut self.counters.kinds[request.kind as usize].second;
        second.bytes_received += reply.bytes;
        match reply.kind {
            ReplyKind::Error => second.errors += 1,
            _ if !template.counts_misses() => {}
            ReplyKind::Nil => second.misses += 1,
            _ if reply.elements > 0 => {
                second.misses += reply.nested_nils;
                second.hits += reply.elements - reply.nested_nils;
            }
            _ => second.hits += 1,
        }
        if let Some(intended_ns) = intended_ns {
            let response_ns = self.now_ns.saturating_sub(intended_ns);
            let service_ns = self.now_ns - request.sent_ns;
            self.counters.record(request.kind as usize, response_ns, Some(service_ns), 1);
            return;
        }
        match &mut self.run {
            Some((kind, sent_ns, count))
                if *kind == request.kind && *sent_ns == request.sent_ns =>
            {
                *count += 1;
            }
            _ => {
                self.close();
                self.run = Some((request.kind, request.sent_ns, 1));
            }
        }
    }

    #[inline]
    fn close(&mut self) {
        if let Some((kind, sent_ns, count)) = self.run.take() {
            self.counters.record(kind as usize, self.now_ns - sent_ns, None, count);
        }
    }
}

/// MOVED changes the slot map at once; a slot without an owner has it read again.
fn follow_error(cluster: &Cluster, reply: &Reply<'_>, asked: &Endpoint) {
    let text = String::from_utf8_lossy(reply.raw.unwrap_or_default());
    let text = text.trim_end().trim_start_matches('-');
    if text.starts_with("MOVED ") {
        cluster.follow(text, asked);
    } else if text.starts_with("CLUSTERDOWN") {
        cluster.suspect();
    }
}

fn note_error(trouble: &mut Trouble, template: &Template, reply: &Reply<'_>) {
    trouble.error_replies += 1;
    let text = String::from_utf8_lossy(reply.raw.unwrap_or_default()).trim_end().to_string();
    if text.starts_with("-MOVED") || text.starts_with("-ASK") {
        trouble.redirections += 1;
    }
    trouble.note(|| format!("{}: {}", template.command().name, text.trim_start_matches('-')));
}

/// A value that is there must be the one that belongs to its key; a missing one is a miss.
fn check_value(
    trouble: &mut Trouble,
    template: &Template,
    slab: &Slab,
    key: u64,
    reply: &Reply<'_>,
) {
    if reply.kind != ReplyKind::Value {
        return;
    }
    trouble.verified += 1;
    let raw = reply.raw.unwrap_or_default();
    let body = memchr::memchr(b'\n', raw).map_or(&raw[..0], |end| &raw[end + 1..]);
    let body = body.strip_suffix(b"\r\n").unwrap_or(body);
    if body != slab.bytes(slab.draw(key, &mut crate::load::keys::Random::new(0))) {
        trouble.verify_failures += 1;
        trouble.note(|| format!("{}: wrong value for key {key}", template.command().name));
    }
}

/// The first element of a SCAN reply.
fn remember_cursor(cursor: &mut Vec<u8>, reply: &Reply<'_>) {
    let raw = reply.raw.unwrap_or_default();
    let mut lines = raw.split(|&byte| byte == b'\n');
    if let (Some(b"*2\r"), Some(_), Some(text)) = (lines.next(), lines.next(), lines.next()) {
        cursor.clear();
        cursor.extend_from_slice(text.strip_suffix(b"\r").unwrap_or(text));
    }
}

/// Begins again at cursor 0 after `limit` continuations, 0 for no limit.
fn end_cycle(cursor: &mut Vec<u8>, continuations: &mut u32, limit: u32) {
    *continuations += 1;
    if limit > 0 && *continuations > limit {
        cursor.clear();
        cursor.push(b'0');
    }
    if cursor == b"0" {
        *continuations = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_begins_again_after_its_continuations() {
        let mut continuations = 0;
        let mut sent = Vec::new();
        let mut cursor = b"0".to_vec();
        for reply in [5, 9, 3, 7, 0, 4, 8] {
            sent.push(String::from_utf8(cursor.clone()).unwrap());
            cursor = reply.to_string().into_bytes();
            end_cycle(&mut cursor, &mut continuations, 2);
        }
        assert_eq!(sent, ["0", "5", "9", "0", "7", "0", "4"]);
    }
}
