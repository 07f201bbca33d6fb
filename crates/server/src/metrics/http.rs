//! As much of HTTP/1.1 as a scrape needs: what a request asks for, and the answer to it.

use super::exposition::MEDIA_TYPE;
use crate::limits::{METRICS_HEADERS_MAX, METRICS_REQUEST_BYTES_MAX};

/// Outcome of looking for a request in a client's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Metrics,
    /// `HEAD`: the same without its body.
    MetricsHead,
    UnknownPath,
    UnknownMethod,
    Malformed,
    TooLarge,
    /// It was not whole in time.
    Late,
}

/// A request at the front of what arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parsed {
    pub(super) request: Request,
    /// Its length.
    pub(super) bytes: usize,
    /// True if another request may follow on the connection.
    pub(super) keeps_alive: bool,
}

impl Parsed {
    /// Of something after which the connection is closed.
    pub(super) fn last(request: Request) -> Parsed {
        Parsed { request, bytes: 0, keeps_alive: false }
    }
}

/// The request that `bytes` begin with; `None` while it is not whole.
pub(super) fn parse(bytes: &[u8]) -> Option<Parsed> {
    let mut headers = [httparse::EMPTY_HEADER; METRICS_HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => {
            let is_too_large = bytes.len() >= METRICS_REQUEST_BYTES_MAX;
            return is_too_large.then(|| Parsed::last(Request::TooLarge));
        }
        Err(httparse::Error::TooManyHeaders) => return Some(Parsed::last(Request::TooLarge)),
        Err(_) => return Some(Parsed::last(Request::Malformed)),
    };
    let path = request.path.unwrap_or_default().split('?').next();
    let asked = match (request.method, path) {
        (Some("GET"), Some("/metrics")) => Request::Metrics,
        (Some("HEAD"), Some("/metrics")) => Request::MetricsHead,
        (Some("GET" | "HEAD"), _) => Request::UnknownPath,
        _ => Request::UnknownMethod,
    };
    let has = |name: &str, word: &str| {
        let values = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
        let mut words = values.flat_map(|header| header.value.split(|&byte| byte == b','));
        words.any(|value| value.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
    };
    // A body would be taken for the next request.
    let has_body = request.headers.iter().any(|header| {
        header.name.eq_ignore_ascii_case("transfer-encoding")
            || header.name.eq_ignore_ascii_case("content-length") && header.value != b"0"
    });
    let wants_more = match request.version {
        Some(1) => !has("connection", "close"),
        _ => has("connection", "keep-alive"),
    };
    Some(Parsed { request: asked, bytes: length, keeps_alive: wants_more && !has_body })
}

/// The answer, with the metrics as `body` for those who asked for them.
pub(super) fn answer(parsed: Parsed, body: &str) -> Vec<u8> {
    let (status, further) = match parsed.request {
        Request::Metrics | Request::MetricsHead => ("200 OK", ""),
        Request::UnknownPath => ("404 Not Found", ""),
        Request::UnknownMethod => ("405 Method Not Allowed", "Allow: GET, HEAD\r\n"),
        Request::Malformed => ("400 Bad Request", ""),
        Request::TooLarge => ("431 Request Header Fields Too Large", ""),
        Request::Late => ("408 Request Timeout", ""),
    };
    let connection = if parsed.keeps_alive { "keep-alive" } else { "close" };
    let length = body.len();
    let sent = if parsed.request == Request::MetricsHead { "" } else { body };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {length}\r\n\
         {further}Connection: {connection}\r\n\r\n{sent}"
    )
    .into_bytes()
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
            assert_eq!(parse(text.as_bytes()).map(|parsed| parsed.request), want, "{text}");
        }
        let long = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(METRICS_REQUEST_BYTES_MAX));
        assert_eq!(parse(long.as_bytes()), Some(Parsed::last(Request::TooLarge)));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: 1\r\n".repeat(METRICS_HEADERS_MAX + 1));
        assert_eq!(parse(many.as_bytes()), Some(Parsed::last(Request::TooLarge)));
    }

    #[test]
    fn connections_stay_open_where_both_want_it() {
        for (head, keeps_alive) in [
            ("GET / HTTP/1.1\r\n", true),
            ("GET / HTTP/1.1\r\nConnection: x, Close\r\n", false),
            ("GET / HTTP/1.0\r\n", false),
            ("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n", true),
            ("POST / HTTP/1.1\r\nContent-Length: 0\r\n", true),
            ("POST / HTTP/1.1\r\nContent-Length: 5\r\n", false),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", false),
        ] {
            let text = format!("{head}\r\nnext");
            let parsed = parse(text.as_bytes()).expect("it is whole");
            assert_eq!((parsed.keeps_alive, parsed.bytes), (keeps_alive, text.len() - 4), "{head}");
        }
    }
}
