//! The effects of fixes, fitted on measured pairs of recordings: the content of `rules/effects.toml`.
//!
//! `rules/fixes.toml` states a range of what each fix leaves of the time it changes. The fit determines where in this range the
//! effect of a fix is expected, and how far measured savings are from predictions. It judges itself on programs that it leaves out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::AddAssign;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trace_model::retiming::{FittedEffect, PredictionError};
use trace_model::statistics::median;

/// Positions in the ranges of edits at which [`MeasuredFix::curve_pct`] is known.
pub const CURVE_POSITIONS: [f64; 11] =
    [-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0];

/// A fix whose saving was measured, and what the model of the recording predicts for it.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredFix {
    /// Name of the fix.
    pub fix: String,
    /// The program; pairs of one program are left out together.
    pub program: String,
    /// Generation of the devices, such as `Hopper`; `CPU` without a device.
    pub family: String,
    /// Percent of the unprofiled time that the fix saves if its effect lies at each of [`CURVE_POSITIONS`].
    pub curve_pct: Vec<f64>,
    /// Percent of a step that its evidence takes.
    pub evidence_pct: f64,
    /// Percent of the unprofiled time that it can save at most.
    pub most_pct: f64,
    /// Percent that it saved.
    pub measured_pct: f64,
}

/// The number of predictions, and of those that held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeldCount {
    /// Predictions whose interval contains the measured saving.
    pub held: usize,
    /// All predictions.
    pub of: usize,
}

impl AddAssign for HeldCount {
    fn add_assign(&mut self, other: Self) {
        self.held += other.held;
        self.of += other.of;
    }
}

/// The prediction for a measured fix by effects that were fitted without its program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeftOutPrediction {
    /// Lower end of the interval, in percent.
    pub low_pct: f64,
    /// Estimate.
    pub mid_pct: f64,
    /// Upper end.
    pub high_pct: f64,
    /// Whether the interval contains the measured saving.
    pub holds: bool,
}

/// Fitted effects.
#[derive(Debug, Clone, PartialEq)]
pub struct FittedEffects {
    /// By fix.
    pub effects: BTreeMap<String, FittedEffect>,
    /// Of a fix that was not measured.
    pub other: FittedEffect,
    /// The predictions for each measured fix, in the order of the pairs.
    pub left_out: Vec<LeftOutPrediction>,
    /// Predictions for programs that were left out, by fix and family.
    pub held: BTreeMap<(String, String), HeldCount>,
}

/// The position of a fix that was never measured counts as this many programs.
const PRIOR_PROGRAMS: f64 = 4.0;
const PRIOR_POSITION: f64 = 0.5;

/// A curve that changes by less than this, as the logarithm of the share that is left, does not show the position of the effect.
const FLAT_RANGE: f64 = 0.02;

/// Scores of the same fix count this many times as much as those of other fixes.
const OWN_WEIGHT: f64 = 3.0;

/// The share of measured savings that intervals contain.
const COVERAGE: f64 = 0.8;

/// The shares of scores outside of an interval, on each side, that are tried one after the other.
const TAILS: [f64; 9] = [0.1, 0.09, 0.08, 0.07, 0.06, 0.05, 0.04, 0.03, 0.02];

/// Fits the effects of fixes on measured pairs.
///
/// The position of a fix is the median over its programs of the position at which the curve meets the measured saving, pulled to
/// the middle of the range by four more programs. The scores are quantiles of the errors of predictions for programs that were
/// left out, over all fixes; pairs of a program share the weight of the square root of their number, and pairs of the same fix
/// count three times. A tenth of the scores lies beyond each of them, or less, where four of five measured savings are only then
/// inside: nothing is predicted beyond the evidence, but some fixes save more. Each pair is then predicted by a fit without its
/// program.
pub fn fit(pairs: &[MeasuredFix], error: PredictionError) -> FittedEffects {
    let curves: Vec<Curve> = pairs.iter().map(Curve::new).collect();
    let programs: BTreeSet<&str> = pairs.iter().map(|pair| pair.program.as_str()).collect();
    let fitted = Fit { pairs, curves: &curves, error };
    let mut left_out = vec![None; pairs.len()];
    for &program in &programs {
        let others = fitted.others(Some(program));
        let scores = fitted.scores(&others);
        let tail = fitted.tail(&scores, &others);
        for (at, pair) in pairs.iter().enumerate().filter(|(_, pair)| pair.program == program) {
            let position = fitted.position(&pair.fix, &[program]);
            let effect = FittedEffect { position, scores: quantiles(&scores, &pair.fix, tail) };
            left_out[at] = Some(fitted.predict(at, effect));
        }
    }
    let left_out: Vec<LeftOutPrediction> = left_out.into_iter().flatten().collect();
    let mut held: BTreeMap<(String, String), HeldCount> = BTreeMap::new();
    for (pair, prediction) in pairs.iter().zip(&left_out) {
        let count = held.entry((pair.fix.clone(), pair.family.clone())).or_default();
        count.of += 1;
        count.held += usize::from(prediction.holds);
    }
    let all = fitted.others(None);
    let scores = fitted.scores(&all);
    let tail = fitted.tail(&scores, &all);
    let effect = |fix: &str| FittedEffect {
        position: fitted.position(fix, &[]),
        scores: quantiles(&scores, fix, tail),
    };
    let fixes: BTreeSet<&str> = pairs.iter().map(|pair| pair.fix.as_str()).collect();
    let effects = fixes.into_iter().map(|fix| (fix.to_owned(), effect(fix))).collect();
    FittedEffects { effects, other: effect(""), left_out, held }
}

