//! `cpu_computations`: operators that compute on the CPU in a program that uses a device.
//!
//! An operator without a launch, copy or fill inside has no work on the device. Its time is work of the CPU if one of its
//! innermost operators does work, which excludes operators that make a view, allocate memory or read a number, and operators
//! on numbers (such as the step counters of an optimizer), where calling the operator takes the time.
//!
//! One pass over the operators of each thread, which nest: `O(n log n)`.

use std::collections::{BTreeMap, HashSet};

use query::BatchBuilder;
use query::columns::{Names, get, ints, names};
use query::rust_view::{Result, RustView, ViewInputs};
use trace_model::RecordBatch;
use trace_model::vocabulary::is_collective_range;

/// `cpu_computations`.
pub(crate) const VIEW: RustView = RustView::new("cpu_computations", INPUTS, cpu_computations);

const INPUTS: &[(&str, &str)] = &[
    (
        "ops",
        "SELECT rank, thread, event_id, name, ts_ns, ts_ns + dur_ns AS end_ns,
            CASE
                WHEN coalesce(CAST(input_dims AS VARCHAR), '') = '' THEN ''
                WHEN regexp_like(CAST(input_dims AS VARCHAR), '[2-9]|[1-9][0-9]') THEN 'tensors'
                ELSE 'numbers'
            END AS inputs
        FROM cpu_ops
        WHERE rank IN (SELECT DISTINCT rank FROM device_work)
        ORDER BY rank, thread, ts_ns, end_ns DESC, event_id",
    ),
    (
        "launches",
        "SELECT rank, thread, ts_ns FROM runtime_calls
        WHERE device_events > 0 OR name LIKE '%Launch%' OR name LIKE '%Memcpy%' OR name LIKE '%Memset%'
        ORDER BY rank, thread, ts_ns",
    ),
    // Operators whose work is linked to them, but not to a call: calls of the driver are missing in old traces.
    (
        "launching_ops",
        "SELECT DISTINCT o.rank, o.thread, o.ts_ns
        FROM device_work w
        JOIN cpu_ops o ON o.rank = w.rank AND o.event_id = w.op
        WHERE w.launch IS NULL OR w.launch_thread <> o.thread
        ORDER BY o.rank, o.thread, o.ts_ns",
    ),
    // Kernels that neither a call nor an operator of the recording launched, the early ones of each stream left out.
    (
        "unlinked",
        "SELECT w.rank, count(*) AS kernel_count, sum(CASE WHEN w.launch IS NULL AND w.op IS NULL THEN 1 ELSE 0 END) AS unlinked_count
        FROM device_work w
        LEFT JOIN (
            SELECT rank, device, stream, min(ts_ns) AS ts_ns FROM device_work WHERE launch IS NOT NULL GROUP BY rank, device, stream
        ) f ON f.rank = w.rank AND f.device = w.device AND f.stream = w.stream
        WHERE w.category = 'kernel' AND (f.ts_ns IS NULL OR w.ts_ns > f.ts_ns)
        GROUP BY w.rank",
    ),
];

/// An operator that takes this long itself computes, whatever its inputs, and even where launches are missing.
const LONG_NS: i64 = 1_000_000;
/// Without shapes, a shorter operator may handle a number: calling an operator takes a few microseconds.
const MIN_UNKNOWN_NS: i64 = 10_000;
/// Above this ratio of kernels without a launch, an operator without a launch may have one that is not recorded.
const MAX_UNLINKED_RATIO: f64 = 0.05;

/// What is known of an operator's inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OperatorInputs {
    Unknown,
    /// No tensor has two elements or more.
    Numbers,
    Tensors,
}

/// What an operator does by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OperatorKind {
    /// A range of autograd, of a compiler or of the program: the operators inside decide.
    Range,
    /// Makes views, takes memory, reads a number, communicates, or returns its input.
    Bookkeeping,
    /// Fills a tensor whose size its inputs do not tell.
    Generator,
    Work,
}

/// Namespaces whose operators neither compute nor launch, or communicate.
const BOOKKEEPING_SPACES: [&str; 7] =
    ["autograd", "torch::autograd", "profiler", "c10d", "_c10d", "torch::distributed", "fsdp"];

