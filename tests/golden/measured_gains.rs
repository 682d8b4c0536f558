//! Estimated against measured gains: runs on an H100 with one thing wrong, and the same runs with it
//! mended (`tests/fixtures/h100`); one program that follows the report from stage to stage (`tests/fixtures/gpt2`); runs on
//! the CPU, with one rank or several (`tests/fixtures/cpu`, `tests/fixtures/composer`); other programs on an H200
//! (`tests/fixtures/held_out`); and others whose host is the limit (`tests/fixtures/host_limited`).
//! The traces, the times without the profiler and the scripts that recorded them are there; `docs/evidence/measured-gains.md`
//! has the tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::Deserialize;
use trace_advisor::advisor::{Finding, Plan, Range, Severity};
use trace_advisor::arrow::array::AsArray;
use trace_advisor::arrow::compute::cast;
use trace_advisor::arrow::datatypes::{DataType, Int64Type};
use trace_advisor::{Report, Run, load_rules};

use crate::effects::{effects_without, left_out, left_out_tables};
use crate::harness::{Case, functions};
use crate::runs::traces;
use crate::support::preview::rules_with_preview;

/// All tests.
pub(crate) fn cases() -> Vec<Case> {
    functions![
        slow_runs_have_the_expected_findings,
        predictions_hold,
        plan_of_the_first_recording_holds,
        mended_runs_have_smaller_findings,
        runs_on_the_cpu_have_the_expected_finding_until_it_is_mended,
        memory_peaks_match_the_allocator,
        snapshot_totals_match_the_allocator,
    ]
}

/// The tests that also read the corpus.
pub(crate) fn cases_with_corpus() -> Vec<Case> {
    functions![
        pairs_that_were_not_used_for_fitting_hold,
        predictions_for_other_programs_hold,
        predictions_where_the_host_is_the_limit_hold,
        predictions_for_programs_of_other_packages_hold,
        tables_in_the_document_are_current,
    ]
}

const DOCUMENT: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/evidence/measured-gains.md");

#[derive(Deserialize)]
struct Recorded {
    device: String,
    torch: String,
    pairs: Vec<Pair>,
    runs: BTreeMap<String, PeakMemory>,
    snapshot: BTreeMap<String, i64>,
}

#[derive(Deserialize)]
struct Pair {
    slow: String,
    mended: String,
    /// Rules that should name what is wrong; first the one whose gain mending brings.
    codes: Vec<String>,
    slow_step_ns: i64,
    mended_step_ns: i64,
}

/// A program on its way.
#[derive(Deserialize)]
struct Stage {
    run: String,
    step_ns: i64,
    /// The rule whose advice is followed next, and what is done.
    code: Option<String>,
    done: Option<String>,
}

/// Peaks that PyTorch's allocator counted itself.
#[derive(Deserialize)]
struct PeakMemory {
    allocated_bytes: i64,
    reserved_bytes: i64,
}

pub(crate) fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(path)
}

fn recorded() -> Recorded {
    serde_json::from_slice(&std::fs::read(fixture("h100/pairs.json")).unwrap()).unwrap()
}

fn stages() -> Vec<Stage> {
    serde_json::from_slice(&std::fs::read(fixture("gpt2/stages.json")).unwrap()).unwrap()
}

/// The trace of a run on the H100.
fn path_of(name: &str) -> PathBuf {
    let at = |folder| fixture(&format!("{folder}/{name}.json.gz"));
    Some(at("h100")).filter(|path| path.exists()).unwrap_or_else(|| at("gpt2"))
}

fn open(name: &str) -> Run {
    Run::open(path_of(name)).unwrap()
}

