//! Tells by shapes which operators can read results of other operators.

use rustc_hash::FxHashSet;

/// Starts that are tried.
const MAX_STARTS: usize = 16;

/// The sizes of a tensor.
type Dims = Vec<i64>;

/// Operators whose output has the shape of their first input, or of all inputs broadcast.
const SAME_SHAPE: [&str; 34] = [
    "relu",
    "gelu",
    "silu",
    "sigmoid",
    "tanh",
    "dropout",
    "layer_norm",
    "batch_norm",
    "group_norm",
    "rms_norm",
    "instance_norm",
    "softmax",
    "log_softmax",
    "leaky_relu",
    "hardtanh",
    "elu",
    "mish",
    "square",
    "pow",
    "sqrt",
    "rsqrt",
    "exp",
    "neg",
    "clone",
    "contiguous",
    "to",
    "_to_copy",
    "add",
    "sub",
    "mul",
    "div",
    "masked_fill",
    "clamp",
    "where",
];
/// Operators that return another view of their input.
const VIEWS: [&str; 18] = [
    "select",
    "slice",
    "narrow",
    "index",
    "index_select",
    "view",
    "reshape",
    "unsqueeze",
    "squeeze",
    "t",
    "transpose",
    "permute",
    "expand",
    "unbind",
    "split",
    "chunk",
    "flatten",
    "detach",
];
/// Operators whose inputs behind the first are parameters.
const WITH_PARAMETERS: [&str; 6] =
    ["linear", "batch_norm", "layer_norm", "group_norm", "rms_norm", "instance_norm"];

/// An operator, and the shapes of the tensors that it reads.
#[derive(Debug)]
pub(super) struct Operator<'a> {
    /// Without namespace and the mark of an operation in place.
    name: &'a str,
    inputs: Vec<Dims>,
}

impl<'a> Operator<'a> {
    /// `dims`: the shapes as JSON; a list of tensors has a list of shapes.
    pub(super) fn parse(name: &'a str, dims: &str) -> Self {
        let mut inputs = Vec::new();
        if let Ok(value) = serde_json::from_str(dims) {
            flatten(&value, &mut inputs);
        }
        let name = name.strip_prefix("aten::").unwrap_or(name);
        Self { name: name.strip_suffix('_').unwrap_or(name), inputs }
    }

    pub(super) fn has_inputs(&self) -> bool {
        !self.inputs.is_empty()
    }

    fn is_view(&self) -> bool {
        VIEWS.contains(&self.name)
    }

    fn is_convolution(&self) -> bool {
        self.name.contains("conv") && self.inputs.len() >= 2
    }

    /// The inputs other than parameters.
    fn activations(&self) -> &[Dims] {
        let inputs = &self.inputs;
        match self.name {
            "embedding" | "addmm" => inputs.get(1..2).unwrap_or(inputs),
            name if WITH_PARAMETERS.contains(&name) || self.is_convolution() => {
                inputs.get(..1).unwrap_or(inputs)
            }
            _ => inputs,
        }
    }

    /// The shape of its output; `None` if that does not follow from the shapes of the inputs.
    fn output(&self) -> Option<Dims> {
        let first = self.inputs.first()?;
        let second = self.inputs.get(1);
        match self.name {
            "linear" => Some(with_last(first, *second?.first()?)),
            "mm" | "bmm" => Some(with_last(first, *second?.last()?)),
            "addmm" => Some(vec![*second?.first()?, *self.inputs.get(2)?.last()?]),
            "embedding" => Some(second?.iter().chain(first.last()).copied().collect()),
            "scaled_dot_product_attention" => Some(with_last(first, *self.inputs.get(2)?.last()?)),
            name if WITH_PARAMETERS.contains(&name) => Some(first.clone()),
            name if SAME_SHAPE.contains(&name) => Some(broadcast(&self.inputs)),
            _ => None,
        }
    }

    /// Whether its output is known to have the shape of the first input of another operator.
    pub(super) fn feeds(&self, other: &Self) -> bool {
        self.output().is_some_and(|output| other.activations().first() == Some(&output))
    }
}

fn flatten(value: &serde_json::Value, found: &mut Vec<Dims>) {
    let Some(items) = value.as_array() else { return };
    let dims: Option<Dims> = items.iter().map(serde_json::Value::as_i64).collect();
    match dims {
        Some(dims) if !dims.is_empty() => found.push(dims),
        _ => items.iter().for_each(|item| flatten(item, found)),
    }
}

fn with_last(dims: &Dims, last: i64) -> Dims {
    let mut dims = dims.clone();
    if let Some(size) = dims.last_mut() {
        *size = last;
    }
    dims
}

fn broadcast(inputs: &[Dims]) -> Dims {
    let length = inputs.iter().map(Vec::len).max().unwrap_or(0);
    let size = |from_end: usize| {
        let sizes = inputs.iter().filter_map(|dims| dims.iter().rev().nth(from_end));
        sizes.copied().max().unwrap_or(1)
    };
    (0..length).rev().map(size).collect()
}

/// Shapes without the order of their sizes: `transpose` and `permute` change it.
fn unordered(dims: &Dims) -> Option<Dims> {
    let mut dims = dims.clone();
    dims.sort_unstable();
    // Tensors of one dimension are biases, lists of positions and the like.
    (dims.len() >= 2).then_some(dims)
}

