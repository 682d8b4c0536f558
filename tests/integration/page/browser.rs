//! The page in a browser: every pane is drawn, what is clicked answers, nothing is requested, nothing fails.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cli::demo::{Bottleneck, Options, write_run};
use serde_json::Value;

use super::{hostile_run, page};
use crate::support::corpus::corpus;
use crate::support::sandbox::Sandbox;

/// axe-core: `ADVISOR_BROWSER`, or where `.ci/browser` puts it.
fn axe() -> PathBuf {
    #[expect(clippy::disallowed_methods, reason = "the one place where this test reads it")]
    let set = std::env::var("ADVISOR_BROWSER").ok();
    let default = std::env::home_dir()
        .unwrap_or_default()
        .join(".cache/trace-advisor/browser/axe-core-4.14.1.min.js");
    let path = set.map_or(default, PathBuf::from);
    assert!(
        path.is_file(),
        "there is no axe-core at {}: set ADVISOR_BROWSER to what .ci/browser prints",
        path.display()
    );
    path
}

/// Opens a page, evaluates expressions in it, and returns their values. The page must report no error and request nothing.
fn ask(page: &str, args: &[&str], js: &[&str]) -> Value {
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/integration/page/drive.py");
    let mut command = Command::new("python3");
    command.arg(script).arg(page).args(args);
    for expression in js {
        command.arg("--js").arg(expression);
    }
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["errors"], Value::Array(Vec::new()), "{page}");
    let requests = answer["requests"].as_array().unwrap();
    let is_own = |url: &&Value| url.as_str().is_some_and(|url| url.ends_with("/version"));
    let foreign: Vec<_> = requests.iter().filter(|url| !is_own(url)).collect();
    assert!(foreign.is_empty(), "{page}: {foreign:?}");
    answer
}

/// What is wrong with the drawing: panes without content, empty pictures, text that is wider than the window.
const PROBLEMS: &str = "(() => {
    const found = [];
    for (const pane of document.querySelectorAll('section.pane')) {
        const blocks = [...pane.querySelectorAll('.block, .facts')];
        const empty = pane.querySelector('.empty');
        if (!blocks.length && !(empty && empty.textContent.length > 20)) found.push(`${pane.id} is empty`);
        for (const block of blocks) {
            const { width, height } = block.getBoundingClientRect();
            if (width < 200 || height < 20) found.push(`${pane.id}: ${block.className} is ${width} x ${height}`);
        }
    }
    for (const holder of document.querySelectorAll('.canvas')) {
        if (holder.closest('details:not([open])')) continue;
        const canvas = holder.querySelector('canvas');
        const where = holder.closest('section').id;
        if (holder.dataset.drawn !== 'yes') { found.push(`${where}: not drawn`); continue; }
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        if (!data.some((v) => v)) found.push(`${where}: a picture is blank`);
        if (!canvas.getAttribute('aria-label')) found.push(`${where}: a picture has no text`);
    }
    const texts = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const text = texts.currentNode.data.trim();
        if (['null', 'undefined', 'NaN', '[object Object]'].includes(text)) found.push(`the text ${text}`);
    }
    const wide = document.documentElement.scrollWidth - window.innerWidth;
    if (wide > 0) found.push(`the page is ${wide} px wider than the window`);
    return found;
})()";

/// Draws a page wide and light, and narrow and dark, and lets axe look for barriers.
fn assert_is_drawn(page: &str) {
    let axe = axe();
    let axe = axe.to_str().unwrap();
    let views: [&[&str]; 2] = [&[], &["--dark", "--width", "360"]];
    for view in views {
        let args = [&["--whole", "--axe", axe], view].concat();
        let answer = ask(page, &args, &[PROBLEMS]);
        assert_eq!(answer["values"][0], Value::Array(Vec::new()), "{page} {args:?}");
        assert_eq!(answer["violations"], Value::Array(Vec::new()), "{page} {args:?}");
    }
}

fn assert_run_is_drawn(run: &Path) {
    let sandbox = Sandbox::new();
    page(&sandbox, run.to_str().unwrap(), "report.html");
    assert_is_drawn(sandbox.path("report.html").to_str().unwrap());
}

/// One test for each run of the corpus.
macro_rules! drawn {
    ($($name:ident: $path:literal;)+) => {
        $(
            #[test]
            #[ignore = "needs ADVISOR_BROWSER and ADVISOR_CORPUS"]
            fn $name() {
                assert_run_is_drawn(&corpus().join("traces").join($path));
            }
        )+
    };
}

drawn! {
    page_is_drawn_of_a_loader_bound_run: "resnet50_workers0";
    page_is_drawn_of_a_launch_bound_run: "vllm_decode_graph";
    page_is_drawn_of_a_compute_bound_run: "h100_bert";
    page_is_drawn_of_a_run_of_two_ranks: "two_ranks";
    page_is_drawn_of_a_run_with_a_straggler: "generated/ddp_gloo_4rank_straggler";
    page_is_drawn_of_a_composer_run: "composer/ranks2";
    page_is_drawn_of_a_determined_run: "determined/new_generation";
    page_is_drawn_of_an_inference_run: "sglang_decode";
}