/// The fix that mends what a rule finds in these pairs.
const FIXES: [(&str, &str); 27] = [
    ("IN001", "loader-workers"),
    ("PR001", "mixed-precision"),
    ("PR003", "mixed-precision"),
    ("PR002", "tf32"),
    ("KN004", "fused-attention"),
    ("KN005", "fused-attention"),
    ("KN003", "compile"),
    ("CP004", "fewer-casts"),
    ("CP003", "fewer-copies"),
    ("KN009", "aligned-dims"),
    ("KN017", "no-fp64"),
    ("MM006", "zero-to-none"),
    ("SY002", "no-host-reads"),
    ("SY001", "no-host-reads"),
    ("SY005", "async-launches"),
    ("MM003", "no-driver-allocations"),
    ("OP007", "no-debug-mode"),
    ("MM008", "no-recompute"),
    ("VA002", "even-steps"),
    ("HB009", "vectorize-indexing"),
    ("HB002", "less-python"),
    ("PR005", "no-gradient-scaler"),
    ("OP002", "fused-optimizer"),
    ("OP003", "fused-foreach"),
    ("KN012", "channels-last"),
    ("KN011", "no-conv-bias"),
    ("IN004", "pinned-copies"),
];

/// Pairs in which something else was done than the rule's fix stands for.
const OTHER_FIXES: [(&str, &str, &str); 6] = [
    ("gpt_activation_written_out", "gpt", "fused-operators"),
    ("gpt_mask_on_cpu", "gpt", "async-copies"),
    ("gpt_small_copies", "gpt", "async-copies"),
    ("mlp", "mlp_compiled", "compile"),
    ("mlp", "mlp_graph", "cuda-graph"),
    ("decode", "decode_graph", "cuda-graph"),
];

/// The fix that was made in a pair whose rule is known; `-` if it is none of the shipped ones.
fn fix_of(slow: &str, mended: &str, code: &str) -> &'static str {
    let other = OTHER_FIXES.iter().find(|(a, b, _)| (*a, *b) == (slow, mended));
    let of_code = FIXES.iter().find(|(of, _)| *of == code).map(|(_, fix)| *fix);
    other.map(|(.., fix)| *fix).or(of_code).unwrap_or("-")
}

/// A prediction of what a fix saves, and what it saved.
struct Prediction {
    slow: String,
    mended: String,
    fix: String,
    /// Measured without the profiler.
    now_ms: f64,
    then_ms: f64,
    /// The interval, and the step in ms. `None` if the fix was not considered, or changes nothing.
    said: Option<(Range, f64)>,
}

impl Prediction {
    fn new(slow: &str, mended: &str, code: &str, now_ns: i64, then_ns: i64) -> Self {
        Self::left_out([slow, mended], fix_of(slow, mended, code), [now_ns, then_ns])
    }

    /// By effects that were fitted without the program.
    fn left_out(runs: [&str; 2], fix: &str, times_ns: [i64; 2]) -> Self {
        let [slow, mended] = runs;
        let found = left_out().iter().find(|said| {
            (said.pair.slow.as_str(), said.pair.mended.as_str(), said.pair.fix.as_str())
                == (slow, mended, fix)
        });
        Self::said(runs, fix, times_ns, found.map(|said| (said.range(), said.unprofiled_ms)))
    }

    fn said(
        runs: [&str; 2],
        fix: &str,
        [now_ns, then_ns]: [i64; 2],
        said: Option<(Range, f64)>,
    ) -> Self {
        let said =
            said.map(|(range, unprofiled_ms)| (range, unprofiled_ms * (1.0 - range.mid / 100.0)));
        let (now_ms, then_ms) = (now_ns as f64 / 1e6, then_ns as f64 / 1e6);
        let [slow, mended] = runs.map(str::to_owned);
        Self { slow, mended, fix: fix.to_owned(), now_ms, then_ms, said }
    }

    fn saved_pct(&self) -> f64 {
        100.0 * (1.0 - self.then_ms / self.now_ms)
    }

    /// Whether the measured saving is inside the interval. Without one, whether nothing to speak of was saved.
    fn holds(&self) -> bool {
        let saved_pct = self.saved_pct();
        self.said.map_or(saved_pct < 1.0, |(Range { low, high, .. }, _)| {
            (low..=high).contains(&saved_pct)
        })
    }

    fn width_pct(&self) -> Option<f64> {
        self.said.map(|(range, _)| range.high - range.low)
    }

    /// Relative error of the predicted step.
    fn error(&self) -> Option<f64> {
        self.said.as_ref().map(|(_, predicted_ms)| (predicted_ms / self.then_ms - 1.0).abs())
    }
}

