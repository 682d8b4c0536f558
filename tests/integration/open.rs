//! `advisor open`: a server on this machine that gives one trace to one page.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use trace_advisor::Run;

use crate::support::sandbox::Sandbox;

const UI: &str = "https://ui.perfetto.dev";

/// The program, serving.
struct Serving {
    process: Child,
    url: String,
    port: u16,
    path: String,
}

impl Serving {
    fn start(sandbox: &Sandbox, args: &[&str]) -> Self {
        let mut all = vec!["open", "--no-browser", "--port", "0"];
        all.extend(args);
        let mut command = sandbox.command(&all);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
        let url = url.trim().to_owned();
        let rest = url.strip_prefix(&format!("{UI}/#!/?url=http://127.0.0.1:")).expect(&url);
        let (port, path) = rest.split_once('/').unwrap();
        let path = path.split('&').next().unwrap();
        let (port, path) = (port.parse().unwrap(), format!("/{path}"));
        Self { process, url, port, path }
    }

    /// The program, serving the page of a report.
    fn of_report(sandbox: &Sandbox) -> Self {
        let args = ["open", "run", "--report", "--no-browser", "--port", "0"];
        let mut command = sandbox.command(&args);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
        let url = url.trim().to_owned();
        let (port, path) = url.rsplit_once("127.0.0.1:").unwrap().1.split_once('/').unwrap();
        let (port, path) = (port.parse().unwrap(), format!("/{path}"));
        Self { process, url, port, path }
    }

    /// The path of a name beside the page of a report.
    fn beside(&self, name: &str) -> String {
        self.path.replace("/report", &format!("/{name}"))
    }

    /// An answer: its head in small letters, and its body.
    fn ask(&self, request: &str) -> (String, Vec<u8>) {
        self.send(request.as_bytes())
    }

    fn send(&self, request: &[u8]) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        // Queries may take 30 s, and the machine is busy.
        stream.set_read_timeout(Some(Duration::from_mins(2))).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|w| w == b"\r\n\r\n").expect("a head") + 4;
        let head = String::from_utf8(answer[..end].to_vec()).unwrap().to_ascii_lowercase();
        (head, answer[end..].to_vec())
    }

    fn request(&self, method: &str, path: &str, more: &str) -> (String, Vec<u8>) {
        let host = format!("127.0.0.1:{}", self.port);
        self.ask(&format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n"
        ))
    }

    /// The bytes of a query as the page sends it, with other headers and another body.
    fn query_request(&self, path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
        let host = format!("Host: 127.0.0.1:{}\r\nConnection: close\r\n", self.port);
        let length = body.len();
        let head =
            format!("POST {path} HTTP/1.1\r\n{host}Content-Length: {length}\r\n{headers}\r\n");
        [head.as_bytes(), body].concat()
    }

    /// The headers that the page sends with a query.
    fn page_headers(&self) -> String {
        format!("Origin: http://127.0.0.1:{}\r\nContent-Type: application/sql\r\n", self.port)
    }

    /// Sends a query as the page does.
    fn query(&self, sql: &str) -> (String, Vec<u8>) {
        let (path, headers) = (self.beside("sql"), self.page_headers());
        self.send(&self.query_request(&path, &headers, sql.as_bytes()))
    }

    /// The answer to a query: a table, or an error.
    fn answer(&self, sql: &str) -> Value {
        let answer = self.query(sql);
        assert_eq!(status(&answer), 200, "{sql}: {}", answer.0);
        assert!(answer.0.contains("content-type: application/json\r\n"), "{}", answer.0);
        assert!(!answer.0.contains("access-control"), "{}", answer.0);
        serde_json::from_slice(&answer.1).unwrap()
    }

    /// Waits for its end; what it said on the way.
    fn end(mut self) -> String {
        let mut text = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(self.process.wait().unwrap().success(), "{text}");
        text
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It is gone already, or goes now.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn files(sandbox: &Sandbox) -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> =
        sandbox.path("run").read_dir().unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files
}

