//! A web server that misbehaves on request.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A request of a client.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// With the query.
    pub(crate) target: String,
    /// By names in small letters.
    pub(crate) headers: HashMap<String, String>,
}

impl Asked {
    /// First byte and last byte plus one of the range.
    pub(crate) fn range(&self) -> Option<(usize, usize)> {
        let (from, to) = self.headers.get("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some((from.parse().ok()?, to.parse::<usize>().ok()? + 1))
    }
}

/// The response to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Given {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// The connection ends after so many bytes of the body.
    pub(crate) cut: Option<usize>,
    /// Before anything is said.
    pub(crate) wait: Duration,
}

impl Given {
    pub(crate) fn status(status: u16, body: &str) -> Self {
        Self { status, body: body.into(), ..Self::default() }
    }

    /// A file, or the requested range of it.
    pub(crate) fn file(bytes: &[u8], tag: &str, asked: &Asked) -> Self {
        let mut given = Self { status: 200, ..Self::default() };
        if !tag.is_empty() {
            given.headers.push(("ETag".into(), tag.into()));
            if asked.headers.get("if-match").is_some_and(|wanted| wanted != tag) {
                return Self::status(412, "");
            }
        }
        let (from, to) =
            asked.range().map_or((0, bytes.len()), |(from, to)| (from, to.min(bytes.len())));
        if asked.range().is_some() {
            given.status = 206;
            let range = format!("bytes {from}-{}/{}", to - 1, bytes.len());
            given.headers.push(("Content-Range".into(), range));
        }
        given.body = bytes[from..to].to_vec();
        given
    }
}

type Handler = dyn Fn(&Asked, usize) -> Given + Send + Sync;

/// The server; it listens until the program ends.
pub(crate) struct Web {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Web {
    /// Answers each request with what `handler` makes of it and of the number of requests before it.
    pub(crate) fn start(handler: impl Fn(&Asked, usize) -> Given + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (handler, log): (Arc<Handler>, _) = (Arc::new(handler), asked.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (handler, log) = (handler.clone(), log.clone());
                thread::spawn(move || answer(stream, &*handler, &log));
            }
        });
        Self { address, asked }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The requests so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

/// The lines of a request before its body, and the body; `None` at the end of the connection.
pub(super) fn read_request(from: &mut impl BufRead) -> Option<(Vec<String>, Vec<u8>)> {
    let mut head = Vec::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        if from.read_line(&mut line).unwrap_or(0) == 0 {
            return None;
        }
        let line = line.trim();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
        head.push(line.to_owned());
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).unwrap();
    Some((head, body))
}

fn answer(stream: TcpStream, handler: &Handler, log: &Mutex<Vec<Asked>>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let mut out = stream;
    while let Some((head, _)) = read_request(&mut lines) {
        let mut words = head[0].split(' ');
        let target = words.nth(1).unwrap();
        let headers: HashMap<String, String> = head[1..]
            .iter()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let asked = Asked { target: target.to_owned(), headers };
        let number = {
            let mut log = log.lock().unwrap();
            log.push(asked.clone());
            log.len() - 1
        };
        let given = handler(&asked, number);
        thread::sleep(given.wait);
        let mut text =
            format!("HTTP/1.1 {} X\r\nContent-Length: {}\r\n", given.status, given.body.len());
        for (name, value) in &given.headers {
            text.extend([name, ": ", value, "\r\n"]);
        }
        text.push_str("\r\n");
        let body = &given.body[..given.cut.unwrap_or(given.body.len()).min(given.body.len())];
        let sent = out.write_all(text.as_bytes()).and_then(|()| out.write_all(body));
        if sent.is_err() || given.cut.is_some() {
            return;
        }
    }
}