/// All pairs, and the stages of GPT-2. The shares of the shipped fixes are fitted on them.
fn predictions() -> Vec<Prediction> {
    let pairs = recorded().pairs.into_iter().map(|pair| {
        let (now_ns, then_ns) = (pair.slow_step_ns, pair.mended_step_ns);
        Prediction::new(&pair.slow, &pair.mended, &pair.codes[0], now_ns, then_ns)
    });
    let stages = stages();
    let steps = stages.windows(2).map(|two| {
        let code = two[0].code.as_deref().unwrap();
        Prediction::new(&two[0].run, &two[1].run, code, two[0].step_ns, two[1].step_ns)
    });
    let on_cpu = cpu_pairs().into_iter().filter(|(pair, _)| pair.fitted).map(|(_, said)| said);
    pairs.chain(steps).chain(on_cpu).collect()
}

/// A run of a folder that names fixes in place of rules, and the same run with the fix.
#[derive(Deserialize)]
struct FixPair {
    slow: String,
    mended: String,
    fix: String,
    /// The shares of the fix are fitted on this pair.
    fitted: bool,
    slow_step_ns: i64,
    mended_step_ns: i64,
}

#[derive(Deserialize)]
struct FixPairs {
    pairs: Vec<FixPair>,
    #[serde(default)]
    runs: BTreeMap<String, PeakMemory>,
}

fn read_pairs(folder: &str) -> FixPairs {
    let text = std::fs::read(fixture(&format!("{folder}/pairs.json"))).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// The pairs of these folders of `tests/fixtures`.
fn fix_pairs(folders: &[&str]) -> Vec<(FixPair, Prediction)> {
    let of_folder = |folder: &str| {
        let predicted = read_pairs(folder).pairs.into_iter().map(|pair| {
            let times_ns = [pair.slow_step_ns, pair.mended_step_ns];
            let said = Prediction::left_out([&pair.slow, &pair.mended], &pair.fix, times_ns);
            (pair, said)
        });
        predicted.collect::<Vec<_>>()
    };
    folders.iter().copied().flat_map(of_folder).collect()
}

/// The pairs without a GPU.
fn cpu_pairs() -> Vec<(FixPair, Prediction)> {
    fix_pairs(&["cpu", "composer"])
}

/// The pairs of other programs than those that shares are fitted on.
fn held_out(folder: &str) -> Vec<Prediction> {
    fix_pairs(&[folder]).into_iter().map(|(_, said)| said).collect()
}

/// A fix that was measured.
pub(crate) struct Measured {
    pub(crate) set: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) slow: String,
    pub(crate) mended: String,
    pub(crate) fix: String,
    pub(crate) times_ns: [i64; 2],
}

/// All fixes that were measured.
pub(crate) fn all_measured() -> Vec<Measured> {
    let mut all = Vec::new();
    for pair in recorded().pairs {
        let fix = fix_of(&pair.slow, &pair.mended, &pair.codes[0]).to_owned();
        let times_ns = [pair.slow_step_ns, pair.mended_step_ns];
        let path = path_of(&pair.slow);
        all.push(Measured {
            set: "h100",
            path,
            slow: pair.slow,
            mended: pair.mended,
            fix,
            times_ns,
        });
    }
    for two in stages().windows(2) {
        let code = two[0].code.as_deref().unwrap();
        let fix = fix_of(&two[0].run, &two[1].run, code).to_owned();
        let times_ns = [two[0].step_ns, two[1].step_ns];
        let path = path_of(&two[0].run);
        let (slow, mended) = (two[0].run.clone(), two[1].run.clone());
        all.push(Measured { set: "gpt2", path, slow, mended, fix, times_ns });
    }
    for folder in ["cpu", "composer", "cpu/packages", "held_out", "host_limited"] {
        for pair in read_pairs(folder).pairs {
            let runs = fixture(&format!("{folder}/{}", pair.slow));
            let path = if runs.is_dir() { runs } else { runs.with_added_extension("json.gz") };
            let times_ns = [pair.slow_step_ns, pair.mended_step_ns];
            let (slow, mended, fix) = (pair.slow, pair.mended, pair.fix);
            all.push(Measured { set: folder, path, slow, mended, fix, times_ns });
        }
    }
    all
}

