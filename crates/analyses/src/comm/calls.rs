//! Merges all events of one collective into one call: the framework call (`c10d::allreduce_`), the description
//! (`record_param_comms`), the backend range (`nccl:all_reduce`), and the kernels.
//!
//! On a thread these events nest. The call takes its identity from the description if there is one, else from the
//! backend range, else from the framework call. A kernel belongs to the call that launched it.

use std::collections::{BTreeMap, HashMap};

use super::argument_text::{TensorSizes, tensor_sizes};
use crate::vocabulary;

/// The layer of software that recorded a host event of a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostEventLayer {
    /// `c10d::...`, `_c10d_functional::...`
    Framework,
    /// `record_param_comms`
    Description,
    /// `nccl:...`, `gloo:...`
    Backend,
}

impl HostEventLayer {
    pub(super) fn of(name: &str) -> Self {
        if name == "record_param_comms" {
            Self::Description
        } else if name.contains("c10d") && name.contains("::") {
            Self::Framework
        } else {
            Self::Backend
        }
    }
}

/// A host event of a collective.
#[derive(Debug, Clone, Default)]
pub(super) struct HostEvent<'a> {
    pub(super) event_id: i64,
    pub(super) name: &'a str,
    pub(super) thread: i64,
    pub(super) ts_ns: i64,
    pub(super) dur_ns: i64,
    pub(super) external_id: Option<i64>,
    pub(super) step: Option<i64>,
    pub(super) dims: &'a str,
    pub(super) types: &'a str,
}

/// A communication kernel.
#[derive(Debug, Clone, Default)]
pub(super) struct KernelEvent<'a> {
    pub(super) event_id: i64,
    pub(super) name: &'a str,
    pub(super) ts_ns: i64,
    pub(super) dur_ns: i64,
    pub(super) device: Option<i64>,
    pub(super) stream: Option<i64>,
    pub(super) external_id: Option<i64>,
    /// Operator that launched the kernel.
    pub(super) op: Option<i64>,
    pub(super) launch_ts_ns: Option<i64>,
    pub(super) step: Option<i64>,
}

/// Arguments of `record_param_comms` and of communication kernels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CollectiveMetadata<'a> {
    pub(super) name: Option<&'a str>,
    pub(super) group_name: Option<&'a str>,
    pub(super) group_description: Option<&'a str>,
    pub(super) group_ranks: Option<&'a str>,
    pub(super) group_size: Option<i64>,
    pub(super) dtype: Option<&'a str>,
    pub(super) input_elements: Option<i64>,
    pub(super) output_elements: Option<i64>,
    pub(super) sequence: Option<i64>,
}

impl CollectiveMetadata<'_> {
    /// Fills missing fields from `other`.
    fn fill_from(&mut self, other: &Self) {
        self.name = self.name.or(other.name);
        self.group_name = self.group_name.or(other.group_name);
        self.group_description = self.group_description.or(other.group_description);
        self.group_ranks = self.group_ranks.or(other.group_ranks);
        self.group_size = self.group_size.or(other.group_size);
        self.dtype = self.dtype.or(other.dtype);
        self.input_elements = self.input_elements.or(other.input_elements);
        self.output_elements = self.output_elements.or(other.output_elements);
        self.sequence = self.sequence.or(other.sequence);
    }
}

/// One collective on one rank.
#[derive(Debug, Clone, Default)]
pub(super) struct CollectiveCall<'a> {
    /// Event that identifies the call: the host event, else the first kernel.
    pub(super) event_id: i64,
    pub(super) name: &'static str,
    pub(super) written: &'a str,
    pub(super) backend: Option<&'a str>,
    pub(super) metadata: CollectiveMetadata<'a>,
    pub(super) tensor_sizes: Option<TensorSizes>,
    /// Start and duration of the host call; only the start if nothing but the launching call is known.
    pub(super) host: Option<(i64, Option<i64>)>,
    pub(super) thread: Option<i64>,
    pub(super) step: Option<i64>,
    pub(super) kernel_count: u32,
    pub(super) first_kernel: Option<i64>,
    pub(super) device: Option<i64>,
    pub(super) stream: Option<i64>,
    /// First start and last end of its kernels.
    pub(super) device_interval: Option<(i64, i64)>,
    /// Neither a backend range nor a kernel has been found yet: the call may only hand work to another thread.
    is_enqueue_only: bool,
}

impl CollectiveCall<'_> {
    /// The interval in which it ran: on the device, or on the host if the backend works there.
    pub(super) fn interval(&self) -> Option<(i64, i64)> {
        self.device_interval.or_else(|| match self.host {
            Some((ts, Some(dur)))
                if self.backend.is_some_and(trace_model::vocabulary::runs_on_host) =>
            {
                Some((ts, ts.saturating_add(dur)))
            }
            _ => None,
        })
    }

    /// Start of the host call, else of the device work.
    pub(super) fn start_ns(&self) -> i64 {
        self.host.map(|(ts, _)| ts).or(self.device_interval.map(|(ts, _)| ts)).unwrap_or_default()
    }
}