/// Operators of `aten` that do nothing with the elements of a tensor where no other operator is inside them. A trailing
/// underscore is left out.
const BOOKKEEPING: [&str; 86] = [
    "_conj",
    "_has_compatible_shallow_copy_type",
    "_local_scalar_dense",
    "_neg_view",
    "_reshape_alias",
    "_unsafe_view",
    "_version",
    "adjoint",
    "alias",
    "align_as",
    "align_to",
    "alpha_dropout",
    "as_strided",
    "broadcast_tensors",
    "broadcast_to",
    "can_cast",
    "chunk",
    "conj",
    "contiguous",
    "data",
    "detach",
    "diagonal",
    "dim",
    "dropout",
    "dsplit",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "equal_size",
    "expand",
    "expand_as",
    "feature_dropout",
    "flatten",
    "hsplit",
    "imag",
    "is_complex",
    "is_contiguous",
    "is_floating_point",
    "is_nonzero",
    "is_pinned",
    "is_same_size",
    "item",
    "lift",
    "lift_fresh",
    "mH",
    "mT",
    "matrix_H",
    "moveaxis",
    "movedim",
    "narrow",
    "new_empty",
    "new_empty_strided",
    "numel",
    "numpy_T",
    "output_nr",
    "permute",
    "promote_types",
    "ravel",
    "real",
    "record_stream",
    "requires_grad",
    "reshape",
    "reshape_as",
    "resize",
    "resize_as",
    "resolve_conj",
    "resolve_neg",
    "result_type",
    "retain_grad",
    "select",
    "set",
    "set_data",
    "size",
    "slice",
    "split",
    "split_with_sizes",
    "squeeze",
    "stride",
    "swapaxes",
    "swapdims",
    "t",
    "tensor_split",
    "to",
    "transpose",
    "type_as",
];

/// Further operators that do nothing with the elements of a tensor.
const BOOKKEEPING_OF_VIEWS: [&str; 10] = [
    "unbind",
    "unflatten",
    "unflatten_dense_tensors",
    "unfold",
    "unsafe_chunk",
    "unsafe_split",
    "unsqueeze",
    "view",
    "view_as",
    "vsplit",
];

/// Operators of `aten` that fill tensors, by their beginning: inputs are sizes.
const GENERATORS: [&str; 17] = [
    "arange",
    "bartlett_window",
    "blackman_window",
    "eye",
    "full",
    "hamming_window",
    "hann_window",
    "linspace",
    "logspace",
    "ones",
    "rand",
    "range",
    "scalar_tensor",
    "tril_indices",
    "triu_indices",
    "vander",
    "zeros",
];

/// Operators that fill a tensor in place.
const FILLS: [&str; 12] = [
    "fill_",
    "zero_",
    "normal_",
    "uniform_",
    "random_",
    "bernoulli_",
    "exponential_",
    "geometric_",
    "log_normal_",
    "cauchy_",
    "normal",
    "bernoulli",
];

impl OperatorKind {
    fn of(name: &str) -> Self {
        let Some((space, of_space)) = name.split_once("::") else { return Self::Range };
        if is_collective_range(name) || BOOKKEEPING_SPACES.contains(&space) {
            return if space == "autograd" { Self::Range } else { Self::Bookkeeping };
        }
        if BOOKKEEPING_SPACES.iter().any(|space| name.starts_with(&format!("{space}::"))) {
            return Self::Bookkeeping;
        }
        if space != "aten" {
            return Self::Work;
        }
        let plain = of_space.trim_end_matches('_');
        if BOOKKEEPING.contains(&plain)
            || BOOKKEEPING_OF_VIEWS.contains(&plain)
            || of_space.starts_with("_foreach_")
        {
            return Self::Bookkeeping;
        }
        let generates = GENERATORS.iter().any(|generator| of_space.starts_with(generator));
        if generates { Self::Generator } else { Self::Work }
    }
}

/// Returns whether an operator creates a tensor from nothing: numbers in a range, random ones, or one number.
fn creates_tensor(name: &str) -> bool {
    name.strip_prefix("aten::").is_some_and(|of_space| {
        FILLS.contains(&of_space)
            || GENERATORS.iter().any(|generator| of_space.starts_with(generator))
    })
}