/// The middle value, and that at the 90th percentile.
fn quantiles(mut values: Vec<f64>) -> [f64; 2] {
    values.sort_by(f64::total_cmp);
    [0.5, 0.9].map(|share| values[((values.len() - 1) as f64 * share).round() as usize])
}

/// Reports of all runs, by name.
fn reports() -> &'static BTreeMap<String, Report> {
    static REPORTS: OnceLock<BTreeMap<String, Report>> = OnceLock::new();
    REPORTS.get_or_init(|| {
        let names = recorded().runs.into_keys().chain(stages().into_iter().map(|stage| stage.run));
        names
            .map(|name| (name.clone(), open(&name).check(&rules_with_preview()).unwrap()))
            .collect()
    })
}

fn finding<'r>(run: &str, code: &str) -> Option<&'r Finding> {
    reports()[run].findings.iter().find(|finding| finding.code == code)
}

fn slow_runs_have_the_expected_findings() {
    for pair in recorded().pairs {
        for code in &pair.codes {
            assert!(finding(&pair.slow, code).is_some(), "{}: {code} says nothing", pair.slow);
        }
    }
}

/// What the intervals promise: four of five pairs inside, not wider than 25 points, and steps that come true.
/// Fitted pairs are held to what they reach today.
fn predictions_hold() {
    let predictions = predictions();
    let inside = predictions.iter().filter(|p| p.holds()).count();
    let share = inside as f64 / predictions.len() as f64;
    let [width_pct, _] = quantiles(predictions.iter().filter_map(Prediction::width_pct).collect());
    let [error, worst] = quantiles(predictions.iter().filter_map(Prediction::error).collect());
    let told = format!("inside {share:.2}, width {width_pct:.1}, error {error:.3} and {worst:.3}");
    assert!(share >= 0.8 && width_pct <= 25.0 && error <= 0.08 && worst <= 0.31, "{told}");
    for prediction in &predictions {
        let Some((Range { low, mid, high }, predicted_ms)) = prediction.said else { continue };
        let (slow, name) = (&prediction.slow, &prediction.fix);
        assert!(predicted_ms > 0.0 && high <= 100.0, "{slow}: {name}");
        assert!(low <= mid && mid <= high, "{slow}: {name}");
    }
}

/// Runs of the corpus before and after a fix, none of which any share is fitted on.
const UNFITTED: [(&str, &str); 2] =
    [("resnet50_workers0", "resnet50_workers4"), ("composer/workers0", "composer/workers2")];

/// What loading in worker processes is said to save of a run of the corpus, and the median steps.
fn of_corpus(slow: &str, mended: &str) -> Prediction {
    let open = |name: &str| Run::open(traces().join(name)).unwrap();
    let run = open(slow);
    let report = run.check(&rules_with_preview()).unwrap();
    let query = "SELECT CAST(max(median_ns) AS BIGINT) FROM step_time_summary";
    let times_ns = [&run, &open(mended)].map(|run| ints(run, query)[0]);
    let found =
        report.findings.iter().flat_map(|f| &f.fixes).find(|fix| fix.fix == "loader-workers");
    // The steps that these runs are measured by were recorded too.
    let now_ms = times_ns[0] as f64 / 1e6;
    let said = found.map(|fix| (fix.alone_pct, now_ms));
    Prediction::said([slow, mended], "loader-workers", times_ns, said)
}

fn unfitted() -> Vec<Prediction> {
    let corpus = UNFITTED.iter().map(|(slow, mended)| of_corpus(slow, mended));
    let others = cpu_pairs().into_iter().filter(|(pair, _)| !pair.fitted).map(|(_, said)| said);
    corpus.chain(others).collect()
}

