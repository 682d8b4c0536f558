//! The capabilities of a timeline: the kinds of data that its rows hold, and those that its importer declares.

use trace_model::column::NULL_I64;
use trace_model::tables::{RecordedCapabilities, RecordedCapability};
use trace_model::{Capabilities, Capability, StrId, Strings, TableSet};

use super::kernel_name::UNKNOWN_COPY;
use super::metadata::DeviceProperties;
use super::trace::Trace;

impl Trace {
    /// The kinds of data that the timeline holds. It must be enriched.
    pub(crate) fn capabilities(&self) -> Capabilities {
        let columns = &self.columns;
        let (kernels, ops) = (&columns.kernels, &columns.cpu_ops);
        let is_known = |id: &i64| *id != NULL_I64;
        let mut held = columns.declared;
        // An option that was on shows that there was nothing for it to record. All of them are about operators.
        if !ops.is_empty() {
            held = held.union(self.metadata.recorded);
        }
        let mut hold = |capability, is_held: bool| held.insert_if(is_held, capability);
        hold(Capability::Timeline, self.is_profiled);
        hold(Capability::HostOperators, !ops.is_empty());
        hold(Capability::OperatorShapes, columns.has_shapes);
        hold(Capability::PythonStacks, columns.has_stacks);
        hold(Capability::ModuleNames, columns.has_modules);
        hold(Capability::MemoryEvents, !columns.memory_events.is_empty());
        hold(Capability::DeviceActivity, self.has_device_work());
        hold(Capability::RuntimeCalls, !columns.runtime_calls.is_empty());
        let launches = [&kernels.launch.0, &columns.memcpys.launch.0, &columns.memsets.launch.0];
        hold(Capability::LaunchLinks, launches.into_iter().flatten().any(is_known));
        let nodes = kernels.graph_node.0.iter().chain(&kernels.graph_node_id.0);
        hold(Capability::GraphNodes, { nodes }.any(is_known));
        hold(Capability::LaunchSizes, kernels.blocks.0.iter().any(is_known));
        let occupancy = &kernels.occupancy_ratio.0;
        hold(Capability::KernelOccupancy, occupancy.iter().any(|ratio| !ratio.is_nan()));
        // A recording without copies lacks no directions.
        let kinds = &columns.memcpys.kind.0;
        let states_direction = |&kind: &StrId| columns.strings.get(kind) != UNKNOWN_COPY;
        let has_directions = kinds.is_empty() || kinds.iter().any(states_direction);
        hold(Capability::CopyDirections, self.has_device_work() && has_directions);
        // A device of which only the architecture is known has neither memory size nor SM count.
        let devices = &self.metadata.devices;
        let states_size =
            |d: &DeviceProperties| d.total_memory_bytes.is_some() || d.sm_count.is_some();
        hold(Capability::DeviceProperties, devices.iter().any(states_size));
        hold(Capability::ProcessorProperties, self.metadata.processor.is_some());
        hold(Capability::Steps, self.found.real_steps > 0);
        hold(Capability::ForwardBackwardLinks, ops.forward_op.0.iter().any(is_known));
        hold(Capability::CollectiveSizes, !columns.collectives.is_empty());
        hold(Capability::Counters, !columns.counters.is_empty());
        hold(Capability::HardwareCounters, !columns.profiler_ranges.is_empty());
        held
    }
}

/// Adds rows of `capabilities`.
pub(crate) fn push_capabilities(
    tables: &mut TableSet,
    held: impl IntoIterator<Item = (i32, Capability)>,
) {
    let mut strings = Strings::default();
    let mut rows = RecordedCapabilities::default();
    for (rank, capability) in held {
        rows.push(RecordedCapability { rank, capability: strings.intern(capability.as_str()) });
    }
    tables.push("capabilities", rows.into_batch(&strings));
}
