//! One entry a collective, whatever the trace says of it: the call of the framework (`c10d::allreduce_`),
//! the description (`record_param_comms`), the backend's range (`nccl:all_reduce`), and kernels.
//!
//! On one thread these lie inside each other. The description is the collective where there is one; else
//! the backend's range; else the framework's call. A kernel belongs to the call that launched it.

use std::collections::{BTreeMap, HashMap};

use super::names::{self, Tensors};

/// How an event of the host speaks of a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// `c10d::...`, `_c10d_functional::...`
    Framework,
    /// `record_param_comms`
    Description,
    /// `nccl:...`, `gloo:...`
    Backend,
}

impl Level {
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

/// An event of the host that speaks of a collective.
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

/// A kernel that communicates.
#[derive(Debug, Clone, Default)]
pub(super) struct KernelEvent<'a> {
    pub(super) event_id: i64,
    pub(super) name: &'a str,
    pub(super) ts_ns: i64,
    pub(super) dur_ns: i64,
    pub(super) device: Option<i64>,
    pub(super) stream: Option<i64>,
    pub(super) external_id: Option<i64>,
    /// Operator that launched it.
    pub(super) op: Option<i64>,
    pub(super) launch_ts_ns: Option<i64>,
    pub(super) step: Option<i64>,
}

/// What `record_param_comms` and kernels say in their arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Facts<'a> {
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

impl Facts<'_> {
    /// Takes over what it does not know.
    fn complete(&mut self, other: &Self) {
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
pub(super) struct Unit<'a> {
    /// The event it is known by: the host's, else the first kernel.
    pub(super) event_id: i64,
    pub(super) name: &'static str,
    pub(super) written: &'a str,
    pub(super) backend: Option<&'a str>,
    pub(super) facts: Facts<'a>,
    pub(super) tensors: Option<Tensors>,
    /// Start and duration of the call; of the launching call if that is all there is.
    pub(super) host: Option<(i64, Option<i64>)>,
    pub(super) thread: Option<i64>,
    pub(super) step: Option<i64>,
    pub(super) kernels: u32,
    pub(super) first_kernel: Option<i64>,
    pub(super) device: Option<i64>,
    pub(super) stream: Option<i64>,
    /// First start and last end of its kernels.
    pub(super) on_device: Option<(i64, i64)>,
    /// No backend's range and no kernel yet: it may only hand work to another thread.
    is_issue: bool,
}

impl Unit<'_> {
    /// When it ran: on the device, or on the host if that is where the backend works.
    pub(super) fn interval(&self) -> Option<(i64, i64)> {
        self.on_device.or_else(|| match self.host {
            Some((ts, Some(dur))) if self.backend.is_some_and(names::runs_on_host) => {
                Some((ts, ts.saturating_add(dur)))
            }
            _ => None,
        })
    }

    /// When the host asked for it, or it started.
    pub(super) fn start_ns(&self) -> i64 {
        self.host.map(|(ts, _)| ts).or(self.on_device.map(|(ts, _)| ts)).unwrap_or_default()
    }
}

/// The collectives of one rank, in order of start. `events` are in order of thread, start, and duration
/// downwards; `kernels` in order of start.
pub(super) fn units<'a>(
    events: &[HostEvent<'a>],
    kernels: &[KernelEvent<'a>],
    facts: &HashMap<i64, Facts<'a>>,
) -> Vec<Unit<'a>> {
    let mut found = Nest::new(facts).read(events);
    attach(&mut found, kernels, facts);
    let mut units = without_issues(found.units);
    // Waiting, starting a group: no collective, unless it launched something.
    units.retain(|unit| !unit.name.is_empty());
    units.sort_by_key(|unit| (unit.start_ns(), unit.event_id));
    units
}

/// Collectives found on the host, and which events and external ids mean which.
#[derive(Debug)]
struct Nest<'a, 'f> {
    facts: &'f HashMap<i64, Facts<'a>>,
    units: Vec<Unit<'a>>,
    of_event: HashMap<i64, usize>,
    of_external: HashMap<i64, Vec<usize>>,
    stack: Vec<Open>,
}

