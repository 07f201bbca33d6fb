//! A server process of one run: started, waited for, stopped. Only children of ours are stopped.

use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::load::control::{Control, Reply};
use crate::load::keys::{Random, below, drawn_seed};
use crate::load::settings::Target;

const START_LIMIT: Duration = Duration::from_secs(20);
const STOP_LIMIT: Duration = Duration::from_secs(10);

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
    /// Directory of its own, where the command asked for one; removed with the server.
    directory: Option<PathBuf>,
}

/// A port that was free a moment ago.
pub(super) fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
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
        let port = free_port().map_err(|error| error.to_string())?;
        let tls_port = free_port().map_err(|error| error.to_string())?;
        let socket = directory.join(format!("server-{port}.sock"));
        let own = directory.join(format!("server-{port}"));
        let wants_own = words.iter().any(|word| word.contains("{directory}"));
        if wants_own {
            std::fs::create_dir(&own).map_err(|error| format!("{}: {error}", own.display()))?;
        }
        if words.is_empty() {
            return Err("an empty command".into());
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
        let output = std::fs::File::create(&log).map_err(|error| error.to_string())?;
        let child = Command::new(&words[0])
            .args(&words[1..])
            .env(
                PADDING,
                "x".repeat(below(&mut Random::new(drawn_seed()), PADDING_BYTES_MAX) as usize),
            )
            .envs(environment)
            .current_dir(directory)
            .stdin(Stdio::null())
            .stderr(output.try_clone().map_err(|error| error.to_string())?)
            .stdout(output)
            .spawn()
            .map_err(|error| format!("{}: {error}", words[0]))?;
        let directory = wants_own.then_some(own);
        let mut server = Self { child, port, tls_port, socket, directory };
        server.wait_until_ready().map_err(|error| format!("{error}; see {}", log.display()))?;
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

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let target = Target::tcp("127.0.0.1", self.port);
        let start = Instant::now();
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the server ended at once ({status})"));
            }
            let answer = Control::connect(&target).and_then(|mut control| control.call(&["PING"]));
            let is_ready = match &answer {
                Ok(Reply::Text(_)) => true,
                // It wants a password, which the load has.
                Ok(Reply::Error(text)) => text.starts_with("NOAUTH"),
                _ => false,
            };
            if is_ready {
                return Ok(());
            }
            if start.elapsed() > START_LIMIT {
                return Err(format!("no answer on port {} within {START_LIMIT:?}", self.port));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        if let Some(directory) = &self.directory {
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_directory_is_there_for_the_server_and_goes_with_it() {
        let directory = std::env::temp_dir().join(format!("tidemill-own-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let line = "redis-server --port {port} --bind 127.0.0.1 --dir {directory}";
        let words: Vec<String> = line.split(' ').map(String::from).collect();
        let server = Server::start(&words, None, &Default::default(), &directory).unwrap();
        let own = directory.join(format!("server-{}", server.port));
        let mut control = Control::connect(&Target::tcp("127.0.0.1", server.port)).unwrap();
        assert!(matches!(control.call(&["SAVE"]), Ok(Reply::Text(_))));
        assert!(own.join("dump.rdb").exists());
        drop(server);
        assert!(!own.exists());
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
