//! How fast the page of a large run is.

use serde_json::{Value, json};

use super::driver::ask;
use super::page;
use crate::support::sandbox::Sandbox;

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
        let spent = 0;
        for (let n = 0; n < 120; n++) {
            await new Promise(requestAnimationFrame);
            const before = performance.now();
            event('pointermove', n);
            spent += performance.now() - before;
        }
        return [120000 / (performance.now() - started), spent / 120];
    })()";
    let page = sandbox.path("large.html");
    let answer = ask(page.to_str().unwrap(), &json!([{}]), None, &[pan]);
    let ready_s = answer["ready_s"].as_f64().unwrap();
    let [frames, mean_ms] = [0, 1].map(|i| answer["values"][0][i].as_f64().unwrap());
    assert!(ready_s < 3.0, "{ready_s} s until the page answers");
    // The browser shares the machine with other tests: frames are lost to them, but not to the map.
    assert!(frames > 20.0, "{frames} frames a second");
    assert!(mean_ms < 8.0, "a frame takes {mean_ms} ms, half of its time");
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
        .map(|name| json!({"name": name, "doc": name, "values": base64}))
        .collect();
    json!({
        "ranks": (0..1000).collect::<Vec<u32>>(), "steps": (0..50).collect::<Vec<u32>>(), "step_count": 50,
        "measures": measures, "pairs": [],
    })
    .to_string()
}
