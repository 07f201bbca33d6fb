//! Servers as child processes on ports of the loopback interface that the system chooses.
//!
//! A port is chosen by listening on it and closing the listener, so another process may take it
//! before the server does. Worse, a thread that starts a process at that moment gives it a copy of
//! the listener until its `exec`: the port then accepts connections of which nobody hears, and the
//! server's own `bind` fails. So a server counts as ready only when it listens itself and has
//! answered, and one that ended before is started again on another port.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// Time that a server may take to answer; far more than it takes on a busy machine.
const START_MAX: Duration = Duration::from_secs(60);
/// Time that one question may take before it is asked again on a new connection.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// `PING` as an inline command, of the length of a TLS record's header: a server that expects TLS
/// has then read all of it when it hangs up, and the connection ends without a reset.
const QUESTION: &[u8; 5] = b"PING\n";
const POLL_INTERVAL: Duration = Duration::from_millis(10);
const ATTEMPT_COUNT_MAX: usize = 5;

/// Port of the loopback interface on which nobody listened a moment ago.
///
/// # Panics
///
/// If the system has no port left.
#[must_use]
pub fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    listener.local_addr().expect("a listener has an address").port()
}

/// Server in a child process; killed and waited for when dropped.
#[derive(Debug)]
pub struct Server {
    process: Child,
    /// Port that answers.
    pub port: u16,
}

impl Server {
    /// Starts the server of a command line that is made for a port, and blocks until it answers
    /// anything at all there: `PONG`, an error, or the end of the connection where TLS is expected.
    ///
    /// # Errors
    ///
    /// The program cannot be started.
    ///
    /// # Panics
    ///
    /// If it ends again at each of five ports, or is silent for a minute.
    pub fn start(mut command: impl FnMut(u16) -> Command) -> io::Result<Self> {
        let mut ended = Vec::new();
        while ended.len() < ATTEMPT_COUNT_MAX {
            let port = free_port();
            let process = command(port).spawn()?;
            let mut server = Self { process, port };
            match server.await_answer() {
                None => return Ok(server),
                Some(status) => ended.push(status),
            }
        }
        panic!("a server ended before it answered, at each of {ATTEMPT_COUNT_MAX} ports: {ended:?}")
    }

    /// Id of the process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Kills the process and waits for its end. Does nothing when it has ended.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// The status of a process that ends before it answers.
    fn await_answer(&mut self) -> Option<ExitStatus> {
        let start = Instant::now();
        loop {
            if listens(self.process.id(), self.port) && answers(self.port) {
                return None;
            }
            let ended = self.process.try_wait().expect("an own child can be waited for");
            if ended.is_some() {
                return ended;
            }
            assert!(start.elapsed() < START_MAX, "no answer at port {} for a minute", self.port);
            thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// True if a process itself listens at a TCP port: who answers there may be another one, which got
/// the port first.
fn listens(process: u32, port: u16) -> bool {
    let end = format!(":{port:04X}");
    let mut sockets = Vec::new();
    for table in ["tcp", "tcp6"] {
        // A kernel without IPv6 has one of them.
        let text = fs::read_to_string(format!("/proc/{process}/net/{table}")).unwrap_or_default();
        for line in text.lines() {
            // Number, local address, remote address, state (0A: listening), ..., inode.
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            if fields.len() > 9 && fields[3] == "0A" && fields[1].ends_with(&end) {
                sockets.push(PathBuf::from(format!("socket:[{}]", fields[9])));
            }
        }
    }
    let Ok(descriptors) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    let targets = descriptors.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    targets.into_iter().any(|target| sockets.contains(&target))
}

/// True if a process that reads its connections listens at the port.
fn answers(port: u16) -> bool {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let Ok(mut stream) = TcpStream::connect_timeout(&address, ANSWER_MAX) else { return false };
    let asked = stream.set_read_timeout(Some(ANSWER_MAX)).and_then(|()| stream.write_all(QUESTION));
    // Its end is an answer too; a listener that goes away resets the connection.
    asked.is_ok() && stream.read(&mut [0; 64]).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    /// A child of the test binary that echoes what it is sent.
    fn echo(port: u16) -> Command {
        let script = format!(
            "import socket; s = socket.create_server(('127.0.0.1', {port}))\n\
             while True: c = s.accept()[0]; c.sendall(c.recv(64))"
        );
        let mut command = Command::new("python3");
        command.args(["-c", &script]);
        command
    }

    #[test]
    fn a_listener_that_nobody_serves_does_not_answer() {
        let silent = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
        assert!(!answers(silent.local_addr().expect("it is bound").port()));
    }

    #[test]
    fn a_server_that_ends_is_started_again_on_another_port() {
        let mut ports = Vec::new();
        let server = Server::start(|port| {
            ports.push(port);
            if ports.len() < 3 { shell("exit 1") } else { echo(port) }
        });
        assert_eq!(Some(server.expect("sh and python3 start").port), ports.last().copied());
        // More, where another process took the third.
        assert!(ports.len() >= 3, "{ports:?}");
    }

    #[test]
    fn an_answer_of_another_process_is_none() {
        let mut taken = None;
        let server = Server::start(|port| {
            if taken.is_some() {
                return echo(port);
            }
            // A port that yet another process took is passed over.
            let Ok(other) = TcpListener::bind(("127.0.0.1", port)) else { return shell("exit 1") };
            taken = Some(port);
            thread::spawn(move || {
                for mut stream in other.incoming().flatten() {
                    let _ = stream.write_all(b"+PONG\r\n");
                }
            });
            shell("sleep 0.3; exit 1")
        });
        assert_ne!(Some(server.expect("sh and python3 start").port), taken);
    }

    #[test]
    #[should_panic(expected = "at each of 5 ports")]
    fn a_server_that_always_ends_is_given_up() {
        let _ = Server::start(|_| shell("exit 3"));
    }

    #[test]
    fn a_program_that_is_absent_is_an_error() {
        assert!(Server::start(|_| Command::new("/no/such/program")).is_err());
    }
}
