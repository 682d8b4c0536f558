//! The page in a browser: every pane is drawn, what is clicked answers, nothing is requested, nothing fails.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::{Value, json};
use trace_demo::{Bottleneck, Options, write_run};

use super::driver::{ask, assert_is_drawn, axe, landings, values};
use super::{SNAPSHOT, hostile_run, hostile_snapshot, page, page_of_comparison, page_of_runs};
use crate::support::corpus::corpus;
use crate::support::sandbox::Sandbox;

fn assert_run_is_drawn(run: &Path) {
    let sandbox = Sandbox::new();
    page(&sandbox, run.to_str().unwrap(), "report.html");
    assert_is_drawn(&sandbox.path("report.html"));
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
    assert_run_is_drawn(Path::new(SNAPSHOT));
}

#[test]
#[ignore = "needs ADVISOR_BROWSER"]
fn page_is_drawn_of_hostile_names() {
    let sandbox = Sandbox::new();
    hostile_run(&sandbox.path("run"));
    hostile_snapshot(&sandbox.path("snapshot.pickle"));
    for run in ["run", "snapshot.pickle"] {
        page(&sandbox, run, "report.html");
        assert_is_drawn(&sandbox.path("report.html"));
    }
    page_of_comparison(&sandbox, SNAPSHOT, "snapshot.pickle");
    assert_is_drawn(&sandbox.path("diff.html"));
}

#[test]
#[ignore = "needs ADVISOR_BROWSER"]
fn page_of_a_comparison_is_drawn() {
    let sandbox = Sandbox::with_run();
    let options =
        Options { bottleneck: Bottleneck::None, steps: 6, layers: 1, ..Options::default() };
    std::fs::create_dir(sandbox.path("after")).unwrap();
    write_run(&options, &sandbox.path("after")).unwrap();
    page_of_comparison(&sandbox, "run", "after");
    assert_is_drawn(&sandbox.path("diff.html"));
}

/// The contents and links to findings lead to the heading, and the contents mark what the reader went to.
fn assert_lands_on_headings(page: &Path, is_still: bool) {
    for width in [1400, 390] {
        let landings = landings(page, width, is_still);
        assert!(landings.len() > 3, "{landings:?}");
        for landing in landings {
            let id = landing["id"].as_str().unwrap();
            let is_finding = id.starts_with("f-");
            let wanted = if is_finding { 20.0 } else { 12.0 };
            let is_there = (landing["top"].as_f64().unwrap() - wanted).abs() <= 4.0;
            assert!(is_there || landing["is_end"] == true, "{width} px: {landing}");
            let is_marked = landing["current"] == json!([format!("#{id}")]);
            assert!(is_marked || is_finding, "{width} px: {landing}");
        }
    }
}

#[test]
#[ignore = "needs ADVISOR_BROWSER"]
fn page_navigation_lands_on_headings() {
    let sandbox = Sandbox::with_run();
    let options =
        Options { bottleneck: Bottleneck::None, steps: 6, layers: 1, ..Options::default() };
    std::fs::create_dir(sandbox.path("after")).unwrap();
    write_run(&options, &sandbox.path("after")).unwrap();
    page(&sandbox, "run", "report.html");
    page(&sandbox, SNAPSHOT, "snapshot.html");
    page_of_comparison(&sandbox, "run", "after");
    page_of_runs(&sandbox, &["run", "after"]);
    for name in ["report.html", "snapshot.html", "diff.html", "runs.html"] {
        // One page that scrolls is enough.
        assert_lands_on_headings(&sandbox.path(name), name != "report.html");
    }
}

