//! Findings: a track for each, with a slice for each time range in which it occurs, and a mark at the first.

use std::io;

use advisor::{Evidence, Finding, Report};
use ingest::{EventWriter, Lane};
use trace_model::Value;

use super::added::Added;
use super::lanes::RankLanes;
use super::rows::Rows;
use crate::error::Error;
use crate::pipeline::Run;

/// The findings, with the time ranges of steps and ranks.
#[derive(Debug)]
pub(super) struct Findings<'a> {
    report: &'a Report,
    ranks: Rows,
    steps: Rows,
}

/// A time range: start and duration.
type Range = (i64, i64);

impl<'a> Findings<'a> {
    pub(super) fn read(run: &Run, report: &'a Report) -> Result<Self, Error> {
        let ranks = "SELECT rank, start_ns, end_ns FROM ranks ORDER BY rank";
        let steps = "SELECT rank, step, ts_ns, dur_ns FROM steps ORDER BY rank, step";
        Ok(Self { report, ranks: Rows::query(run, ranks)?, steps: Rows::query(run, steps)? })
    }

    pub(super) fn write(
        &self,
        lanes: &RankLanes<'_>,
        out: &mut EventWriter<'_>,
        added: &mut Added,
    ) -> io::Result<()> {
        let pid = lanes.own_process();
        let mut lane_count = 0;
        for finding in self.report.findings.iter().filter(|f| concerns(f, lanes.rank)) {
            let ranges = self.ranges(finding, lanes.rank);
            // Slices of one lane must not overlap: each goes to the first free lane of the finding.
            let first_lane = 1 + lane_count;
            let mut ends: Vec<i64> = Vec::new();
            for &(ts_ns, dur_ns) in &ranges {
                let free = ends.iter().position(|&end| end <= ts_ns);
                let tid = lanes.own_thread(first_lane + free.unwrap_or(ends.len()));
                let lane = Lane { pid: &pid, tid: &tid };
                if let Some(free) = free {
                    ends[free] = ts_ns + dur_ns;
                } else {
                    ends.push(ts_ns + dur_ns);
                    out.thread(lane, &format!("{} {}", finding.code, finding.name))?;
                }
                out.slice(lane, &name(finding), ts_ns, dur_ns, &args(finding))?;
                added.ranges += 1;
            }
            if let Some(&(ts_ns, _)) = ranges.first() {
                let tid = lanes.own_thread(first_lane);
                out.mark(Lane { pid: &pid, tid: &tid }, &name(finding), ts_ns, &args(finding))?;
                added.findings += 1;
            }
            lane_count += ends.len();
        }
        Ok(())
    }

    /// The time ranges of a finding in a rank, each once: those of its evidence rows, or the whole recording
    /// if these are about the rank.
    fn ranges(&self, finding: &Finding, rank: i32) -> Vec<Range> {
        let own = |e: &&Evidence| key(e, "rank").is_none_or(|r| *r == Value::Int(i64::from(rank)));
        let mut ranges: Vec<Range> = finding
            .evidence
            .iter()
            .filter(own)
            .filter_map(|evidence| match (evidence.ts_ns, evidence.dur_ns, key(evidence, "step")) {
                (Some(ts_ns), Some(dur_ns), _) if dur_ns >= 0 => Some((ts_ns, dur_ns)),
                (_, _, Some(&Value::Int(step))) => self.step(rank, step),
                _ => None,
            })
            .collect();
        if ranges.is_empty() {
            let (starts, ends) = (self.ranks.ints("start_ns"), self.ranks.ints("end_ns"));
            ranges.extend(
                self.ranks.of(rank).map(|r| (starts.value(r), ends.value(r) - starts.value(r))),
            );
        }
        ranges.sort_unstable();
        ranges.dedup();
        ranges
    }

    fn step(&self, rank: i32, step: i64) -> Option<Range> {
        let row = self.steps.of(rank).find(|&r| self.steps.ints("step").value(r) == step)?;
        Some((self.steps.ints("ts_ns").value(row), self.steps.ints("dur_ns").value(row)))
    }
}

/// Whether a finding is about a rank; a finding without ranks is about all.
fn concerns(finding: &Finding, rank: i32) -> bool {
    let ranks = &finding.affected.ranks;
    ranks.is_empty() || ranks.contains(&i64::from(rank))
}

fn key<'a>(evidence: &'a Evidence, name: &str) -> Option<&'a Value> {
    evidence.columns.0.iter().find(|(column, _)| column == name).map(|(_, value)| value)
}

fn name(finding: &Finding) -> String {
    format!("{} {}", finding.code, finding.title)
}

fn args(finding: &Finding) -> Vec<(&'static str, Value)> {
    let number = |value: Option<f64>| value.map_or(Value::Null, Value::Float);
    let gain = &finding.gain;
    vec![
        ("code", Value::Text(finding.code.clone())),
        ("severity", Value::Text(finding.severity.as_str().to_owned())),
        ("message", Value::Text(finding.message.clone())),
        ("gain low (% of step time)", number(gain.low_pct)),
        ("gain high (% of step time)", number(gain.high_pct)),
        ("gain (ms per step)", number(gain.ms_per_step)),
        ("advice", Value::Text(finding.advice.join("\n"))),
    ]
}
