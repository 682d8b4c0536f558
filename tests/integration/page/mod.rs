//! The report as an HTML page: its bytes, and what a real browser makes of it, which `.ci/browser` installs.

mod browser;

use std::fs;
use std::io::Write as _;
use std::path::Path;

use cli::demo::{Bottleneck, Options, render_rank, write_run};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::support::sandbox::Sandbox;

/// Writes the page of a run, and returns it.
fn page(sandbox: &Sandbox, run: &str, to: &str) -> String {
    let output =
        sandbox.run(&["check", run, "--format", "html", "-o", to, "--force", "--exit-zero"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read_to_string(sandbox.path(to)).unwrap()
}

/// The content security policy, and the script and style that it allows.
fn policy(html: &str) -> &str {
    let (_, rest) = html.split_once("Content-Security-Policy\" content=\"").unwrap();
    rest.split('"').next().unwrap()
}

#[test]
fn page_allows_itself_only() {
    let sandbox = Sandbox::with_run();
    let html = page(&sandbox, "run", "report.html");
    let policy = policy(&html);
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains("connect-src"), "{policy}");
    // No attribute may hold style or script: the policy would block it.
    let body = &html[html.find("<body>").unwrap()..html.find("<script").unwrap()];
    for attribute in [" style=", " onclick=", " onload=", " onerror=", "javascript:"] {
        assert!(!body.contains(attribute), "{attribute}");
    }
    // Nothing is loaded.
    for tag in ["<img", "<iframe", "<script src", "<link rel=\"stylesheet", "@import", "url(http"] {
        assert!(!html.contains(tag), "{tag}");
    }
    assert!(html.contains("IN001"));
}

#[test]
fn page_of_the_same_run_has_the_same_bytes() {
    let sandbox = Sandbox::with_run();
    assert!(page(&sandbox, "run", "a.html") == page(&sandbox, "run", "b.html"));
}

/// Names from the trace that would be markup, in operators, kernels, ranges and files.
const HOSTILE: &str = r#"</script><img src=x onerror=alert(1)>\"'&<!--\u202e"#;

/// A run whose names are hostile.
fn hostile_run(folder: &Path) {
    fs::create_dir(folder).unwrap();
    for rank in 0..2 {
        let options = Options {
            steps: 4,
            layers: 1,
            stacks: true,
            bottleneck: Bottleneck::Sync,
            ..Options::default()
        };
        let text = String::from_utf8(render_rank(&options, rank, Vec::new()).unwrap()).unwrap();
        let text = text
            .replace("\"aten::", &format!("\"aten::{HOSTILE}"))
            .replace("_kernel", &format!("_kernel{HOSTILE}"))
            .replace("train.py", &format!("train{HOSTILE}.py"));
        let mut file = GzEncoder::new(Vec::new(), Compression::fast());
        file.write_all(text.as_bytes()).unwrap();
        fs::write(folder.join(format!("rank{rank}.json.gz")), file.finish().unwrap()).unwrap();
    }
}

#[test]
fn page_shows_hostile_names_as_text() {
    let sandbox = Sandbox::new();
    hostile_run(&sandbox.path("run"));
    let html = page(&sandbox, "run", "report.html");
    assert!(html.contains("onerror=alert(1)"), "the names are in the page");
    assert!(!html.contains("<img") && !html.contains("\u{202e}"));
    // Each script ends where the page ends it.
    assert_eq!(html.matches("</script>").count(), html.matches("<script").count());
    assert_eq!(html.matches("<script>").count(), 1);
}

#[test]
fn page_of_several_runs_lists_them() {
    let sandbox = Sandbox::with_run();
    let output = sandbox.run(&[
        "check",
        "run",
        "run/",
        "--format",
        "html",
        "-o",
        "both.html",
        "--exit-zero",
    ]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let html = fs::read_to_string(sandbox.path("both.html")).unwrap();
    for id in ["index", "run", "run-2", "f-IN001", "f-2-IN001", "data-0", "data-1"] {
        assert_eq!(html.matches(&format!("id=\"{id}\"")).count(), 1, "{id}");
    }
}

#[test]
fn page_of_a_comparison_draws_both_steps() {
    let sandbox = Sandbox::with_run();
    let options =
        Options { bottleneck: Bottleneck::None, steps: 6, layers: 1, ..Options::default() };
    fs::create_dir(sandbox.path("after")).unwrap();
    write_run(&options, &sandbox.path("after")).unwrap();
    let output = sandbox.run(&["diff", "run", "after", "--format", "html", "-o", "diff.html"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let html = fs::read_to_string(sandbox.path("diff.html")).unwrap();
    for text in ["class=\"interval\"", "<h2>Both steps</h2>", "loading data", "<h2>What moved</h2>"]
    {
        assert!(html.contains(text), "{text}");
    }
}

#[test]
fn page_has_a_limited_size() {
    for (ranks, steps, most) in [(8, 6, 1 << 20), (256, 3, 3 << 20)] {
        let sandbox = Sandbox::new();
        fs::create_dir(sandbox.path("run")).unwrap();
        let bottleneck = Bottleneck::Straggler;
        let options = Options { ranks, steps, layers: 1, bottleneck, ..Options::default() };
        write_run(&options, &sandbox.path("run")).unwrap();
        let bytes = page(&sandbox, "run", "report.html").len();
        assert!(bytes < most, "{ranks} ranks: {bytes}");
    }
}
