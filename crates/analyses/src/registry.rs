//! The views in Rust. The header of each is `src/<topic>/<name>.toml`, with the keys of the `--!` lines of a SQL file.

use query::RustView;

use crate::{
    comm, critical, hta, idle, kernel, loader, nesting, op, roofline, step, system, trainer,
};

/// Every view in Rust, sorted by name.
pub(crate) static VIEWS: &[RustView] = &[
    comm::collectives::VIEW,
    comm::phase_totals::VIEW,
    comm::stragglers::VIEW,
    comm::views::ARRIVALS,
    comm::views::CLOCKS,
    comm::views::MATCHES,
    RustView::new("critical_edges", critical::INPUTS, critical::edges),
    RustView::new("critical_path", critical::INPUTS, critical::path),
    RustView::new("critical_what_if", critical::INPUTS, critical::what_if),
    RustView::new("critical_windows", critical::INPUTS, critical::windows),
    RustView::new("hta_critical_path", hta::READS, hta::summary),
    RustView::new("hta_critical_path_edges", hta::READS, hta::edges),
    idle::GAPS,
    kernel::annotations::VIEW,
    loader::FETCHES,
    loader::FETCHES_BY_STEP,
    nesting::LIGHTNING_CALLS,
    nesting::MODULE_CALLS,
    nesting::MODULE_HIERARCHY,
    nesting::BY_NAME,
    nesting::BY_SHAPE,
    nesting::BY_STACK,
    RustView::new("op_calls", op::READS, op::calls),
    RustView::new("op_kernel_sequences", op::READS, op::sequences),
    roofline::ATTENTION,
    roofline::CALLS,
    roofline::CHAINS,
    roofline::DEVICES,
    step::BREAKDOWN,
    system::BY_STEP,
    system::INPUT_LIMITS,
    trainer::STEPS,
    trainer::STEPS_RECONSTRUCTED,
];

#[cfg(test)]
mod tests {
    use super::VIEWS;
    use crate::catalog;

    #[test]
    fn views_have_headers() {
        for view in VIEWS {
            let header = catalog().find(view.name);
            assert!(
                header.is_some_and(|header| header.rust.is_some()),
                "{} has no header",
                view.name
            );
        }
    }
}
