//! The metrics of a trial as rows: samples are counters, timings are annotations and steps.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use trace_model::column::NULL_I64;
use trace_model::tables::{
    Annotation, Annotations, Counter, Counters, EventCount, EventCounts, Rank, Ranks, Thread,
    Threads,
};
use trace_model::{Capability, Source, StrId, Strings, TableSet, Warning};

use super::target::{Target, targets};
use super::timings::{self, Timing};
use super::trial::{Agent, Trial};
use crate::enrich::steps::Lookup;
use crate::run::attachment::RunBuilder;
use crate::run::clock::unaligned_clocks;
use crate::warnings::run_warning;

const NS_PER_S: f64 = 1e9;
/// Maximum duration of a timing: about 30 years.
const MAX_SECONDS: f64 = 1e9;

/// Adds the trial to the run. Without timelines, the first sample of the trial is zero on the run's clock.
pub(super) fn add_to(trial: &Trial, run: &mut RunBuilder) {
    let start_ns = trial.merged.samples.iter().map(|sample| sample.ts_ns).min().unwrap_or(0);
    if !run.has_timeline() {
        run.zero_ns = Some(start_ns);
    }
    run.has_clock = true;
    if run.zero_ns.is_none() {
        let message = "the traces do not state when they were recorded: times of Determined's metrics start at \
                       their own first sample";
        run.warnings.push(unaligned_clocks(String::new(), message));
    }
    let shift_ns = 0_i64.saturating_sub(run.zero_ns.unwrap_or(start_ns));
    run.info.sources.extend(trial.files.iter().map(|file| Source {
        file: file.name.clone(),
        format: "determined metrics".into(),
        is_timeline: false,
        rank: file.rank,
        rank_from: "agent order".into(),
        json_bytes: file.bytes,
        events: file.samples,
        shift_ns,
    }));
    let mut rows = Rows {
        shift_ns,
        strings: trial.merged.strings.clone(),
        targets: targets(trial.agents.iter().map(|agent| agent.rank), run),
        trial,
    };
    run.capabilities
        .extend(trial.agents.iter().map(|agent| (agent.rank, Capability::MachineMetrics)));
    rows.add_timings(run);
    rows.add_samples(&mut run.tables);
    rows.add_ranks(run);
}

/// Rows of a trial under construction.
struct Rows<'t> {
    trial: &'t Trial,
    shift_ns: i64,
    strings: Strings,
    targets: BTreeMap<i32, Target>,
}