/// Pairs that no share is fitted on, by what they reach today.
fn pairs_that_were_not_used_for_fitting_hold() {
    let predictions = unfitted();
    for of_corpus in &predictions[..UNFITTED.len()] {
        let error = of_corpus.error().unwrap_or(1.0);
        assert!(of_corpus.holds() && error < 0.1, "{}: off by {error:.3}", of_corpus.slow);
    }
    let said: Vec<&Prediction> = predictions.iter().filter(|p| p.said.is_some()).collect();
    let inside = said.iter().filter(|p| p.holds()).count();
    assert!(inside as f64 >= 0.7 * said.len() as f64, "{inside} of {}", said.len());
    // Without a GPU, workers take the cores from the model.
    let of_cpu = of_corpus("generated/cpu_resnet_nw0", "generated/cpu_resnet_nw2");
    assert!(of_cpu.said.is_none() && of_cpu.saved_pct() < 0.0, "{:.1} %", of_cpu.saved_pct());
}

/// Pairs of other programs, on another GPU, by what they reach today.
fn predictions_for_other_programs_hold() {
    let predictions = held_out("held_out");
    let promised: Vec<&Prediction> = predictions.iter().filter(|p| p.said.is_some()).collect();
    let inside = promised.iter().filter(|p| p.holds()).count();
    assert!(inside as f64 >= 0.7 * promised.len() as f64, "{inside} of {}", promised.len());
    // GroupNorm copies tensors in channels_last: the step takes a third longer.
    let slower = predictions.iter().find(|p| p.slow == "large_denoiser_channels_first").unwrap();
    assert!(slower.said.is_none() && slower.saved_pct() < -30.0, "{:.1} %", slower.saved_pct());
    // The host is the limit, and autocast adds casts.
    let slower = predictions.iter().find(|p| p.slow == "denoiser_tf32").unwrap();
    let (range, _) = slower.said.unwrap();
    assert!(range.mid < 0.0 && slower.saved_pct() < 0.0, "{range:?}");
}

fn predictions_where_the_host_is_the_limit_hold() {
    let predictions = held_out("host_limited");
    let promised: Vec<&Prediction> = predictions.iter().filter(|p| p.said.is_some()).collect();
    let inside = promised.iter().filter(|p| p.holds()).count();
    assert!(inside as f64 >= 0.8 * promised.len() as f64, "{inside} of {}", promised.len());
    // No program is told to use 16 bits for less time, and the report says so where it mentions them.
    let casts = predictions.iter().filter(|p| p.fix == "mixed-precision");
    for said in casts {
        assert!(said.saved_pct() < 0.0, "{}: {:.1} %", said.slow, said.saved_pct());
        assert!(said.said.is_none_or(|(range, _)| range.mid < 0.0), "{}", said.slow);
    }
}

/// Programs of other packages on the CPU, whose first advice was committed before it was measured.
fn predictions_for_programs_of_other_packages_hold() {
    let predictions = held_out("cpu/packages");
    for said in &predictions {
        let promised = said.said.map(|(range, _)| range.mid);
        // What takes longer is not promised to save time, and what is promised to save time does.
        let is_right = promised.is_none_or(|mid| (mid > 0.0) == (said.saved_pct() > 0.0));
        assert!(is_right, "{} {}: {:.1} %", said.slow, said.mended, said.saved_pct());
    }
    let promised = predictions.iter().filter(|p| p.said.is_some());
    let inside = promised.clone().filter(|p| p.holds()).count();
    assert!(inside as f64 >= 0.6 * promised.clone().count() as f64, "{inside}");
}

/// A table of predictions, and how many hold.
fn table_with_counts(predictions: &[Prediction]) -> String {
    let said = predictions.iter().filter(|p| p.said.is_some());
    let inside = said.clone().filter(|p| p.holds()).count();
    let [error, worst] = quantiles(predictions.iter().filter_map(Prediction::error).collect());
    let [width_pct, _] = quantiles(predictions.iter().filter_map(Prediction::width_pct).collect());
    format!(
        "{}\nInside the interval: {inside} of {} for which a gain is promised; for {} of {}, nothing is. Median width: \
         {width_pct:.1} points. Error of the predicted step: {:.1} % in the median, {:.1} % at the 90th percentile.\n",
        rows(predictions),
        said.clone().count(),
        predictions.len() - said.count(),
        predictions.len(),
        100.0 * error,
        100.0 * worst
    )
}