/// The collectives of one rank, by start. `events` are sorted by thread, start, and descending duration; `kernels` by
/// start.
pub(super) fn collective_calls<'a>(
    events: &[HostEvent<'a>],
    kernels: &[KernelEvent<'a>],
    metadata: &HashMap<i64, CollectiveMetadata<'a>>,
) -> Vec<CollectiveCall<'a>> {
    let mut found = CallNesting::new(metadata).add_events(events);
    attach_kernels(&mut found, kernels, metadata);
    let mut calls = drop_enqueue_duplicates(found.calls);
    // Calls without a name (waiting, starting a group) are not collectives, unless they launched something.
    calls.retain(|call| !call.name.is_empty());
    calls.sort_by_key(|call| (call.start_ns(), call.event_id));
    calls
}

/// Calls found on the host, with an index by event and by external id.
#[derive(Debug)]
struct CallNesting<'a, 'f> {
    metadata: &'f HashMap<i64, CollectiveMetadata<'a>>,
    calls: Vec<CollectiveCall<'a>>,
    call_by_event: HashMap<i64, usize>,
    calls_by_external_id: HashMap<i64, Vec<usize>>,
    stack: Vec<OpenEvent>,
}

/// An event that has not ended yet.
#[derive(Debug, Clone, Copy)]
struct OpenEvent {
    event: usize,
    end_ns: i64,
    layer: HostEventLayer,
    /// The call that the event belongs to; for a framework call, the first one inside it.
    call: Option<usize>,
}

impl<'a, 'f> CallNesting<'a, 'f> {
    fn new(metadata: &'f HashMap<i64, CollectiveMetadata<'a>>) -> Self {
        Self {
            metadata,
            calls: Vec::new(),
            call_by_event: HashMap::new(),
            calls_by_external_id: HashMap::new(),
            stack: Vec::new(),
        }
    }