impl Rows<'_> {
    fn add_timings(&mut self, run: &mut RunBuilder) {
        let mut annotations = Annotations::default();
        let mut threads = Threads::default();
        let mut repeated = 0;
        let by_agent = self.timings(&mut run.warnings);
        for (agent, timings) in self.trial.agents.iter().zip(&by_agent) {
            if timings.is_empty() {
                continue;
            }
            let Some(target) = self.targets.get_mut(&agent.rank) else { continue };
            let thread = target.next_thread;
            target.next_thread += 1;
            threads.push(Thread {
                rank: agent.rank,
                thread,
                process_name: self.strings.intern(&format!("Determined {}", self.trial.name())),
                thread_name: agent.name,
                ..Thread::null_row()
            });
            if target.steps.is_empty() && !target.is_known {
                let (found, again) = timings::steps(timings, &self.trial.merged.strings);
                repeated += again;
                let first = target.next_event;
                let lane = (agent.rank, thread);
                let (steps, strings) = timings::rows(&found, lane, first, self.shift_ns);
                run.info.steps = run.info.steps.max(steps.len());
                target.steps = steps.clone();
                run.tables.push("steps", steps.into_batch(&strings));
            }
            add_annotations(
                &mut annotations,
                self.trial,
                agent,
                timings,
                (thread, self.shift_ns),
                target,
            );
        }
        run.tables.push("threads", threads.into_batch(&self.strings));
        run.tables.push("annotations", annotations.into_batch(&self.strings));
        if repeated > 0 {
            let message = "batches with the number of an earlier batch were ignored";
            let warning = run_warning("repeated-batch", String::new(), message.to_owned());
            run.warnings.push(Warning { count: repeated, ..warning });
        }
    }

    /// The timings of each agent, in order.
    fn timings(&self, warnings: &mut Vec<Warning>) -> Vec<Vec<Timing>> {
        let Trial { merged, agents, .. } = self.trial;
        let numbers: FxHashMap<StrId, usize> =
            agents.iter().enumerate().map(|(i, agent)| (agent.name, i)).collect();
        let mut by_agent = vec![Vec::new(); agents.len()];
        let mut bad = 0;
        for sample in &merged.samples {
            let series = merged.series[sample.series as usize];
            if !series.is_timing {
                continue;
            }
            if !(0.0..=MAX_SECONDS).contains(&sample.value) {
                bad += 1;
                continue;
            }
            by_agent[numbers[&series.agent]].push(Timing {
                name: series.name,
                ts_ns: sample.ts_ns,
                dur_ns: (sample.value * NS_PER_S).round() as i64,
                batch: sample.batch,
            });
        }
        if bad > 0 {
            let message = "timings that are negative or longer than 30 years were dropped";
            let warning = run_warning("bad-timing", String::new(), message.to_owned());
            warnings.push(Warning { count: bad, ..warning });
        }
        for timings in &mut by_agent {
            timings::sort(timings);
        }
        by_agent
    }

    fn add_samples(&mut self, tables: &mut TableSet) {
        let merged = &self.trial.merged;
        let ranks: FxHashMap<StrId, i32> =
            self.trial.agents.iter().map(|agent| (agent.name, agent.rank)).collect();
        let mut counters = Counters::default();
        for sample in &merged.samples {
            let series = merged.series[sample.series as usize];
            let rank = ranks[&series.agent];
            let (false, Some(target)) = (series.is_timing, self.targets.get_mut(&rank)) else {
                continue;
            };
            let ts_ns = sample.ts_ns.saturating_add(self.shift_ns);
            target.saw(ts_ns, ts_ns);
            let (metric, unit) = series.metric.map_or((StrId::NULL, StrId::NULL), |metric| {
                (self.strings.intern(metric.name), self.strings.intern(metric.unit))
            });
            counters.push(Counter {
                rank,
                event_id: target.next_event,
                ts_ns,
                name: series.name,
                metric,
                unit,
                agent: series.agent,
                device: series.device,
                batch: sample.batch,
                value: sample.value,
                ..Counter::null_row()
            });
            target.next_event += 1;
            target.samples += 1;
        }
        tables.push("counters", counters.into_batch(&self.strings));
    }

    /// Rows of `ranks` where no trace makes them, and of `event_counts`.
    fn add_ranks(&mut self, run: &mut RunBuilder) {
        let has_timeline = run.has_timeline();
        let mut ranks = Ranks::default();
        let mut counts = EventCounts::default();
        let file = self.trial.files.first().map_or("", |file| file.name.as_str());
        let file = self.strings.intern(file);
        let single = self.targets.len() == 1;
        for (&rank, target) in &self.targets {
            for (category, stored_in, event_count) in
                [("timing", "annotations", target.timings), ("sample", "counters", target.samples)]
            {
                if event_count > 0 {
                    let category = format!("{category} of {}", self.trial.name());
                    counts.push(EventCount {
                        rank,
                        file,
                        phase: StrId::NULL,
                        category: self.strings.intern(&category),
                        stored_in: self.strings.intern(stored_in),
                        event_count,
                    });
                }
            }
            let (start_ns, end_ns) = target.extent.unwrap_or((0, 0));
            if !has_timeline {
                run.info.wall_ns = run.info.wall_ns.max(end_ns);
            }
            if target.is_known {
                continue;
            }
            run.info.ranks.push(rank);
            ranks.push(Rank {
                rank,
                file,
                start_ns,
                end_ns,
                base_time_ns: run.zero_ns.unwrap_or(NULL_I64),
                clock: self.strings.intern(if single { "single" } else { "absolute" }),
                event_count: target.next_event,
                ..Rank::null_row()
            });
        }
        run.tables.push("ranks", ranks.into_batch(&self.strings));
        run.tables.push("event_counts", counts.into_batch(&self.strings));
    }
}

/// Timings of one agent as annotations.
fn add_annotations(
    annotations: &mut Annotations,
    trial: &Trial,
    agent: &Agent,
    timings: &[Timing],
    (thread, shift_ns): (i32, i64),
    target: &mut Target,
) {
    let steps = Lookup::new(&target.steps);
    let first = target.next_event;
    let number = |number: i64| {
        if number == NULL_I64 { "null".to_owned() } else { number.to_string() }
    };
    let agent_name = serde_json::Value::from(trial.merged.strings.get(agent.name)).to_string();
    let fixed = format!("{{\"trial\":{},\"agent\":{agent_name},\"batch\":", number(trial.number));
    for (i, (timing, place)) in timings.iter().zip(timings::nest(timings)).enumerate() {
        let ts_ns = timing.ts_ns.saturating_add(shift_ns);
        target.saw(ts_ns, ts_ns.saturating_add(timing.dur_ns));
        annotations.push(Annotation {
            rank: agent.rank,
            event_id: first + i as i64,
            name: timing.name,
            ts_ns,
            dur_ns: timing.dur_ns,
            self_dur_ns: place.self_dur_ns,
            thread,
            parent: place.parent.map_or(NULL_I64, |parent| first + parent as i64),
            depth: place.depth,
            step: steps.at(ts_ns),
            ..Annotation::null_row()
        });
        annotations.args.extend_last(&fixed);
        annotations.args.extend_last(&number(timing.batch));
        annotations.args.extend_last("}");
    }
    target.next_event += timings.len() as i64;
    target.timings += timings.len() as i64;
}
