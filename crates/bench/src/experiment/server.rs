//! A server process of one run: started, waited for, stopped. Only children of ours are stopped.
//!
//! Its ports are held until it is started, and free for a moment then: another process, a server of
//! another experiment, may take them first. A server that ends before it is ready is started again
//! on other ports, and an answer counts at once only where the listener was started by the command.

use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tidemill_host::Root;
use tidemill_host::facts::{Listening, listening};

use crate::load::control::{Control, Reply};
use crate::load::keys::{Random, below, drawn_seed};
use crate::load::settings::Target;

const START_LIMIT: Duration = Duration::from_secs(20);
const STOP_LIMIT: Duration = Duration::from_secs(10);
const START_ATTEMPTS_MAX: u32 = 5;
/// Processes between a server and the command that started it, such as a shell.
const WRAPPERS_MAX: u32 = 8;
/// Time in which a server whose port was taken ends. Where the command leaves the listening to a
/// process that it did not start (a container's proxy, a service manager), its start takes as much.
const TAKEN_PORT_LIMIT: Duration = Duration::from_secs(3);

/// The size of the environment moves a program's stack, and with it what shares cache lines: by
/// several percent in some (Mytkowicz et al. 2009). Drawn for each process, it is part of the noise
/// instead of a bias of one arm.
const PADDING: &str = "TIDEMILL_PADDING";
const PADDING_BYTES_MAX: u64 = 4096;

/// A running server of ours.
pub(super) struct Server {
    child: Child,
    pub port: u16,
    pub tls_port: u16,
    pub socket: PathBuf,
    /// Directory of its own, where the command asked for one; removed behind the server's end.
    _directory: Option<OwnDirectory>,
}

/// End of an attempt to start a server.
enum Failure {
    /// Another port may help: the server ended before it answered, perhaps because another process
    /// had its port, or the directory of this port exists already.
    OfPort(String),
    /// No other port would help.
    Final(String),
}

/// Directory of one server, removed with all that is in it when the value is dropped.
struct OwnDirectory(PathBuf);

impl OwnDirectory {
    fn create(path: PathBuf) -> Result<Self, Failure> {
        let created = std::fs::create_dir(&path);
        created.map_err(|error| {
            let reason = format!("{}: {error}", path.display());
            match error.kind() {
                // A server that was killed with its experiment had the same port.
                io::ErrorKind::AlreadyExists => Failure::OfPort(reason),
                _ => Failure::Final(reason),
            }
        })?;
        Ok(Self(path))
    }
}

impl Drop for OwnDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Two free ports, which no other process takes while they are held.
fn free_ports() -> io::Result<[TcpListener; 2]> {
    Ok([TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?])
}

/// True if a process is `ancestor`, or was started by it or by one that it started.
fn descends_from(mut process: u32, ancestor: u32) -> bool {
    for _ in 0..=WRAPPERS_MAX {
        if process == ancestor {
            return true;
        }
        let status = std::fs::read_to_string(format!("/proc/{process}/status"));
        let parent = status.ok().and_then(|text| {
            text.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
        });
        let Some(parent) = parent else { return false };
        process = parent;
    }
    false
}

impl Server {
    /// Starts the words with `{port}`, `{tls_port}`, `{socket}` and `{directory}` filled in, and
    /// waits until it answers PING.
    pub fn start(
        words: &[String],
        cpus: Option<&str>,
        environment: &std::collections::BTreeMap<String, String>,
        directory: &Path,
    ) -> Result<Self, String> {
        Self::start_on(free_ports, TAKEN_PORT_LIMIT, words, cpus, environment, directory)
    }

    /// As [`start`](Self::start), on ports of the caller's, and with another
    /// [`TAKEN_PORT_LIMIT`].
    fn start_on(
        mut ports: impl FnMut() -> io::Result<[TcpListener; 2]>,
        taken_port_limit: Duration,
        words: &[String],
        cpus: Option<&str>,
        environment: &std::collections::BTreeMap<String, String>,
        directory: &Path,
    ) -> Result<Self, String> {
        let mut ended = String::new();
        for _ in 0..START_ATTEMPTS_MAX {
            let held = ports().map_err(|error| format!("no free port: {error}"))?;
            match Self::try_start(held, taken_port_limit, words, cpus, environment, directory) {
                Ok(server) => return Ok(server),
                Err(Failure::OfPort(reason)) => ended = reason,
                Err(Failure::Final(reason)) => return Err(reason),
            }
        }
        Err(ended)
    }

