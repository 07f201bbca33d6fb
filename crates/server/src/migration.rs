//! Migrations: requests to other servers on behalf of `MIGRATE`.
//!
//! Each target has a thread of its own with one connection, which ends when nobody has needed it
//! for ten seconds; so a slow target holds up nobody but those who migrate to it, and no worker.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidemill_engine::migration::{MigrationDone, MigrationEnd, MigrationRequest};
use tidemill_resp::request::encode;

use crate::limits::{
    MIGRATION_ANSWER_BYTES_MAX, MIGRATION_IDLE_SECONDS_MAX, MIGRATION_TARGETS_MAX,
};
use crate::resources::start_thread;

/// Server, and in whose name: nobody gets the connection of another user.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Target {
    host: Vec<u8>,
    port: i64,
    authentication: Option<Vec<u8>>,
}

impl Target {
    fn of(request: &MigrationRequest) -> Target {
        let authentication = request.authentication.clone();
        Target { host: request.host.clone(), port: request.port, authentication }
    }
}

type Job = (MigrationRequest, MigrationDone);

/// Threads by their targets.
#[derive(Default)]
pub(crate) struct Migrations {
    targets: Arc<Mutex<HashMap<Target, Sender<Job>>>>,
    connections: Arc<AtomicUsize>,
}

impl std::fmt::Debug for Migrations {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Migrations").finish_non_exhaustive()
    }
}

type Targets = Mutex<HashMap<Target, Sender<Job>>>;

fn lock(targets: &Targets) -> MutexGuard<'_, HashMap<Target, Sender<Job>>> {
    targets.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Migrations {
    /// Connections that there are.
    pub(crate) fn connection_count(&self) -> usize {
        // Relaxed, all: a figure for people.
        self.connections.load(Ordering::Relaxed)
    }

    /// Leaves requests to the thread of their target, which is started if there is none.
    pub(crate) fn send(&self, request: MigrationRequest, done: MigrationDone) {
        let target = Target::of(&request);
        let mut targets = lock(&self.targets);
        let job = match targets.get(&target) {
            Some(thread) => match thread.send((request, done)) {
                Ok(()) => return,
                Err(mpsc::SendError(job)) => job,
            },
            None => (request, done),
        };
        if targets.len() >= MIGRATION_TARGETS_MAX
            && let Some(other) = targets.keys().next().cloned()
        {
            // Its thread ends behind what it has to do.
            targets.remove(&other);
        }
        let (sender, jobs) = mpsc::channel();
        let (all, key) = (Arc::clone(&self.targets), target.clone());
        let connections = Arc::clone(&self.connections);
        let body = move || run((&all, &connections), &key, &jobs);
        if start_thread("migrate", body).is_err() {
            return job.1(MigrationEnd::Unconnected);
        }
        // The thread has the receiver, and ends only when it finds itself out of the table.
        let _ = sender.send(job);
        targets.insert(target, sender);
    }
}

/// Serves one target until nobody has needed it for a while.
fn run(
    (targets, connections): (&Targets, &Arc<AtomicUsize>),
    target: &Target,
    jobs: &Receiver<Job>,
) {
    let mut connection = None;
    loop {
        let job = match jobs.recv_timeout(Duration::from_secs(MIGRATION_IDLE_SECONDS_MAX)) {
            Ok(job) => job,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let mut targets = lock(targets);
                // Senders have the table: nothing can come in between.
                match jobs.try_recv() {
                    Ok(job) => job,
                    Err(_) => {
                        targets.remove(target);
                        return;
                    }
                }
            }
        };
        let (request, done) = job;
        let end = carry_out(&mut connection, (target, connections), &request);
        done(end);
    }
}

/// Connection to a target.
struct Connection {
    stream: BufReader<TcpStream>,
    /// Database that is selected.
    database: i64,
    _counted: Counted,
}

/// Part of a connection in the number of all.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(connections: &Arc<AtomicUsize>) -> Counted {
        connections.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(connections))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sends requests and reads their answers, by the connection that there is or by a new one.