/// In each chart a color stands for one name, and each name of a legend has a part that can be seen.
#[test]
#[ignore = "needs ADVISOR_BROWSER"]
fn page_legends_have_colors_of_their_own() {
    let sandbox = Sandbox::with_run();
    let legends = "[...document.querySelectorAll('ul.legend')].map((list) => [...list.querySelectorAll('li')].map((item) => {
        const key = item.querySelector('.key');
        const rect = key.querySelector('rect');
        return [rect ? getComputedStyle(rect).fill : getComputedStyle(key).backgroundColor, item.textContent];
    }))";
    for run in ["run", SNAPSHOT] {
        page(&sandbox, run, "report.html");
        let answer = ask(
            sandbox.path("report.html").to_str().unwrap(),
            &json!([{"whole": true}, {"whole": true, "dark": true}]),
            None,
            &[legends],
        );
        let views = answer["values"].as_array().unwrap();
        for legend in views.iter().flat_map(|legends| legends.as_array().unwrap()) {
            let entries = legend.as_array().unwrap();
            let colors: BTreeSet<&str> = entries.iter().map(|e| e[0].as_str().unwrap()).collect();
            assert_eq!(colors.len(), entries.len(), "{legend}");
            // The snapshot has 11 KB of it in 666 MiB.
            assert!(entries.iter().all(|entry| entry[1] != "rounding"), "{legend}");
        }
    }
}

/// Paper has the evidence of the first findings, and no queries or buttons.
#[test]
#[ignore = "needs ADVISOR_BROWSER"]
fn page_on_paper_is_short() {
    let sandbox = Sandbox::with_run();
    page(&sandbox, "run", "report.html");
    let counts = "(() => {
        document.querySelectorAll('details.evidence').forEach((node) => { node.open = false; });
        window.dispatchEvent(new Event('beforeprint'));
        const open = [...document.querySelectorAll('details.evidence')].map((node) => node.open);
        const shown = [...document.querySelectorAll('details.sql, .block > button, .actions')].filter((node) => node.offsetParent);
        window.dispatchEvent(new Event('afterprint'));
        const after = document.querySelectorAll('details.evidence[open]').length;
        return [open.filter(Boolean).length, open.slice(0, 3).every(Boolean), open.length > 3, shown.length, after];
    })()";
    let page = sandbox.path("report.html");
    let answer = ask(page.to_str().unwrap(), &json!([{"paper": true}]), None, &[counts]);
    assert_eq!(answer["values"], json!([[3, true, true, 0, 0]]));
}

/// A narrow window shows all of the plan, and the names of rows while a table scrolls.
#[test]
#[ignore = "needs ADVISOR_BROWSER"]
fn page_fits_a_narrow_window() {
    let sandbox = Sandbox::with_run();
    page(&sandbox, "run", "report.html");
    let narrow = "(() => {
        const plan = document.querySelector('table.plan').parentElement;
        const label = getComputedStyle(document.querySelector('table.plan td[data-label=Saves]'), '::before').content;
        const scroll = document.querySelector('#kernels .scroll');
        scroll.scrollLeft = 200;
        const name = scroll.querySelector('tbody td');
        return [plan.scrollWidth - plan.clientWidth, label, scroll.scrollLeft > 0, Math.round(name.getBoundingClientRect().left - scroll.getBoundingClientRect().left)];
    })()";
    let page = sandbox.path("report.html");
    let answer = ask(page.to_str().unwrap(), &json!([{"width": 390}]), None, &[narrow]);
    assert_eq!(answer["values"], json!([[0, "\"Saves \"", true, 0]]));
}

/// Below the interval of a comparison, its ends stand on one line and the sentence has a line of its own.
#[test]
#[ignore = "needs ADVISOR_BROWSER"]
fn captions_of_a_comparison_fit_a_narrow_window() {
    let sandbox = Sandbox::with_run();
    let options =
        Options { bottleneck: Bottleneck::None, steps: 6, layers: 1, ..Options::default() };
    std::fs::create_dir(sandbox.path("after")).unwrap();
    write_run(&options, &sandbox.path("after")).unwrap();
    page_of_comparison(&sandbox, "run", "after");
    let places = "(() => {
        const [faster, sentence, slower] = [...document.querySelectorAll('.interval figcaption span')].map((node) => node.getBoundingClientRect());
        const whole = document.querySelector('.interval').getBoundingClientRect();
        return [faster.top === slower.top, Math.abs(slower.right - whole.right) < 1, sentence.top >= faster.bottom, sentence.right <= whole.right + 1];
    })()";
    let page = sandbox.path("diff.html");
    let answer = ask(page.to_str().unwrap(), &json!([{"width": 390}]), None, &[places]);
    assert_eq!(answer["values"], json!([[true, true, true, true]]));
}

