//! Asking a running server for INFO and CONFIG.
//!
//! The few lines of RESP2 this takes are written here: this crate depends on no other of the
//! project, and the client libraries bring a connection manager along. Replies are bounded, so that
//! whatever listens on the port cannot fill the memory, and every step has a deadline.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::server::parse_info;
use crate::limits::{ASK_DEADLINE, REPLY_BYTES_MAX, REPLY_ELEMENTS_MAX};

/// Credentials.
#[derive(Clone, Default)]
pub struct Credentials {
    /// The user; `None` for the default one.
    pub user: Option<String>,
    /// The password; `None` when none is known.
    pub password: Option<String>,
}

impl fmt::Debug for Credentials {
    /// Without the password: debug output ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Reason that a server did not answer.
#[derive(Debug)]
pub enum AskError {
    /// The connection failed or ended.
    Connection(io::Error),
    /// It speaks something else.
    NotResp,
    /// It asks for a password, or refused the one given; its words.
    Password(String),
    /// It refused the command; its words.
    Refused(String),
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(error) => write!(f, "the server does not answer: {error}"),
            Self::NotResp => f.write_str("what listens there does not speak RESP"),
            Self::Password(words) | Self::Refused(words) => {
                write!(f, "the server says: {}", words.escape_default())
            }
        }
    }
}

impl std::error::Error for AskError {}

impl From<io::Error> for AskError {
    fn from(error: io::Error) -> Self {
        Self::Connection(error)
    }
}

/// INFO, and CONFIG or why it is not told.
#[derive(Debug)]
pub struct Answers {
    /// Fields of INFO.
    pub info: BTreeMap<String, String>,
    /// CONFIG parameters.
    pub config: Result<BTreeMap<String, String>, AskError>,
}

/// Asks a server. Blocks for at most a few seconds.
///
/// # Errors
/// When it does not answer INFO.
pub fn ask(address: SocketAddr, credentials: &Credentials) -> Result<Answers, AskError> {
    ask_within(ASK_DEADLINE, address, credentials)
}

/// As [`ask`], with another [`ASK_DEADLINE`].
fn ask_within(
    deadline: Duration,
    address: SocketAddr,
    credentials: &Credentials,
) -> Result<Answers, AskError> {
    let stream = TcpStream::connect_timeout(&address, deadline)?;
    stream.set_read_timeout(Some(deadline))?;
    stream.set_write_timeout(Some(deadline))?;
    let mut connection =
        Connection { reader: BufReader::new(stream.try_clone()?.take(REPLY_BYTES_MAX)), stream };
    if let Some(password) = &credentials.password {
        let mut words = vec!["AUTH"];
        words.extend(credentials.user.as_deref());
        words.push(password);
        connection.call(&words).map_err(|error| match error {
            AskError::Refused(words) => AskError::Password(words),
            error => error,
        })?;
    }
    let info = connection.call(&["INFO"])?;
    let config = connection.call(&["CONFIG", "GET", "*"]).map(|words| {
        let pairs = words.chunks_exact(2);
        pairs.map(|pair| (pair[0].to_ascii_lowercase(), pair[1].clone())).collect()
    });
    let info = parse_info(info.first().map(String::as_str).unwrap_or_default());
    Ok(Answers { info, config })
}

struct Connection {
    reader: BufReader<io::Take<TcpStream>>,
    stream: TcpStream,
}

