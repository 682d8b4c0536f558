//! The part of a run that a view counts, as a caption: `complete steps 16 to 20 of 16 to 21`.

use std::fmt;

use trace_advisor::Run;
use trace_advisor::query::{ViewDef, Window, query_table};
use trace_advisor::trace_model::Row;

/// The tables to read for a view and its caption.
pub(super) fn query_hint(view: &str) -> String {
    format!("SELECT * FROM {view}, step_selection")
}

/// The part of the run that the view counts; `None` if it counts no time.
pub(super) fn of_run(run: &Run, view: &ViewDef) -> anyhow::Result<Option<String>> {
    let Some(window) = view.window.filter(|&window| window != Window::NotTimed) else {
        return Ok(None);
    };
    let Some(all) = steps(run, "SELECT step FROM steps WHERE source <> 'trace'")? else {
        return Ok(Some(match window {
            Window::Samples | Window::History => window.doc().to_owned(),
            _ => "the whole recording, which has no steps".to_owned(),
        }));
    };
    Ok(Some(match window {
        Window::Recording => format!("the whole recording, with {all}"),
        Window::BeforeLastStep => before_last_step(run, all)?,
        Window::ActivitySpan => {
            format!("first to last GPU activity of {}", before_last_step(run, all)?)
        }
        Window::CompleteSteps => complete_steps(run, all, "true")?,
        Window::CountedSteps => complete_steps(run, all, "is_counted")?,
        Window::AllSteps => all.to_string(),
        Window::LaterSteps => format!("{all}, without the first"),
        Window::Samples | Window::History | Window::NotTimed => window.doc().to_owned(),
    }))
}

/// The steps of `complete_steps` that `condition` selects.
fn complete_steps(run: &Run, all: Steps, condition: &str) -> anyhow::Result<String> {
    let query = format!("SELECT step FROM complete_steps WHERE source <> 'trace' AND {condition}");
    Ok(match steps(run, &query)? {
        Some(complete) if complete == all => format!("complete {all}"),
        Some(complete) => format!("complete {complete} of {} to {}", all.first, all.last),
        None => "no step is complete".to_owned(),
    })
}

fn before_last_step(run: &Run, all: Steps) -> anyhow::Result<String> {
    let counted = "SELECT step FROM step_selection WHERE is_analyzed AND source <> 'trace'";
    Ok(match steps(run, counted)? {
        Some(counted) if counted != all => format!(
            "the recording until step {} begins (of {all}); --include-last-step counts it too",
            all.last
        ),
        _ => format!("the whole recording, with {all}"),
    })
}

/// The numbers of the first and the last of some steps.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Steps {
    first: i64,
    last: i64,
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last } = self;
        if first == last { write!(f, "step {first}") } else { write!(f, "steps {first} to {last}") }
    }
}

/// The steps that a query selects, if there are any.
fn steps(run: &Run, query: &str) -> anyhow::Result<Option<Steps>> {
    let query = format!("SELECT min(step) AS least, max(step) AS most FROM ({query})");
    let table = query_table("steps", &run.sql(&query)?)?;
    let steps =
        |row: Row<'_>| Some(Steps { first: row.integer("least")?, last: row.integer("most")? });
    Ok(table.first_row().and_then(steps))
}
