//! Connections: each has one request and one answer, but for the one by which a page says that it is open.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::files::file;
use super::gate::Gate;
use super::request::{MOST_BYTES, Request, parse};
use crate::view::{Answer, View};

/// Connections at once.
const MOST_CONNECTIONS: usize = 64;

/// How long a request may take to arrive, and an answer to be taken.
const MOST_TIME: Duration = Duration::from_secs(10);

/// How often it is looked whether something has changed.
const BEAT: Duration = Duration::from_millis(250);

/// Nothing is loaded from elsewhere, and nothing that stands in the page is run.
const POLICY_OF_PAGE: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob: data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const POLICY_OF_ANSWERS: &str = "default-src 'none'; sandbox; frame-ancestors 'none'";

/// How a server ends.
#[derive(Clone, Copy, Debug)]
pub struct ServeOptions {
    /// How long all pages may be closed, once one was open.
    pub closed: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self { closed: Duration::from_secs(30) }
    }
}

/// Listens on the loopback interface; port 0 is any that is free.
///
/// # Errors
/// If nobody can listen there.
pub fn listen(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
}

/// The address of the page.
///
/// # Errors
/// If the system does not say where the listener is.
pub fn address(listener: &TcpListener, key: &str) -> io::Result<String> {
    Ok(format!("http://127.0.0.1:{}/{key}/", listener.local_addr()?.port()))
}

struct Server<'v, 'c> {
    view: &'v View<'c>,
    gate: Gate,
    is_over: AtomicBool,
    connections: AtomicUsize,
    /// Pages that are open, and when the last one was.
    pages: AtomicUsize,
    last: Mutex<Option<Instant>>,
}

/// Serves a view, until all pages have been closed for a while.
///
/// # Errors
/// If the system does not say where the listener is.
pub fn serve(view: &View<'_>, listener: &TcpListener, key: &str, options: &ServeOptions) -> io::Result<()> {
    let place = listener.local_addr()?;
    let server = Server {
        view,
        gate: Gate { key: key.to_owned(), port: place.port() },
        is_over: AtomicBool::new(false),
        connections: AtomicUsize::new(0),
        pages: AtomicUsize::new(0),
        last: Mutex::new(None),
    };
    std::thread::scope(|scope| {
        view.start(scope);
        scope.spawn(|| {
            while !server.has_ended(options) {
                std::thread::sleep(BEAT);
                view.give_up_late();
            }
            server.is_over.store(true, Ordering::SeqCst);
            view.end();
            // Who waits for connections is woken by one.
            drop(TcpStream::connect(place));
        });
        for stream in listener.incoming() {
            if server.is_over.load(Ordering::SeqCst) {
                break;
            }
            let Ok(stream) = stream else { continue };
            if server.connections.fetch_add(1, Ordering::SeqCst) >= MOST_CONNECTIONS {
                server.connections.fetch_sub(1, Ordering::SeqCst);
                let _ = stream.set_write_timeout(Some(BEAT));
                let _ = put(&stream, &refusal(503, "too much is asked for at once"));
                continue;
            }
            let server = &server;
            scope.spawn(move || {
                // Whoever asked may have gone.
                let _ = server.connection(&stream);
                let _ = stream.shutdown(Shutdown::Both);
                server.connections.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    Ok(())
}

impl Server<'_, '_> {
    fn has_ended(&self, options: &ServeOptions) -> bool {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        self.pages.load(Ordering::SeqCst) == 0 && last.is_some_and(|last| last.elapsed() > options.closed)
    }

    fn connection(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_write_timeout(Some(MOST_TIME))?;
        stream.set_nodelay(true)?;
        let bytes = read(stream)?;
        let request = match parse(&bytes) {
            Ok(request) => request,
            Err(error) => return put(stream, &refusal(error.status(), &error.to_string())),
        };
        if let Some(why) = self.gate.refuse(&request) {
            return put(stream, &refusal(403, why));
        }
        let path: Vec<&str> = request.path.iter().skip(1).map(String::as_str).collect();
        match path[..] {
            ["api", "open"] => self.open_page(stream),
            ["api", question] => put(stream, &self.answer(question, &request)),
            [] => put(stream, &refusal(404, "the address ends with a slash")),
            [name] => match file(name) {
                Some((kind, text)) => put_file(stream, kind, text),
                None => put(stream, &refusal(404, "there is no such file")),
            },
            _ => put(stream, &refusal(404, "there is no such file")),
        }
    }

    fn answer(&self, question: &str, request: &Request) -> Answer {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.view.answer(question, &request.values)
    }

    /// A page is open, and is told how far indexes are, until it is closed.
    fn open_page(&self, mut stream: &TcpStream) -> io::Result<()> {
        self.pages.fetch_add(1, Ordering::SeqCst);
        let outcome = (|| {
            stream.write_all(head(200, "text/event-stream", POLICY_OF_ANSWERS, None).as_bytes())?;
            let mut before = String::new();
            while !self.is_over.load(Ordering::SeqCst) {
                let progress = self.view.progress_text();
                // A line without a meaning, so that it is noticed when nobody takes it.
                let line =
                    if progress == before { ":\n\n".to_owned() } else { format!("data: {progress}\n\n") };
                stream.write_all(line.as_bytes())?;
                before = progress;
                std::thread::sleep(BEAT);
            }
            Ok(())
        })();
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.pages.fetch_sub(1, Ordering::SeqCst);
        outcome
    }
}

/// Reads a request up to its empty line.
fn read(mut stream: &TcpStream) -> io::Result<Vec<u8>> {
    let until = Instant::now() + MOST_TIME;
    let mut bytes = Vec::new();
    let mut block = [0; 1 << 12];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let count = stream.read(&mut block)?;
        let from = bytes.len().saturating_sub(3);
        bytes.extend_from_slice(&block[..count]);
        let is_whole = bytes[from..].windows(4).any(|end| end == b"\r\n\r\n");
        if count == 0 || is_whole || bytes.len() > MOST_BYTES {
            return Ok(bytes);
        }
    }
}

fn refusal(status: u16, why: &str) -> Answer {
    let body = format!("{why}\n").into_bytes();
    Answer { status, kind: "text/plain; charset=utf-8", file: None, body }
}

fn head(status: u16, kind: &str, policy: &str, length: Option<usize>) -> String {
    let words = match status {
        200 => "OK",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Bad Request",
    };
    let length = length.map_or_else(String::new, |length| format!("Content-Length: {length}\r\n"));
    format!(
        "HTTP/1.1 {status} {words}\r\nContent-Type: {kind}\r\n{length}Connection: close\r\nCache-Control: no-store\r\n\
         Content-Security-Policy: {policy}\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n\
         Cross-Origin-Opener-Policy: same-origin\r\nCross-Origin-Resource-Policy: same-origin\r\n\r\n"
    )
}

fn put(mut stream: &TcpStream, answer: &Answer) -> io::Result<()> {
    let mut head = head(answer.status, answer.kind, POLICY_OF_ANSWERS, Some(answer.body.len()));
    if let Some(name) = &answer.file {
        let line = format!("Content-Disposition: attachment; filename=\"{name}\"\r\n\r\n");
        head.truncate(head.len() - 2);
        head += &line;
    }
    stream.write_all(head.as_bytes())?;
    stream.write_all(&answer.body)
}

fn put_file(mut stream: &TcpStream, kind: &str, text: &str) -> io::Result<()> {
    stream.write_all(head(200, kind, POLICY_OF_PAGE, Some(text.len())).as_bytes())?;
    stream.write_all(text.as_bytes())
}