    fn add_events(mut self, events: &[HostEvent<'a>]) -> Self {
        let mut thread = None;
        for (at, event) in events.iter().enumerate() {
            if thread.replace(event.thread) != Some(event.thread) {
                self.close_events_until(None, events);
            }
            self.close_events_until(Some(event.ts_ns), events);
            self.open(at, event);
        }
        self.close_events_until(None, events);
        self
    }

    fn open(&mut self, at: usize, event: &HostEvent<'a>) {
        let layer = HostEventLayer::of(event.name);
        let within = self.stack.iter().rev().find(|open| open.layer != HostEventLayer::Framework);
        let call = match (within.and_then(|open| open.call), layer) {
            (Some(call), _) => {
                self.merge_event(call, event, layer);
                Some(call)
            }
            (None, HostEventLayer::Framework) => None,
            (None, _) => Some(self.add_call(event, layer)),
        };
        if call.is_some() {
            for open in &mut self.stack {
                open.call = open.call.or(call);
            }
        }
        if let Some(call) = call {
            self.index_event(call, event);
        }
        let end_ns = event.ts_ns.saturating_add(event.dur_ns);
        self.stack.push(OpenEvent { event: at, end_ns, layer, call });
    }

    /// Closes events that end by `ts_ns`, or all events if it is `None`.
    fn close_events_until(&mut self, ts_ns: Option<i64>, events: &[HostEvent<'a>]) {
        while let Some(open) = self.stack.last().copied() {
            if ts_ns.is_some_and(|ts| open.end_ns > ts) {
                return;
            }
            self.stack.pop();
            let event = &events[open.event];
            let call = match open.call {
                Some(call) => call,
                None if vocabulary::collective_name(event.name).is_some() => {
                    let call = self.add_call(event, open.layer);
                    for outer in &mut self.stack {
                        outer.call = outer.call.or(Some(call));
                    }
                    call
                }
                None => continue,
            };
            self.index_event(call, event);
        }
    }

    fn add_call(&mut self, event: &HostEvent<'a>, layer: HostEventLayer) -> usize {
        let metadata = self.metadata.get(&event.event_id).cloned().unwrap_or_default();
        let backend = vocabulary::backend(event.name).filter(|_| layer == HostEventLayer::Backend);
        let written = metadata.name.unwrap_or(event.name);
        self.calls.push(CollectiveCall {
            event_id: event.event_id,
            name: vocabulary::collective_name(written).unwrap_or_default(),
            written,
            backend,
            tensor_sizes: tensor_sizes(event.dims, event.types),
            metadata,
            host: Some((event.ts_ns, Some(event.dur_ns))),
            thread: Some(event.thread),
            step: event.step,
            is_enqueue_only: layer != HostEventLayer::Backend,
            ..CollectiveCall::default()
        });
        self.calls.len() - 1
    }

    /// Adds what an event inside a call knows about it.
    fn merge_event(&mut self, call: usize, event: &HostEvent<'a>, layer: HostEventLayer) {
        let metadata = self.metadata.get(&event.event_id);
        let call = &mut self.calls[call];
        if let Some(metadata) = metadata {
            call.metadata.fill_from(metadata);
        }
        if layer == HostEventLayer::Backend {
            call.is_enqueue_only = false;
            call.backend = call.backend.or(vocabulary::backend(event.name));
            if call.metadata.name.is_none() {
                call.written = event.name;
            }
            if call.name.is_empty() && call.metadata.name.is_none() {
                call.name = vocabulary::collective_name(event.name).unwrap_or_default();
            }
            let tensor_sizes = tensor_sizes(event.dims, event.types);
            if tensor_sizes.is_some() {
                call.tensor_sizes = tensor_sizes;
            }
        }
    }

    fn index_event(&mut self, call: usize, event: &HostEvent<'a>) {
        self.call_by_event.entry(event.event_id).or_insert(call);
        if let Some(id) = event.external_id {
            let calls = self.calls_by_external_id.entry(id).or_default();
            if calls.last() != Some(&call) {
                calls.push(call);
            }
        }
    }
}

/// Attaches each kernel to the call that launched it: by the launching operator, else by external id (the last call
/// before the kernel). A kernel without a call becomes a call of its own.
fn attach_kernels<'a>(
    nest: &mut CallNesting<'a, '_>,
    kernels: &[KernelEvent<'a>],
    metadata: &HashMap<i64, CollectiveMetadata<'a>>,
) {
    for kernel in kernels {
        let by_operator = kernel.op.and_then(|op| nest.call_by_event.get(&op).copied());
        let by_id = || {
            let calls = nest.calls_by_external_id.get(&kernel.external_id?)?;
            let before = |call: &&usize| nest.calls[**call].start_ns() <= kernel.ts_ns;
            calls.iter().filter(before).max_by_key(|&&call| nest.calls[call].start_ns()).copied()
        };
        let stated = metadata.get(&kernel.event_id);
        let call = by_operator.or_else(by_id).unwrap_or_else(|| {
            let written = stated.and_then(|metadata| metadata.name).unwrap_or(kernel.name);
            nest.calls.push(CollectiveCall {
                event_id: kernel.event_id,
                written,
                host: kernel.launch_ts_ns.map(|ts| (ts, None)),
                ..CollectiveCall::default()
            });
            nest.calls.len() - 1
        });
        let call = &mut nest.calls[call];
        if let Some(stated) = stated {
            call.metadata.fill_from(stated);
        }
        if call.name.is_empty() {
            let stated = call.metadata.name.and_then(vocabulary::collective_name);
            call.name = stated.unwrap_or_else(|| vocabulary::kernel_collective(kernel.name));
        }
        call.is_enqueue_only = false;
        call.backend = call.backend.or(vocabulary::backend_of_kernel(kernel.name));
        call.step = call.step.or(kernel.step);
        call.kernel_count += 1;
        call.first_kernel = call.first_kernel.or(Some(kernel.event_id));
        call.device = call.device.or(kernel.device);
        call.stream = call.stream.or(kernel.stream);
        let (start, end) = (kernel.ts_ns, kernel.ts_ns.saturating_add(kernel.dur_ns));
        let (first, last) = call.device_interval.unwrap_or((start, end));
        call.device_interval = Some((first.min(start), last.max(end)));
    }
}

/// With gloo, one thread enqueues a collective and another runs it, so that it is recorded twice. Keeps the call that
/// runs, and gives it the metadata of the other if there are equally many of both.
fn drop_enqueue_duplicates(mut calls: Vec<CollectiveCall<'_>>) -> Vec<CollectiveCall<'_>> {
    let mut kinds: BTreeMap<&'static str, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
    for (at, call) in calls.iter().enumerate() {
        let (enqueued, run) = kinds.entry(call.name).or_default();
        if call.is_enqueue_only {
            enqueued.push(at);
        } else if call.backend.is_some_and(trace_model::vocabulary::runs_on_host) {
            run.push(at);
        }
    }
    let mut drop = vec![false; calls.len()];
    for (enqueued, run) in kinds.values_mut().filter(|(_, run)| !run.is_empty()) {
        enqueued.sort_by_key(|&at| calls[at].start_ns());
        run.sort_by_key(|&at| calls[at].start_ns());
        if enqueued.len() == run.len() {
            for (&from, &to) in enqueued.iter().zip(run.iter()) {
                let metadata = calls[from].metadata.clone();
                calls[to].metadata.fill_from(&metadata);
            }
        }
        for &at in enqueued.iter() {
            drop[at] = true;
        }
    }
    let mut at = 0;
    calls.retain(|_| {
        at += 1;
        !drop[at - 1]
    });
    calls
}
