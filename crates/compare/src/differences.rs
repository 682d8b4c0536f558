//! What differs about two runs as a whole: the device, the ranks, the steps, the program, the batch, and what was recorded.
//!
//! Most of this explains a change, and may be what the comparison is about: another GPU, a compiled program, a larger batch.
//! Only runs that did different work are not comparable.

use std::collections::BTreeMap;

use arrow::array::Array as _;
use query::columns::{ints, texts};
use query::{Result, Session};
use serde::Serialize;
use trace_model::vocabulary::is_collective_range;

use crate::level::Level;
use crate::memory::MemoryDiff;
use crate::rows::{Amounts, Row};
use crate::run_totals::SelectedSteps;

/// One thing that differs about two runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What differs: `GPU`, `ranks`, `batch shape` ...
    pub what: &'static str,
    /// Of the run before.
    pub before: String,
    /// Of the run after.
    pub after: String,
    /// Why the runs are not comparable, in a clause; absent if this does not prevent a comparison.
    pub not_comparable: Option<String>,
}

impl Difference {
    fn new(what: &'static str, [before, after]: [String; 2]) -> Self {
        Self { what, before, after, not_comparable: None }
    }

    /// `GPU: Tesla V100 -> NVIDIA H100`.
    pub fn phrase(&self) -> String {
        format!("{}: {} -> {}", self.what, self.before, self.after)
    }
}

/// A run that is compared.
#[derive(Debug, Clone, Copy)]
pub(super) struct ComparedRun<'a> {
    pub(super) session: &'a Session,
    /// Ranks that are compared.
    pub(super) ranks: &'a [i32],
    /// Absent if only memory is compared.
    pub(super) steps: Option<&'a SelectedSteps>,
}

/// Columns of the view `run_traits` that differ if both runs have a value, and what they are called.
const PROGRAM: &[(&str, &str)] = &[
    (TRAINING, "training"),
    ("optimizer", "optimizer"),
    ("is_compiled", "torch.compile"),
    ("is_graphed", "captured graphs"),
    ("reduction_dtype", "type of reductions"),
    (FRAMEWORKS, "frameworks"),
];
const TRAINING: &str = "is_training";
const FRAMEWORKS: &str = "frameworks";

/// Columns of the table `ranks`, and the options of the profiler that record what they tell.
const OPTIONS: &[(&str, &str)] =
    &[("has_shapes", "record_shapes"), (STACKS, "with_stack"), ("has_memory", "profile_memory")];
const STACKS: &str = "has_stacks";

/// Traits after which the operators of the same work have other names.
const RENAMING: &[&str] = &["is_compiled", "is_graphed", "has_graph_launches"];

/// Share of the time of operators below which runs do different work.
const LEAST_COMMON_WORK: f64 = 0.5;