/// A measured fix in logarithms of the share that is left.
struct Curve {
    log_left: Vec<f64>,
    measured: f64,
    /// The position at which the curve meets the measured saving, if it shows one.
    met_at: Option<f64>,
}

/// The logarithm of the share that is left if `pct` percent are saved.
fn log_left(pct: f64) -> f64 {
    (1.0 - pct / 100.0).max(1e-3).ln()
}

impl Curve {
    fn new(pair: &MeasuredFix) -> Self {
        let log_left: Vec<f64> = pair.curve_pct.iter().map(|&pct| self::log_left(pct)).collect();
        let measured = self::log_left(pair.measured_pct);
        let mut curve = Self { log_left, measured, met_at: None };
        let range =
            |of: fn(f64, f64) -> f64, from: f64| curve.log_left.iter().copied().fold(from, of);
        if range(f64::max, f64::MIN) - range(f64::min, f64::MAX) >= FLAT_RANGE {
            let positions = (-100..=200).map(|hundredths| f64::from(hundredths) / 100.0);
            let distance = |at: f64| (curve.at(at) - measured).abs();
            curve.met_at = positions.min_by(|&a, &b| distance(a).total_cmp(&distance(b)));
        }
        curve
    }

    /// The curve at a position, interpolated.
    fn at(&self, position: f64) -> f64 {
        let [first, .., last] = CURVE_POSITIONS;
        let position = position.clamp(first, last);
        let next = CURVE_POSITIONS.partition_point(|&at| at < position).max(1);
        let [low, high] = [next - 1, next].map(|at| CURVE_POSITIONS[at]);
        let share = (position - low) / (high - low);
        self.log_left[next - 1] + (self.log_left[next] - self.log_left[next - 1]) * share
    }

    /// Half the difference between the ends of the range around a position.
    fn half_range(&self, position: f64) -> f64 {
        (self.at(position - 0.5) - self.at(position + 0.5)).abs() / 2.0
    }
}

/// The error of a prediction, in multiples of its scale.
struct Score<'p> {
    fix: &'p str,
    value: f64,
    weight: f64,
}

struct Fit<'p> {
    pairs: &'p [MeasuredFix],
    curves: &'p [Curve],
    error: PredictionError,
}

impl<'p> Fit<'p> {
    /// The expected position of the effect of a fix, fitted without some programs.
    fn position(&self, fix: &str, without: &[&str]) -> f64 {
        let mut by_program: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (pair, curve) in self.pairs.iter().zip(self.curves) {
            let is_used = pair.fix == fix && !without.contains(&pair.program.as_str());
            if let Some(met_at) = curve.met_at.filter(|_| is_used) {
                by_program.entry(&pair.program).or_default().push(met_at);
            }
        }
        let of_programs: Vec<f64> = by_program.into_values().filter_map(median).collect();
        let count = of_programs.len() as f64;
        let median = median(of_programs).unwrap_or(PRIOR_POSITION);
        (count * median + PRIOR_PROGRAMS * PRIOR_POSITION) / (count + PRIOR_PROGRAMS)
    }

    /// The pairs of all programs but `without`, each with the position of its fix fitted without its program and `without`.
    fn others(&self, without: Option<&str>) -> Vec<(usize, f64)> {
        let position = |pair: &MeasuredFix| {
            let left_out: Vec<&str> = without.into_iter().chain([pair.program.as_str()]).collect();
            self.position(&pair.fix, &left_out)
        };
        let pairs = self.pairs.iter().enumerate();
        let others = pairs.filter(|(_, pair)| Some(pair.program.as_str()) != without);
        others.map(|(at, pair)| (at, position(pair))).collect()
    }

