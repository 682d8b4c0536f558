//! What the time of a step is spent on.

mod breakdown;

use query::rust_view::RustView;

/// `step_breakdown_by_step`.
pub(super) const BREAKDOWN: RustView =
    RustView::new("step_breakdown_by_step", breakdown::READS, breakdown::compute);
