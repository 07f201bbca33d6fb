//! Lines of the log for syslog, as datagrams in the form that `syslog(3)` of the C library sends.

use std::os::unix::net::UnixDatagram;
use std::sync::{Mutex, PoisonError};

use tidemill_engine::config::Syslog;

/// Socket of the system's logger.
const SOCKET: &str = "/dev/log";

/// Number of the facility `local0`; the others follow it.
const LOCAL0: u32 = 16;
/// Number of the facility `user`.
const USER: u32 = 1;

/// Severity of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Severity {
    Warning = 4,
    Notice = 5,
    Info = 6,
    Debug = 7,
}

/// Connection to the system's logger. A datagram that it does not take at once is lost: a logger
/// that hangs must not stop the server.
#[derive(Debug)]
pub(crate) struct SyslogSink {
    name: String,
    facility: u32,
    socket: Mutex<Option<UnixDatagram>>,
    path: &'static str,
}

impl SyslogSink {
    pub(crate) fn new(config: &Syslog) -> SyslogSink {
        SyslogSink::at(SOCKET, config)
    }

    fn at(path: &'static str, config: &Syslog) -> SyslogSink {
        let local =
            config.facility.strip_prefix("local").and_then(|digit| digit.parse::<u32>().ok());
        let facility = local.map_or(USER, |digit| LOCAL0 + digit);
        SyslogSink { name: config.name.clone(), facility, socket: Mutex::new(None), path }
    }

    /// Sends a line; `time` is `Nov 21 11:58:09`.
    pub(crate) fn send(&self, severity: Severity, time: &str, text: &str) {
        let priority = self.facility * 8 + severity as u32;
        let line = format!("<{priority}>{time} {}[{}]: {text}", self.name, std::process::id());
        let mut socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let is_sent = |socket: &UnixDatagram| socket.send(line.as_bytes()).is_ok();
        if !socket.as_ref().is_some_and(is_sent) {
            // The logger may have been started anew.
            *socket = self.connect().filter(is_sent);
        }
    }

    fn connect(&self) -> Option<UnixDatagram> {
        let socket = UnixDatagram::unbound().ok()?;
        socket.set_nonblocking(true).ok()?;
        socket.connect(self.path).ok()?;
        Some(socket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_reach_a_logger_also_one_that_was_started_anew() {
        let path = std::env::temp_dir().join(format!("tidemill-syslog-{}", std::process::id()));
        let path: &'static str = Box::leak(path.to_string_lossy().into_owned().into_boxed_str());
        let config = |facility: &str| Syslog {
            is_enabled: true,
            name: "mill".into(),
            facility: facility.into(),
        };
        let sink = SyslogSink::at(path, &config("local3"));
        sink.send(Severity::Warning, "Nov  1 08:05:09", "lost: nobody listens");
        for text in ["first", "second"] {
            let logger = UnixDatagram::bind(path).expect("a socket of our own");
            sink.send(Severity::Warning, "Nov  1 08:05:09", text);
            let mut buffer = [0; 200];
            let length = logger.recv(&mut buffer).expect("a datagram");
            let line = String::from_utf8_lossy(&buffer[..length]);
            let process = std::process::id();
            assert_eq!(line, format!("<156>Nov  1 08:05:09 mill[{process}]: {text}"));
            std::fs::remove_file(path).expect("our socket");
        }
        assert_eq!(SyslogSink::at(path, &config("user")).facility, 1);
    }
}
