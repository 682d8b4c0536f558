//! The report as an HTML page: its bytes, and what a real browser makes of it, which `.ci/browser` installs.

mod browser;
mod driver;
mod speed;

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;
use trace_advisor::ingest::NoProgress;
use trace_advisor::{OpenOptions, Run};
use trace_demo::{Bottleneck, Options, render_rank, write_run};

use crate::support::sandbox::Sandbox;

/// Writes the page of a run, and returns it. A run that could not be judged has a page, too.
fn page(sandbox: &Sandbox, run: &str, to: &str) -> String {
    let output =
        sandbox.run(&["check", run, "--format", "html", "-o", to, "--force", "--exit-zero"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || stderr.contains("could not be judged"), "{stderr}");
    fs::read_to_string(sandbox.path(to)).unwrap()
}

/// Writes the page of several runs, and returns it.
fn page_of_runs(sandbox: &Sandbox, runs: &[&str]) -> String {
    let options = ["--format", "html", "-o", "runs.html", "--force", "--exit-zero"];
    let output = sandbox.run(&[&["check"], runs, &options].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read_to_string(sandbox.path("runs.html")).unwrap()
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
    // Only a server answers queries.
    assert!(!html.contains("<section id=\"ask\"") && !html.contains("\"queries\":"));
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

/// A recorded memory snapshot.
const SNAPSHOT: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/h100/snapshot.pickle.gz");

/// The snapshot with hostile names of functions and files.
fn hostile_snapshot(file: &Path) {
    let mut bytes = Vec::new();
    GzDecoder::new(fs::File::open(SNAPSHOT).unwrap()).read_to_end(&mut bytes).unwrap();
    let hostile = HOSTILE.replace("\\\"", "\"").replace("\\u202e", "\u{202e}");
    for name in ["forward", "loss_of"] {
        bytes = renamed(&bytes, name, &format!("{name}{hostile}"));
    }
    bytes = renamed(&bytes, "record.py", &format!("record{hostile}.py"));
    fs::write(file, bytes).unwrap();
}

/// A pickle with another text in place of one: an instruction, the length in a byte, the text.
fn renamed(pickle: &[u8], from: &str, to: &str) -> Vec<u8> {
    let text = |text: &str| [&[0x8c, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    let (from, to) = (text(from), text(to));
    let mut renamed = Vec::new();
    let mut rest = pickle;
    while let Some(at) = memchr::memmem::find(rest, &from) {
        renamed.extend_from_slice(&rest[..at]);
        renamed.extend_from_slice(&to);
        rest = &rest[at + from.len()..];
    }
    renamed.extend_from_slice(rest);
    renamed
}

/// Writes the page of a comparison, and returns it.
fn page_of_comparison(sandbox: &Sandbox, before: &str, after: &str) -> String {
    let output =
        sandbox.run(&["diff", before, after, "--format", "html", "-o", "diff.html", "--force"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read_to_string(sandbox.path("diff.html")).unwrap()
}

#[test]
fn page_shows_hostile_names_as_text() {
    let sandbox = Sandbox::new();
    hostile_run(&sandbox.path("run"));
    hostile_snapshot(&sandbox.path("snapshot.pickle"));
    let pages = [
        page(&sandbox, "run", "report.html"),
        page(&sandbox, "snapshot.pickle", "report.html"),
        page_of_comparison(&sandbox, SNAPSHOT, "snapshot.pickle"),
    ];
    for html in pages {
        assert!(html.contains("onerror=alert(1)"), "the names are in the page");
        assert!(!html.contains("<img") && !html.contains("\u{202e}"));
        // Each script ends where the page ends it.
        assert_eq!(html.matches("</script>").count(), html.matches("<script").count());
        assert_eq!(html.matches("<script>").count(), 1);
    }
}

/// Places that only one of two snapshots has are in the pane, and what has no time is not.
#[test]
fn page_of_two_snapshots_draws_who_holds_more() {
    let sandbox = Sandbox::new();
    hostile_snapshot(&sandbox.path("snapshot.pickle"));
    let html = page_of_comparison(&sandbox, SNAPSHOT, "snapshot.pickle");
    for text in ["<section id=\"memory\"", "<a href=\"#memory\"", "Places that hold more or less"] {
        assert!(html.contains(text), "{text}");
    }
    for text in ["<section id=\"rows\"", "<a href=\"#rows\"", "<a href=\"#steps\""] {
        assert!(!html.contains(text), "{text}");
    }
}

/// `page::VIEWS` lists what the page reads: no view is computed a second time.
#[test]
fn page_computes_no_view_that_rules_computed() {
    let sandbox = Sandbox::with_run();
    let options = OpenOptions { later_views: page::VIEWS, ..OpenOptions::default() };
    let run = Run::open_with(sandbox.path("run"), &options, &NoProgress).unwrap();
    let report = run.check(&trace_advisor::default_rules()).unwrap();
    let of_rules = run.view_times().len();
    page::report(&run, &report, &page::Options::default()).unwrap();
    let computed: Vec<&str> = run.view_times().into_iter().map(|(view, _)| view).collect();
    let (of_rules, of_page) = computed.split_at(of_rules);
    assert!(!of_page.is_empty(), "the page computes views of its own");
    let twice: Vec<_> = of_page.iter().filter(|view| of_rules.contains(view)).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

#[test]
fn page_of_several_runs_lists_them() {
    let sandbox = Sandbox::with_run();
    let html = page_of_runs(&sandbox, &["run", "run/"]);
    for id in ["index", "run", "run-2", "f-IN001", "f-2-IN001", "data-0", "data-1"] {
        assert_eq!(html.matches(&format!("id=\"{id}\"")).count(), 1, "{id}");
    }
    // The table leads to both, and to what each begins with; the contents to the sections of both.
    let (index, _) = html.split_once("<article class=\"run\"").unwrap();
    for text in [
        "<th scope=\"row\"><a href=\"#run-2\">run (2)</a></th>",
        "<a class=\"code-tag\" href=\"#f-2-IN001\">IN001</a>",
        "<li><a href=\"#kernels-2\">Kernels</a></li>",
    ] {
        assert!(index.contains(text), "{text}");
    }
    assert!(!index.contains('`'), "text between backticks is code");
}

/// Links of a run stay in the run.
#[test]
fn page_links_lead_into_their_own_run() {
    let sandbox = Sandbox::with_run();
    let html = page_of_runs(&sandbox, &["run", "run/"]);
    let runs: Vec<&str> = html.split("<article class=\"run\"").skip(1).collect();
    assert_eq!(runs.len(), 2);
    for run in runs {
        let run = run.split("<script").next().unwrap();
        let links: Vec<&str> = run.split("href=\"#").skip(1).collect();
        assert!(links.len() > 3);
        for link in links {
            let (id, _) = link.split_once('"').unwrap();
            assert!(run.contains(&format!("id=\"{id}\"")), "{id}");
        }
    }
}

#[test]
fn page_of_a_comparison_draws_both_steps() {
    let sandbox = Sandbox::with_run();
    let options =
        Options { bottleneck: Bottleneck::None, steps: 6, layers: 1, ..Options::default() };
    fs::create_dir(sandbox.path("after")).unwrap();
    write_run(&options, &sandbox.path("after")).unwrap();
    let html = page_of_comparison(&sandbox, "run", "after");
    for text in [
        "class=\"interval\"",
        "<h2>Both steps</h2>",
        "loading data",
        "<h2>What moved</h2>",
        "Step changes by",
        "Differs: steps: 3 -&gt; 5",
    ] {
        assert!(html.contains(text), "{text}");
    }
}

/// The data that the script draws, of the only run or comparison on a page.
fn data(html: &str) -> Value {
    let (_, rest) = html.split_once("id=\"data-0\"").unwrap();
    let (_, json) = rest.split_once('>').unwrap();
    serde_json::from_str(json.split("</script>").next().unwrap()).unwrap()
}

/// The blocks of a pane.
fn blocks<'a>(data: &'a Value, pane: &str) -> &'a [Value] {
    let panes = data["panes"].as_array().unwrap();
    let pane = panes.iter().find(|found| found["id"] == pane).unwrap();
    pane["blocks"].as_array().unwrap()
}

/// The change of a name has the sign of after less before, and only columns of changes have signs.
#[test]
fn page_of_a_comparison_has_changes_of_the_right_sign() {
    let sandbox = Sandbox::with_run();
    let options =
        Options { bottleneck: Bottleneck::None, steps: 6, layers: 1, ..Options::default() };
    fs::create_dir(sandbox.path("after")).unwrap();
    write_run(&options, &sandbox.path("after")).unwrap();
    let data = data(&page_of_comparison(&sandbox, "run", "after"));
    let table = &blocks(&data, "rows")[0];
    let columns = table["columns"].as_array().unwrap();
    let at = |label: &str| columns.iter().position(|column| column["label"] == label).unwrap();
    let [before, after, change, of_step, level] =
        ["Total before", "Total after", "Total changes by", "Step changes by", "Level"].map(at);
    for (at, column) in columns.iter().enumerate() {
        assert_eq!(column["is_change"] == true, [change, of_step].contains(&at), "{column}");
    }
    let rows = table["rows"].as_array().unwrap();
    assert!(rows.iter().any(|row| row[change].as_f64().unwrap() < 0.0));
    for row in rows {
        let [before_ns, after_ns, changed_ns] =
            [before, after, change].map(|at| row[at].as_f64().unwrap());
        let difference_ns = after_ns - before_ns;
        // Numbers have seven digits.
        let least_ns = 1.0 + 1e-6 * (before_ns + after_ns);
        assert!((changed_ns - difference_ns).abs() <= least_ns, "{row}");
        assert!(difference_ns.abs() <= least_ns || changed_ns * difference_ns > 0.0, "{row}");
        // A kernel lengthens a step by what it takes longer.
        if row[level] == "kernel" {
            assert_eq!(row[of_step], row[change], "{row}");
        }
    }
}

/// A section says once which steps it counts, and each part that counts others says so below it.
#[test]
fn page_sections_say_which_steps_they_count() {
    let sandbox = Sandbox::with_run();
    let data = data(&page(&sandbox, "run", "report.html"));
    let panes = data["panes"].as_array().unwrap();
    let filled = panes.iter().filter(|pane| pane["empty"].is_null());
    let mut count = 0;
    for pane in filled {
        count += 1;
        let scope = pane["scope"].as_str().unwrap();
        assert_eq!(scope.matches("Counts ").count(), 1, "{}: {scope}", pane["id"]);
        let captions = pane["blocks"].as_array().unwrap().iter();
        for caption in captions.filter(|block| block["kind"] == "caption") {
            let text = caption["text"].as_str().unwrap();
            let (_, counted) = text.split_once(" above counts ").unwrap();
            assert!(!scope.contains(counted), "{text} repeats {scope}");
        }
    }
    assert!(count > 3, "{count} panes");
    for id in ["idle", "kernels", "operators"] {
        let captions = blocks(&data, id).iter().filter(|block| block["kind"] == "caption");
        assert_eq!(captions.count(), 0, "{id}: all parts count the same steps");
    }
}

#[test]
fn page_families_of_kernels_add_up() {
    let sandbox = Sandbox::with_run();
    let data = data(&page(&sandbox, "run", "report.html"));
    let of_kind = |kind: &str| blocks(&data, "kernels").iter().find(|block| block["kind"] == kind);
    let bars = of_kind("bars").unwrap()["rows"].as_array().unwrap();
    let named: Vec<(&str, f64)> = bars
        .iter()
        .map(|bar| (bar["label"].as_str().unwrap(), bar["parts"][0][1].as_f64().unwrap()))
        .collect();
    let ((all, all_ns), families) = named.split_first().unwrap();
    assert_eq!(*all, "all work");
    assert!(families.len() > 1 && families.iter().any(|(name, _)| *name == "matmul"), "{named:?}");
    let sum_ns: f64 = families.iter().map(|(_, ns)| ns).sum();
    // Numbers have seven digits.
    assert!((sum_ns - all_ns).abs() <= 1e-5 * all_ns, "{named:?}");
    let table = of_kind("table").unwrap();
    let columns = table["columns"].as_array().unwrap();
    let at = |label: &str| columns.iter().position(|column| column["label"] == label).unwrap();
    let [family, time] = ["Family", "Time"].map(at);
    let rows = table["rows"].as_array().unwrap();
    let table_ns: f64 = rows.iter().map(|row| row[time].as_f64().unwrap()).sum();
    assert!((table_ns - all_ns).abs() <= 1e-5 * all_ns, "the table counts the same steps");
    let known = |row: &Value| families.iter().any(|(name, _)| row[family] == *name);
    assert!(rows.iter().all(known), "each kernel has the name of a bar");
}

/// What is about the first finding comes first.
#[test]
fn page_orders_panes_by_findings() {
    let sandbox = Sandbox::with_run();
    let html = page(&sandbox, "run", "report.html");
    let place = |id: &str| html.find(&format!("<section id=\"{id}\"")).unwrap();
    assert!(place("loader") < place("idle") && place("loader") < place("kernels"));
    let links = html.split("<main").next().unwrap();
    assert!(links.find("#loader").unwrap() < links.find("#idle").unwrap());
}

/// Stacks begin with functions, what has no stack comes last, and what rules can never judge is folded.
#[test]
fn page_of_a_snapshot_names_what_holds_memory() {
    let sandbox = Sandbox::new();
    let html = page(&sandbox, SNAPSHOT, "report.html");
    let (_, limits) = html.split_once("What this recording cannot say</h2>").unwrap();
    assert!(limits.contains("<summary>Rules that do not apply to this kind of run"), "{limits}");
    let data = data(&html);
    let blocks = blocks(&data, "memory");
    let titled = |title: &str| {
        let starts = |block: &&Value| block["title"].as_str().unwrap().starts_with(title);
        blocks.iter().find(starts).unwrap_or_else(|| panic!("{title}"))
    };
    titled("Reserved at the peak by owner");
    let boxes = titled("Call stacks at the peak:")["placed"].as_array().unwrap();
    let last = boxes.last().unwrap();
    assert_eq!((&last[2], &last[3]), (&Value::from(0), &Value::from("stack not recorded")));
    let texts: Vec<&str> = boxes.iter().map(|b| b[4].as_str().unwrap()).collect();
    assert!(texts.contains(&"step record.py:156"), "{texts:?}");
    assert!(texts.iter().all(|text| !text.contains("torch::unwind")), "{texts:?}");
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
