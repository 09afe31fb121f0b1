//! The server, over connections as a browser makes them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use backsight::Capture;
use backsight_view::{ServeOptions, View, ViewOptions, address, listen, new_key, serve};

/// The answer to some bytes.
fn answer(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    stream.write_all(request.as_bytes()).expect("it is taken");
    let mut text = Vec::new();
    // A server that refuses what it has not read to its end may reset the connection.
    let _ = stream.read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn a_page_is_served_to_those_who_know_the_key_until_it_is_closed() {
    let capture =
        Capture::open("../../testdata/captures/calls-riscv64").expect("a capture of the repository");
    let mut view = View::new(ViewOptions::default());
    view.add("calls", &capture, capture.execution(), None).expect("it can be read");
    let listener = listen(0).expect("a free port");
    let port = listener.local_addr().expect("its place").port();
    let key = new_key();
    let place = address(&listener, &key).expect("its place");
    assert_eq!(place, format!("http://127.0.0.1:{port}/{key}/"));
    let get = |path: &str, more: &str| {
        answer(port, &format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{more}\r\n"))
    };
    let options = ServeOptions { closed: Duration::from_millis(100) };
    std::thread::scope(|scope| {
        let server = scope.spawn(|| serve(&view, &listener, &key, &options));
        // As long as this is open, the server goes on.
        let mut open = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        write!(open, "GET /{key}/api/open HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n").expect("it is taken");
        let mut progress = String::new();
        while !progress.contains("\"is_indexed\":true") {
            let mut block = [0; 512];
            let count = open.read(&mut block).expect("progress");
            assert!(count > 0, "{progress}");
            progress += &String::from_utf8_lossy(&block[..count]);
        }
        let page = get(&format!("/{key}/"), "");
        assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("app.js"), "{page}");
        assert!(page.contains("Content-Security-Policy: default-src 'none'; script-src 'self'"), "{page}");
        for name in ["app.js", "timeline.js", "style.css", "view.css"] {
            assert!(get(&format!("/{key}/{name}"), "").starts_with("HTTP/1.1 200 "), "{name}");
        }
        let overview = get(&format!("/{key}/api/overview"), &format!("Origin: http://127.0.0.1:{port}\r\n"));
        assert!(
            overview.starts_with("HTTP/1.1 200 ") && overview.contains("\"instructions\":40000"),
            "{overview}"
        );
        let refused = [
            get("/api/overview", ""),
            get(&format!("/{}/api/overview", "0".repeat(32)), ""),
            get(&format!("/{key}/api/overview"), "Origin: http://evil.example\r\n"),
            get(&format!("/{key}/api/overview"), "Sec-Fetch-Site: cross-site\r\n"),
            answer(port, &format!("GET /{key}/api/overview HTTP/1.1\r\nHost: evil.example\r\n\r\n")),
            answer(port, &format!("GET /{key}/api/overview HTTP/1.0\r\n\r\n")),
        ];
        for text in refused {
            assert!(text.starts_with("HTTP/1.1 403 ") && !text.contains("instructions"), "{text}");
        }
        let post =
            answer(port, &format!("POST /{key}/api/overview HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"));
        assert!(post.starts_with("HTTP/1.1 405 "), "{post}");
        assert!(get(&format!("/{key}/../../etc/passwd"), "").starts_with("HTTP/1.1 404 "));
        assert!(get(&format!("/{key}/api/nothing"), "").starts_with("HTTP/1.1 404 "));
        assert!(answer(port, "nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
        drop(open);
        server.join().expect("no panic").expect("it ends once the page is closed");
    });
}
