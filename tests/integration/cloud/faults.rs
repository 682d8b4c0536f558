//! Faults of servers, and the errors that users see.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use trace_demo::{Options, render_rank};

use super::web::{Given, Web};
use super::{command, error, report, stdout};
use crate::support::ports::free_port;
use crate::support::sandbox::Sandbox;

/// The first trace of the small run, as it is stored.
fn trace(sandbox: &Sandbox) -> (String, Vec<u8>) {
    let mut files: Vec<_> =
        sandbox.path("run").read_dir().unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let name = files[0].file_name().unwrap().to_string_lossy().into_owned();
    (name, std::fs::read(&files[0]).unwrap())
}

/// A trace of several ranges' length.
fn long_trace() -> Vec<u8> {
    static TEXT: OnceLock<Vec<u8>> = OnceLock::new();
    let text = TEXT.get_or_init(|| {
        let options =
            Options { steps: 200, layers: 2, ranks: 1, gzip: false, ..Options::default() };
        render_rank(&options, 0, Vec::new()).unwrap()
    });
    assert!(text.len() > 40 << 20, "{} bytes", text.len());
    text.clone()
}

#[test]
fn trace_over_http_is_read_without_showing_its_signature() {
    let sandbox = Sandbox::with_run();
    let (name, bytes) = trace(&sandbox);
    let local = report(&sandbox, &format!("run/{name}"), &[]);
    let web = Web::start(move |asked, _| Given::file(&bytes, "\"1\"", asked));
    let url = web.url(&format!("/traces/{name}?X-Amz-Signature=SECRET&sig=SECRET"));
    assert_eq!(report(&sandbox, &url, &[]), local);
    // The address is requested as given, and shown without its signature.
    assert!(
        web.asked()
            .iter()
            .all(|asked| asked.target.ends_with("?X-Amz-Signature=SECRET&sig=SECRET"))
    );
    let shown = web.url(&format!("/traces/{name}"));
    for format in ["json", "text"] {
        let output = command(&sandbox, &["check", &url, "-f", format, "-a"]).output().unwrap();
        let text = stdout(&output) + &String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(&shown) && !text.contains("SECRET"), "{text}");
    }
}

