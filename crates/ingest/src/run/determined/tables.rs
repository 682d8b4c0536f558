//! The metrics of a trial as rows: samples are counters, timings are annotations and steps.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use trace_model::column::NULL_I64;
use trace_model::tables::{
    Annotation, Annotations, Counter, Counters, EventCount, EventCounts, Rank, Ranks, Thread,
    Threads,
};
use trace_model::{RunInfo, Source, StrId, Strings, TableSet, Warning};

use super::target::{Target, targets};
use super::timings::{self, Timing};
use super::{Agent, Trial};
use crate::enrich::steps::Lookup;
use crate::run::run_warning;

const NS_PER_S: f64 = 1e9;
/// No part of a batch takes 30 years.
const MAX_SECONDS: f64 = 1e9;

/// Turns the trial into tables. `zero_ns` is the absolute time of zero on the run's clock where traces tell it;
/// without traces the trial's first moment is zero. Returns what it is.
pub(crate) fn into_tables(
    trial: &Trial,
    has_timeline: bool,
    zero_ns: Option<i64>,
    info: &mut RunInfo,
    tables: &mut TableSet,
    warnings: &mut Vec<Warning>,
) -> Option<i64> {
    let start_ns = trial.merged.samples.iter().map(|sample| sample.ts_ns).min().unwrap_or(0);
    let zero_ns = if has_timeline { zero_ns } else { Some(start_ns) };
    if zero_ns.is_none() {
        let message = "the traces do not say when they were recorded: times of Determined's metrics begin \
                       at their own first sample";
        warnings.push(run_warning("unaligned-clocks", String::new(), message.to_owned()));
    }
    let shift_ns = 0_i64.saturating_sub(zero_ns.unwrap_or(start_ns));
    info.sources.extend(trial.files.iter().map(|file| Source {
        file: file.name.clone(),
        format: "determined metrics",
        rank: file.rank,
        rank_from: "agent order",
        json_bytes: file.bytes,
        events: file.samples,
        shift_ns,
    }));
    let mut rows = Rows {
        shift_ns,
        strings: trial.merged.strings.clone(),
        targets: targets(trial.agents.iter().map(|agent| agent.rank), tables),
        trial,
    };
    rows.add_timings(info, tables, warnings);
    rows.add_samples(tables);
    rows.add_ranks(zero_ns, has_timeline, info, tables);
    zero_ns
}

/// Rows of a trial under construction.
struct Rows<'t> {
    trial: &'t Trial,
    shift_ns: i64,
    strings: Strings,
    targets: BTreeMap<i32, Target>,
}

impl Rows<'_> {
    fn add_timings(
        &mut self,
        info: &mut RunInfo,
        tables: &mut TableSet,
        warnings: &mut Vec<Warning>,
    ) {
        let mut annotations = Annotations::default();
        let mut threads = Threads::default();
        let mut repeated = 0;
        let by_agent = self.timings(warnings);
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
                ..Thread::absent()
            });
            if target.steps.is_empty() && !target.is_known {
                let (found, again) = timings::steps(timings, &self.trial.merged.strings);
                repeated += again;
                let first = target.next_event;
                let lane = (agent.rank, thread);
                let (steps, strings) = timings::rows(&found, lane, first, self.shift_ns);
                info.steps = info.steps.max(steps.len());
                target.steps = steps.clone();
                tables.push("steps", steps.into_batch(&strings));
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
        tables.push("threads", threads.into_batch(&self.strings));
        tables.push("annotations", annotations.into_batch(&self.strings));
        if repeated > 0 {
            let message = "batches with a number that was there before make no step";
            let warning = run_warning("repeated-batch", String::new(), message.to_owned());
            warnings.push(Warning { count: repeated, ..warning });
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
            let message = "timings that are negative or longer than 30 years were set aside";
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
                ..Counter::absent()
            });
            target.next_event += 1;
            target.samples += 1;
        }
        tables.push("counters", counters.into_batch(&self.strings));
    }

    /// Rows of `ranks` where no trace makes them, and of `event_counts`.
    fn add_ranks(
        &mut self,
        zero_ns: Option<i64>,
        has_timeline: bool,
        info: &mut RunInfo,
        tables: &mut TableSet,
    ) {
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
                info.wall_ns = info.wall_ns.max(end_ns);
            }
            if target.is_known {
                continue;
            }
            info.ranks.push(rank);
            ranks.push(Rank {
                rank,
                file,
                start_ns,
                end_ns,
                base_time_ns: zero_ns.unwrap_or(NULL_I64),
                clock: self.strings.intern(if single { "single" } else { "absolute" }),
                event_count: target.next_event,
                ..Rank::absent()
            });
        }
        tables.push("ranks", ranks.into_batch(&self.strings));
        tables.push("event_counts", counts.into_batch(&self.strings));
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
            ..Annotation::absent()
        });
        annotations.args.extend_last(&fixed);
        annotations.args.extend_last(&number(timing.batch));
        annotations.args.extend_last("}");
    }
    target.next_event += timings.len() as i64;
    target.timings += timings.len() as i64;
}