fn status(answer: &(String, Vec<u8>)) -> u16 {
    answer.0.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn open_serves_the_trace_and_ends() {
    let sandbox = Sandbox::with_run();
    let serving = Serving::start(&sandbox, &["run"]);
    let (head, body) = serving.request("GET", &serving.path, &format!("Origin: {UI}\r\n"));
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert!(head.contains(&format!("access-control-allow-origin: {UI}\r\n")), "{head}");
    // As it is stored: the viewer unpacks it, the browser must not.
    let bytes = std::fs::read(&files(&sandbox)[0]).unwrap();
    assert_eq!(body, bytes);
    assert!(head.contains(&format!("content-length: {}\r\n", bytes.len())), "{head}");
    assert!(!head.contains("content-encoding"), "{head}");
    let said = serving.end();
    assert!(said.contains("rank 0; use --ranks N to open another one: 1"), "{said}");
    assert!(said.contains("ssh -L 9001:127.0.0.1:"), "{said}");
    assert!(said.contains("fetches from port 9001 only"), "{said}");
}

#[test]
fn open_serves_the_selected_rank() {
    let sandbox = Sandbox::with_run();
    let serving = Serving::start(&sandbox, &["run", "--ranks", "1"]);
    let (_, body) = serving.request("GET", &serving.path, "");
    assert_eq!(body, std::fs::read(&files(&sandbox)[1]).unwrap());
    assert!(serving.end().contains(", rank 1"));
}

/// The range is in the clock of the trace, which the UI uses.
#[test]
fn open_shows_a_time_range() {
    let sandbox = Sandbox::with_run();
    let shown = |args: &[&str]| {
        let serving = Serving::start(&sandbox, args);
        let (_, range) = serving.url.split_once("&visStart=").expect(&serving.url);
        let (start, end) = range.split_once("&visEnd=").unwrap();
        (start.parse::<i64>().unwrap(), end.parse::<i64>().unwrap())
    };
    for source in &Run::open(sandbox.path("run")).unwrap().info().sources {
        let (rank, shift_ns) = (source.rank.to_string(), source.shift_ns);
        let rank = rank.as_str();
        let ns = |ms: i64| ms * 1_000_000 - shift_ns;
        let range = shown(&["run", "--ranks", rank, "--between", "2ms..5ms"]);
        assert_eq!(range, (ns(2), ns(5)));
        // An open end is that of the run.
        let (start, end) = shown(&["run", "--ranks", rank, "--between", "2ms.."]);
        assert!(start == ns(2) && end > ns(5) && end < i64::MAX - shift_ns.abs());
    }
    let output = sandbox.run(&["open", "run", "--no-browser", "--port", "0", "--between", "99s.."]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("nothing to show: the run ends after "), "{errors}");
}

#[test]
fn open_refuses_options_that_select_events() {
    let sandbox = Sandbox::with_run();
    for (option, value) in [("--steps", "1"), ("--streams", "7"), ("--name", "gemm")] {
        let output = sandbox.run(&["open", "run", "--no-browser", "--port", "0", option, value]);
        assert_eq!(output.status.code(), Some(2));
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.contains(&format!("opened as a whole, without {option}")), "{errors}");
    }
}

