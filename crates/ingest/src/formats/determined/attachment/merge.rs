//! The files of one trial become one: series in one unit, each sample once.

use rustc_hash::FxHashMap;
use trace_model::column::NULL_I64;
use trace_model::{StrId, Strings, Warning};

use super::units::{GIGABIT, GIGABYTE, Metric, Scale, metric};
use crate::formats::determined::metrics::{Kind, Metrics, Point, Precision};
use crate::quantity::RawDecimal;
use crate::warnings::run_warning;

/// Values of one sample that differ by more than this are not the same sample in another precision.
const SINGLE_PRECISION: f64 = 1e-6;
/// Samples of the old generation are 100 ms apart; their copies are less than 0.1 ms off.
const COPIED_WITHIN_NS: u64 = 1_000_000;

/// One series of the trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Series {
    pub(super) is_timing: bool,
    /// As written, in the form that was read first.
    pub(super) name: StrId,
    pub(super) agent: StrId,
    pub(super) device: StrId,
    pub(super) metric: Option<Metric>,
}

/// One sample or timing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    pub(super) series: u32,
    pub(super) ts_ns: i64,
    pub(super) value: f64,
    pub(super) batch: i64,
    precision: Precision,
    is_old: bool,
    /// Its unit follows from the generation and from what else the agent reported.
    scale: Scale,
}

/// A trial, each sample once.
#[derive(Debug, Default)]
pub(super) struct Merged {
    pub(super) strings: Strings,
    pub(super) series: Vec<Series>,
    /// By series, then time.
    pub(super) samples: Vec<Sample>,
    numbers: FxHashMap<(bool, StrId, StrId, StrId), u32>,
}

/// Joins the files of a trial.
pub(super) fn merge(
    files: &[(String, Metrics)],
    trial: i64,
    warnings: &mut Vec<Warning>,
) -> Merged {
    let mut merged = Merged::default();
    for (_, metrics) in files {
        merged.add(metrics, trial);
    }
    merged.convert(warnings);
    merged.drop_duplicates(warnings);
    merged
}

impl Merged {
    /// Returns whether there are samples of a series, under any of its names.
    pub(super) fn has(&self, name: &str, agent: &str, device: &str) -> bool {
        let find =
            |text: &str| if text.is_empty() { Some(StrId::NULL) } else { self.strings.find(text) };
        let key = metric(name).map_or(name, |metric| metric.name);
        let (Some(key), Some(agent), Some(device)) = (find(key), find(agent), find(device)) else {
            return false;
        };
        [false, true].into_iter().any(|is_timing| {
            let number = self.numbers.get(&(is_timing, key, agent, device));
            number.is_some_and(|&number| {
                let at = self.samples.partition_point(|sample| sample.series < number);
                self.samples.get(at).is_some_and(|sample| sample.series == number)
            })
        })
    }

    fn add(&mut self, metrics: &Metrics, trial: i64) {
        let mut remap = Vec::new();
        self.strings.absorb(&metrics.strings, &mut remap);
        let re = |id: StrId| if id.is_null() { id } else { remap[id.index()] };
        let mut numbers: Vec<Option<(u32, Scale)>> = Vec::with_capacity(metrics.series.len());
        for series in &metrics.series {
            if series.trial != trial {
                numbers.push(None);
                continue;
            }
            let is_timing = series.kind == Kind::Timing;
            let name = re(series.name);
            let known = metric(self.strings.get(name)).filter(|_| !is_timing);
            // Generations name a metric differently.
            let key = known.map_or(name, |metric| self.strings.intern(metric.name));
            let (agent, device) = (re(series.agent), re(series.device));
            let Self { series: all, numbers: by_key, .. } = self;
            let number = *by_key.entry((is_timing, key, agent, device)).or_insert_with(|| {
                all.push(Series { is_timing, name, agent, device, metric: known });
                all.len() as u32 - 1
            });
            numbers.push(Some((number, known.map_or(Scale::One, |metric| metric.scale))));
        }
        self.samples.extend(metrics.points.iter().filter_map(|point| {
            let (series, scale) = numbers[point.series as usize]?;
            let from = &metrics.series[point.series as usize];
            let (precision, is_old) = (from.precision, from.is_old);
            let &Point { ts_ns, value, batch, .. } = point;
            Some(Sample { series, ts_ns, value, batch, precision, is_old, scale })
        }));
    }

