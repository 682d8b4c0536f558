//! Findings and measures of ranks in the text format of Prometheus (version 0.0.4).

use std::fmt::Write as _;

use trace_advisor::query::query_table;
use trace_advisor::trace_model::Value;
use trace_advisor::{Error, Report, Run};

/// The views that the measures are from.
pub(super) const VIEWS: &[&str] =
    &["step_time", "step_breakdown", "gpu_utilization", "comm_wait", "memory_peak"];

/// The start of each text. A file that begins with it is one of this command.
pub(super) const START: &str = "# HELP advisor_check_success ";

/// The column with the value of a measure. The others are its labels.
const VALUE: &str = "value";

/// A measure of ranks: its name, its description, and a query of its labels and its [`VALUE`].
struct RankMeasure {
    name: &'static str,
    help: &'static str,
    sql: &'static str,
}

const RANK_MEASURES: [RankMeasure; 5] = [
    RankMeasure {
        name: "advisor_rank_step_seconds",
        help: "Median step time of a rank.",
        sql: "SELECT rank, median(dur_ns) / 1e9 AS value FROM step_time GROUP BY rank ORDER BY rank",
    },
    RankMeasure {
        name: "advisor_rank_step_ratio",
        help: "Share of the step time of a rank by what takes it.",
        sql: "SELECT rank, 'kernel' AS part, kernel_ratio AS value FROM step_breakdown \
              UNION ALL SELECT rank, 'communication', communication_ratio FROM step_breakdown \
              UNION ALL SELECT rank, 'copy', memcpy_ratio + memset_ratio FROM step_breakdown \
              UNION ALL SELECT rank, 'runtime', runtime_ratio FROM step_breakdown \
              UNION ALL SELECT rank, 'dataloader', dataloader_ratio FROM step_breakdown \
              UNION ALL SELECT rank, 'cpu_exec', cpu_exec_ratio FROM step_breakdown \
              UNION ALL SELECT rank, 'other', other_ratio FROM step_breakdown ORDER BY rank, part",
    },
    RankMeasure {
        name: "advisor_device_busy_ratio",
        help: "Share of the time that a device is busy.",
        sql: "SELECT rank, device, busy_ratio AS value FROM gpu_utilization ORDER BY rank, device",
    },
    RankMeasure {
        name: "advisor_rank_communication_wait_ratio",
        help: "Share of the communication time of a rank in which it waits for other ranks.",
        sql: "SELECT rank, wait_ratio AS value FROM comm_wait ORDER BY rank",
    },
    RankMeasure {
        name: "advisor_device_peak_allocated_bytes",
        help: "Peak of the memory that a rank has allocated on a device.",
        sql: "SELECT rank, device, memory, peak_allocated_bytes AS value FROM memory_peak \
              ORDER BY rank, device, memory",
    },
];

/// The measures of the ranks of a run, as samples without the label of the run.
#[derive(Debug, Default)]
pub(super) struct Measures {
    samples: Vec<Sample>,
}

#[derive(Debug)]
struct Sample {
    name: &'static str,
    labels: Vec<(String, String)>,
    value: f64,
}

impl Measures {
    /// Measures the ranks of a run. What was not recorded has no samples.
    ///
    /// # Errors
    /// If the run cannot be read.
    pub(super) fn of(run: &Run) -> Result<Self, Error> {
        let mut samples = Vec::new();
        for measure in &RANK_MEASURES {
            let batches = match run.program_sql(measure.sql) {
                Ok(batches) => batches,
                // The report says why a view fails.
                Err(error) if error.failed_query().is_some() => continue,
                Err(error) => return Err(error),
            };
            for row in query_table("measures", &batches)?.named_rows() {
                let Some(value) = row.number(VALUE) else { continue };
                let labels = row.cells().filter(|(name, _)| *name != VALUE);
                let labels = labels.map(|(name, value)| (name.to_owned(), text(value)));
                samples.push(Sample { name: measure.name, labels: labels.collect(), value });
            }
        }
        Ok(Self { samples })
    }
}

/// The value of a label; an empty one counts as none.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        value => value.to_string(),
    }
}