fn carry_out(
    connection: &mut Option<Connection>,
    (target, connections): (&Target, &Arc<AtomicUsize>),
    request: &MigrationRequest,
) -> MigrationEnd {
    let timeout = Duration::from_millis(request.timeout_ms.max(1));
    if let Some(mut kept) = connection.take() {
        match kept.exchange(request, timeout) {
            Ok(end) => {
                *connection = end.leaves_connection().then_some(kept);
                return end;
            }
            Err(broken) if broken.has_timed_out => return broken.end,
            // The target may have closed it since.
            Err(_) => {}
        }
    }
    let mut new = match connect(target, timeout, connections) {
        Ok(new) => new,
        // Valkey connects without waiting, and finds that nobody listens when it writes.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            return MigrationEnd::Unwritten;
        }
        Err(_) => return MigrationEnd::Unconnected,
    };
    match new.exchange(request, timeout) {
        Ok(end) => {
            *connection = end.leaves_connection().then_some(new);
            end
        }
        Err(broken) => broken.end,
    }
}

/// Failure of a connection.
struct Broken {
    end: MigrationEnd,
    has_timed_out: bool,
}

impl Broken {
    fn new(end: MigrationEnd, error: &io::Error) -> Broken {
        let kind = error.kind();
        let has_timed_out = matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
        Broken { end, has_timed_out }
    }
}

fn connect(
    target: &Target,
    timeout: Duration,
    connections: &Arc<AtomicUsize>,
) -> io::Result<Connection> {
    let host = std::str::from_utf8(&target.host).map_err(|_| io::ErrorKind::InvalidInput)?;
    // The lowest 16 bits, as in Valkey.
    let port = target.port as u16;
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(Connection {
                    stream: BufReader::new(stream),
                    database: 0,
                    _counted: Counted::new(connections),
                });
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Connection {
    /// Sends requests and reads their answers.
    fn exchange(
        &mut self,
        request: &MigrationRequest,
        timeout: Duration,
    ) -> Result<MigrationEnd, Broken> {
        let selects = request.database != self.database;
        let written = self.write(request, selects, timeout);
        written.map_err(|error| Broken::new(MigrationEnd::Unwritten, &error))?;
        let unread = |error| Broken::new(MigrationEnd::Unread, &error);
        let mut refused = None;
        for _ in 0..usize::from(request.authentication.is_some()) + usize::from(selects) {
            if let Err(error) = self.answer().map_err(unread)? {
                refused.get_or_insert(error);
            }
        }
        let mut answers = Vec::new();
        let no_memory = |_| unread(io::ErrorKind::OutOfMemory.into());
        answers.try_reserve_exact(request.count).map_err(no_memory)?;
        for _ in 0..request.count {
            answers.push(self.answer().map_err(unread)?);
        }
        self.database = request.database;
        match refused {
            Some(error) => Ok(MigrationEnd::Refused(error)),
            None => Ok(MigrationEnd::Answered(answers)),
        }
    }

    fn write(
        &mut self,
        request: &MigrationRequest,
        selects: bool,
        timeout: Duration,
    ) -> io::Result<()> {
        let stream = self.stream.get_mut();
        stream.set_write_timeout(Some(timeout))?;
        stream.set_read_timeout(Some(timeout))?;
        let mut head = request.authentication.clone().unwrap_or_default();
        if selects {
            head.extend(encode(&[b"SELECT", request.database.to_string().as_bytes()]));
        }
        stream.write_all(&head)?;
        stream.write_all(&request.commands)
    }

    /// The next answer: an error, or anything else in one line.
    fn answer(&mut self) -> io::Result<Result<(), Vec<u8>>> {
        let mut line = Vec::new();
        let mut limited = io::Read::take(&mut self.stream, MIGRATION_ANSWER_BYTES_MAX);
        limited.read_until(b'\n', &mut line)?;
        match line.as_slice() {
            [b'-', text @ .., b'\r', b'\n'] => Ok(Err(text.to_vec())),
            [b'+' | b':', .., b'\n'] => Ok(Ok(())),
            [] => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}