    /// Puts all values into the units of their metrics.
    fn convert(&mut self, warnings: &mut Vec<Warning>) {
        // When each agent's free memory was in GB, by time: its network is in Gbit/s then.
        let mut memory: FxHashMap<StrId, Vec<(i64, bool)>> = FxHashMap::default();
        for sample in &mut self.samples {
            let is_gigabytes = sample.scale.is_gigabytes(sample.value);
            if sample.scale == Scale::BytesOrGigabytes {
                let agent = self.series[sample.series as usize].agent;
                memory.entry(agent).or_default().push((sample.ts_ns, is_gigabytes));
            }
            if is_gigabytes || sample.scale == Scale::Gigabytes {
                sample.value *= GIGABYTE;
            }
        }
        let mut migrated = 0;
        #[expect(clippy::iter_over_hash_type, reason = "each is sorted and counted for itself")]
        for times in memory.values_mut() {
            times.sort_unstable();
            migrated += times.iter().filter(|(_, is_gigabytes)| *is_gigabytes).count();
        }
        for sample in &mut self.samples {
            if sample.scale != Scale::BytesOrGigabits {
                continue;
            }
            let agent = self.series[sample.series as usize].agent;
            let times = memory.get(&agent).map_or(&[][..], Vec::as_slice);
            if sample.is_old || nearest(times, sample.ts_ns) {
                sample.value *= GIGABIT;
            }
        }
        let read = self.samples.len();
        let Self { series, samples, .. } = self;
        samples.retain(|sample| {
            let metric = series[sample.series as usize].metric;
            let value = RawDecimal::new(sample.value);
            value.is_some_and(|value| metric.is_none_or(|m| value.sample(m.unit).is_some()))
        });
        let impossible = (read - self.samples.len()) as u64;
        if impossible > 0 {
            let message =
                "values that no machine can have (negative, percentages above 100) were dropped";
            let warning = run_warning("impossible-metric", String::new(), message.to_owned());
            warnings.push(Warning { count: impossible, ..warning });
        }
        if migrated > 0 {
            let message = "free memory is in GB, as in rows that Determined's optional migration copies: it was \
                           converted, and so was network throughput at the same time, from Gbit/s";
            let count = migrated as u64;
            let warning = run_warning("migrated-units", String::new(), message.to_owned());
            warnings.push(Warning { count, ..warning });
        }
    }

    /// Keeps one of the samples that a series has at one time: the most exact, or the first.
    fn drop_duplicates(&mut self, warnings: &mut Vec<Warning>) {
        self.samples.sort_by_key(|sample| {
            (sample.series, sample.ts_ns, std::cmp::Reverse(sample.precision))
        });
        let (mut duplicates, mut contradictions) = (0, 0);
        let mut count = |kept: &Sample, other: &Sample| {
            duplicates += 1;
            contradictions += u64::from(!kept.agrees(other));
        };
        self.samples.dedup_by(|next, kept| {
            if (next.series, next.ts_ns) != (kept.series, kept.ts_ns) {
                return false;
            }
            count(kept, next);
            if kept.batch == NULL_I64 {
                kept.batch = next.batch;
            }
            true
        });
        let originals = originals(&self.samples);
        let mut copies = originals.iter().map(Option::is_some);
        for (sample, original) in self.samples.iter().zip(&originals) {
            if let Some(original) = original {
                count(&self.samples[*original], sample);
            }
        }
        self.samples.retain(|_| !copies.next().unwrap_or_default());
        let mut warn = |code, message: &str, count| {
            if count > 0 {
                let warning = run_warning(code, String::new(), message.to_owned());
                warnings.push(Warning { count, ..warning });
            }
        };
        let message = "metrics of the same time are in several files, or several times in one: read once, in the \
                       most precise form";
        warn("duplicate-samples", message, duplicates);
        let message = "metrics of the same time have different values: the most precise form was used, else \
                       the first file";
        warn("contradicting-samples", message, contradictions);
    }
}

impl Sample {
    fn agrees(&self, other: &Self) -> bool {
        let scale = self.value.abs().max(other.value.abs());
        (self.value - other.value).abs() <= scale * SINGLE_PRECISION
    }
}

/// For each sample, in order, the one of the old table that it was copied from, if it was: the migration
/// gives all series of a row the time of one of them.
fn originals(samples: &[Sample]) -> Vec<Option<usize>> {
    let mut originals = vec![None; samples.len()];
    let mut look = |at: usize, last: &mut Option<usize>| {
        if samples[at].is_old {
            *last = Some(at);
            return;
        }
        let near = last.filter(|&old| {
            let (old, new) = (&samples[old], &samples[at]);
            old.series == new.series && old.ts_ns.abs_diff(new.ts_ns) <= COPIED_WITHIN_NS
        });
        let distance = |old: usize| samples[old].ts_ns.abs_diff(samples[at].ts_ns);
        if near
            .is_some_and(|near| originals[at].is_none_or(|other| distance(near) < distance(other)))
        {
            originals[at] = near;
        }
    };
    let mut last = None;
    (0..samples.len()).for_each(|at| look(at, &mut last));
    let mut last = None;
    (0..samples.len()).rev().for_each(|at| look(at, &mut last));
    originals
}

/// The flag at the time nearest to `ts_ns`; false if there is none.
fn nearest(times: &[(i64, bool)], ts_ns: i64) -> bool {
    let after = times.partition_point(|&(time, _)| time < ts_ns);
    let around = [after.checked_sub(1), Some(after)].into_iter().flatten();
    around
        .filter_map(|at| times.get(at))
        .min_by_key(|(time, _)| time.abs_diff(ts_ns))
        .is_some_and(|&(_, holds)| holds)
}
