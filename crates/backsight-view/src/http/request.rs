//! Requests: what comes in is not trusted.

use std::fmt;

/// Bytes of a request, at most.
pub(super) const MOST_BYTES: usize = 1 << 14;

/// Headers of a request, and values of its query, at most.
const MOST_HEADERS: usize = 100;
const MOST_VALUES: usize = 64;

/// A request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The parts of the path.
    pub path: Vec<String>,
    /// Names and values of the query.
    pub values: Vec<(String, String)>,
    /// Which host it is said to be for.
    pub host: String,
    /// The origin of the page that asks, if it is said.
    pub origin: Option<String>,
    /// How the page that asks stands to us, if the browser says it.
    pub site: Option<String>,
}

/// What is wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// It is no HTTP.
    Malformed,
    /// Nothing but GET is known.
    Method,
    /// It is too long, or has too many parts.
    TooLong,
    /// It has a body.
    Body,
}

impl RequestError {
    /// The status of its answer.
    pub const fn status(self) -> u16 {
        match self {
            Self::Malformed | Self::Body => 400,
            Self::Method => 405,
            Self::TooLong => 431,
        }
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "this is no request",
            Self::Method => "nothing but GET is answered",
            Self::TooLong => "the request is too long",
            Self::Body => "requests have no body here",
        })
    }
}

impl std::error::Error for RequestError {}

/// The text that `%41` and the like stand for; `None` if it is none.
fn decoded(text: &str, plus_is_space: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                (digit(rest.next())? * 16 + digit(rest.next())?) as u8
            }
            b'+' if plus_is_space => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// Reads a request up to its empty line.
///
/// # Errors
/// If it is not one that is answered.
pub fn parse(bytes: &[u8]) -> Result<Request, RequestError> {
    use RequestError::{Body, Malformed, Method, TooLong};
    if bytes.len() > MOST_BYTES {
        return Err(TooLong);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| Malformed)?;
    let (head, _) = text.split_once("\r\n\r\n").ok_or(Malformed)?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    let (Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0"), None) =
        (method, target, version, words.next())
    else {
        return Err(Malformed);
    };
    if method != "GET" {
        return Err(Method);
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = path.strip_prefix('/').ok_or(Malformed)?;
    let path =
        path.split('/').map(|part| decoded(part, false)).collect::<Option<Vec<_>>>().ok_or(Malformed)?;
    let pair = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        Some((decoded(name, true)?, decoded(value, true)?))
    };
    let parts = query.split('&').filter(|part| !part.is_empty());
    let values = parts.map(pair).collect::<Option<Vec<_>>>().ok_or(Malformed)?;
    if values.len() > MOST_VALUES {
        return Err(TooLong);
    }
    let mut request = Request { path, values, ..Request::default() };
    let (mut has_host, mut count) = (false, 0);
    for line in lines {
        let (name, value) = line.split_once(':').ok_or(Malformed)?;
        let value = value.trim().to_owned();
        count += 1;
        if count > MOST_HEADERS {
            return Err(TooLong);
        }
        match name.to_ascii_lowercase().as_str() {
            // Who names two hosts means to be taken for both.
            "host" if has_host => return Err(Malformed),
            "host" => (request.host, has_host) = (value, true),
            "origin" if request.origin.is_some() => return Err(Malformed),
            "origin" => request.origin = Some(value),
            "sec-fetch-site" => request.site = Some(value),
            "content-length" if value != "0" => return Err(Body),
            "transfer-encoding" => return Err(Body),
            _ => {}
        }
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_taken_apart() {
        let text = "GET /key/api/find?kind=function&what=a%26b%20c+d HTTP/1.1\r\nHost: 127.0.0.1:1\r\nOrigin: http://x\r\nX: y\r\n\r\n";
        let request = parse(text.as_bytes()).expect("a request");
        assert_eq!(request.path, ["key", "api", "find"]);
        assert_eq!(request.values[1], ("what".to_owned(), "a&b c d".to_owned()));
        assert_eq!((request.host.as_str(), request.origin.as_deref()), ("127.0.0.1:1", Some("http://x")));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let wrong = [
            ("", RequestError::Malformed),
            ("GET / HTTP/1.1\r\nHost: a\r\n", RequestError::Malformed),
            ("GET / HTTP/2\r\n\r\n", RequestError::Malformed),
            ("GET x HTTP/1.1\r\n\r\n", RequestError::Malformed),
            ("GET /%zz HTTP/1.1\r\n\r\n", RequestError::Malformed),
            ("GET /%ff HTTP/1.1\r\n\r\n", RequestError::Malformed),
            ("GET /?a=%4 HTTP/1.1\r\n\r\n", RequestError::Malformed),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", RequestError::Malformed),
            ("GET / HTTP/1.1\r\nno colon\r\n\r\n", RequestError::Malformed),
            ("POST / HTTP/1.1\r\n\r\n", RequestError::Method),
            ("GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", RequestError::Body),
            ("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", RequestError::Body),
        ];
        for (text, why) in wrong {
            assert_eq!(parse(text.as_bytes()), Err(why), "{text:?}");
        }
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(MOST_BYTES));
        assert_eq!(parse(long.as_bytes()), Err(RequestError::TooLong));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(MOST_HEADERS + 1));
        assert_eq!(parse(many.as_bytes()), Err(RequestError::TooLong));
    }
}