#[test]
fn every_command_reads_addresses() {
    let sandbox = Sandbox::with_run();
    let (name, bytes) = trace(&sandbox);
    let web = Web::start(move |asked, _| Given::file(&bytes, "\"1\"", asked));
    let url = web.url(&format!("/{name}"));
    let path = format!("run/{name}");
    let same = |args: &[&str]| {
        let said = |run: &str| {
            let args: Vec<&str> = args.iter().map(|a| if *a == "RUN" { run } else { a }).collect();
            let output = command(&sandbox, &args).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            stdout(&output).replace(run, "RUN")
        };
        assert_eq!(said(&url), said(&path), "{args:?}");
    };
    same(&["sql", "RUN", "SELECT count(*), sum(dur_ns) FROM kernels"]);
    same(&["analyze", "gpu_temporal_breakdown", "RUN"]);
    same(&["analyze", "RUN", "gpu_temporal_breakdown"]);
    same(&["tables", "RUN"]);
    same(&["diff", "RUN", "RUN"]);
    let augment = |run: &str, out: &str| {
        let output =
            command(&sandbox, &["augment", run, "-o", out, "--only", "counters"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::read(sandbox.path(out).join(&name)).unwrap()
    };
    assert_eq!(augment(&url, "there"), augment(&path, "here"));
    let text = error(&sandbox, &["augment", &path, "-o", "s3://bucket/out"], &[]);
    assert!(text.contains("cannot write to s3://bucket/out"), "{text}");
    assert!(!sandbox.path("s3:").exists());
}

#[test]
fn server_without_ranges_is_read_as_a_whole() {
    let sandbox = Sandbox::with_run();
    let text = long_trace();
    sandbox.write("long.json", &text);
    let local = report(&sandbox, "long.json", &[]);
    let web = Web::start(move |_, _| Given { status: 200, body: text.clone(), ..Given::default() });
    assert_eq!(report(&sandbox, &web.url("/long.json"), &[]), local);
}

#[test]
fn long_trace_is_read_in_concurrent_ranges() {
    let sandbox = Sandbox::new();
    let text = long_trace();
    sandbox.write("long.json", &text);
    let local = report(&sandbox, "long.json", &[]);
    let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counted = (open.clone(), most.clone());
    let bytes = text.len();
    let web = Web::start(move |asked, number| {
        counted.1.fetch_max(counted.0.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(50));
        counted.0.fetch_sub(1, Ordering::SeqCst);
        let mut given = Given::file(&text, "\"v1\"", asked);
        // Some answers break off in the middle, some never begin.
        match number % 4 {
            1 => given.cut = Some(given.body.len() / 2),
            3 => given = Given::status(503, "busy"),
            _ => {}
        }
        given
    });
    assert_eq!(report(&sandbox, &web.url("/long.json"), &[]), local);
    let asked = web.asked();
    assert!(most.load(Ordering::SeqCst) > 1, "one range at a time");
    assert!(asked.iter().all(|a| a.range().is_some_and(|(from, to)| to - from <= 8 << 20)));
    // After the beginning, of one version only.
    let tags = asked.iter().filter(|a| a.range().unwrap().1 > 64 << 10);
    assert!(tags.clone().count() >= bytes >> 23);
    assert!(tags.into_iter().all(|a| a.headers["if-match"] == "\"v1\""));
}

#[test]
fn transient_failures_are_retried() {
    let sandbox = Sandbox::with_run();
    let (name, bytes) = trace(&sandbox);
    let local = report(&sandbox, &format!("run/{name}"), &[]);
    for status in [500, 503, 429] {
        let bytes = bytes.clone();
        let web = Web::start(move |asked, number| {
            if number < 2 { Given::status(status, "") } else { Given::file(&bytes, "", asked) }
        });
        assert_eq!(report(&sandbox, &web.url(&format!("/{name}")), &[]), local);
    }
}

#[test]
fn permanent_failures_are_reported() {
    let sandbox = Sandbox::new();
    let check = |web: &Web| {
        error(&sandbox, &["check", &web.url("/a.json?sig=SECRET"), "--timeout", "1"], &[])
    };
    let body = "<Error><Code>SignatureDoesNotMatch</Code><Message>The request is not signed as it should be.</Message><StringToSign>SECRET</StringToSign></Error>";
    for (status, words) in [
        (
            401,
            "the store does not let us read it (SignatureDoesNotMatch: The request is not signed as it should be.)",
        ),
        (
            403,
            "the store does not let us read it (SignatureDoesNotMatch: The request is not signed as it should be.)",
        ),
        (404, "there is no such bucket or object"),
        (410, "there is no such bucket or object"),
        (500, "the server says 500 Internal Server Error"),
    ] {
        let text = check(&Web::start(move |_, _| Given::status(status, body)));
        assert!(text.contains("/a.json: ") && text.contains(words), "{status}: {text}");
        assert!(!text.contains("SECRET"), "{text}");
    }
    // No server listens.
    let free = format!("127.0.0.1:{}", free_port());
    let text = error(
        &sandbox,
        &["check", &format!("http://{free}/a.json?sig=SECRET"), "--timeout", "1"],
        &[],
    );
    assert!(text.contains("cannot connect") && !text.contains("SECRET"), "{text}");
    let text =
        error(&sandbox, &["check", "https://no.such.host.invalid/a.json", "--timeout", "1"], &[]);
    assert!(text.contains("cannot connect"), "{text}");
}

#[test]
fn server_that_does_not_answer_times_out() {
    let sandbox = Sandbox::new();
    let web = Web::start(|_, _| Given { wait: Duration::from_mins(1), ..Given::status(200, "") });
    let start = Instant::now();
    let text = error(&sandbox, &["check", &web.url("/a.json"), "--timeout", "0.5"], &[]);
    assert!(text.contains("did not answer in time") && text.contains("--timeout"), "{text}");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn object_that_changes_while_read_is_an_error() {
    let sandbox = Sandbox::new();
    let text = long_trace();
    // A server that looks at the tag, and two that do not.
    for tag in ["\"x\"", "W/\"x\"", ""] {
        let text = text.clone();
        let web = Web::start(move |asked, number| match (number, tag) {
            (0, _) => Given::file(&text, tag, asked),
            (_, "") => Given::file(&text[1..], "", asked),
            (_, _) => Given::file(&text, "\"y\"", asked),
        });
        let text = error(&sandbox, &["check", &web.url("/a.json")], &[]);
        assert!(text.contains("the object was replaced while it was being read"), "{text}");
    }
    let web = Web::start(move |asked, number| {
        if number == 0 { Given::file(&text, "\"x\"", asked) } else { Given::status(404, "") }
    });
    let text = error(&sandbox, &["check", &web.url("/a.json")], &[]);
    assert!(text.contains("the object was deleted while it was being read"), "{text}");
}

#[test]
fn connection_that_always_breaks_is_an_error() {
    let sandbox = Sandbox::new();
    let text = long_trace();
    let web = Web::start(move |asked, number| {
        let mut given = Given::file(&text, "\"x\"", asked);
        if number > 0 && asked.range().unwrap().1 > 10 << 20 {
            given.cut = Some(0);
        }
        given
    });
    let text = error(&sandbox, &["check", &web.url("/a.json"), "--timeout", "2"], &[]);
    assert!(text.contains("cannot read http://"), "{text}");
    assert!(text.contains("connection") || text.contains("ended early"), "{text}");
}

#[test]
fn invalid_addresses_are_explained() {
    let sandbox = Sandbox::new();
    for (address, words) in [
        ("https://example.com/run/", "folders cannot be listed over https"),
        ("http://example.com/a.json", "use https"),
        ("s3://", "there is no bucket"),
        ("s3:///key", "there is no bucket"),
        ("s3://bucket/a//b.json", "empty"),
    ] {
        let text = error(&sandbox, &["check", address], &[("AWS_SKIP_SIGNATURE", "true")]);
        assert!(text.contains(words), "{address}: {text}");
    }
    let text = error(&sandbox, &["check", "az://files/run/"], &[("AZURE_SKIP_SIGNATURE", "true")]);
    assert!(
        text.contains("no account is named") && text.contains("AZURE_STORAGE_ACCOUNT_NAME"),
        "{text}"
    );
    // A folder of that name is a folder.
    let text = error(&sandbox, &["check", "./s3://bucket"], &[]);
    assert!(text.contains("cannot read ./s3://bucket"), "{text}");
}

/// An empty answer is an empty file.
#[test]
fn empty_object_is_not_a_trace() {
    let sandbox = Sandbox::new();
    let web = Web::start(|asked, _| match asked.range() {
        Some(_) => Given::status(416, ""),
        None => Given::status(200, ""),
    });
    let text = error(&sandbox, &["check", &web.url("/a.json")], &[]);
    assert!(text.contains("a.json: empty"), "{text}");
}
