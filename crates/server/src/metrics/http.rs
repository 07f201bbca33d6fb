//! As much of HTTP/1.1 as a scrape needs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use super::exposition::MEDIA_TYPE;
use crate::limits::{METRICS_DEADLINE, METRICS_HEADERS_MAX, METRICS_REQUEST_BYTES_MAX};

/// What a client asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Metrics,
    /// `HEAD`: the same without its body.
    MetricsHead,
    UnknownPath,
    UnknownMethod,
    Malformed,
}

/// Reads a request up to its blank line; `None` when none comes in time.
pub(super) fn read_request(mut stream: &TcpStream) -> Option<Request> {
    let deadline = Instant::now() + METRICS_DEADLINE;
    let mut bytes = Vec::new();
    let mut chunk = [0; 1024];
    loop {
        let rest =
            deadline.checked_duration_since(Instant::now()).filter(|rest| !rest.is_zero())?;
        stream.set_read_timeout(Some(rest)).ok()?;
        let count = stream.read(&mut chunk).ok().filter(|&count| count > 0)?;
        bytes.extend_from_slice(&chunk[..count]);
        match parse(&bytes) {
            Some(request) => return Some(request),
            None if bytes.len() > METRICS_REQUEST_BYTES_MAX => return Some(Request::Malformed),
            None => {}
        }
    }
}

/// The request that `bytes` hold; `None` while it is not whole.
fn parse(bytes: &[u8]) -> Option<Request> {
    let mut headers = [httparse::EMPTY_HEADER; METRICS_HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(status) if status.is_partial() => return None,
        Ok(_) => {}
        Err(_) => return Some(Request::Malformed),
    }
    let path = request.path.unwrap_or_default().split('?').next();
    Some(match (request.method, path) {
        (Some("GET"), Some("/metrics")) => Request::Metrics,
        (Some("HEAD"), Some("/metrics")) => Request::MetricsHead,
        (Some("GET" | "HEAD"), _) => Request::UnknownPath,
        _ => Request::UnknownMethod,
    })
}

/// Sends the answer, within the deadline or not at all.
pub(super) fn answer(mut stream: &TcpStream, request: Request, body: &str) {
    let (status, further) = match request {
        Request::Metrics | Request::MetricsHead => ("200 OK", ""),
        Request::UnknownPath => ("404 Not Found", ""),
        Request::UnknownMethod => ("405 Method Not Allowed", "Allow: GET, HEAD\r\n"),
        Request::Malformed => ("400 Bad Request", ""),
    };
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {}\r\n{further}Connection: close\r\n\r\n{body}",
        body.len()
    );
    // A client that does not take its answer is its own loss.
    let _ = stream
        .set_write_timeout(Some(METRICS_DEADLINE))
        .and_then(|()| stream.write_all(text.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart() {
        for (text, want) in [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n", None),
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", Some(Request::Metrics)),
            ("GET /metrics?x=1 HTTP/1.0\r\n\r\n", Some(Request::Metrics)),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", Some(Request::MetricsHead)),
            ("GET / HTTP/1.1\r\n\r\n", Some(Request::UnknownPath)),
            ("POST /metrics HTTP/1.1\r\n\r\n", Some(Request::UnknownMethod)),
            ("*1\r\n$4\r\nPING\r\n\r\n", Some(Request::Malformed)),
        ] {
            assert_eq!(parse(text.as_bytes()), want, "{text}");
        }
    }
}
