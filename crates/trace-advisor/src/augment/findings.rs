//! Findings: marks for what was found, and the time ranges that show it.

use std::io;

use advisor::{Finding, Report};
use ingest::{EventWriter, Lane};
use trace_model::Value;

use super::Added;
use super::lanes::RankLanes;
use super::rows::Rows;
use crate::{Error, Run};

/// The findings, and where ranks start.
#[derive(Debug)]
pub(super) struct Findings<'a> {
    report: &'a Report,
    ranks: Rows,
}

impl<'a> Findings<'a> {
    pub(super) fn read(run: &Run, report: &'a Report) -> Result<Self, Error> {
        let ranks = Rows::query(run, "SELECT rank, start_ns FROM ranks ORDER BY rank")?;
        Ok(Self { report, ranks })
    }

    pub(super) fn write(
        &self,
        lanes: &RankLanes<'_>,
        out: &mut EventWriter<'_>,
        added: &mut Added,
    ) -> io::Result<()> {
        let start_ns = self.ranks.of(lanes.rank).next();
        let start_ns = start_ns.map_or(0, |row| self.ranks.ints("start_ns").value(row));
        let concerned: Vec<&Finding> =
            self.report.findings.iter().filter(|f| concerns(f, lanes.rank)).collect();
        let mut ranges: Vec<(i64, i64, &Finding)> = concerned
            .iter()
            .flat_map(|finding| ranges(finding, lanes.rank).map(|(ts, dur)| (ts, dur, *finding)))
            .collect();
        ranges.sort_by_key(|&(ts_ns, dur_ns, _)| (ts_ns, dur_ns));

        // Slices of one lane must not overlap: each goes to the first that is free again.
        let pid = lanes.own_process();
        let mut ends: Vec<i64> = Vec::new();
        for &(ts_ns, dur_ns, finding) in &ranges {
            let free = ends.iter().position(|&end| end <= ts_ns);
            let tid = lanes.own_thread(1 + free.unwrap_or(ends.len()));
            let lane = Lane { pid: &pid, tid: &tid };
            match free {
                Some(free) => ends[free] = ts_ns + dur_ns,
                None => {
                    ends.push(ts_ns + dur_ns);
                    out.thread(lane, "Findings")?;
                }
            }
            out.slice(lane, &name(finding), ts_ns, dur_ns, &args(finding))?;
            added.ranges += 1;
        }
        let tid = lanes.own_thread(1);
        let lane = Lane { pid: &pid, tid: &tid };
        if ends.is_empty() && !concerned.is_empty() {
            out.thread(lane, "Findings")?;
        }
        for finding in concerned {
            let first = ranges.iter().find(|(.., f)| f.code == finding.code);
            let at_ns = first.map_or(start_ns, |&(ts_ns, ..)| ts_ns);
            out.mark(lane, &name(finding), at_ns, &args(finding))?;
            added.findings += 1;
        }
        Ok(())
    }
}

/// Whether a finding is about a rank; one that names no ranks is about all.
fn concerns(finding: &Finding, rank: i32) -> bool {
    let ranks = &finding.affected.ranks;
    ranks.is_empty() || ranks.contains(&i64::from(rank))
}

/// The time ranges of a finding in one rank, each once.
fn ranges(finding: &Finding, rank: i32) -> impl Iterator<Item = (i64, i64)> {
    let mut ranges: Vec<(i64, i64)> = finding
        .evidence
        .iter()
        .filter(|evidence| {
            let of = evidence.columns.0.iter().find(|(name, _)| name == "rank");
            of.is_none_or(|(_, value)| *value == Value::Int(i64::from(rank)))
        })
        .filter_map(|evidence| Some((evidence.ts_ns?, evidence.dur_ns?)))
        .filter(|&(_, dur_ns)| dur_ns >= 0)
        .collect();
    ranges.sort_unstable();
    ranges.dedup();
    ranges.into_iter()
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
