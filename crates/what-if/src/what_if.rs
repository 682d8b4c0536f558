//! Re-times the graph with other weights to predict the duration of a run in which parts of the work cost less.

use super::graph::{EdgeKind, Graph};
use rustc_hash::FxHashMap;

use super::model::{Activity, CountedSteps, RankEvents, TimeClass};
use super::replay::{Replay, Weights, replay};

/// Factor for the duration of each class of time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scenario([f64; TimeClass::COUNT]);

/// Built-in scenarios: name and factors.
pub(crate) const BUILT_IN_SCENARIOS: &[(&str, &str)] = &[
    ("data_loading_free", "data_loading=0"),
    ("launch_delay_zero", "launch_delay=0"),
    ("communication_free", "communication=0"),
    ("communication_2x_faster", "communication=0.5"),
    ("copies_free", "copy=0"),
    ("host_2x_faster", "host=0.5"),
    ("kernels_2x_faster", "kernel=0.5"),
    ("sync_free", "sync=0"),
];

/// Larger factors say nothing useful about this run.
const MAX_FACTOR: f64 = 1_000.0;

impl Scenario {
    /// Changes nothing.
    pub(crate) const UNCHANGED: Self = Self([1.0; TimeClass::COUNT]);

    /// Parses `host=0.5,communication=0`; later factors override earlier ones. The error is a sentence.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut scenario = Self::UNCHANGED;
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let Some((name, value)) = part.split_once('=') else {
                return Err(format!(
                    "what_if: `{part}` is not of the form class=factor, such as host=0.5"
                ));
            };
            let (name, value) = (name.trim(), value.trim());
            let factor = value.parse().ok().filter(|f| (0.0..=MAX_FACTOR).contains(f));
            let Some(factor) = factor else {
                return Err(format!(
                    "what_if: the factor of {name} must be a number from 0 to {MAX_FACTOR}, not `{value}`"
                ));
            };
            let mut known = false;
            for class in TimeClass::ALL {
                if class.bound_by() == name || class.host_kind() == Some(name) {
                    scenario.0[class as usize] = factor;
                    known = true;
                }
            }
            if !known {
                return Err(format!(
                    "what_if: there is no class `{name}`; classes are {}",
                    class_names()
                ));
            }
        }
        Ok(scenario)
    }

    #[expect(clippy::float_cmp, reason = "times stay exact where nothing changes")]
    fn scaled(&self, class: TimeClass, ns: i64) -> i64 {
        let factor = self.0[class as usize];
        if factor == 1.0 { ns } else { (ns as f64 * factor).round() as i64 }
    }

    /// Returns whether no factor is above 1.
    fn only_shortens(&self) -> bool {
        self.0.iter().all(|&factor| factor <= 1.0)
    }

    /// Returns whether waits for the device are removed, not only their overhead.
    fn removes_waits(&self) -> bool {
        self.0[TimeClass::Sync as usize] == 0.0
    }
}

/// The prediction of one scenario for one rank.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Prediction {
    pub(crate) scenario: String,
    pub(crate) factors: String,
    pub(crate) window_ns: i64,
    pub(crate) predicted_window_ns: i64,
    pub(crate) step_count: usize,
    /// Mean length of a step.
    pub(crate) step_ns: Option<f64>,
    pub(crate) predicted_step_ns: Option<f64>,
}

/// Predicts the durations under a scenario.
pub(crate) fn predict(
    graph: &Graph,
    clock: &StepClock,
    name: &str,
    text: &str,
    scenario: &Scenario,
) -> Prediction {
    let (times, end_ns) = replay_times(graph, scenario);
    let step_ns = clock.mean(|node| graph.nodes[node as usize].ts_ns);
    let predicted_step_ns = clock.mean(|node| times[node as usize]);
    Prediction {
        scenario: name.to_owned(),
        factors: text.to_owned(),
        window_ns: graph.window.end_ns - graph.window.begin_ns,
        predicted_window_ns: end_ns - graph.window.begin_ns,
        step_count: clock.count(),
        step_ns,
        // What ends earlier before the steps does not make them longer. A factor above 1 does.
        predicted_step_ns: if scenario.only_shortens() {
            predicted_step_ns.zip(step_ns).map(|(predicted, recorded)| predicted.min(recorded))
        } else {
            predicted_step_ns
        },
    }
}