    /// The scores of pairs, each with the position that its fix was fitted to.
    fn scores(&self, others: &[(usize, f64)]) -> Vec<Score<'p>> {
        let score = |&(at, position): &(usize, f64)| {
            let (pair, curve) = (&self.pairs[at], &self.curves[at]);
            let of_program = self.pairs.iter().filter(|other| other.program == pair.program);
            let expected = curve.at(position);
            let scale = self.error.scale(expected, curve.half_range(position));
            Score {
                fix: &pair.fix,
                value: (curve.measured - expected) / scale,
                weight: (of_program.count() as f64).sqrt().recip(),
            }
        };
        let mut scores: Vec<Score<'p>> = others.iter().map(score).collect();
        scores.sort_by(|a, b| a.value.total_cmp(&b.value));
        scores
    }

    /// The largest of [`TAILS`] with which intervals contain enough of the measured savings of these pairs.
    fn tail(&self, scores: &[Score<'_>], others: &[(usize, f64)]) -> f64 {
        let is_enough = |tail: f64| {
            let holds = |&&(at, position): &&(usize, f64)| {
                let scores = quantiles(scores, &self.pairs[at].fix, tail);
                self.predict(at, FittedEffect { position, scores }).holds
            };
            others.iter().filter(holds).count() as f64 >= COVERAGE * others.len() as f64
        };
        let [.., last] = TAILS;
        TAILS.into_iter().find(|&tail| is_enough(tail)).unwrap_or(last)
    }

    /// The interval that a report prints for a pair, with this effect of its fix.
    fn predict(&self, at: usize, effect: FittedEffect) -> LeftOutPrediction {
        let (pair, curve) = (&self.pairs[at], &self.curves[at]);
        let expected = curve.at(effect.position);
        let half_range = curve.half_range(effect.position);
        let [high, mid, low] = self
            .error
            .log_left_interval(effect, expected, half_range)
            .map(|log_left| 100.0 * (1.0 - log_left.exp()));
        let mid_pct = mid.min(pair.evidence_pct.max(0.0));
        let high_pct = high.min(pair.most_pct.max(mid_pct));
        let low_pct = low.min(mid_pct);
        let holds = (low_pct..=high_pct).contains(&pair.measured_pct);
        LeftOutPrediction { low_pct, mid_pct, high_pct, holds }
    }
}