/// The plan of the first recording of GPT-2 contains what was done, and ends where the program ended.
fn plan_of_the_first_recording_holds() {
    let stages = stages();
    let plan = reports()[&stages[0].run].plan.as_ref().unwrap();
    let planned: Vec<&str> = plan.fixes.iter().map(|fix| fix.fix.as_str()).collect();
    for fix in ["mixed-precision", "loader-workers"] {
        assert!(planned.contains(&fix), "{planned:?}");
    }
    let after = plan.fixes.last().unwrap().after_ms;
    // Compiling removes what only later recordings show: launches that hold up a faster step.
    let reached_ms = stages[stages.len() - 2].step_ns as f64 / 1e6;
    assert!(after.low <= reached_ms && reached_ms <= after.high, "{after:?}, {reached_ms} ms");
}

/// A rule that still fires on the mended run asks for less there.
fn mended_runs_have_smaller_findings() {
    // Fusing by hand, half of the precision, or a compiler leave some of it.
    let still = |pair: &Pair, code: &str| {
        let before = finding(&pair.slow, code).unwrap();
        finding(&pair.mended, code).is_some_and(|after| {
            let ms = |finding: &Finding| finding.gain.ms_per_step.unwrap_or(0.0);
            after.severity > Severity::Info && ms(after) > 0.9 * ms(before)
        })
    };
    let left: Vec<String> = recorded()
        .pairs
        .iter()
        .flat_map(|pair| {
            pair.codes
                .iter()
                .filter(|code| still(pair, code))
                .map(|code| format!("{} {code}", pair.slow))
        })
        .collect();
    assert_eq!(left, [""; 0]);
}

/// The rule that finds what a fix mends on the CPU.
const CPU_CODES: [(&str, &str); 14] = [
    ("compile-loops", "OP012"),
    ("fewer-threads", "OP014"),
    ("fused-optimizer", "OP001"),
    ("idle-cores", "OP019"),
    ("inference-mode", "OP006"),
    ("larger-batch", "OP015"),
    ("less-cpu-python", "HB012"),
    ("loader-workers", "IN001"),
    ("more-threads", "OP013"),
    ("no-debug-mode", "OP007"),
    ("no-half", "PR007"),
    ("no-printing", "OP023"),
    ("onednn", "OP011"),
    ("single-precision", "PR006"),
];

/// Runs in which the rule does not find it, or still does when it is mended, and why.
const CPU_EXCEPTIONS: [(&str, &str); 1] = [(
    "convolutions_one_by_one",
    "OP015 looks at matmuls: what larger batches bring to convolutions varies (docs/evidence/measured-gains.md)",
)];

fn runs_on_the_cpu_have_the_expected_finding_until_it_is_mended() {
    let pairs = read_pairs("cpu");
    let codes: BTreeMap<&str, &str> = CPU_CODES.into();
    let measured = |path: &str, code: &str| {
        let report = Run::open(fixture(path)).unwrap().check(&rules_with_preview()).unwrap();
        let finding = report.findings.into_iter().find(|f| f.code == code)?;
        (finding.severity > Severity::Info).then_some(finding.value)
    };
    let mut wrong = Vec::new();
    let mut judged = 0;
    for pair in pairs.pairs {
        let slow = fixture(&format!("cpu/{}.json.gz", pair.slow));
        let Some(code) = codes.get(pair.fix.as_str()).filter(|_| slow.exists()) else { continue };
        judged += 1;
        let before = measured(&format!("cpu/{}.json.gz", pair.slow), code);
        let after = measured(&format!("cpu/mended/{}.json.gz", pair.mended), code);
        if before.is_none() || after >= before.map(|value| 0.9 * value) {
            wrong.push(format!("{} {code} {before:?} -> {after:?}", pair.slow));
        }
    }
    assert_eq!(judged, 22);
    let is_excepted = |wrong: &String| {
        CPU_EXCEPTIONS.iter().any(|(slow, _)| wrong.starts_with(&format!("{slow} ")))
    };
    let (excepted, wrong): (Vec<String>, Vec<String>) = wrong.into_iter().partition(is_excepted);
    assert_eq!(wrong, [""; 0]);
    assert_eq!(excepted.len(), CPU_EXCEPTIONS.len(), "an exception is no longer needed");
}

