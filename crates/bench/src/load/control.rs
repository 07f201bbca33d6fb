//! A blocking connection for everything that is not load: handshakes, INFO, preload, clean-up.
//!
//! It decodes replies into a small tree and waits for each. The load itself never goes through it;
//! a connection is handed to the load threads once its handshake is done.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tidemill_resp::reply::{ReplyParser, ReplyProgress, Value};
use tidemill_resp::request::encode;

use crate::limits::{CONTROL_REPLY_BYTES_MAX, HANDSHAKE_TIMEOUT};
use crate::load::settings::{Endpoint, Family, Protocol, Target};
use crate::load::tls::TlsStream;

/// One read takes at most this much.
const READ_BYTES: usize = 16 * 1024;

/// A connected socket.
#[derive(Debug)]
pub enum Stream {
    /// TCP without TLS.
    Tcp(TcpStream),
    /// Unix domain socket.
    Unix(UnixStream),
    /// TCP with TLS.
    Tls(Box<TlsStream>),
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
            Self::Tls(stream) => stream.socket.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Self::Tls(stream) = self {
            return stream.flush();
        }
        Ok(())
    }
}

impl Stream {
    fn set_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => {
                stream.set_read_timeout(limit)?;
                stream.set_write_timeout(limit)
            }
            Self::Unix(stream) => {
                stream.set_read_timeout(limit)?;
                stream.set_write_timeout(limit)
            }
            Self::Tls(stream) => {
                stream.socket.set_read_timeout(limit)?;
                stream.socket.set_write_timeout(limit)
            }
        }
    }

    /// Calls return at once from now on.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nonblocking(true),
            Self::Unix(stream) => stream.set_nonblocking(true),
            Self::Tls(stream) => stream.socket.set_nonblocking(true),
        }
    }
}

/// A decoded reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Simple or bulk string, or another scalar's text.
    Text(Vec<u8>),
    /// Integer.
    Integer(i64),
    /// Null.
    Nil,
    /// Error text.
    Error(String),
    /// Array, set or push; a map with its keys and values in turn.
    Array(Vec<Reply>),
}

impl Reply {
    /// The text, when it is one.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            Self::Integer(number) => Some(number.to_string()),
            _ => None,
        }
    }
}

impl From<Value> for Reply {
    fn from(value: Value) -> Self {
        let all = |values: Vec<Value>| values.into_iter().map(Self::from).collect();
        match value {
            Value::SimpleString(bytes)
            | Value::Bulk(bytes)
            | Value::BigNumber(bytes)
            | Value::Verbatim { text: bytes, .. } => Self::Text(bytes),
            Value::Double(number) => Self::Text(number.to_string().into_bytes()),
            Value::Boolean(truth) => Self::Text(if truth { b"t".into() } else { b"f".into() }),
            Value::Integer(number) => Self::Integer(number),
            Value::Null => Self::Nil,
            Value::Error(text) => Self::Error(String::from_utf8_lossy(&text).into_owned()),
            Value::Array(values) | Value::Set(values) | Value::Push(values) => {
                Self::Array(all(values))
            }
            Value::Map(pairs) => {
                Self::Array(all(pairs.into_iter().flat_map(|(key, value)| [key, value]).collect()))
            }
            Value::Attributed { value, .. } => Self::from(*value),
        }
    }
}

/// A connection that waits for each reply.
#[derive(Debug)]
pub struct Control {
    stream: Stream,
    parser: ReplyParser,
    received: Vec<u8>,
    /// Bytes of `received` that the parser took.
    parsed: usize,
}

fn connect_stream(target: &Target, endpoint: &Endpoint) -> io::Result<Stream> {
    match endpoint {
        Endpoint::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path)?)),
        Endpoint::Tcp(host, port) => {
            let socket = connect_socket(target, host, *port)?;
            match &target.tls {
                Some(tls) => Ok(Stream::Tls(Box::new(tls.wrap(socket, host)?))),
                None => Ok(Stream::Tcp(socket)),
            }
        }
    }
}