/// The shapes that the operators of a repetition read and may yield.
pub(super) struct DataFlow<'a> {
    operators: &'a [Operator<'a>],
    read: Vec<Vec<Dims>>,
    yielded: Vec<Vec<Dims>>,
}

impl<'a> DataFlow<'a> {
    pub(super) fn new(operators: &'a [Operator<'a>]) -> Self {
        let length = operators.len();
        let read = |operator: &Operator<'_>| -> Vec<Dims> {
            operator.activations().iter().filter_map(unordered).collect()
        };
        let yielded = |at: usize| -> Vec<Dims> {
            let operator = &operators[at];
            if let Some(output) = operator.output() {
                return unordered(&output).into_iter().collect();
            }
            // The inputs of the next operator, and the operator's own inputs if it may change them in place.
            let changes_channels = operator.is_convolution()
                && operator.inputs[1].first() != operator.inputs[0].get(1);
            let own: &[Dims] =
                if operator.is_view() || changes_channels { &[] } else { &operator.inputs[..] };
            let next = operators[(at + 1) % length].activations();
            own.iter().chain(next).filter_map(unordered).collect()
        };
        Self {
            operators,
            read: operators.iter().map(read).collect(),
            yielded: (0..length).map(yielded).collect(),
        }
    }

    /// The operator that reads a shape that no operator yields, if from there on every shape is yielded before it is read, or
    /// never.
    pub(super) fn first_operator(&self) -> Option<usize> {
        // Without two dimensions, the tensor that goes from operator to operator cannot be followed.
        let is_flat = |operator: &&Operator<'_>| {
            let computes =
                ["linear", "mm", "addmm", "mv", "dot", "matmul"].contains(&operator.name);
            computes && operator.activations().first().is_some_and(|dims| dims.len() < 2)
        };
        if self.operators.iter().any(|operator| is_flat(&operator)) {
            return None;
        }
        let all: FxHashSet<&Dims> = self.yielded.iter().flatten().collect();
        let is_start = |&at: &usize| {
            let read = &self.read[at];
            !self.operators[at].is_view()
                && !read.is_empty()
                && !read.iter().any(|dims| all.contains(dims))
        };
        let starts = (0..self.operators.len()).filter(is_start).take(MAX_STARTS);
        starts.into_iter().find(|&start| self.is_closed(start, &all))
    }

    fn is_closed(&self, start: usize, all: &FxHashSet<&Dims>) -> bool {
        let length = self.operators.len();
        let mut known: FxHashSet<&Dims> = FxHashSet::default();
        (0..length).map(|offset| (start + offset) % length).all(|at| {
            let is_known = |dims: &Dims| !all.contains(dims) || known.contains(dims);
            let is_closed = self.read[at].iter().all(is_known);
            known.extend(&self.yielded[at]);
            is_closed
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{DataFlow, Operator};

    fn first(operators: &[(&str, &str)]) -> Option<usize> {
        let operators: Vec<Operator<'_>> =
            operators.iter().map(|(name, dims)| Operator::parse(name, dims)).collect();
        DataFlow::new(&operators).first_operator()
    }

    const LINEAR: (&str, &str) = ("aten::linear", "[[4,32,64],[64,64],[64]]");
    const GELU: (&str, &str) = ("aten::gelu", "[[4,32,64]]");

    #[test]
    fn a_pass_reads_a_shape_that_no_operator_yields() {
        let stem = ("aten::conv2d", "[[2,3,32,32],[8,3,3,3],[8],[],[],[],[]]");
        let norm = ("aten::batch_norm", "[[2,8,30,30],[8],[8],[8],[8],[],[],[],[]]");
        let flatten = ("aten::flatten", "[[2,8,30,30],[],[]]");
        let head = ("aten::linear", "[[2,7200],[10,7200],[10]]");
        assert_eq!(first(&[norm, flatten, head, stem]), Some(3));
        let embedding = ("aten::embedding", "[[500,64],[4,32],[],[],[]]");
        let head = ("aten::linear", "[[4,32,64],[500,64],[500]]");
        assert_eq!(first(&[LINEAR, GELU, head, embedding]), Some(3));
    }

    #[test]
    fn layers_read_what_layers_yield() {
        assert_eq!(first(&[LINEAR, GELU]), None);
        let norm = ("aten::layer_norm", "[[4,32,64],[],[64],[64],[],[]]");
        let add = ("aten::add", "[[4,32,64],[4,32,64],[]]");
        assert_eq!(first(&[norm, LINEAR, GELU, add]), None);
        // A decoder layer also reads the output of the encoder, of another length.
        let memory = ("aten::linear", "[[4,9,64],[64,64],[64]]");
        let attention =
            ("aten::scaled_dot_product_attention", "[[4,32,64],[4,9,64],[4,9,64],[],[],[],[],[]]");
        assert_eq!(first(&[LINEAR, memory, memory, attention, add]), None);
    }

    #[test]
    fn unknown_shapes_decide_nothing() {
        assert_eq!(
            first(&[("aten::linear", "[[64],[64,64],[64]]"), ("aten::relu", "[[64]]")]),
            None
        );
        assert_eq!(
            first(&[("custom::layer", "[[4,32,64]]"), ("custom::norm", "[[4,32,64]]")]),
            None
        );
    }
}