fn ints(run: &Run, query: &str) -> Vec<i64> {
    let batches = run.sql(query).unwrap();
    let columns = batches[0].columns().iter();
    let whole = columns.map(|column| cast(column, &DataType::Int64).unwrap());
    whole.filter_map(|column| column.as_primitive::<Int64Type>().iter().next().flatten()).collect()
}

/// Peaks of memory are those that the allocator itself counted while the trace was recorded, to the byte.
fn memory_peaks_match_the_allocator() {
    for (name, held) in recorded().runs {
        let query = "SELECT peak_allocated_bytes, peak_reserved_bytes FROM memory_peak";
        let peaks = ints(&open(&name), query);
        // A replayed graph asks the allocator for nothing.
        let held = [held.allocated_bytes, held.reserved_bytes];
        assert_eq!(peaks, if name.ends_with("_graph") { &[][..] } else { &held }, "{name}");
    }
    let of_folder = |folder: &'static str| {
        read_pairs(folder).runs.into_iter().map(move |(name, held)| (folder, name, held))
    };
    for (folder, name, held) in ["held_out", "host_limited"].into_iter().flat_map(of_folder) {
        let run = Run::open(fixture(&format!("{folder}/{name}.json.gz"))).unwrap();
        let query = "SELECT peak_allocated_bytes, peak_reserved_bytes FROM memory_peak";
        assert_eq!(ints(&run, query), [held.allocated_bytes, held.reserved_bytes], "{name}");
    }
}

/// The same for the allocator's snapshot.
fn snapshot_totals_match_the_allocator() {
    let said = recorded().snapshot;
    let run = Run::open(fixture("h100/snapshot.pickle.gz")).unwrap();
    let query = "SELECT sum(segment_count), sum(reserved_bytes), sum(allocated_bytes) FROM snapshot_fragmentation";
    let of = |key: &str| said[key];
    assert_eq!(
        ints(&run, query),
        [
            of("segment.all.current"),
            of("reserved_bytes.all.current"),
            of("allocated_bytes.all.current")
        ]
    );
    // The history has the requested sizes; the allocator rounds each up to 512 bytes.
    let query = "SELECT max(peak_allocated_bytes), sum(allocation_count) FROM snapshot_peak";
    let [peak, count] = ints(&run, query)[..] else { panic!("two columns") };
    let rounded = of("allocated_bytes.all.peak");
    assert!((peak..peak + 512 * count).contains(&rounded), "{peak} asked for, {rounded} taken");
}

/// A table of predictions.
fn rows(predictions: &[Prediction]) -> String {
    let mut text = "| run | fixed run | a step takes | fixed | saves | fix | 80 % interval | inside | predicted step |\n\
         |---|---|--:|--:|--:|---|--:|---|--:|\n"
        .to_owned();
    for prediction in predictions {
        let (said, step) = match &prediction.said {
            Some((Range { low, high, .. }, predicted_ms)) => {
                (format!("{low:.1} to {high:.1} %"), format!("{predicted_ms:.2} ms"))
            }
            None => ("nothing".to_owned(), String::new()),
        };
        writeln!(
            text,
            "| {} | {} | {:.2} ms | {:.2} ms | {:.1} % | {} | {said} | {} | {step} |",
            prediction.slow,
            prediction.mended,
            prediction.now_ms,
            prediction.then_ms,
            prediction.saved_pct(),
            prediction.fix,
            if prediction.holds() { "yes" } else { "no" },
        )
        .unwrap();
    }
    text
}