#[test]
fn open_refuses_other_paths_methods_and_origins() {
    let sandbox = Sandbox::with_run();
    let serving = Serving::start(&sandbox, &["run", "--keep"]);
    let path = serving.path.clone();
    let name = path.rsplit('/').next().unwrap();
    let token = path.split('/').nth(1).unwrap();
    assert_eq!(token.len(), 32);
    let paths = [
        "/".to_owned(),
        format!("/{name}"),
        format!("/{token}"),
        format!("/{token}/"),
        format!("/{token}/../{token}/{name}"),
        format!("/{token}/..%2f..%2fetc/passwd"),
        format!("/{token}//{name}"),
        format!("{path}/"),
        format!("{path}?x"),
        format!("/{}/{name}", "0".repeat(32)),
        format!("/{}/{name}", token.to_uppercase()),
        "/../../../../etc/passwd".to_owned(),
        format!("{path}%00"),
    ];
    for other in paths.iter().filter(|other| **other != path) {
        let answer = serving.request("GET", other, "");
        assert_eq!((status(&answer), answer.1.len()), (404, 0), "{other}");
        assert!(!answer.0.contains("access-control"), "{other}");
    }
    for method in ["POST", "PUT", "DELETE", "TRACE", "CONNECT", "PROPFIND"] {
        let answer = serving.request(method, &path, "");
        assert!(matches!(status(&answer), 400 | 404), "{method}: {}", answer.0);
    }
    // Pages of others, and names that lead here only today.
    for more in ["Origin: https://evil.example\r\n", "Origin: null\r\n", "Host: evil.example\r\n"] {
        assert_eq!(status(&serving.request("GET", &path, more)), 404, "{more}");
    }
    for host in [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:9001",
        "127.0.0.1:80:x",
        "",
    ] {
        let answer = serving
            .ask(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
        assert_eq!(status(&answer), 404, "{host}");
    }
    assert_eq!(status(&serving.ask(&format!("GET {path} HTTP/1.0\r\n\r\n"))), 404);
    for host in ["127.0.0.1", "localhost:9001"] {
        let answer = serving
            .ask(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
        assert_eq!(status(&answer), 200, "{host}");
    }
    let asks = "Origin: https://ui.perfetto.dev\r\nAccess-Control-Request-Method: GET\r\nAccess-Control-Request-Private-Network: true\r\n";
    let (head, body) = serving.request("OPTIONS", &path, asks);
    assert!(head.starts_with("http/1.1 204") && body.is_empty(), "{head}");
    assert!(head.contains("access-control-allow-private-network: true"), "{head}");
    let (head, body) = serving.request("HEAD", &path, "");
    let length = std::fs::metadata(&files(&sandbox)[0]).unwrap().len();
    assert!(head.contains(&format!("content-length: {length}\r\n")) && body.is_empty(), "{head}");
}

/// Only who got all of it has fetched it.
#[test]
fn open_ends_only_after_a_complete_fetch() {
    let sandbox = Sandbox::with_run();
    let serving = Serving::start(&sandbox, &["run"]);
    serving.request("HEAD", &serving.path, "");
    serving.request("OPTIONS", &serving.path, "");
    serving.request("GET", "/", "");
    let mut stream = TcpStream::connect(("127.0.0.1", serving.port)).unwrap();
    write!(stream, "GET {} HTTP/1.1\r\n", serving.path).unwrap();
    drop(stream);
    let (_, body) = serving.request("GET", &serving.path, "");
    assert!(!body.is_empty());
    serving.end();
}

#[test]
fn open_augment_serves_a_copy_and_removes_it() {
    let sandbox = Sandbox::with_run();
    let scratch = sandbox.path("scratch");
    std::fs::create_dir(&scratch).unwrap();
    let mut command = sandbox.command(&["open", "run", "--augment", "--no-browser", "--port", "0"]);
    command.env("TMPDIR", &scratch).env("TMP", &scratch).env("TEMP", &scratch);
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut url = String::new();
    BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
    let rest = url.trim().rsplit_once("127.0.0.1:").unwrap().1;
    let (port, path) = rest.split_once('/').unwrap();
    let serving = Serving {
        process,
        url: url.clone(),
        port: port.parse().unwrap(),
        path: format!("/{path}"),
    };
    let (_, body) = serving.request("GET", &serving.path, "");
    let mut text = String::new();
    flate2::read::GzDecoder::new(body.as_slice()).read_to_string(&mut text).unwrap();
    assert!(
        text.contains("\"cat\": \"trace_advisor\"") || text.contains("\"cat\":\"trace_advisor\"")
    );
    serving.end();
    assert_eq!(scratch.read_dir().unwrap().count(), 0);
}

#[test]
fn open_reports_a_taken_port_and_a_missing_run() {
    let sandbox = Sandbox::with_run();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let output = sandbox.run(&["open", "run", "--no-browser", "--port", &port]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains(&format!("port {port} is already in use")), "{text}");
    let output = sandbox.run(&["open", "nothing", "--no-browser", "--port", "0"]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("cannot read nothing"));
}

#[test]
fn open_url_differs_each_time() {
    let sandbox = Sandbox::with_run();
    let first = Serving::start(&sandbox, &["run"]);
    let second = Serving::start(&sandbox, &["run"]);
    assert_ne!(first.path, second.path);
    assert!(first.url.starts_with(UI));
}

/// HEAD is answered as GET, without the page itself.
#[test]
fn served_report_answers_head() {
    let sandbox = Sandbox::with_run();
    let serving = Serving::of_report(&sandbox);
    let (of_get, page) = serving.request("GET", &serving.path, "");
    let (of_head, nothing) = serving.request("HEAD", &serving.path, "");
    assert!(of_get.starts_with("http/1.1 200") && !page.is_empty(), "{of_get}");
    assert!(of_head.starts_with("http/1.1 200") && nothing.is_empty(), "{of_head}");
    let length = format!("content-length: {}\r\n", page.len());
    assert!(of_get.contains(&length) && of_head.contains(&length), "{of_head}");
    assert!(serving.request("POST", &serving.path, "").0.starts_with("http/1.1 404"));
}

/// A join that ends only when it is ended: statistics of tables answer a count at once.
fn endless() -> String {
    let digits = "WITH n AS (SELECT * FROM (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS t(i))";
    format!(
        "{digits} SELECT sum(a.i * m.i) FROM n a, n b, n c, n d, n e, n f, n g, n h, n i, n j, n k, n l, n m"
    )
}

/// Whether a query that was just sent keeps others waiting.
fn is_busy(serving: &Serving) -> bool {
    (0..40).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        status(&serving.query("SELECT 1")) == 429
    })
}

