//! A store that is busy: a proxy in front of a real server that answers some requests with 503.

use std::io::{BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::web::read_request;

/// The proxy's answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The server's answer is passed on.
    Served,
    /// The server does not see the request.
    Refused,
    /// The server does what is asked, and the client is told that it is busy.
    ServedAndRefused,
}

/// The proxy; it listens until the program ends.
pub(crate) struct BusyStore {
    port: u16,
    refused: Arc<AtomicUsize>,
}

impl BusyStore {
    /// `answer` decides by the first line of the request and the number of requests before. Every request takes `delay` longer.
    pub(crate) fn start(
        server: u16,
        delay: Duration,
        answer: impl Fn(&str, usize) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (answer, asked, refused) =
            (Arc::new(answer), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let count = refused.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, asked, count) = (answer.clone(), asked.clone(), count.clone());
                thread::spawn(move || {
                    let Some((head, request)) = request(&stream) else { return };
                    thread::sleep(delay);
                    let said = answer(&head, asked.fetch_add(1, Ordering::SeqCst));
                    let served = (said != Answer::Refused).then(|| ask(server, &request));
                    let busy = || {
                        count.fetch_add(1, Ordering::SeqCst);
                        let body = "<Error><Code>SlowDown</Code></Error>";
                        let length = body.len();
                        format!(
                            "HTTP/1.1 503 Slow Down\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                        )
                        .into_bytes()
                    };
                    let response = if said == Answer::Served { served } else { None };
                    // A client that has gone away needs no answer.
                    let _ = (&stream).write_all(&response.unwrap_or_else(busy));
                });
            }
        });
        Self { port, refused }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Requests answered with 503.
    pub(crate) fn refused(&self) -> usize {
        self.refused.load(Ordering::SeqCst)
    }
}

/// The first line of a request, and its bytes, which ask the server to close the connection.
fn request(stream: &TcpStream) -> Option<(String, Vec<u8>)> {
    let (mut head, body) = read_request(&mut BufReader::new(stream))?;
    let first = head.first()?.clone();
    head.retain(|line| !line.to_ascii_lowercase().starts_with("connection:"));
    let text = format!("{}\r\nConnection: close\r\n\r\n", head.join("\r\n"));
    Some((first, [text.into_bytes(), body].concat()))
}

/// The answer of the server to these bytes.
fn ask(server: u16, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", server)).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}