/// An operator of a thread.
#[derive(Debug, Clone, Copy)]
struct Operator {
    row: usize,
    ts_ns: i64,
    end_ns: i64,
    kind: OperatorKind,
    inputs: OperatorInputs,
    /// Something is launched inside.
    launches: bool,
    /// Time of operators directly inside.
    inner_ns: i64,
    /// Time in which operators inside, or this one, do work.
    work_ns: i64,
    /// The part of that time in which they create tensors.
    creation_ns: i64,
}

/// A row of the view.
#[derive(Debug, Clone, Copy)]
struct Computation {
    row: usize,
    creation_ns: i64,
    work_ns: i64,
}

fn cpu_computations(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let batch = inputs.batch("ops")?;
    let (rank, thread) = (ints(batch, "rank")?, ints(batch, "thread")?);
    let (event, name) = (ints(batch, "event_id")?, names(batch, "name")?);
    let (ts_ns, end_ns) = (ints(batch, "ts_ns")?, ints(batch, "end_ns")?);
    let known_inputs = names(batch, "inputs")?;
    let kinds: Vec<OperatorKind> = name.texts.iter().map(|name| OperatorKind::of(name)).collect();
    let creates: Vec<bool> = name.texts.iter().map(|name| creates_tensor(name)).collect();
    let launches = launches_by_lane(inputs)?;
    let incomplete = ranks_without_launches(inputs)?;
    let mut computations: Vec<Computation> = Vec::new();
    let rows = batch.num_rows();
    let mut first = 0;
    while first < rows {
        let lane = (rank.value(first), get(&thread, first));
        let mut last = first + 1;
        while last < rows && (rank.value(last), get(&thread, last)) == lane {
            last += 1;
        }
        // A thread that launches nothing hands its work to one that does, or only computes.
        let of_lane = lane.1.and_then(|thread| launches.get(&(lane.0, thread)));
        if let Some(launches) = of_lane {
            let is_incomplete = incomplete.contains(&lane.0);
            let operators = (first..last).map(|row| {
                let id = name.ids[row] as usize;
                let (ts_ns, end_ns) = (ts_ns.value(row), end_ns.value(row));
                let next = launches.partition_point(|&launch| launch < ts_ns);
                Operator {
                    row,
                    ts_ns,
                    end_ns,
                    kind: kinds.get(id).copied().unwrap_or(OperatorKind::Range),
                    inputs: inputs_of(&known_inputs, row),
                    launches: launches.get(next).is_some_and(|&launch| launch < end_ns),
                    inner_ns: 0,
                    work_ns: 0,
                    creation_ns: 0,
                }
            });
            let creates =
                |row: usize| creates.get(name.ids[row] as usize).copied().unwrap_or_default();
            find_computations(operators, is_incomplete, creates, &mut computations);
        }
        first = last;
    }
    computations.sort_unstable_by_key(|computation| computation.row);
    BatchBuilder::of(&computations)
        .int("rank", |c| Some(rank.value(c.row)))
        .int("thread", |c| get(&thread, c.row))
        .int("event_id", |c| Some(event.value(c.row)))
        .text("name", |c| name.get(c.row))
        .int("ts_ns", |c| Some(ts_ns.value(c.row)))
        .int("end_ns", |c| Some(end_ns.value(c.row)))
        .int("dur_ns", |c| Some(end_ns.value(c.row) - ts_ns.value(c.row)))
        .flag("is_creation", |c| 2 * c.creation_ns > c.work_ns)
        .finish()
}

fn inputs_of(known: &Names, row: usize) -> OperatorInputs {
    match known.get(row) {
        Some("tensors") => OperatorInputs::Tensors,
        Some("numbers") => OperatorInputs::Numbers,
        _ => OperatorInputs::Unknown,
    }
}

