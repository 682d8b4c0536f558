//! The views in Rust. The header of each is `src/<topic>/<name>.toml`, with the keys of the `--!` lines of a SQL file.

use query::RustView;

use crate::{
    comm, hta, idle, kernel, lightning, loader, memory, module, op, pipeline, roofline, step,
    system, trainer,
};

/// Every view in Rust, sorted by name.
pub(crate) static VIEWS: &[RustView] = &[
    comm::collectives::VIEW,
    comm::phase_totals::VIEW,
    comm::views::ARRIVALS,
    comm::views::CLOCKS,
    comm::views::MATCHES,
    comm::views::STRAGGLERS,
    idle::computations::VIEW,
    what_if::EDGES,
    what_if::PATH,
    what_if::PREDICTIONS,
    what_if::WINDOWS,
    hta::CRITICAL_PATH,
    hta::CRITICAL_PATH_EDGES,
    idle::GAPS,
    kernel::annotations::VIEW,
    lightning::CALLS,
    loader::FETCHES,
    loader::FETCHES_BY_STEP,
    memory::FLAME_GRAPH,
    memory::OWNER_SERIES,
    memory::OWNERS,
    memory::SEGMENT_MAP,
    memory::USAGE,
    memory::WHAT_IF,
    module::CALLS,
    module::HIERARCHY,
    op::BY_NAME,
    op::IN_STEPS,
    op::BY_SHAPE,
    op::BY_STACK,
    op::CALLS,
    op::KERNEL_SEQUENCES,
    pipeline::STAGES,
    roofline::ATTENTION,
    roofline::CALLS,
    roofline::CHAINS,
    roofline::CHAIN_RUNS,
    roofline::CPU_CALLS,
    roofline::CPU_CHAIN_CALLS,
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
    fn every_rust_view_has_a_header() {
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
