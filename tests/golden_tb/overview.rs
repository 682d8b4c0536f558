//! Overview: steps extended to their device work, GPU utilization, SM efficiency and occupancy.

use analyses::Session;
use trace_model::Value;

use super::{Area, Compare, Differences, RELATIVE, SLACK_US, Worker};

pub(crate) const AREA: Area = Area {
    comparisons: &[("steps", Compare::Worker(steps)), ("gpu_metrics", Compare::Worker(devices))],
    exceptions: &[
        ("generated/synth_modern_gpu_annotation", "steps", COPIES),
        ("mi300_resnet_ddp", "steps", COPIES),
        ("mi210_gpu_only", "steps", NO_HOST),
        ("mi210_gpu_only", "gpu_metrics", NO_HOST),
        ("ns_resolution", "gpu_metrics", DOUBLES),
    ],
    at_least: 150,
};

const COPIES: &str = "the plugin takes the device's copy of a step mark for another step";
const NO_HOST: &str = "without host events the plugin's window is inverted: -1.8e19 us";
const DOUBLES: &str =
    "absolute times in doubles: the plugin loses a quarter of a microsecond an event";

fn steps(worker: &Worker, found: &mut Differences) {
    let overview = worker.golden("overview.json");
    let Some(steps) = overview["steps"].as_array().filter(|steps| !steps.is_empty()) else {
        return;
    };
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or(f64::NAN);
    let theirs: Vec<f64> = steps.iter().map(|s| number(&s["end"]) - number(&s["start"])).collect();
    let ours: Vec<f64> = column(worker.session(), "step_time", "dur_ns")
        .into_iter()
        .flatten()
        .map(|ns| ns / 1e3)
        .collect();
    let agree = ours.len() == theirs.len()
        && ours.iter().zip(&theirs).all(|(a, b)| (a - b).abs() <= SLACK_US + RELATIVE * b.abs());
    found.check(agree, || format!("steps: ours {ours:?}, theirs {theirs:?}"));
}

fn devices(worker: &Worker, found: &mut Differences) {
    let metrics = worker.golden("gpu_metrics.json");
    let Some(expected) = metrics["per_gpu"].as_object() else { return };
    let session = worker.session();
    let ids = column(session, "gpu_utilization", "device");
    for (device, theirs) in expected {
        let row = ids.iter().position(|id| id.map(|id| id.to_string()) == Some(device.clone()));
        for (metric, name, scale) in [
            ("kernel_busy_ratio", "utilization", 1.0),
            ("sm_efficiency_ratio", "est_sm_efficiency", 1.0),
            ("occupancy_ratio", "est_achieved_occupancy_pct", 100.0),
        ] {
            let ours = row
                .and_then(|row| column(session, "gpu_utilization", metric)[row])
                .map(|v| v * scale);
            let theirs = theirs[name].as_f64();
            let slack = 10.0 * RELATIVE * theirs.unwrap_or(0.0).abs().max(1.0);
            found.close(&format!("device {device} {name}"), ours, theirs, slack);
        }
    }
}

/// Numbers of a column, in the view's own order.
fn column(session: &Session, view: &str, column: &str) -> Vec<Option<f64>> {
    let tables = session.metric_tables(&[view]).unwrap();
    let index = tables[0].index(column).unwrap();
    tables[0]
        .rows
        .iter()
        .map(|row| match &row[index] {
            Value::Null => None,
            value => value.as_f64(),
        })
        .collect()
}