/// Starts of launches, copies and fills by thread, ascending.
fn launches_by_lane(inputs: &ViewInputs<'_>) -> Result<BTreeMap<(i64, i64), Vec<i64>>> {
    let mut launches: BTreeMap<(i64, i64), Vec<i64>> = BTreeMap::new();
    for table in ["launches", "launching_ops"] {
        let batch = inputs.batch(table)?;
        let (rank, thread) = (ints(batch, "rank")?, ints(batch, "thread")?);
        let ts_ns = ints(batch, "ts_ns")?;
        for row in 0..batch.num_rows() {
            if let Some(thread) = get(&thread, row) {
                launches.entry((rank.value(row), thread)).or_default().push(ts_ns.value(row));
            }
        }
    }
    for launches in launches.values_mut() {
        launches.sort_unstable();
    }
    Ok(launches)
}

/// Ranks whose recording lacks many launches.
fn ranks_without_launches(inputs: &ViewInputs<'_>) -> Result<HashSet<i64>> {
    let batch = inputs.batch("unlinked")?;
    let (rank, all) = (ints(batch, "rank")?, ints(batch, "kernel_count")?);
    let unlinked = ints(batch, "unlinked_count")?;
    let is_incomplete =
        |row: &usize| unlinked.value(*row) as f64 > MAX_UNLINKED_RATIO * all.value(*row) as f64;
    Ok((0..batch.num_rows()).filter(is_incomplete).map(|row| rank.value(row)).collect())
}