/// What differs about two runs. `rows`: all names.
pub(super) fn differences(
    runs: [ComparedRun<'_>; 2],
    rows: &[Row],
    memory: Option<&MemoryDiff>,
) -> Result<Vec<Difference>> {
    let [before, after] = runs;
    let traits = [traits(before.session)?, traits(after.session)?];
    let mut differences: Vec<Difference> =
        [device(&traits), ranks(&traits), steps(runs)].into_iter().flatten().collect();
    differences.extend(PROGRAM.iter().filter_map(|(column, what)| program(column, what, &traits)));
    differences.extend(batch(runs, memory)?);
    differences.extend(work(&traits, rows));
    if traits.iter().all(|of| of.flag("has_host") == Some(true)) {
        let recorded = [recorded(before)?, recorded(after)?];
        let options = OPTIONS.iter().enumerate().filter_map(|(at, (_, option))| {
            different(recorded.each_ref().map(|of| Some(of[at])))
                .map(|on| Difference::new(option, on.map(|on| word(on, ["off", "on"]))))
        });
        differences.extend(options);
    }
    Ok(differences)
}

/// The row of the view `run_traits`; what is not known is left out.
struct Traits(BTreeMap<String, String>);

impl Traits {
    fn text(&self, column: &str) -> Option<&str> {
        self.0.get(column).map(String::as_str)
    }

    fn flag(&self, column: &str) -> Option<bool> {
        self.text(column)?.parse().ok()
    }
}

fn traits(session: &Session) -> Result<Traits> {
    let mut traits = BTreeMap::new();
    for batch in session.analyze("run_traits")?.iter().filter(|batch| batch.num_rows() > 0) {
        for field in batch.schema().fields() {
            let values = texts(batch, field.name())?;
            if values.is_valid(0) {
                traits.insert(field.name().clone(), values.value(0).to_owned());
            }
        }
    }
    Ok(Traits(traits))
}

/// Both values, if both are known and differ.
fn different<T: PartialEq>([before, after]: [Option<T>; 2]) -> Option<[T; 2]> {
    before.zip(after).filter(|(before, after)| before != after).map(<[T; 2]>::from)
}

fn word(is: bool, [no, yes]: [&str; 2]) -> String {
    if is { yes } else { no }.to_owned()
}

/// The devices, by the most specific names that both runs have.
fn device(traits: &[Traits; 2]) -> Option<Difference> {
    const NAMES: [&str; 3] = ["device_name", "device_family", "vendor"];
    NAMES.iter().find_map(|name| different(traits.each_ref().map(|of| of.text(name))))?;
    let [before, after] = traits.each_ref().map(|of| NAMES.iter().find_map(|name| of.text(name)));
    Some(Difference::new("GPU", [before?.to_owned(), after?.to_owned()]))
}

/// The ranks of the recordings and of the jobs.
fn ranks(traits: &[Traits; 2]) -> Option<Difference> {
    different(traits.each_ref().map(|of| of.text("rank_count")))
        .or_else(|| different(traits.each_ref().map(|of| of.text("world_size"))))?;
    let [before, after] = traits.each_ref().map(|of| {
        let count = of.text("rank_count")?;
        Some(match of.text("world_size") {
            Some(world) if world != count => format!("{count} of {world}"),
            _ => count.to_owned(),
        })
    });
    Some(Difference::new("ranks", [before?, after?]))
}

fn steps(runs: [ComparedRun<'_>; 2]) -> Option<Difference> {
    let counts = runs.map(|run| run.steps.map(SelectedSteps::steps_per_rank).filter(|n| *n > 0));
    Some(Difference::new("steps", different(counts)?.map(|count| count.to_string())))
}

fn program(column: &str, what: &'static str, traits: &[Traits; 2]) -> Option<Difference> {
    let has_stacks = traits.each_ref().map(|of| of.flag(STACKS));
    // Frameworks are recognized by frames, which only one of the runs has then.
    if column == FRAMEWORKS && different(has_stacks).is_some() {
        return None;
    }
    let values = different(traits.each_ref().map(|of| of.text(column)))?;
    let values = values.map(|value| match value.parse() {
        Ok(is) => word(is, ["no", "yes"]),
        Err(_) => value.to_owned(),
    });
    let mut difference = Difference::new(what, values);
    if column == TRAINING {
        let (trains, other) = match traits[0].flag(TRAINING) {
            Some(true) => ("before", "after"),
            _ => ("after", "before"),
        };
        let reason = format!("the run {trains} trains, the run {other} does not");
        difference.not_comparable = Some(reason);
    }
    Some(difference)
}

/// Which of [`OPTIONS`] were on for some rank.
fn recorded(run: ComparedRun<'_>) -> Result<[bool; OPTIONS.len()]> {
    let mut is_on = [false; OPTIONS.len()];
    for batch in run.session.sql("SELECT rank, has_shapes, has_stacks, has_memory FROM ranks")? {
        let ranks = ints(&batch, "rank")?;
        for (is_on, (column, _)) in is_on.iter_mut().zip(OPTIONS) {
            let has = ints(&batch, column)?;
            let mut values = ranks.values().iter().zip(has.values());
            *is_on |= values.any(|(rank, has)| run.has_rank(*rank) && *has != 0);
        }
    }
    Ok(is_on)
}

impl ComparedRun<'_> {
    fn has_rank(self, rank: i64) -> bool {
        self.ranks.iter().any(|known| i64::from(*known) == rank)
    }
}

/// Name and shape of the weight of an operator that takes a batch.
type Layer = (String, String);

/// Shapes of inputs by how often they occur.
type InputCounts = BTreeMap<String, i64>;

/// The most frequent input of the first layer whose inputs differ, or how many bytes the inputs take.
fn batch(runs: [ComparedRun<'_>; 2], memory: Option<&MemoryDiff>) -> Result<Option<Difference>> {
    let (before, after) = (inputs(runs[0])?, inputs(runs[1])?);
    let after: BTreeMap<Layer, InputCounts> = after.into_iter().collect();
    let of_layer = |(layer, inputs): &(Layer, InputCounts)| {
        different([most_frequent(inputs), most_frequent(after.get(layer)?)])
    };
    if let Some(shapes) = before.iter().find_map(of_layer) {
        return Ok(Some(Difference::new("batch shape", shapes)));
    }
    let ratio = memory.and_then(|memory| memory.devices.iter().find_map(|device| device.batch));
    Ok(ratio.map(|batch| {
        let after = format!("{:.0} %", batch.batch_ratio * 100.0);
        Difference::new("bytes of the inputs", ["100 %".to_owned(), after])
    }))
}

fn most_frequent(inputs: &InputCounts) -> Option<String> {
    inputs.iter().max_by_key(|(_, count)| **count).map(|(shape, _)| shape.clone())
}

/// The layers that the first rank runs in the steps that are compared, first the one that runs first, with their inputs.
fn inputs(run: ComparedRun<'_>) -> Result<Vec<(Layer, InputCounts)>> {
    let Some((steps, rank)) = run.steps.zip(run.ranks.first().copied()) else {
        return Ok(Vec::new());
    };
    let query = format!(
        "SELECT step, name, input_dims, min(ts_ns) AS ts_ns, count(*) AS call_count FROM cpu_ops WHERE rank = {rank} \
         AND name IN ('aten::conv1d', 'aten::conv2d', 'aten::conv3d', 'aten::embedding', 'aten::linear') \
         AND step IS NOT NULL AND input_dims IS NOT NULL \
         GROUP BY step, name, input_dims ORDER BY ts_ns, name, input_dims"
    );
    let positions = steps.positions();
    let mut layers: Vec<(Layer, InputCounts)> = Vec::new();
    let mut at: BTreeMap<Layer, usize> = BTreeMap::new();
    for rows in run.session.sql(&query)? {
        let (steps, counts) = (ints(&rows, "step")?, ints(&rows, "call_count")?);
        let (names, dims) = (texts(&rows, "name")?, texts(&rows, "input_dims")?);
        for i in (0..rows.num_rows()).filter(|i| positions.contains_key(&(rank, steps.value(*i)))) {
            let Some([first, second]) = first_shapes(dims.value(i)) else { continue };
            let is_table = names.value(i) == "aten::embedding";
            let (input, weight) = if is_table { (second, first) } else { (first, second) };
            let layer = (names.value(i).to_owned(), weight);
            let at = *at.entry(layer.clone()).or_insert_with(|| {
                layers.push((layer, InputCounts::new()));
                layers.len() - 1
            });
            let count = layers[at].1.entry(input).or_default();
            *count = count.saturating_add(counts.value(i));
        }
    }
    Ok(layers)
}

/// `[32, 3, 224, 224]` and `[64, 3, 7, 7]` of `[[32, 3, 224, 224], [64, 3, 7, 7], []]`.
fn first_shapes(input_dims: &str) -> Option<[String; 2]> {
    let mut shapes = input_dims.strip_prefix('[')?.split(']').map(|shape| {
        let shape = shape.trim_start_matches([',', ' ']).strip_prefix('[')?;
        let sizes: Vec<&str> = shape.split(',').map(str::trim).collect();
        (!shape.is_empty() && !shape.contains('[')).then(|| format!("[{}]", sizes.join(", ")))
    });
    Some([shapes.next()??, shapes.next()??])
}

/// The operators, if so little of their time is common to both runs that the runs do different work.
fn work(traits: &[Traits; 2], rows: &[Row]) -> Option<Difference> {
    let is_renaming = |column| different(traits.each_ref().map(|of| of.flag(column))).is_some();
    if RENAMING.iter().copied().any(is_renaming) {
        return None;
    }
    let is_work = |row: &&Row| row.level == Level::Operator && !is_collective(&row.name);
    let operators: Vec<&Row> = rows.iter().filter(is_work).collect();
    let shares =
        [common_share(&operators, |a| a.self_ns), common_share(&operators, |a| a.device_ns)];
    // What a loader does on the host moves to its workers, and kernels may do what others did: either time may differ.
    let common = shares.into_iter().flatten().reduce(f64::max)?;
    if common >= LEAST_COMMON_WORK {
        return None;
    }
    let longest = |of: fn(&Row) -> &Amounts| {
        let time = |row: &Row| of(row).self_ns + of(row).device_ns;
        operators.iter().max_by(|x, y| time(x).total_cmp(&time(y)))
    };
    let before = longest(|row| &row.before)?;
    let after = longest(|row| &row.after)?;
    let before = before.renamed_from.as_ref().unwrap_or(&before.name);
    Some(Difference {
        not_comparable: Some(format!(
            "the runs do different work: {:.0} % of the time of operators is in operators of both runs",
            common * 100.0
        )),
        ..Difference::new("longest operator", [before.clone(), after.name.clone()])
    })
}

/// Returns whether an operator is a collective or describes one: its time is that of waiting for other ranks.
fn is_collective(operator: &str) -> bool {
    is_collective_range(operator)
        || operator.starts_with("c10d::")
        || operator.starts_with("record_param_comms")
}

/// The time that both runs spend in the same operators, over the time of the run that spends less. Nothing that one of the
/// runs adds to the work of the other lowers it. Absent if a run has no such time.
fn common_share(operators: &[&Row], time: fn(&Amounts) -> f64) -> Option<f64> {
    let sum = |of: &dyn Fn(&Row) -> f64| operators.iter().map(|row| of(row)).sum::<f64>();
    let (before, after) = (sum(&|row| time(&row.before)), sum(&|row| time(&row.after)));
    let common = sum(&|row| time(&row.before).min(time(&row.after)));
    let least = before.min(after);
    (least > 0.0).then(|| common / least)
}

#[cfg(test)]
mod tests {
    use super::{Difference, Traits, common_share, device, first_shapes, program, ranks, work};
    use crate::level::Level;
    use crate::rows::{Amounts, Row};

    fn traits(pairs: &[(&str, &str)]) -> Traits {
        Traits(
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        )
    }

    fn operator(name: &str, [before, after]: [f64; 2]) -> Row {
        let amounts = |ns: f64| Amounts { self_ns: ns, device_ns: ns, ..Amounts::default() };
        Row::of_both(Level::Operator, name, [amounts(before), amounts(after)])
    }

    fn phrase(difference: Option<Difference>) -> String {
        difference.map_or_else(String::new, |d| d.phrase())
    }

    #[test]
    fn device_is_named_as_well_as_both_runs_can() {
        let v100 =
            [("device_name", "Tesla V100"), ("device_family", "Volta"), ("vendor", "nvidia")];
        let h100 = [("device_name", "NVIDIA H100"), ("vendor", "nvidia")];
        let cpu = [("device_family", "CPU"), ("vendor", "cpu")];
        let unnamed = [("vendor", "nvidia")];
        let of = |before: &[_], after: &[_]| phrase(device(&[traits(before), traits(after)]));
        assert_eq!(of(&v100, &h100), "GPU: Tesla V100 -> NVIDIA H100");
        assert_eq!(of(&v100, &cpu), "GPU: Tesla V100 -> CPU");
        assert_eq!(of(&v100, &v100), "");
        assert_eq!(of(&v100, &unnamed), "", "an unknown name is no other name");
    }

    #[test]
    fn ranks_are_those_of_the_job_too() {
        let of = |before: &[_], after: &[_]| phrase(ranks(&[traits(before), traits(after)]));
        let one = [("rank_count", "1")];
        let two = [("rank_count", "2"), ("world_size", "128")];
        assert_eq!(of(&one, &two), "ranks: 1 -> 2 of 128");
        let all = [("rank_count", "2"), ("world_size", "2")];
        assert_eq!(of(&two, &all), "ranks: 2 of 128 -> 2");
        assert_eq!(of(&one, &[("rank_count", "1"), ("world_size", "8")]), "");
    }

    #[test]
    fn only_training_forbids_a_comparison_of_programs() {
        let of = |column, before: &str, after: &str| {
            program(column, "it", &[traits(&[(column, before)]), traits(&[(column, after)])])
        };
        let training = of("is_training", "false", "true").unwrap();
        assert_eq!(training.phrase(), "it: no -> yes");
        let reason = "the run after trains, the run before does not";
        assert_eq!(training.not_comparable.as_deref(), Some(reason));
        let compiled = of("is_compiled", "false", "true").unwrap();
        assert_eq!(compiled.not_comparable, None);
        let frameworks = |stacks| traits(&[("has_stacks", stacks), ("frameworks", stacks)]);
        let of_frames = program("frameworks", "it", &[frameworks("true"), frameworks("false")]);
        assert_eq!(of_frames, None, "only one run has the frames that tell");
    }

    #[test]
    fn first_shapes_are_of_input_and_weight() {
        let pair = first_shapes("[[32, 3, 224, 224], [64, 3, 7, 7], [], []]").unwrap();
        assert_eq!(pair, ["[32, 3, 224, 224]", "[64, 3, 7, 7]"]);
        assert_eq!(first_shapes("[[8,4],[2,4]]"), Some(["[8, 4]", "[2, 4]"].map(str::to_owned)));
        for other in ["[]", "[[8, 4]]", "[[], [8, 4]]", "[[[2, 3], [4]], [8]]", "8", ""] {
            assert_eq!(first_shapes(other), None, "{other}");
        }
    }

    #[test]
    fn work_is_different_if_both_runs_spend_their_time_elsewhere() {
        let same = [traits(&[]), traits(&[])];
        let others = [
            operator("aten::conv2d", [90.0, 0.0]),
            operator("aten::add", [10.0, 10.0]),
            operator("aten::embedding", [0.0, 500.0]),
        ];
        let difference = work(&same, &others).unwrap();
        assert_eq!(difference.phrase(), "longest operator: aten::conv2d -> aten::embedding");
        let reason = difference.not_comparable.unwrap();
        assert!(reason.contains("do different work: 10 %"), "{reason}");
        // The names of compiled code say nothing.
        let compiled = |is: &str| traits(&[("is_compiled", is)]);
        assert_eq!(work(&[compiled("false"), compiled("true")], &others), None);
        // The same collective is no work in common.
        let mut waits = others.to_vec();
        waits.push(operator("nccl:all_reduce", [900.0, 900.0]));
        assert!(work(&same, &waits).is_some());
    }

    #[test]
    fn work_that_is_added_or_slower_is_comparable() {
        let same = [traits(&[]), traits(&[])];
        let added = [operator("aten::mm", [10.0, 10.0]), operator("aten::sort", [0.0, 900.0])];
        assert_eq!(work(&same, &added), None);
        let slower = [operator("aten::mm", [10.0, 900.0]), operator("aten::add", [9.0, 1.0])];
        assert_eq!(work(&same, &slower), None);
        let rows: Vec<&Row> = slower.iter().collect();
        assert!((common_share(&rows, |a| a.self_ns).unwrap() - 11.0 / 19.0).abs() < 1e-12);
        assert_eq!(common_share(&[], |a| a.self_ns), None);
        // Nothing is known of a run without operators.
        assert_eq!(work(&same, &[operator("aten::mm", [10.0, 0.0])]), None);
    }
}
