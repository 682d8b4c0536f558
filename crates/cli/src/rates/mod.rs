//! Base rates: how often rules fire over many runs and what each rule costs, for `advisor rules stats`.

mod healthy;
mod render;
mod survey;

pub use healthy::Healthy;
pub use render::{COSTS, json, markdown, text};
pub use survey::Survey;
pub(crate) use survey::{NamedRun, SurveyOptions, survey};
