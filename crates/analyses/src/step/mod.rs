//! Breakdown of step time.

mod breakdown;

use query::rust_view::RustView;

/// `step_breakdown_by_step`.
pub(super) const BREAKDOWN: RustView =
    RustView::new("step_breakdown_by_step", breakdown::INPUTS, breakdown::compute);
