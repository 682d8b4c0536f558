//! A step as lanes of host threads, streams and waits: characters for a terminal, SVG for a document.

mod grid;
mod svg;
mod text;

use page::{Activity, StepLanes};
use trace_advisor::trace_model::time::{human, time_range};

pub(crate) use svg::write as write_svg;
pub(crate) use text::write as write_text;

/// The title of the drawing: rank, step and time range.
fn title(lanes: &StepLanes) -> String {
    let StepLanes { rank, from_ns, to_ns, .. } = *lanes;
    let dur_ns = to_ns.saturating_sub(from_ns);
    let step = lanes.step.map_or_else(String::new, |step| format!(", step {step}"));
    format!("rank {rank}{step}: {} ({})", human(dur_ns as f64), time_range(from_ns, dur_ns))
}

/// The lines below the drawing: the finding, and what is unknown.
fn notes(lanes: &StepLanes) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(finding) = &lanes.finding {
        let (code, title) = (&finding.code, &finding.title);
        notes.push(match finding.mark {
            Some((from, to)) => {
                let range = time_range(from, to.saturating_sub(from));
                format!("^ {code}: {title}: {range} of the recording")
            }
            None => format!("{code}: {title}: no single time range of this step"),
        });
    }
    if !lanes.is_idle_explained {
        let why = "the analyses count complete steps without warm-up";
        notes.push(format!("What the idle GPU waits for is not known here: {why}."));
    }
    notes
}

/// The letter of an activity, and its name.
fn words(activity: Activity) -> (char, &'static str) {
    match activity {
        Activity::Loading => ('D', "data loading"),
        Activity::Operator => ('O', "operator"),
        Activity::Range => ('R', "range"),
        Activity::Python => ('P', "Python"),
        Activity::Launch => ('L', "launching"),
        Activity::Synchronization => ('W', "wait for the GPU"),
        Activity::OtherCall => ('X', "other call"),
        Activity::Computation => ('C', "computation"),
        Activity::Communication => ('N', "communication"),
        Activity::Copy => ('M', "copy or fill"),
        Activity::Allocation => ('A', "allocation"),
        Activity::StartUp => ('F', "first launch, start-up"),
        Activity::Compiling => ('K', "compiling"),
        Activity::Profiler => ('Q', "profiler"),
        Activity::KernelGap => ('G', "gap between kernels"),
        Activity::OtherStream => ('S', "wait for another stream"),
        Activity::Unknown => ('?', "unknown"),
    }
}