fn connect_socket(target: &Target, host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no such address");
    for address in (host, port).to_socket_addrs()? {
        let wanted = match target.family {
            Family::Any => true,
            Family::V4 => address.is_ipv4(),
            Family::V6 => address.is_ipv6(),
        };
        if !wanted {
            continue;
        }
        let connected = if target.timeout.is_zero() {
            TcpStream::connect(address)
        } else {
            TcpStream::connect_timeout(&address, target.timeout)
        };
        match connected {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Control {
    /// Connects to the target and authenticates, selects protocol and database.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses one of these.
    pub fn connect(target: &Target) -> io::Result<Self> {
        Self::connect_to(target, &target.endpoint)
    }

    /// The same at another address (a node of a cluster).
    ///
    /// # Errors
    /// When the server cannot be reached or refuses.
    pub fn connect_to(target: &Target, endpoint: &Endpoint) -> io::Result<Self> {
        let stream = connect_stream(target, endpoint)?;
        let limit = if target.timeout.is_zero() { HANDSHAKE_TIMEOUT } else { target.timeout };
        stream.set_timeout(Some(limit))?;
        let parser = ReplyParser::new();
        let mut control = Self { stream, parser, received: Vec::new(), parsed: 0 };
        control.handshake(target)?;
        if target.tls.is_some() {
            // The TLS handshake happens with the first bytes; its errors belong here.
            control.call(&["PING"])?;
        }
        Ok(control)
    }

    fn handshake(&mut self, target: &Target) -> io::Result<()> {
        if let Some(password) = &target.password {
            match &target.user {
                Some(user) => self.expect_ok(&["AUTH", user, &password.0])?,
                None => self.expect_ok(&["AUTH", &password.0])?,
            }
        }
        match target.protocol {
            Protocol::Default => {}
            Protocol::Resp2 => self.expect_ok(&["HELLO", "2"])?,
            Protocol::Resp3 => self.expect_ok(&["HELLO", "3"])?,
        }
        if target.database != 0 {
            self.expect_ok(&["SELECT", &target.database.to_string()])?;
        }
        Ok(())
    }

    fn expect_ok(&mut self, command: &[&str]) -> io::Result<()> {
        match self.call(command)? {
            Reply::Error(text) => Err(io::Error::other(format!("{}: {text}", command[0]))),
            _ => Ok(()),
        }
    }

    /// The socket, for the load.
    ///
    /// # Errors
    /// When the server sent more than it was asked for: no later reply could be told from it.
    pub fn into_stream(self) -> io::Result<Stream> {
        if self.parsed < self.received.len() {
            let text = "the server sent a reply nobody asked for";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(self.stream)
    }

    /// Sends a command and waits for its reply.
    ///
    /// # Errors
    /// When the connection fails; an error reply is a reply.
    pub fn call<T: AsRef<[u8]>>(&mut self, command: &[T]) -> io::Result<Reply> {
        self.send(command)?;
        self.receive()
    }

    /// Sends a command without waiting.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn send<T: AsRef<[u8]>>(&mut self, command: &[T]) -> io::Result<()> {
        let arguments: Vec<&[u8]> = command.iter().map(AsRef::as_ref).collect();
        self.stream.write_all(&encode(&arguments))?;
        self.stream.flush()
    }

    /// Waits for one reply.
    ///
    /// # Errors
    /// When the connection fails or the bytes are not RESP.
    pub fn receive(&mut self) -> io::Result<Reply> {
        loop {
            let progress = self.parser.parse(&self.received[self.parsed..]);
            match progress.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))? {
                ReplyProgress::Complete { value, consumed } => {
                    self.parsed += consumed;
                    return Ok(value.into());
                }
                ReplyProgress::Incomplete { consumed, .. } => self.parsed += consumed,
            }
            self.fill()?;
        }
    }

    /// Reads once. The expected size is bounded: a server may claim any length and send without
    /// end.
    fn fill(&mut self) -> io::Result<()> {
        self.received.drain(..std::mem::take(&mut self.parsed));
        let length = self.received.len();
        if length > CONTROL_REPLY_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "too long a reply"));
        }
        self.received.resize(length + READ_BYTES, 0);
        let count = loop {
            match self.stream.read(&mut self.received[length..]) {
                // A signal that only sets a flag; calls with a time limit are not restarted by
                // themselves.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                count => break count,
            }
        };
        self.received.truncate(length + *count.as_ref().unwrap_or(&0));
        if count? == 0 {
            let text = "the server closed the connection";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
        Ok(())
    }

    /// One field of `INFO`.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn info(&mut self, section: &str, field: &str) -> io::Result<Option<String>> {
        let Reply::Text(text) = self.call(&["INFO", section])? else { return Ok(None) };
        let text = String::from_utf8_lossy(&text);
        let found = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        Ok(found.map(|value| value.trim().to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Replies that a connection reads from these bytes of a server that then hangs up.
    fn replies(wire: &[u8], count: usize) -> Vec<io::Result<Reply>> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target::tcp("127.0.0.1", listener.local_addr().unwrap().port());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                // The client may hang up as soon as it has seen enough.
                let _ = stream.write_all(wire);
            });
            let mut control = Control::connect(&target).unwrap();
            (0..count).map(|_| control.receive()).collect()
        })
    }

    #[test]
    fn replies_of_both_protocols_are_decoded() {
        let wire = b"+OK\r\n$3\r\na\r\n\r\n%1\r\n+k\r\n:7\r\n|1\r\n+x\r\n+y\r\n*2\r\n_\r\n$-1\r\n\
            ,1.5\r\n#t\r\n-ERR no\r\n";
        let found: Vec<Reply> = replies(wire, 7).into_iter().map(Result::unwrap).collect();
        let text = |text: &str| Reply::Text(text.into());
        let expected = [
            text("OK"),
            text("a\r\n"),
            Reply::Array(vec![text("k"), Reply::Integer(7)]),
            Reply::Array(vec![Reply::Nil, Reply::Nil]),
            text("1.5"),
            text("t"),
            Reply::Error("ERR no".into()),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_hostile_server_gets_an_error_and_no_memory() {
        let deep = b"*1\r\n".repeat(100_000);
        let endless = [&b"$9223372036854775807\r\n"[..], &[b'x'; 100_000]].concat();
        for wire in [
            &b"\r\n"[..],
            b"\n",
            b"",
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            b"$9223372036854775807\r\n",
            b"*9223372036854775807\r\n:1\r\n",
            b"%9223372036854775807\r\n",
            b"$-7\r\n",
            b":x\r\n",
            b"$3\r\nabcde",
            &deep,
            &endless,
        ] {
            assert!(replies(wire, 1)[0].is_err(), "{:?}", &wire[..wire.len().min(40)]);
        }
    }
}