fn table() -> String {
    let recorded = recorded();
    let predictions = predictions();
    let mut text = format!(
        "{}, PyTorch {}; the runs from `layers_single_tensor` on, of `tests/fixtures/cpu`, on two CPU cores. \
         Times without the profiler.\n\n",
        recorded.device, recorded.torch
    );
    text.push_str(&rows(&predictions));
    let inside = predictions.iter().filter(|p| p.holds()).count();
    let [width_pct, _] = quantiles(predictions.iter().filter_map(Prediction::width_pct).collect());
    let [error, worst] = quantiles(predictions.iter().filter_map(Prediction::error).collect());
    writeln!(
        text,
        "\nInside the interval: {inside} of {}. Median width: {width_pct:.1} points. Error of the predicted step: \
         {:.1} % in the median, {:.1} % at the 90th percentile.",
        predictions.len(),
        100.0 * error,
        100.0 * worst
    )
    .unwrap();
    text
}

/// The plan of the first recording, and the program as it followed its reports.
fn journey() -> String {
    let stages = stages();
    // Fitted without any GPT program.
    let rules = load_rules(&[effects_without("gpt")]).unwrap();
    let report = open(&stages[0].run).check(&rules).unwrap();
    let plan: &Plan = report.plan.as_ref().unwrap();
    let mut text = format!(
        "The first report, with effects that were fitted without any GPT program: a step takes {:.1} ms, {:.1} ms without the profiler.\n\n\
         | plan | saves | a step then takes | limited by |\n|---|--:|--:|---|\n",
        plan.recorded_ms, plan.unprofiled_ms.mid
    );
    for fix in &plan.fixes {
        let (saves, after) = (fix.saves_pct, fix.after_ms);
        writeln!(
            text,
            "| {}. {} | {:.1} to {:.1} % | {:.1} to {:.1} ms | {} |",
            fix.position,
            fix.title,
            saves.low.max(0.0),
            saves.high,
            after.low,
            after.high,
            fix.limit
        )
        .unwrap();
    }
    text.push_str("\nWhat was done, and measured without the profiler:\n\n");
    text.push_str(
        "| a step takes | done next | saves | 80 % interval of that report |\n|--:|---|--:|--:|\n",
    );
    for (place, stage) in stages.iter().enumerate() {
        write!(text, "| {:.1} ms |", stage.step_ns as f64 / 1e6).unwrap();
        match stage.code.as_deref().zip(stage.done.as_deref()).zip(stages.get(place + 1)) {
            Some(((code, done), after)) => {
                let told =
                    Prediction::new(&stage.run, &after.run, code, stage.step_ns, after.step_ns);
                let said = told.said.map_or_else(String::new, |(range, _)| {
                    format!("{:.1} to {:.1} %", range.low.max(0.0), range.high)
                });
                writeln!(text, " {done} | {:.1} % | {said} |", told.saved_pct())
            }
            None => writeln!(text, " | | |"),
        }
        .unwrap();
    }
    text
}

/// `page` with this text between the marks of that name.
fn with(page: &str, name: &str, text: &str) -> String {
    let marks = [format!("<!-- {name} -->\n"), format!("<!-- /{name} -->\n")];
    let (before, rest) = page.split_once(&marks[0]).unwrap();
    let (_, after) = rest.split_once(&marks[1]).unwrap();
    format!("{before}{}{text}{}{after}", marks[0], marks[1])
}

/// `UPDATE=1` rewrites the tables.
#[expect(clippy::disallowed_methods, reason = "UPDATE=1 is the one switch of generated files")]
fn tables_in_the_document_are_current() {
    let page = std::fs::read_to_string(DOCUMENT).unwrap();
    let fresh = with(&with(&page, "measured", &table()), "journey", &journey());
    let fresh = with(&fresh, "left-out", &left_out_tables());
    let fresh = with(&fresh, "unfitted", &table_with_counts(&unfitted()));
    let fresh = with(&fresh, "held-out", &table_with_counts(&held_out("held_out")));
    let fresh = with(&fresh, "host-limited", &table_with_counts(&held_out("host_limited")));
    let fresh = with(&fresh, "packages", &table_with_counts(&held_out("cpu/packages")));
    if std::env::var("UPDATE").is_ok_and(|v| v == "1") {
        std::fs::write(DOCUMENT, fresh).unwrap();
        return;
    }
    assert!(page == fresh, "docs/evidence/measured-gains.md is stale: run this test with UPDATE=1");
}