/// The scores beyond which the share `tail` of all lies, where those of `fix` count more. `scores` are sorted.
fn quantiles(scores: &[Score<'_>], fix: &str, tail: f64) -> [f64; 2] {
    let weight = |score: &Score<'_>| score.weight * if score.fix == fix { OWN_WEIGHT } else { 1.0 };
    let sum: f64 = scores.iter().map(weight).sum();
    let at = |share: f64| {
        let mut until = 0.0;
        let mut before: Option<(f64, f64)> = None;
        for score in scores {
            let weight = weight(score);
            let middle = (until + weight / 2.0) / sum;
            if middle >= share {
                return before.map_or(score.value, |(at, value)| {
                    value + (score.value - value) * (share - at) / (middle - at)
                });
            }
            before = Some((middle, score.value));
            until += weight;
        }
        before.map_or(0.0, |(_, value)| value)
    };
    let [less, more] = [at(tail), at(1.0 - tail)];
    [less.min(0.0), more.max(0.0)]
}

impl FittedEffects {
    /// The text of a rule file with the effects.
    pub fn to_toml(&self, error: PredictionError) -> String {
        let mut text = String::from(
            "#:schema ./rules.schema.json\n#\n\
             # What measured pairs of recordings say about fixes. Generated: `UPDATE=1 cargo test -p cli --test golden -- effects`\n\
             # fits it on the pairs of tests/fixtures; docs/evidence/measured-gains.md explains the fit.\n#\n\
             # `position` is where in the ranges of its edits (rules/fixes.toml) the effect of a fix is expected: 0 is the lower end,\n\
             # where it saves most, 1 the upper end. `scores` are the errors between which four of five measured savings lie, in\n\
             # multiples of the scale sqrt(base^2 + (of_saving * ln(left))^2 + (of_range * h)^2) of ln(left), the share of a step that is\n\
             # left; h is half of what the range makes a difference. `held` counts predictions for programs that the fit left out.\n\n",
        );
        let scores = |[more, less]: [f64; 2]| format!("[{more:.3}, {less:.3}]");
        let families: BTreeSet<&str> =
            self.held.keys().map(|(_, family)| family.as_str()).collect();
        let families: Vec<String> = families.iter().map(|family| format!("{family:?}")).collect();
        let _ = writeln!(
            text,
            "[prediction]\nbase = {}\nof_saving = {}\nof_range = {}\nscores = {}\nfamilies = [{}]",
            error.base,
            error.of_saving,
            error.of_range,
            scores(self.other.scores),
            families.join(", ")
        );
        for (fix, effect) in &self.effects {
            let of_fix = self.held.iter().filter(|((of, _), _)| of == fix);
            let held: Vec<String> = of_fix
                .map(|((_, family), count)| {
                    format!("{{ family = {family:?}, held = {}, of = {} }}", count.held, count.of)
                })
                .collect();
            let _ = writeln!(
                text,
                "\n[fix.{fix}]\nposition = {:.3}\nscores = {}\nheld = [{}]",
                effect.position,
                scores(effect.scores),
                held.join(", ")
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use trace_model::retiming::PredictionError;

    use super::{CURVE_POSITIONS, MeasuredFix, fit};

    /// A fix of a program that saves what the curve has at `position`: 60 % at 0, 40 % at 1.
    fn measured(fix: &str, program: &str, position: f64) -> MeasuredFix {
        let saved_pct = |position: f64| 60.0 - 20.0 * position;
        MeasuredFix {
            fix: fix.to_owned(),
            program: program.to_owned(),
            family: "CPU".to_owned(),
            curve_pct: CURVE_POSITIONS.map(saved_pct).into(),
            evidence_pct: 90.0,
            most_pct: 90.0,
            measured_pct: saved_pct(position),
        }
    }

    #[test]
    fn position_moves_to_where_programs_meet_the_curve() {
        let pairs: Vec<_> = ["a", "b", "c", "d"].map(|program| measured("x", program, 0.9)).into();
        let fitted = fit(&pairs, PredictionError::default());
        // Four programs at 0.9, and four at the middle.
        assert!((fitted.effects["x"].position - 0.7).abs() < 0.01, "{:?}", fitted.effects);
        assert!((fitted.other.position - 0.5).abs() < 1e-9);
    }

    #[test]
    fn programs_that_are_left_out_do_not_count() {
        let mut pairs: Vec<_> =
            ["a", "b", "c", "d", "e"].map(|program| measured("x", program, 0.5)).into();
        pairs.push(measured("x", "other", 2.0));
        let fitted = fit(&pairs, PredictionError::default());
        let of_other = fitted.left_out.last().unwrap();
        // The other five agree, so the outlier is outside of the interval that they give.
        assert!((of_other.mid_pct - 50.0).abs() < 0.5 && !of_other.holds, "{of_other:?}");
        let count = fitted.held[&("x".to_owned(), "CPU".to_owned())];
        assert_eq!((count.held, count.of), (5, 6));
    }

    #[test]
    fn four_of_five_scores_are_inside() {
        let programs: Vec<String> = (0..40).map(|at| format!("p{at}")).collect();
        let spread = |at: usize| 0.5 + 0.02 * (at as f64 - 19.5);
        let pairs: Vec<_> =
            programs.iter().enumerate().map(|(at, p)| measured("x", p, spread(at))).collect();
        let fitted = fit(&pairs, PredictionError::default());
        let held = fitted.left_out.iter().filter(|p| p.holds).count();
        assert!((30..=34).contains(&held), "{held}");
    }

    #[test]
    fn nothing_is_predicted_beyond_the_evidence() {
        let pairs = [
            MeasuredFix { evidence_pct: 30.0, most_pct: 30.0, ..measured("x", "a", 0.5) },
            measured("x", "b", 0.5),
        ];
        let fitted = fit(&pairs, PredictionError::default());
        assert!(fitted.left_out[0].high_pct <= 30.0, "{:?}", fitted.left_out[0]);
        assert!(fitted.left_out[0].low_pct <= fitted.left_out[0].mid_pct);
    }

    #[test]
    fn same_pairs_give_the_same_text() {
        let pairs = [measured("x", "a", 0.2), measured("y", "b", 0.7)];
        let text = || fit(&pairs, PredictionError::default()).to_toml(PredictionError::default());
        assert_eq!(text(), text());
        assert!(
            text().contains("[fix.x]") && text().contains("families = [\"CPU\"]"),
            "{}",
            text()
        );
    }
}