/// The text for a report, at a time in seconds since 1970.
pub(super) fn of_report(report: &Report, measures: &Measures, time: u64) -> String {
    let mut out = Exposition::new(&report.run.path);
    out.check(true, time);
    out.family("advisor_run_ranks", "Ranks of the run.");
    out.sample("advisor_run_ranks", &[], report.run.ranks.len() as f64);
    out.family("advisor_run_steps", "Steps of the rank with the most steps.");
    out.sample("advisor_run_steps", &[], report.run.steps as f64);
    out.family("advisor_rules", "Rules by verdict.");
    let verdicts = [
        ("finding", report.findings.len()),
        ("passed", report.passed.len()),
        ("unknown", report.unknown.len()),
        ("ignored", report.ignored.len()),
    ];
    for (verdict, count) in verdicts {
        out.sample("advisor_rules", &[("verdict", verdict)], count as f64);
    }
    let name = "advisor_finding_value";
    out.family(name, "Deciding metric of a finding, in its unit.");
    for finding in report.advice() {
        let labels = [
            ("code", finding.code.as_str()),
            ("name", &finding.name),
            ("severity", finding.severity.as_str()),
            ("metric", &finding.metric),
            ("unit", &finding.unit),
        ];
        out.sample(name, &labels, finding.value);
    }
    let name = "advisor_finding_saved_ratio";
    out.family(name, "Share of the step time that a fix saves: ends of the 80 % interval.");
    for finding in report.advice() {
        for (bound, pct) in [("low", finding.gain.low_pct), ("high", finding.gain.high_pct)] {
            let Some(pct) = pct else { continue };
            let labels =
                [("code", finding.code.as_str()), ("name", &finding.name), ("bound", bound)];
            out.sample(name, &labels, pct / 100.0);
        }
    }
    for measure in &RANK_MEASURES {
        let mut of_measure = measures.samples.iter().filter(|s| s.name == measure.name).peekable();
        if of_measure.peek().is_some() {
            out.family(measure.name, measure.help);
        }
        for Sample { name, labels, value } in of_measure {
            let labels: Vec<(&str, &str)> =
                labels.iter().map(|(label, text)| (label.as_str(), text.as_str())).collect();
            out.sample(name, &labels, *value);
        }
    }
    out.text
}

/// The text for a check that failed: nothing is known of the run.
pub(super) fn of_failure(run: &str, time: u64) -> String {
    let mut out = Exposition::new(run);
    out.check(false, time);
    out.text
}

/// Text in the making, of one run.
struct Exposition<'a> {
    run: &'a str,
    text: String,
}

impl<'a> Exposition<'a> {
    fn new(run: &'a str) -> Self {
        Self { run, text: String::new() }
    }

    fn check(&mut self, is_success: bool, time: u64) {
        self.family("advisor_check_success", "Whether the last check of the run succeeded.");
        self.sample("advisor_check_success", &[], f64::from(u8::from(is_success)));
        let name = "advisor_check_timestamp_seconds";
        self.family(name, "Time of the last check, in seconds since 1970.");
        self.sample(name, &[], time as f64);
    }

    fn family(&mut self, name: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} gauge");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let _ = write!(self.text, "{name}{{run=\"{}\"", escaped(self.run));
        for (label, text) in labels {
            let _ = write!(self.text, ",{label}=\"{}\"", escaped(text));
        }
        let _ = writeln!(self.text, "}} {value}");
    }
}

/// The value of a label, with what the format gives a meaning escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::{START, escaped, of_failure};

    #[test]
    fn values_of_labels_are_escaped() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }

    #[test]
    fn of_failure_says_only_that_the_check_failed() {
        let text = of_failure("run/", 7);
        assert!(text.starts_with(START), "{text}");
        assert!(text.contains("advisor_check_success{run=\"run/\"} 0\n"), "{text}");
        assert!(text.contains("advisor_check_timestamp_seconds{run=\"run/\"} 7\n"), "{text}");
        assert_eq!(text.lines().filter(|line| !line.starts_with('#')).count(), 2, "{text}");
    }
}
