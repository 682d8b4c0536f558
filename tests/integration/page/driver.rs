//! One browser for all tests, driven by `drive.py`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

use serde_json::{Value, json};

/// axe-core: `ADVISOR_BROWSER`, or where `.ci/browser` puts it.
pub(super) fn axe() -> PathBuf {
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

/// A process that opens pages, one after the other. It ends with its input, when the tests end.
struct Driver {
    _process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

static DRIVER: LazyLock<Mutex<Driver>> = LazyLock::new(|| {
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/integration/page/drive.py");
    let mut command = Command::new("python3");
    command.arg(script).arg("--serve").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let requests = process.stdin.take().unwrap();
    let answers = BufReader::new(process.stdout.take().unwrap());
    Mutex::new(Driver { _process: process, requests, answers })
});

/// Opens a page, evaluates expressions in it in each view, and returns what `answer` of `drive.py` does. The page must
/// report no error and request nothing.
pub(super) fn ask(page: &str, views: &Value, axe: Option<&Path>, js: &[&str]) -> Value {
    answer(&json!({"page": page, "views": views, "axe": axe, "js": js}))
}

/// Where each entry of the contents, clicked, and each finding, linked to, lands in a fresh page of a width. A page that is
/// `still` jumps there, others scroll.
pub(super) fn landings(page: &Path, width: u32, still: bool) -> Vec<Value> {
    let page = page.to_str().unwrap();
    let views = json!([{"width": width, "still": still}]);
    let answer = answer(&json!({"page": page, "views": views, "landings": true}));
    answer["landings"].as_array().unwrap().clone()
}

fn answer(request: &Value) -> Value {
    let page = request["page"].as_str().unwrap();
    let mut line = String::new();
    {
        let mut driver = DRIVER.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(driver.requests, "{request}").unwrap();
        driver.requests.flush().unwrap();
        driver.answers.read_line(&mut line).unwrap();
    }
    let answer: Value = serde_json::from_str(&line).unwrap();
    assert!(answer.get("failure").is_none(), "{page}: {}", answer["failure"]);
    assert_eq!(answer["errors"], Value::Array(Vec::new()), "{page}");
    let requests = answer["requests"].as_array().unwrap();
    let is_own = |url: &&Value| {
        url.as_str().is_some_and(|url| url.ends_with("/version") || url.ends_with("/sql"))
    };
    let foreign: Vec<_> = requests.iter().filter(|url| !is_own(url)).collect();
    assert!(foreign.is_empty(), "{page}: {foreign:?}");
    answer
}

/// The values of expressions in a page of the usual size.
pub(super) fn values(page: &Path, js: &[&str]) -> Vec<Value> {
    let answer = ask(page.to_str().unwrap(), &json!([{}]), None, js);
    answer["values"].as_array().unwrap().clone()
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
        const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
        copy.drawImage(canvas, 0, 0);
        const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
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
pub(super) fn assert_is_drawn(page: &Path) {
    let page = page.to_str().unwrap();
    let views = json!([{"whole": true}, {"whole": true, "dark": true, "width": 360}]);
    let answer = ask(page, &views, Some(&axe()), &[PROBLEMS]);
    assert_eq!(answer["values"], json!([[], []]), "{page}");
    assert_eq!(answer["violations"], json!([]), "{page}");
}
