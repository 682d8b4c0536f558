//! Rows as Composer and Determined leave them: marks with arguments, halves of marks, sampled counters.

use trace_model::StrId;
use trace_model::column::NULL_I64;

use super::{Counter, Run, UnpairedEvent};

/// The series that a sample belongs to.
#[derive(Clone, Copy)]
pub struct Series<'a> {
    pub metric: &'a str,
    pub unit: &'a str,
    pub agent: &'a str,
    pub device: &'a str,
    pub is_cumulative: bool,
}

/// A metric of the machine that Composer samples.
pub fn sampled<'a>(metric: &'a str, unit: &'a str) -> Series<'a> {
    Series { metric, unit, agent: "", device: "", is_cumulative: false }
}

impl Run {
    /// The ranks so far have no profiler trace: neither a device nor its absence was recorded.
    pub fn without_profiler(&mut self) -> &mut Self {
        self.ranks.vendor.0.fill(StrId::NULL);
        self
    }

    /// Arguments of the last annotation.
    pub fn with_annotation_args(&mut self, args: &str) -> &mut Self {
        self.annotations.args.extend_last(args);
        self
    }

    /// A mark of Composer.
    pub fn composer(
        &mut self,
        rank: i32,
        name: &str,
        batch: i64,
        (start_ns, end_ns): (i64, i64),
    ) -> &mut Self {
        self.annotation(rank, name, start_ns, end_ns - start_ns)
            .with_annotation_args(&format!("{{\"epoch\":0,\"batch\":{batch}}}"))
    }

    /// A timing of Determined.
    pub fn determined(
        &mut self,
        rank: i32,
        name: &str,
        batch: i64,
        (start_ns, end_ns): (i64, i64),
    ) -> &mut Self {
        self.annotation(rank, name, start_ns, end_ns - start_ns).with_annotation_args(&format!(
            "{{\"trial\":1,\"agent\":\"agent-a\",\"batch\":{batch}}}"
        ))
    }

    /// A batch of Composer: the loader from `start_ns` on, the batch right after it, and its step.
    pub fn composer_step(
        &mut self,
        rank: i32,
        batch: i64,
        start_ns: i64,
        wait_ns: i64,
        batch_ns: i64,
    ) -> &mut Self {
        let loaded = start_ns + wait_ns;
        self.composer(rank, "event/dataloader", batch, (start_ns, loaded))
            .composer(rank, "event/batch", batch, (loaded + 5, loaded + 5 + batch_ns))
            .step_from("composer", rank, batch, start_ns, wait_ns + 5 + batch_ns, false)
    }

    /// Begin or end (`B`, `E`) without the other half.
    pub fn half_event(
        &mut self,
        rank: i32,
        phase: &str,
        name: &str,
        batch: i64,
        ts_ns: i64,
    ) -> &mut Self {
        let (phase, name) = (self.name(phase), self.name(name));
        let event_id = self.id();
        self.unpaired_events.push(UnpairedEvent {
            rank,
            event_id,
            phase,
            name,
            ts_ns,
            thread: 1,
            args: format!("{{\"epoch\":0,\"batch\":{batch}}}"),
            ..UnpairedEvent::null_row()
        });
        self
    }

    /// A sample.
    pub fn sample(&mut self, rank: i32, series: Series<'_>, ts_ns: i64, value: f64) -> &mut Self {
        self.sample_in_batch(rank, series, ts_ns, NULL_I64, value)
    }

    /// A sample that says which batch was in training.
    pub fn sample_in_batch(
        &mut self,
        rank: i32,
        series: Series<'_>,
        ts_ns: i64,
        batch: i64,
        value: f64,
    ) -> &mut Self {
        let [name, metric, unit, agent, device] =
            [series.metric, series.metric, series.unit, series.agent, series.device]
                .map(|text| self.name(text));
        let event_id = self.id();
        self.counters.push(Counter {
            rank,
            event_id,
            ts_ns,
            name,
            metric,
            unit,
            is_cumulative: series.is_cumulative,
            agent,
            device,
            batch,
            value,
            ..Counter::null_row()
        });
        self
    }
}