/// Only the served page may ask, and only by what browsers let no other page do.
#[test]
fn served_sql_refuses_all_but_its_page() {
    let sandbox = Sandbox::with_run();
    let serving = Serving::of_report(&sandbox);
    let (path, page) = (serving.beside("sql"), serving.page_headers());
    let port = serving.port;
    let own = format!("Origin: http://127.0.0.1:{port}\r\n");
    let sql = "Content-Type: application/sql\r\n";
    let one = b"SELECT 1";
    let refused = |status_code: u16, path: &str, headers: &str, body: &[u8]| {
        let answer = serving.send(&serving.query_request(path, headers, body));
        assert_eq!(status(&answer), status_code, "{path} {headers}: {}", answer.0);
        assert!(!answer.0.contains("access-control") && answer.1.len() < 100, "{}", answer.0);
    };
    for headers in [
        sql.to_owned(),
        format!("Origin: null\r\n{sql}"),
        format!("Origin: https://evil.example\r\n{sql}"),
        format!("Origin: http://evil.example:{port}\r\n{sql}"),
        format!("Origin: https://127.0.0.1:{port}\r\n{sql}"),
        // Another server of this machine.
        format!("Origin: http://127.0.0.1:{}\r\n{sql}", port ^ 1),
        format!("Origin: http://localhost:{port}\r\n{sql}"),
        format!("{own}{own}{sql}"),
    ] {
        refused(403, &path, &headers, one);
    }
    // What a form or a script of another page may send without asking the server.
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""] {
        refused(415, &path, &format!("{own}Content-Type: {kind}\r\n"), one);
    }
    refused(415, &path, &own, one);
    let token = path.split('/').nth(1).unwrap();
    for other in [
        "/sql".to_owned(),
        format!("/{}/sql", "0".repeat(32)),
        format!("/{}/sql", token.to_uppercase()),
        format!("{path}/"),
        format!("{path}?q=SELECT+1"),
        serving.path.clone(),
        serving.beside("version"),
    ] {
        refused(404, &other, &page, one);
    }
    refused(404, &path, &format!("Host: evil.example\r\n{page}"), one);
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        for path in [path.clone(), format!("{path}?q=SELECT+1")] {
            assert_eq!(status(&serving.request(method, &path, &page)), 404, "{method} {path}");
        }
    }
    for host in ["evil.example", "127.0.0.1.evil.example"] {
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n{sql}Content-Length: 8\r\nConnection: close\r\n\r\nSELECT 1"
        );
        assert_eq!(status(&serving.ask(&request)), 404, "{host}");
    }
    refused(400, &path, &page, &[0xff, 0xfe, 0, 1]);
    refused(413, &path, &page, &vec![b' '; (64 << 10) + 1]);
    // A tunnel may have another port, and a type may name its encoding.
    for host in [format!("localhost:{port}"), "127.0.0.1:8080".to_owned()] {
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nContent-Type: application/sql; charset=utf-8\r\nContent-Length: 8\r\nConnection: close\r\n\r\nSELECT 1"
        );
        assert_eq!(status(&serving.ask(&request)), 200, "{host}");
    }
}