/// Sorting, filtering, selecting a rank, following a link to a finding, switching the measure.
#[test]
#[ignore = "needs ADVISOR_BROWSER"]
fn page_answers_clicks() {
    let sandbox = Sandbox::with_run();
    page(&sandbox, "run", "report.html");
    let column = "[...document.querySelectorAll('#kernels table.data tbody tr')].map(r => r.cells[2].textContent)";
    let values = values(
        &sandbox.path("report.html"),
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
    let values = values(
        &sandbox.path("report.html"),
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
    assert_eq!(values[0], "https://ui.perfetto.dev");
    let sent = values[1].as_array().unwrap();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0]["origin"], "https://ui.perfetto.dev");
    assert_eq!(sent[0]["start"], serde_json::json!([0x1f, 0x8b]));
    assert!(sent[0]["title"].as_str().unwrap().starts_with("IN001"), "{}", sent[0]["title"]);
    assert!(values[2][0].as_u64().unwrap() > 0, "{}", values[2]);
    assert_eq!(values[2][1], 1);
}

/// The program, serving the page of a run, and the address of the page.
fn served(sandbox: &Sandbox) -> (Child, String) {
    let mut command = sandbox.command(&["open", "run", "--report", "--no-browser"]);
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut url = String::new();
    BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
    (process, url.trim().to_owned())
}

/// A served page loads again when a file of its run changes.
#[test]
#[ignore = "needs ADVISOR_BROWSER"]
fn served_page_follows_its_run() {
    let sandbox = Sandbox::with_run();
    let (mut process, url) = served(&sandbox);
    let options =
        Options { bottleneck: Bottleneck::None, steps: 4, layers: 1, ..Options::default() };
    let has_finding = "Boolean(document.getElementById('f-IN001'))";
    let has = || ask(&url, &json!([{}]), None, &[has_finding])["values"][0] == true;
    assert!(has());
    write_run(&options, &sandbox.path("run")).unwrap();
    let mut is_gone = false;
    for _ in 0..60 {
        std::thread::sleep(std::time::Duration::from_secs(1));
        is_gone = !has();
        if is_gone {
            break;
        }
    }
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(is_gone, "the page does not follow the run");
}

/// A script that puts a query into the box of a served page, does something, and waits for what `found` selects.
fn asked(sql: &str, then: &str, found: &str) -> String {
    format!(
        "(async () => {{
            const box = document.getElementById('ask-text');
            const button = document.querySelector('#ask .tools button');
            box.value = {sql:?};
            document.querySelector('#ask .answer').replaceChildren();
            {then}
            for (let n = 0; n < 400 && !document.querySelector({found:?}); n++) await new Promise((done) => setTimeout(done, 50));
            return [...document.querySelectorAll({found:?})].map((node) => node.textContent);
        }})()"
    )
}