    fn try_start(
        held: [TcpListener; 2],
        taken_port_limit: Duration,
        words: &[String],
        cpus: Option<&str>,
        environment: &std::collections::BTreeMap<String, String>,
        directory: &Path,
    ) -> Result<Self, Failure> {
        let port_of = |listener: &TcpListener| {
            let address = listener.local_addr();
            address.map(|address| address.port()).map_err(|error| Failure::Final(error.to_string()))
        };
        let [port, tls_port] = [port_of(&held[0])?, port_of(&held[1])?];
        let socket = directory.join(format!("server-{port}.sock"));
        let own = directory.join(format!("server-{port}"));
        let wants_own = words.iter().any(|word| word.contains("{directory}"));
        let own_directory = if wants_own { Some(OwnDirectory::create(own.clone())?) } else { None };
        if words.is_empty() {
            return Err(Failure::Final("an empty command".into()));
        }
        let mut words: Vec<String> = words
            .iter()
            .map(|word| {
                word.replace("{port}", &port.to_string())
                    .replace("{tls_port}", &tls_port.to_string())
                    .replace("{directory}", &own.display().to_string())
                    .replace("{socket}", &socket.display().to_string())
            })
            .collect();
        if let Some(cpus) = cpus {
            words.splice(0..0, ["taskset", "-c", cpus].map(String::from));
        }
        let log = directory.join("server.log");
        let of_log = |error: io::Error| Failure::Final(format!("{}: {error}", log.display()));
        let output = std::fs::File::create(&log).map_err(of_log)?;
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .env(
                PADDING,
                "x".repeat(below(&mut Random::new(drawn_seed()), PADDING_BYTES_MAX) as usize),
            )
            .envs(environment)
            .current_dir(directory)
            .stdin(Stdio::null())
            .stderr(output.try_clone().map_err(of_log)?)
            .stdout(output);
        drop(held);
        let child =
            command.spawn().map_err(|error| Failure::Final(format!("{}: {error}", words[0])))?;
        let mut server = Self { child, port, tls_port, socket, _directory: own_directory };
        let see_log = |reason| format!("{reason}; see {}", log.display());
        server.wait_until_ready(taken_port_limit).map_err(|failure| match failure {
            Failure::OfPort(reason) => Failure::OfPort(see_log(reason)),
            Failure::Final(reason) => Failure::Final(see_log(reason)),
        })?;
        Ok(server)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn stop(&mut self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            // The child is not reaped yet, so the id is still its own.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let start = Instant::now();
        while start.elapsed() < STOP_LIMIT {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// True if a process that the command did not start listens on its port. A listener that may
    /// not be looked at is none.
    fn is_port_of_another(&self) -> bool {
        let listener = listening(&Root::live(), self.port).ok().flatten();
        let pid = listener.and_then(|Listening { pid, .. }| pid);
        pid.is_some_and(|pid| !descends_from(pid, self.child.id()))
    }

    fn wait_until_ready(&mut self, taken_port_limit: Duration) -> Result<(), Failure> {
        let target = Target::tcp("127.0.0.1", self.port);
        let start = Instant::now();
        let mut answered = None;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(Failure::OfPort(format!("the server ended at once ({status})")));
            }
            let answer = Control::connect(&target).and_then(|mut control| control.call(&["PING"]));
            let is_ready = match &answer {
                Ok(Reply::Text(_)) => true,
                // It wants a password, which the load has.
                Ok(Reply::Error(text)) => text.starts_with("NOAUTH"),
                _ => false,
            };
            if is_ready {
                let since = answered.get_or_insert_with(Instant::now);
                if !self.is_port_of_another() || since.elapsed() > taken_port_limit {
                    return Ok(());
                }
            }
            if start.elapsed() > START_LIMIT {
                let port = self.port;
                return Err(Failure::Final(format!(
                    "no answer on port {port} within {START_LIMIT:?}"
                )));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    /// Without a save point, for which a server would not end once its directory is gone.
    const SERVER: &str = "redis-server --port {port} --bind 127.0.0.1 --save ";

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(String::from).collect()
    }

    /// Answers each PING like a server of another process, and makes the file.
    fn answer(listener: &TcpListener, answered: &Path) {
        for mut stream in listener.incoming().flatten() {
            if stream.read(&mut [0; 64]).is_ok_and(|length| length > 0) {
                let _ = stream.write_all(b"+PONG\r\n");
                let _ = std::fs::write(answered, "");
            }
        }
    }

    /// Keeps the first of these ports from now on, and answers there.
    fn take_first(held: &[TcpListener; 2], answered: &Path) -> io::Result<()> {
        let (other, answered) = (held[0].try_clone()?, answered.to_owned());
        std::thread::spawn(move || answer(&other, &answered));
        Ok(())
    }

    #[test]
    fn a_server_whose_port_another_process_took_is_started_on_another_port() {
        let directory = std::env::temp_dir().join(format!("tidemill-port-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let answered = directory.join("answered");
        let mut taken = None;
        let ports = || {
            let held = free_ports()?;
            if taken.is_none() {
                taken = Some(held[0].local_addr()?.port());
                take_first(&held, &answered)?;
            }
            Ok(held)
        };
        // The server is started behind the other one's answer, by a shell that lives on beside it.
        let shell = "trap 'kill $!' TERM; until [ -e answered ]; do sleep 0.01; done; \
            \"$@\" & wait $!; exit 1";
        let shell = ["sh", "-c", shell, "sh"].map(String::from);
        let server = words(SERVER);
        let words: Vec<String> = shell.into_iter().chain(server).collect();
        let environment = Default::default();
        let server = Server::start_on(ports, START_LIMIT, &words, None, &environment, &directory);
        assert_ne!(Some(server.unwrap().port), taken);
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_server_that_another_process_listens_for_is_ready() {
        let directory = std::env::temp_dir().join(format!("tidemill-proxy-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let answered = directory.join("answered");
        let ports = || {
            let held = free_ports()?;
            take_first(&held, &answered)?;
            Ok(held)
        };
        let (words, environment) = (words("sleep 60"), Default::default());
        let server =
            Server::start_on(ports, Duration::ZERO, &words, None, &environment, &directory);
        let server = server.unwrap();
        let control = Control::connect(&Target::tcp("127.0.0.1", server.port));
        assert!(matches!(control.unwrap().call(&["PING"]), Ok(Reply::Text(_))));
        drop(server);
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn own_directory_is_there_for_the_server_and_goes_with_it() {
        let directory = std::env::temp_dir().join(format!("tidemill-own-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let words = words("redis-server --port {port} --bind 127.0.0.1 --dir {directory}");
        let server = Server::start(&words, None, &Default::default(), &directory).unwrap();
        let own = directory.join(format!("server-{}", server.port));
        let mut control = Control::connect(&Target::tcp("127.0.0.1", server.port)).unwrap();
        assert!(matches!(control.call(&["SAVE"]), Ok(Reply::Text(_))));
        assert!(own.join("dump.rdb").exists());
        drop(server);
        assert!(!own.exists());
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn own_directory_of_a_server_that_is_not_started_is_removed() {
        let directory = std::env::temp_dir().join(format!("tidemill-none-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        for line in ["/no/such/program {directory}", "false {directory}"] {
            let started = Server::start(&words(line), None, &Default::default(), &directory);
            assert!(started.is_err(), "{line}");
            let entries = std::fs::read_dir(&directory).unwrap();
            let mut names = entries.map(|entry| entry.unwrap().file_name());
            assert_eq!(names.find(|name| name != "server.log"), None, "{line}");
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn own_directory_that_exists_is_kept_and_another_port_is_used() {
        let directory = std::env::temp_dir().join(format!("tidemill-kept-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let mut existing = None;
        let ports = || {
            let held = free_ports()?;
            if existing.is_none() {
                let own = directory.join(format!("server-{}", held[0].local_addr()?.port()));
                std::fs::create_dir(&own)?;
                existing = Some(own);
            }
            Ok(held)
        };
        let words = words("redis-server --port {port} --bind 127.0.0.1 --dir {directory} --save ");
        let environment = Default::default();
        let server =
            Server::start_on(ports, TAKEN_PORT_LIMIT, &words, None, &environment, &directory);
        let server = server.unwrap();
        let own = directory.join(format!("server-{}", server.port));
        assert!(own.is_dir() && Some(&own) != existing.as_ref(), "{}", own.display());
        drop(server);
        assert!(!own.exists() && existing.is_some_and(|existing| existing.is_dir()));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