#[test]
#[ignore = "needs ADVISOR_BROWSER"]
fn page_is_drawn_of_a_memory_snapshot() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    assert_run_is_drawn(&fixtures.join("h100/snapshot.pickle.gz"));
}

#[test]
#[ignore = "needs ADVISOR_BROWSER"]
fn page_is_drawn_of_hostile_names() {
    let sandbox = Sandbox::new();
    hostile_run(&sandbox.path("run"));
    page(&sandbox, "run", "report.html");
    assert_is_drawn(sandbox.path("report.html").to_str().unwrap());
}

#[test]
#[ignore = "needs ADVISOR_BROWSER"]
fn page_of_a_comparison_is_drawn() {
    let sandbox = Sandbox::with_run();
    let options =
        Options { bottleneck: Bottleneck::None, steps: 6, layers: 1, ..Options::default() };
    std::fs::create_dir(sandbox.path("after")).unwrap();
    write_run(&options, &sandbox.path("after")).unwrap();
    let output = sandbox.run(&["diff", "run", "after", "--format", "html", "-o", "diff.html"]);
    assert!(output.status.success());
    assert_is_drawn(sandbox.path("diff.html").to_str().unwrap());
}

/// Sorting, filtering, selecting a rank, following a link to a finding, switching the measure.
#[test]
#[ignore = "needs ADVISOR_BROWSER"]
fn page_answers_clicks() {
    let sandbox = Sandbox::with_run();
    page(&sandbox, "run", "report.html");
    let column = "[...document.querySelectorAll('#kernels table.data tbody tr')].map(r => r.cells[2].textContent)";
    let answer = ask(
        sandbox.path("report.html").to_str().unwrap(),
        &["--whole"],
        &[
            "document.querySelectorAll('#kernels th button')[2].click(),
             document.querySelectorAll('#kernels th')[2].getAttribute('aria-sort')",
            column,
            "document.querySelectorAll('#kernels th button')[2].click(),
             document.querySelectorAll('#kernels th')[2].getAttribute('aria-sort')",
            column,
            "(() => { const box = document.querySelector('#operators input'); box.value = 'addmm';
             box.dispatchEvent(new Event('input'));
             return [...document.querySelectorAll('#operators .block')][0].querySelectorAll('tbody td.name:first-child').length })()",
            "(() => { const map = document.querySelector('canvas.map'); const r = map.getBoundingClientRect();
             const at = { clientX: r.left + 90, clientY: r.top + r.height - 30, bubbles: true, pointerId: 1 };
             const event = (kind) => new PointerEvent(kind, at);
             map.setPointerCapture = () => {};
             map.dispatchEvent(event('pointerdown')); map.dispatchEvent(event('pointerup'));
             return document.querySelector('.detail h3').textContent })()",
            "(() => { const tabs = [...document.querySelectorAll('.tab')]; tabs[tabs.length - 1].click();
             return tabs.map(t => t.getAttribute('aria-pressed')) })()",
            "(() => { document.querySelector('table.plan a, .codes a').click(); return location.hash })()",
            "document.querySelector(location.hash).getBoundingClientRect().height > 100",
        ],
    );
    let values = answer["values"].as_array().unwrap();
    assert_eq!(values[0], "descending");
    assert_eq!(values[2], "ascending");
    let numbers = |value: &Value| -> Vec<f64> {
        let texts = value.as_array().unwrap().iter();
        texts.map(|v| v.as_str().unwrap().replace(',', "").parse().unwrap()).collect()
    };
    let (down, up) = (numbers(&values[1]), numbers(&values[3]));
    assert!(down.is_sorted_by(|a, b| a >= b) && up.is_sorted(), "{down:?} {up:?}");
    assert!(values[4].as_u64().unwrap() >= 1, "{}", values[4]);
    assert!(values[5].as_str().unwrap().starts_with("Rank 1, step "), "{}", values[5]);
    let pressed = values[6].as_array().unwrap();
    assert_eq!(pressed.iter().filter(|p| *p == "true").count(), 1);
    assert_eq!(pressed.last().unwrap(), "true");
    assert!(values[7].as_str().unwrap().starts_with("#f-"), "{}", values[7]);
    assert_eq!(values[8], true);
}