impl Connection {
    /// Sends one command and reads its reply as a flat list of strings.
    fn call(&mut self, words: &[&str]) -> Result<Vec<String>, AskError> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.stream.write_all(request.as_bytes())?;
        let line = self.line()?;
        let Some(count) = line.strip_prefix('*') else { return Ok(vec![self.string(&line)?]) };
        let count: usize = count.parse().map_err(|_| AskError::NotResp)?;
        if count > REPLY_ELEMENTS_MAX {
            return Err(AskError::NotResp);
        }
        (0..count)
            .map(|_| {
                let line = self.line()?;
                self.string(&line)
            })
            .collect()
    }

    /// The string that a line begins.
    fn string(&mut self, line: &str) -> Result<String, AskError> {
        match line.split_at_checked(1) {
            Some(("+" | ":", text)) => Ok(text.to_owned()),
            Some(("-", text)) if text.starts_with("NOAUTH") => {
                Err(AskError::Password(text.to_owned()))
            }
            Some(("-", text)) => Err(AskError::Refused(text.to_owned())),
            Some(("$", "-1")) => Ok(String::new()),
            Some(("$", length)) => {
                let length: u64 = length.parse().map_err(|_| AskError::NotResp)?;
                if length > REPLY_BYTES_MAX {
                    return Err(AskError::NotResp);
                }
                let mut bytes = Vec::new();
                self.reader.by_ref().take(length + 2).read_to_end(&mut bytes)?;
                let text = bytes.strip_suffix(b"\r\n").ok_or(AskError::NotResp)?;
                Ok(String::from_utf8_lossy(text).into_owned())
            }
            _ => Err(AskError::NotResp),
        }
    }

    fn line(&mut self) -> Result<String, AskError> {
        let mut bytes = Vec::new();
        self.reader.read_until(b'\n', &mut bytes)?;
        if bytes.is_empty() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let text = bytes.strip_suffix(b"\r\n").ok_or(AskError::NotResp)?;
        String::from_utf8(text.to_vec()).map_err(|_| AskError::NotResp)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Time that a thread of the test may be without a CPU.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// A server that answers each read with the next of these; returns what it was told.
    fn server(replies: &'static [&'static str]) -> (SocketAddr, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut told = String::new();
            for reply in replies {
                let mut bytes = [0; 1024];
                let count = stream.read(&mut bytes).unwrap();
                told.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
                stream.write_all(reply.as_bytes()).unwrap();
            }
            told
        });
        (address, thread)
    }

    #[test]
    fn info_and_config_are_read_after_the_password_was_sent() {
        let (address, thread) = server(&[
            "+OK\r\n",
            "$37\r\n# Server\r\nvalkey_version:9.1.2\r\nx:1\r\n\r\n",
            "*4\r\n$10\r\nMAXCLIENTS\r\n$2\r\n99\r\n$4\r\nsave\r\n$0\r\n\r\n",
        ]);
        let credentials = Credentials { user: None, password: Some("secret".to_owned()) };
        assert!(!format!("{credentials:?}").contains("secret"));
        let answers = ask_within(PATIENCE, address, &credentials).unwrap();
        assert!(thread.join().unwrap().starts_with("*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n"));
        assert_eq!(answers.info["valkey_version"], "9.1.2");
        let config = answers.config.unwrap();
        assert_eq!((config["maxclients"].as_str(), config["save"].as_str()), ("99", ""));
    }

    #[test]
    fn a_refused_config_leaves_info() {
        let (address, thread) = server(&["$8\r\nx:1\r\ny:2\r\n", "-NOPERM no\r\n"]);
        let answers = ask_within(PATIENCE, address, &Credentials::default()).unwrap();
        thread.join().unwrap();
        assert_eq!(answers.info.len(), 2);
        assert_eq!(answers.config.unwrap_err().to_string(), "the server says: NOPERM no");
    }

    #[test]
    fn strangers_and_missing_passwords_have_answers_of_their_own() {
        let (address, thread) = server(&["HTTP/1.1 400 Bad Request\r\n\r\n"]);
        assert!(matches!(
            ask_within(PATIENCE, address, &Credentials::default()),
            Err(AskError::NotResp)
        ));
        thread.join().unwrap();
        let (address, thread) = server(&["-NOAUTH Authentication required.\r\n"]);
        assert!(matches!(
            ask_within(PATIENCE, address, &Credentials::default()),
            Err(AskError::Password(_))
        ));
        thread.join().unwrap();
        let (address, thread) = server(&["*99999999999\r\n"]);
        assert!(matches!(
            ask_within(PATIENCE, address, &Credentials::default()),
            Err(AskError::NotResp)
        ));
        thread.join().unwrap();
    }
}