/// What a query of the page can do, and how much of it.
#[test]
fn served_sql_is_read_only_and_bounded() {
    let sandbox = Sandbox::with_run();
    let serving = Serving::of_report(&sandbox);
    let table = serving.answer("SELECT rank, 1500 AS dur_ns FROM ranks ORDER BY rank;");
    assert_eq!(table["table"]["rows"], serde_json::json!([[0, 1500], [1, 1500]]));
    assert_eq!(table["table"]["columns"][1]["unit"], "ns");
    let written = sandbox.path("written.csv");
    let to = written.display();
    for (sql, reason) in [
        (format!("COPY ranks TO '{to}'"), "only queries are allowed here"),
        ("CREATE TABLE t AS SELECT 1".to_owned(), "only queries are allowed here"),
        (
            format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{to}'"),
            "only queries are allowed",
        ),
        ("DROP TABLE ranks".to_owned(), "only queries are allowed here"),
        ("INSERT INTO ranks SELECT * FROM ranks".to_owned(), "only queries are allowed here"),
        ("SET datafusion.execution.batch_size = 1".to_owned(), "only queries are allowed here"),
        (format!("EXPLAIN ANALYZE COPY ranks TO '{to}'"), "only queries are allowed here"),
        (format!("SELECT * FROM \"{to}\""), "there is no table"),
        ("SELECT 1; SELECT 2".to_owned(), "a page runs one query, but there are 2"),
        (" ; -- nothing".to_owned(), "the query is empty"),
        ("SELECT * FROM generate_series(1, 5)".to_owned(), "is not allowed in the query of a page"),
        (
            "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n) SELECT * FROM n"
                .to_owned(),
            "a recursive query is not allowed in the query of a page",
        ),
        (format!("SELECT {}1{}", "(".repeat(200), ")".repeat(200)), "nested too deeply"),
        ("SELECT nam FROM kernels".to_owned(), "name"),
        ("SELECT repeat('x', 1000000000)".to_owned(), "error"),
    ] {
        let answer = serving.answer(&sql);
        let error = answer["error"].as_str().unwrap_or_else(|| panic!("{sql}: {answer}"));
        assert!(error.starts_with("error") && error.contains(reason), "{sql}: {error}");
        assert!(!error.contains('\u{1b}'), "{error}");
    }
    assert!(!written.exists());
    // A page says what the program says.
    let output = sandbox.run(&["sql", "run", "SELECT * FROM kernles"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(serving.answer("SELECT * FROM kernles")["error"], said.trim_end());
    let huge = serving.answer("SELECT a.name FROM kernels a, kernels b, kernels c, kernels d");
    let rows = huge["table"]["rows"].as_array().unwrap().len();
    assert_eq!((rows, &huge["table"]["is_cut"]), (1000, &Value::Bool(true)));
}

/// While a query runs, the page is served, and other queries are told so. It ends with its time.
#[test]
fn served_sql_ends_with_its_time_and_holds_nobody_up() {
    let sandbox = Sandbox::with_run();
    let serving = Serving::of_report(&sandbox);
    let version = serving.beside("version");
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| {
            let start = Instant::now();
            (serving.answer(&endless()), start.elapsed())
        });
        assert!(is_busy(&serving), "queries run at the same time");
        for _ in 0..10 {
            let start = Instant::now();
            assert_eq!(serving.request("GET", &version, "").1, b"0");
            assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        }
        assert!(!slow.is_finished());
        let (answer, elapsed) = slow.join().unwrap();
        assert_eq!(answer["error"], "error: the query took more than 30 s");
        assert!(elapsed < Duration::from_mins(1), "{elapsed:?}");
    });
    assert_eq!(serving.answer("SELECT 1 AS one")["table"]["total"], 1);
}

/// A page that is closed leaves nothing running.
#[test]
fn served_sql_ends_with_its_client() {
    let sandbox = Sandbox::with_run();
    let serving = Serving::of_report(&sandbox);
    let (path, headers) = (serving.beside("sql"), serving.page_headers());
    let start = Instant::now();
    let mut stream = TcpStream::connect(("127.0.0.1", serving.port)).unwrap();
    stream.write_all(&serving.query_request(&path, &headers, endless().as_bytes())).unwrap();
    assert!(is_busy(&serving));
    drop(stream);
    assert!((0..10).any(|_| status(&serving.query("SELECT 1")) == 200));
    assert!(start.elapsed() < Duration::from_secs(25), "{:?}", start.elapsed());
}

/// Queries read what the files hold now.
#[test]
fn served_sql_follows_its_run() {
    let sandbox = Sandbox::with_run();
    let serving = Serving::of_report(&sandbox);
    let ranks = || serving.answer("SELECT count(*) AS n FROM ranks")["table"]["rows"][0][0].clone();
    assert_eq!(ranks(), 2);
    std::fs::remove_file(&files(&sandbox)[1]).unwrap();
    let version = serving.beside("version");
    let is_new = (0..60).any(|_| {
        std::thread::sleep(Duration::from_secs(1));
        serving.request("GET", &version, "").1 != b"0"
    });
    assert!(is_new, "the server does not follow the run");
    assert_eq!(ranks(), 1);
}