/// The link hands the cut-out to the viewer, and sends nothing anywhere else.
#[test]
#[ignore = "needs ADVISOR_BROWSER"]
fn page_hands_moments_to_perfetto() {
    let sandbox = Sandbox::with_run();
    page(&sandbox, "run", "report.html");
    let answer = ask(
        sandbox.path("report.html").to_str().unwrap(),
        &[],
        &[
            "document.querySelector('button.perfetto').click(), window.opened[0].url",
            "new Promise(done => setTimeout(done, 300)).then(() => window.opened[0].sent)",
            "(async () => {
                const bytes = new Response(new Blob([window.opened[0].other.buffer]).stream().pipeThrough(new DecompressionStream('gzip')));
                const trace = await bytes.json();
                const events = trace.traceEvents;
                return [events.filter(e => e.ph === 'X' && e.cat === 'kernel').length, events.filter(e => e.ph === 'X' && e.cat === 'trace_advisor').length];
            })()",
        ],
    );
    let values = answer["values"].as_array().unwrap();
    assert_eq!(values[0], "https://ui.perfetto.dev");
    let sent = values[1].as_array().unwrap();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0]["origin"], "https://ui.perfetto.dev");
    assert_eq!(sent[0]["start"], serde_json::json!([0x1f, 0x8b]));
    assert!(sent[0]["title"].as_str().unwrap().starts_with("IN001"), "{}", sent[0]["title"]);
    assert!(values[2][0].as_u64().unwrap() > 0, "{}", values[2]);
    assert_eq!(values[2][1], 1);
}

/// A served page loads again when a file of its run changes.
#[test]
#[ignore = "needs ADVISOR_BROWSER"]
fn served_page_follows_its_run() {
    let sandbox = Sandbox::with_run();
    let mut command = sandbox.command(&["open", "run", "--report", "--no-browser"]);
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut url = String::new();
    BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
    let options =
        Options { bottleneck: Bottleneck::None, steps: 4, layers: 1, ..Options::default() };
    let folder = sandbox.path("run");
    let writer = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_secs(3));
        write_run(&options, &folder).unwrap();
    });
    let has_finding = "Boolean(document.getElementById('f-IN001'))";
    let answer =
        ask(url.trim(), &[], &[has_finding, "new Promise(done => setTimeout(done, 1500))", "1"]);
    assert_eq!(answer["values"][0], true);
    writer.join().unwrap();
    let mut is_gone = false;
    for _ in 0..20 {
        std::thread::sleep(std::time::Duration::from_secs(1));
        is_gone = ask(url.trim(), &[], &[has_finding])["values"][0] == false;
        if is_gone {
            break;
        }
    }
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(is_gone, "the page does not follow the run");
}

/// 1,000 ranks by 50 steps: how soon the page answers, and how fast the map pans.
#[test]
#[ignore = "needs ADVISOR_BROWSER"]
fn page_of_a_thousand_ranks_is_fast() {
    let sandbox = Sandbox::with_run();
    let html = page(&sandbox, "run", "report.html");
    // A run of this size takes minutes to check: its map takes the place of the one of the small run.
    let (head, rest) = html.split_once("\"heat\":{").unwrap();
    let (_, tail) = rest.split_once("},\"findings\":").unwrap();
    let large = large_heat();
    std::fs::write(
        sandbox.path("large.html"),
        format!("{head}\"heat\":{large},\"findings\":{tail}"),
    )
    .unwrap();
    let pan = "(async () => {
        const map = document.querySelector('canvas.map');
        map.scrollIntoView();
        map.setPointerCapture = () => {};
        document.querySelectorAll('.heat button.quiet')[0].click();
        document.querySelectorAll('.heat button.quiet')[0].click();
        const r = map.getBoundingClientRect();
        const event = (kind, n) => map.dispatchEvent(new PointerEvent(kind, { clientX: r.left + 300, clientY: r.top + 200 - n, buttons: 1, pointerId: 1, bubbles: true }));
        event('pointerdown', 0);
        const started = performance.now();
        let slowest = 0;
        for (let n = 0; n < 120; n++) {
            await new Promise(requestAnimationFrame);
            const before = performance.now();
            event('pointermove', n);
            slowest = Math.max(slowest, performance.now() - before);
        }
        return [120000 / (performance.now() - started), slowest];
    })()";
    let answer = ask(sandbox.path("large.html").to_str().unwrap(), &[], &[pan]);
    let ready_s = answer["ready_s"].as_f64().unwrap();
    let frames = answer["values"][0][0].as_f64().unwrap();
    assert!(ready_s < 3.0, "{ready_s} s until the page answers");
    assert!(frames > 20.0, "{frames} frames a second");
}

/// A map of 1,000 ranks by 50 steps as JSON.
fn large_heat() -> String {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::with_capacity(200_000);
    for i in 0..50_000_u32 {
        bytes.extend((1e8_f32 + (i % 977) as f32 * 1e4).to_le_bytes());
    }
    let mut base64 = String::new();
    for chunk in bytes.chunks(3) {
        let at = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for i in 0..4 {
            base64.push(if i <= chunk.len() {
                char::from(digits[(bits >> (18 - 6 * i) & 63) as usize])
            } else {
                '='
            });
        }
    }
    let measures: Vec<Value> = ["Step time", "Waiting", "Communication", "Idle", "Loading"]
        .iter()
        .map(|name| serde_json::json!({"name": name, "doc": name, "values": base64}))
        .collect();
    serde_json::json!({
        "ranks": (0..1000).collect::<Vec<u32>>(), "steps": (0..50).collect::<Vec<u32>>(), "step_count": 50,
        "measures": measures, "pairs": [],
    })
    .to_string()
}