/// Names of the classes that factors can have.
fn class_names() -> String {
    let mut names: Vec<&str> = Vec::new();
    for class in TimeClass::ALL {
        for name in [Some(class.bound_by()), class.host_kind()].into_iter().flatten() {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names.join(", ")
}

/// The time of each node under a scenario, and the end of the window.
pub(crate) fn replay_times(graph: &Graph, scenario: &Scenario) -> (Vec<i64>, i64) {
    let mut weights = Weights::recorded(graph);
    weights.scale(graph, |class, ns| scenario.scaled(class, ns));
    if scenario.removes_waits() {
        for (at, _) in graph.edges.iter().enumerate().filter(|(_, e)| e.kind == EdgeKind::Sync) {
            weights.remove_edge(at);
        }
    }
    let Replay { times, end_ns } = replay(graph, &weights);
    (times, end_ns)
}

/// The mean step under given times. As recorded, it is the mean of the steps that count, see `complete_steps`.
#[derive(Debug)]
pub(crate) struct StepClock {
    /// Node that begins the steps of the mean: the mark of the first, or the end of the mark before it.
    begin_node: Option<u32>,
    /// Nodes of which the last one ends the device work of earlier steps that the first step of the mean finds, if there is any.
    earlier_work: Vec<u32>,
    /// Nodes between which the main thread waits when that work ends.
    wait_for_earlier: Option<(u32, u32)>,
    /// The end nodes of each step of the mean: the end of its mark first, then the ends of its device activities. The latest of
    /// them ends the step.
    ends: Vec<Vec<u32>>,
    /// Number of steps in the window.
    window_step_count: usize,
    counted: CountedSteps,
    /// Time of the host beyond the steps as recorded: the devices worked off what the host had launched before.
    host_lead_ns: i64,
    /// Mean of all steps that count over the mean of those in the window.
    scale: f64,
}

impl StepClock {
    pub(crate) fn new(graph: &Graph, events: &RankEvents) -> Self {
        let recorded = |node: u32| graph.nodes[node as usize].ts_ns;
        let host_node = |lane: Option<i32>, ts_ns: i64| {
            let timeline = lane.and_then(|lane| graph.host.timeline(lane))?;
            graph.host_node(timeline, ts_ns)
        };
        let mut ends: Vec<Vec<u32>> = Vec::new();
        let mut counted_ns: Vec<Option<i64>> = Vec::new();
        let mut begin_node = None;
        let mut numbers: Vec<(i64, usize)> = Vec::new();
        for step in &events.steps {
            let nodes = (host_node(step.lane, step.ts_ns), host_node(step.lane, step.end_ns));
            let (Some(first), Some(last)) = nodes else { continue };
            begin_node = begin_node.or(Some(first));
            numbers.push((step.number, ends.len()));
            ends.push(vec![last]);
            counted_ns.push(step.counted_ns);
        }
        numbers.sort_unstable();
        for (activity, &node) in events.activities.iter().zip(&graph.activity_ends) {
            let Some(number) = activity.step else { continue };
            if let Ok(at) = numbers.binary_search_by_key(&number, |&(number, _)| number) {
                ends[numbers[at].1].push(node);
            }
        }
        let window_step_count = ends.len();
        let mut earlier_work: Vec<u32> =
            earlier_work(graph, events, &numbers).into_iter().collect();
        // Steps between those that count are part of the stretch.
        let first = counted_ns.iter().position(Option::is_some).unwrap_or(0);
        let end = counted_ns.iter().rposition(Option::is_some).map_or(ends.len(), |last| last + 1);
        if first > 0 {
            begin_node = ends[first - 1].first().copied();
            let activities = ends[..first].iter().filter_map(|nodes| nodes.get(1..));
            earlier_work.extend(activities.flatten());
        }
        let earlier_ns = earlier_work.iter().map(|&node| recorded(node)).max();
        let wait_for_earlier = earlier_ns.and_then(|ended_ns| {
            let main = graph.host.main?;
            let waits = &graph.host.waits[main];
            let next = waits.partition_point(|&(begin_ns, _)| begin_ns < ended_ns);
            let &(begin_ns, end_ns) = waits.get(next.checked_sub(1)?)?;
            let nodes = (graph.host_node(main, begin_ns)?, graph.host_node(main, end_ns)?);
            (end_ns > ended_ns).then_some(nodes)
        });
        ends.truncate(end);
        ends.drain(..first);
        let counted = events.counted;
        let mut clock = Self {
            begin_node,
            earlier_work,
            wait_for_earlier,
            ends,
            window_step_count,
            counted,
            host_lead_ns: 0,
            scale: 1.0,
        };
        if counted.count > 0 {
            let steps_ns: i64 = counted_ns[first..end].iter().flatten().sum();
            let host_ns = clock.spans_ns(recorded).map_or(0, |[host_ns, _]| host_ns);
            clock.host_lead_ns = (host_ns - steps_ns).max(0);
            if let Some(own_ns) = clock.mean(recorded).filter(|ns| *ns > 0.0) {
                clock.scale = counted.mean_ns / own_ns;
            }
        }
        clock
    }

    /// Number of steps that the mean is of.
    pub(crate) fn count(&self) -> usize {
        if self.counted.count > 0 && !self.ends.is_empty() {
            self.counted.count
        } else {
            self.ends.len()
        }
    }

    /// Number of steps in the window.
    pub(crate) fn window_step_count(&self) -> usize {
        self.window_step_count
    }

    /// The time from which devices work on the steps of the mean: the end of earlier work, if there is any.
    pub(crate) fn devices_begin_ns(&self, graph: &Graph) -> i64 {
        let nodes = self.begin_node.iter().chain(&self.earlier_work);
        let begin_ns = nodes.map(|&node| graph.nodes[node as usize].ts_ns).max();
        begin_ns.unwrap_or(graph.window.begin_ns)
    }

    /// The mean step, if there are steps: the longer of the mean on the host and the mean on the devices. In a long run both are
    /// equal; in a short recording the side that is ahead seems to be faster. Where no node comes later, the mean does not grow.
    pub(crate) fn mean(&self, time: impl Fn(u32) -> i64) -> Option<f64> {
        let [host_ns, devices_ns] = self.spans_ns(time)?;
        let longest_ns = (host_ns - self.host_lead_ns).max(devices_ns).max(0);
        Some(self.scale * longest_ns as f64 / self.ends.len() as f64)
    }

    /// How long the steps of the mean last, all together: on the host, from the first mark to the end of the last without waiting
    /// for earlier work, and on the devices, from the end of earlier work to the end of all.
    fn spans_ns(&self, time: impl Fn(u32) -> i64) -> Option<[i64; 2]> {
        let begin_ns = time(self.begin_node?);
        let host_ns = self.ends.iter().filter_map(|nodes| nodes.first()).map(|&node| time(node));
        let host_end_ns = host_ns.max()?;
        let mut host_ns = host_end_ns - begin_ns;
        let earlier_ns = self.earlier_work.iter().map(|&node| time(node)).max();
        if let (Some((from, to)), Some(earlier_ns)) = (self.wait_for_earlier, earlier_ns) {
            let until_ns = time(to).min(earlier_ns).min(host_end_ns);
            host_ns -= (until_ns - time(from).max(begin_ns)).max(0);
        }
        let devices_begin_ns = earlier_ns.map_or(begin_ns, |ns| ns.max(begin_ns));
        let done_ns = self.ends.iter().flatten().map(|&node| time(node)).max()?;
        Some([host_ns, done_ns - devices_begin_ns])
    }
}

/// The end of the last activity that runs before the first of the steps on its stream.
fn earlier_work(graph: &Graph, events: &RankEvents, steps: &[(i64, usize)]) -> Option<u32> {
    let is_own = |a: &Activity| {
        let is_known = |step: i64| steps.binary_search_by_key(&step, |&(number, _)| number).is_ok();
        a.launch.is_some() && a.step.is_some_and(is_known)
    };
    let mut first_own: FxHashMap<(i32, i32), i64> = FxHashMap::default();
    for a in events.activities.iter().filter(|a| is_own(a)) {
        let first_ns = first_own.entry((a.device, a.stream)).or_insert(a.ts_ns);
        *first_ns = a.ts_ns.min(*first_ns);
    }
    let is_earlier = |a: &Activity| {
        !is_own(a) && first_own.get(&(a.device, a.stream)).is_some_and(|&first| a.ts_ns < first)
    };
    let earlier = events.activities.iter().zip(&graph.activity_ends).filter(|(a, _)| is_earlier(a));
    earlier.max_by_key(|(a, _)| a.end_ns).map(|(_, &node)| node)
}