/// Adds the outermost operators of a thread that launch nothing and compute. `operators` are sorted by start, those around
/// others first.
fn find_computations(
    operators: impl Iterator<Item = Operator>,
    is_incomplete: bool,
    creates: impl Fn(usize) -> bool,
    found: &mut Vec<Computation>,
) {
    let mut open: Vec<Operator> = Vec::new();
    // Computations inside operators that are open, by depth: an operator around them that launches nothing replaces them.
    let close = |open: &mut Vec<Operator>, found: &mut Vec<Computation>| {
        let Some(mut operator) = open.pop() else { return };
        let own_ns = operator.end_ns - operator.ts_ns - operator.inner_ns;
        let has_inner = operator.inner_ns > 0;
        let works = match operator.kind {
            OperatorKind::Range | OperatorKind::Bookkeeping => false,
            _ if own_ns >= LONG_NS => 2 * own_ns >= operator.end_ns - operator.ts_ns,
            _ if has_inner || is_incomplete => false,
            OperatorKind::Generator => own_ns >= MIN_UNKNOWN_NS,
            OperatorKind::Work => match operator.inputs {
                OperatorInputs::Tensors => true,
                OperatorInputs::Numbers => false,
                OperatorInputs::Unknown => own_ns >= MIN_UNKNOWN_NS,
            },
        };
        if works && !operator.launches {
            operator.work_ns += own_ns;
            if creates(operator.row) {
                operator.creation_ns += own_ns;
            }
        }
        let is_computation = !operator.launches
            && operator.work_ns > 0
            && !matches!(operator.kind, OperatorKind::Range);
        if is_computation {
            while found.last().is_some_and(|inner| inner.row > operator.row) {
                found.pop();
            }
            let Operator { row, creation_ns, work_ns, .. } = operator;
            found.push(Computation { row, creation_ns, work_ns });
        }
        if let Some(around) = open.last_mut() {
            around.inner_ns += operator.end_ns - operator.ts_ns;
            around.work_ns += operator.work_ns;
            around.creation_ns += operator.creation_ns;
        }
    };
    for operator in operators {
        while open.last().is_some_and(|around| around.end_ns <= operator.ts_ns) {
            close(&mut open, found);
        }
        open.push(operator);
    }
    while !open.is_empty() {
        close(&mut open, found);
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Computation, Operator, OperatorInputs, OperatorKind, creates_tensor, find_computations,
    };

    /// Names of the computations among operators: name, start, duration, inputs, and whether something is launched inside.
    fn computing(
        operators: &[(&str, i64, i64, OperatorInputs, bool)],
        is_incomplete: bool,
    ) -> Vec<usize> {
        let rows =
            operators.iter().enumerate().map(|(row, &(name, ts_ns, dur_ns, inputs, launches))| {
                Operator {
                    row,
                    ts_ns,
                    end_ns: ts_ns + dur_ns,
                    kind: OperatorKind::of(name),
                    inputs,
                    launches,
                    inner_ns: 0,
                    work_ns: 0,
                    creation_ns: 0,
                }
            });
        let mut found: Vec<Computation> = Vec::new();
        find_computations(rows, is_incomplete, |row| creates_tensor(operators[row].0), &mut found);
        found.iter().map(|computation| computation.row).collect()
    }

    const US: i64 = 1_000;
    use OperatorInputs::{Numbers, Tensors, Unknown};

    #[test]
    fn the_outermost_operator_that_launches_nothing_computes() {
        let found = computing(
            &[
                ("aten::matmul", 0, 330 * US, Tensors, false),
                ("aten::bmm", 5 * US, 320 * US, Tensors, false),
                // Of an operator that launches, the part inside that does not.
                ("aten::index", 400 * US, 100 * US, Tensors, true),
                ("aten::nonzero", 410 * US, 30 * US, Tensors, false),
                ("aten::_to_copy", 450 * US, 20 * US, Tensors, true),
                // A range of autograd.
                (
                    "autograd::engine::evaluate_function: MulBackward0",
                    600 * US,
                    90 * US,
                    Unknown,
                    false,
                ),
                ("MulBackward0", 601 * US, 80 * US, Tensors, false),
                ("aten::mul", 602 * US, 70 * US, Tensors, false),
            ],
            false,
        );
        assert_eq!(found, [0, 3, 7]);
    }

    #[test]
    fn views_and_step_counters_are_part_of_launching() {
        let none = computing(
            &[
                ("aten::linear", 0, 137 * US, Tensors, false),
                ("aten::t", 10 * US, 50 * US, Tensors, false),
                ("aten::transpose", 15 * US, 40 * US, Tensors, false),
                ("aten::add_", 200 * US, 18 * US, Numbers, false),
                ("aten::add_", 220 * US, 2 * US, Unknown, false),
                ("aten::_foreach_add_", 300 * US, 170 * US, Tensors, false),
                ("aten::add_", 310 * US, 18 * US, Numbers, false),
                ("aten::item", 500 * US, 3 * US, Numbers, false),
                ("aten::to", 510 * US, 2 * US, Tensors, false),
                ("aten::empty_strided", 520 * US, 40 * US, Numbers, false),
                ("aten::squeeze_", 580 * US, 20 * US, Tensors, false),
                ("c10d::allreduce_", 600 * US, 50 * US, Tensors, false),
                ("torch::autograd::AccumulateGrad", 700 * US, 50 * US, Tensors, false),
                ("forward", 800 * US, 2_000 * US, Unknown, false),
            ],
            false,
        );
        // The linear has work of its own by its name, and only views inside.
        assert_eq!(none, Vec::<usize>::new());
    }

    #[test]
    fn short_operators_compute_if_their_tensors_are_known() {
        let found = computing(
            &[
                ("aten::max", 0, 4 * US, Tensors, false),
                ("aten::max", 10 * US, 4 * US, Unknown, false),
                ("aten::max", 20 * US, 40 * US, Unknown, false),
                ("aten::randn", 100 * US, 60 * US, Numbers, false),
                ("aten::empty", 101 * US, 5 * US, Numbers, false),
                ("aten::normal_", 110 * US, 45 * US, Tensors, false),
                ("aten::arange", 200 * US, 15 * US, Numbers, false),
            ],
            false,
        );
        assert_eq!(found, [0, 2, 3, 6]);
    }

    #[test]
    fn only_long_operators_count_where_launches_are_missing() {
        let found = computing(
            &[
                ("aten::conv2d", 0, 900 * US, Tensors, false),
                ("aten::copy_", 1_000 * US, 5_000 * US, Numbers, false),
            ],
            true,
        );
        assert_eq!(found, [1]);
    }

    #[test]
    fn creates_tensor_knows_what_fills() {
        for name in [
            "aten::randn",
            "aten::normal_",
            "aten::zeros_like",
            "aten::arange",
            "aten::randint",
            "aten::full",
        ] {
            assert!(creates_tensor(name), "{name}");
        }
        for name in ["aten::copy_", "aten::bmm", "aten::cat", "torchvision::nms"] {
            assert!(!creates_tensor(name), "{name}");
        }
    }
}
