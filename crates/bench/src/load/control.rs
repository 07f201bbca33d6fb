//! A blocking connection for everything that is not load: handshakes, INFO, preload, clean-up.
//!
//! It decodes replies into a small tree and waits for each. The load itself never goes through it;
//! a connection is handed to the load threads once its handshake is done.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::limits::HANDSHAKE_TIMEOUT;
use crate::load::settings::{Endpoint, Family, Protocol, Target};
use crate::load::tls::TlsStream;

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

/// A connection that waits for each reply.
#[derive(Debug)]
pub struct Control {
    reader: BufReader<Stream>,
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
        let mut control = Self { reader: BufReader::new(stream) };
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

    /// The socket, for the load; nothing may be waiting to be read.
    pub fn into_stream(self) -> Stream {
        debug_assert!(self.reader.buffer().is_empty());
        self.reader.into_inner()
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
        let mut wire = format!("*{}\r\n", command.len()).into_bytes();
        for argument in command {
            let argument = argument.as_ref();
            wire.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
            wire.extend_from_slice(argument);
            wire.extend_from_slice(b"\r\n");
        }
        self.reader.get_mut().write_all(&wire)?;
        self.reader.get_mut().flush()
    }

    /// Waits for one reply.
    ///
    /// # Errors
    /// When the connection fails or the bytes are not RESP.
    pub fn receive(&mut self) -> io::Result<Reply> {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line)?;
        if !line.ends_with(b"\r\n") {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the server closed the connection",
            ));
        }
        line.truncate(line.len() - 2);
        let rest = String::from_utf8_lossy(&line[1..]).into_owned();
        Ok(match line[0] {
            b'-' => Reply::Error(rest),
            b':' => Reply::Integer(rest.parse().map_err(not_resp)?),
            b'_' => Reply::Nil,
            b'$' | b'=' | b'!' => match rest.parse::<i64>().map_err(not_resp)? {
                ..0 => Reply::Nil,
                length => {
                    let mut body = vec![0; length as usize + 2];
                    self.reader.read_exact(&mut body)?;
                    body.truncate(length as usize);
                    if line[0] == b'!' {
                        Reply::Error(String::from_utf8_lossy(&body).into_owned())
                    } else {
                        Reply::Text(body)
                    }
                }
            },
            b'*' | b'%' | b'~' | b'>' => match rest.parse::<i64>().map_err(not_resp)? {
                ..0 => Reply::Nil,
                length => {
                    let count = if line[0] == b'%' { 2 * length } else { length };
                    Reply::Array((0..count).map(|_| self.receive()).collect::<io::Result<_>>()?)
                }
            },
            _ => Reply::Text(line[1..].to_vec()),
        })
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

fn not_resp(error: std::num::ParseIntError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