/// An event that has not ended yet.
#[derive(Debug, Clone, Copy)]
struct Open {
    event: usize,
    end_ns: i64,
    level: Level,
    /// The collective it is or lies in; for a call of the framework, the first one inside.
    unit: Option<usize>,
}

impl<'a, 'f> Nest<'a, 'f> {
    fn new(facts: &'f HashMap<i64, Facts<'a>>) -> Self {
        Self {
            facts,
            units: Vec::new(),
            of_event: HashMap::new(),
            of_external: HashMap::new(),
            stack: Vec::new(),
        }
    }

    fn read(mut self, events: &[HostEvent<'a>]) -> Self {
        let mut thread = None;
        for (at, event) in events.iter().enumerate() {
            if thread.replace(event.thread) != Some(event.thread) {
                self.close_until(None, events);
            }
            self.close_until(Some(event.ts_ns), events);
            self.open(at, event);
        }
        self.close_until(None, events);
        self
    }

    fn open(&mut self, at: usize, event: &HostEvent<'a>) {
        let level = Level::of(event.name);
        let within = self.stack.iter().rev().find(|open| open.level != Level::Framework);
        let unit = match (within.and_then(|open| open.unit), level) {
            (Some(unit), _) => {
                self.add_to(unit, event, level);
                Some(unit)
            }
            (None, Level::Framework) => None,
            (None, _) => Some(self.new_unit(event, level)),
        };
        if unit.is_some() {
            for open in &mut self.stack {
                open.unit = open.unit.or(unit);
            }
        }
        if let Some(unit) = unit {
            self.known_as(unit, event);
        }
        let end_ns = event.ts_ns.saturating_add(event.dur_ns);
        self.stack.push(Open { event: at, end_ns, level, unit });
    }

    /// Ends what has ended by then; everything without a time.
    fn close_until(&mut self, ts_ns: Option<i64>, events: &[HostEvent<'a>]) {
        while let Some(open) = self.stack.last().copied() {
            if ts_ns.is_some_and(|ts| open.end_ns > ts) {
                return;
            }
            self.stack.pop();
            let event = &events[open.event];
            let unit = match open.unit {
                Some(unit) => unit,
                None if names::collective(event.name).is_some() => {
                    let unit = self.new_unit(event, open.level);
                    for outer in &mut self.stack {
                        outer.unit = outer.unit.or(Some(unit));
                    }
                    unit
                }
                None => continue,
            };
            self.known_as(unit, event);
        }
    }

    fn new_unit(&mut self, event: &HostEvent<'a>, level: Level) -> usize {
        let facts = self.facts.get(&event.event_id).cloned().unwrap_or_default();
        let backend = names::backend(event.name).filter(|_| level == Level::Backend);
        let written = facts.name.unwrap_or(event.name);
        self.units.push(Unit {
            event_id: event.event_id,
            name: names::collective(written).unwrap_or_default(),
            written,
            backend,
            tensors: names::tensors(event.dims, event.types),
            facts,
            host: Some((event.ts_ns, Some(event.dur_ns))),
            thread: Some(event.thread),
            step: event.step,
            is_issue: level != Level::Backend,
            ..Unit::default()
        });
        self.units.len() - 1
    }

    /// An event inside a collective says more about it.
    fn add_to(&mut self, unit: usize, event: &HostEvent<'a>, level: Level) {
        let facts = self.facts.get(&event.event_id);
        let unit = &mut self.units[unit];
        if let Some(facts) = facts {
            unit.facts.complete(facts);
        }
        if level == Level::Backend {
            unit.is_issue = false;
            unit.backend = unit.backend.or(names::backend(event.name));
            if unit.facts.name.is_none() {
                unit.written = event.name;
            }
            if unit.name.is_empty() && unit.facts.name.is_none() {
                unit.name = names::collective(event.name).unwrap_or_default();
            }
            let tensors = names::tensors(event.dims, event.types);
            if tensors.is_some() {
                unit.tensors = tensors;
            }
        }
    }

    fn known_as(&mut self, unit: usize, event: &HostEvent<'a>) {
        self.of_event.entry(event.event_id).or_insert(unit);
        if let Some(id) = event.external_id {
            let units = self.of_external.entry(id).or_default();
            if units.last() != Some(&unit) {
                units.push(unit);
            }
        }
    }
}

/// Gives each kernel to the collective that launched it: by the launching operator, else by external id
/// (the last call before the kernel). A kernel of no call is a collective of its own.
fn attach<'a>(
    nest: &mut Nest<'a, '_>,
    kernels: &[KernelEvent<'a>],
    facts: &HashMap<i64, Facts<'a>>,
) {
    for kernel in kernels {
        let by_call = kernel.op.and_then(|op| nest.of_event.get(&op).copied());
        let by_id = || {
            let units = nest.of_external.get(&kernel.external_id?)?;
            let before = |unit: &&usize| nest.units[**unit].start_ns() <= kernel.ts_ns;
            units.iter().filter(before).max_by_key(|&&unit| nest.units[unit].start_ns()).copied()
        };
        let said = facts.get(&kernel.event_id);
        let unit = by_call.or_else(by_id).unwrap_or_else(|| {
            let written = said.and_then(|facts| facts.name).unwrap_or(kernel.name);
            nest.units.push(Unit {
                event_id: kernel.event_id,
                written,
                host: kernel.launch_ts_ns.map(|ts| (ts, None)),
                ..Unit::default()
            });
            nest.units.len() - 1
        });
        let unit = &mut nest.units[unit];
        if let Some(said) = said {
            unit.facts.complete(said);
        }
        if unit.name.is_empty() {
            let said = unit.facts.name.and_then(names::collective);
            unit.name = said.unwrap_or_else(|| names::of_kernel(kernel.name));
        }
        unit.is_issue = false;
        unit.backend = unit.backend.or(names::backend_of_kernel(kernel.name));
        unit.step = unit.step.or(kernel.step);
        unit.kernels += 1;
        unit.first_kernel = unit.first_kernel.or(Some(kernel.event_id));
        unit.device = unit.device.or(kernel.device);
        unit.stream = unit.stream.or(kernel.stream);
        let (start, end) = (kernel.ts_ns, kernel.ts_ns.saturating_add(kernel.dur_ns));
        let (first, last) = unit.on_device.unwrap_or((start, end));
        unit.on_device = Some((first.min(start), last.max(end)));
    }
}

/// With gloo, one thread asks for a collective and another runs it: the same collective twice. The one that
/// runs stays, and takes over what the other one knows if there are equally many of a kind.
fn without_issues(mut units: Vec<Unit<'_>>) -> Vec<Unit<'_>> {
    let mut kinds: BTreeMap<&'static str, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
    for (at, unit) in units.iter().enumerate() {
        let (issued, run) = kinds.entry(unit.name).or_default();
        if unit.is_issue {
            issued.push(at);
        } else if unit.backend.is_some_and(names::runs_on_host) {
            run.push(at);
        }
    }
    let mut drop = vec![false; units.len()];
    for (issued, run) in kinds.values_mut().filter(|(_, run)| !run.is_empty()) {
        issued.sort_by_key(|&at| units[at].start_ns());
        run.sort_by_key(|&at| units[at].start_ns());
        if issued.len() == run.len() {
            for (&from, &to) in issued.iter().zip(run.iter()) {
                let facts = units[from].facts.clone();
                units[to].facts.complete(&facts);
            }
        }
        for &at in issued.iter() {
            drop[at] = true;
        }
    }
    let mut at = 0;
    units.retain(|_| {
        at += 1;
        !drop[at - 1]
    });
    units
}