/// The box of a served page answers queries, by the button and by keys, and says what is wrong with one.
#[test]
#[ignore = "needs ADVISOR_BROWSER"]
fn served_page_answers_queries() {
    let sandbox = Sandbox::with_run();
    let (mut process, url) = served(&sandbox);
    let query = "SELECT rank, 1500000 AS dur_ns, NULL AS nothing FROM ranks ORDER BY rank";
    let by_keys = "box.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', ctrlKey: true, bubbles: true }));";
    let sorted = "(() => {
        const grid = document.querySelector('#ask table.data');
        grid.querySelector('th button').click();
        return [...grid.querySelectorAll('tbody tr')].map((row) => row.cells[0].textContent);
    })()";
    let edited = "(() => {
        [...document.querySelectorAll('#kernels .tools button')].find((button) => button.textContent === 'Edit SQL').click();
        return [document.activeElement.id, document.activeElement.value.startsWith('SELECT name')];
    })()";
    let js = [
        "document.querySelector('#ask label').control.id".to_owned(),
        asked(query, "button.click();", "#ask tbody td"),
        sorted.to_owned(),
        asked("SELECT * FROM kernles", by_keys, "#ask .failure"),
        asked("SELECT a.name FROM kernels a, kernels b, kernels c", by_keys, "#ask .answer .n"),
        edited.to_owned(),
    ];
    let js: Vec<&str> = js.iter().map(String::as_str).collect();
    let views = json!([{}, {"dark": true, "width": 390}]);
    let answer = ask(&url, &views, Some(&axe()), &js);
    process.kill().unwrap();
    process.wait().unwrap();
    assert_eq!(answer["violations"], json!([]));
    for values in answer["values"].as_array().unwrap().chunks(js.len()) {
        assert_eq!(values[0], "ask-text");
        assert_eq!(values[1], json!(["0", "1.50 ms", "", "1", "1.50 ms", ""]));
        assert_eq!(values[2], json!(["1", "0"]));
        let error = values[3][0].as_str().unwrap();
        assert!(error.contains("there is no table or view `kernles`"), "{error}");
        assert_eq!(values[4], json!(["1,000 rows, the query returns more"]));
        assert_eq!(values[5], json!(["ask-text", true]));
    }
}

/// A part of a chart, clicked or by its button in the legend, filters the tables beside it; again, it shows all. Only served
/// pages have the box of queries.
#[test]
#[ignore = "needs ADVISOR_BROWSER"]
fn page_filters_tables_by_a_part_of_a_chart() {
    let sandbox = Sandbox::with_run();
    page(&sandbox, "run", "report.html");
    let causes = |pane: &str, click: &str| {
        format!(
            "(() => {{
                const pane = document.querySelector('#{pane}');
                const button = (name) => [...pane.querySelectorAll('.legend button')].find((b) => b.textContent === name);
                const bar = (share) => {{
                    const canvas = pane.querySelector('canvas');
                    const {{ left, top, width }} = canvas.getBoundingClientRect();
                    canvas.dispatchEvent(new MouseEvent('click', {{ clientX: left + share * width, clientY: top + 10, bubbles: true }}));
                }};
                {click}
                const rows = [...pane.querySelectorAll('table.data tbody tr')];
                const pressed = [...pane.querySelectorAll('.legend button[aria-pressed=true]')].map((b) => b.textContent);
                const chip = pane.querySelector('.chip:not([hidden])');
                return [[...new Set(rows.map((row) => row.cells[1].textContent))], [...new Set(pressed)], chip && chip.textContent];
            }})()"
        )
    };
    let js = [
        "Boolean(document.querySelector('#ask, textarea'))".to_owned(),
        causes("path", ""),
        causes("path", "bar(0.2);"),
        causes("path", "bar(0.2);"),
        causes("path", "button('data loading').click();"),
        causes("path", "button('data loading').click();"),
        causes("idle", "button('launching').click();"),
        causes("idle", "pane.querySelector('.chip:not([hidden])').click();"),
    ];
    let js: Vec<&str> = js.iter().map(String::as_str).collect();
    let values = values(&sandbox.path("report.html"), &js);
    assert_eq!(values[0], false);
    let all = &values[1];
    assert!(all[0].as_array().unwrap().len() > 2, "{all}");
    assert_eq!((&all[1], &all[2]), (&json!([]), &Value::Null));
    // The bar begins with what takes most of the path.
    let first = &values[2][1][0];
    assert_eq!(values[2][0], json!([first]));
    assert_eq!(&values[3], all);
    assert_eq!(values[4], json!([["data loading"], ["data loading"], "Only data loading \u{d7}"]));
    assert_eq!(&values[5], all);
    // The table names what launching consists of.
    let launching = values[6][0].as_array().unwrap();
    assert!(launching.contains(&json!("launch call")), "{launching:?}");
    assert!(!launching.contains(&json!("data loading")), "{launching:?}");
    assert!(values[7][0].as_array().unwrap().len() > launching.len(), "{}", values[7]);
}
