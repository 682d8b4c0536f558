//! Costs of operators that move more data than they compute: elementwise, norms, reductions, copies, gathers.

use super::cost::{Cost, OpClass};
use super::inputs::{Arguments, Dtype, Tensor};

pub(super) fn cost(library: &str, operator: &str, arguments: &Arguments) -> Option<Cost> {
    if library != "aten" {
        return serving_norm(library, operator, arguments)
            .or_else(|| cache_write(library, operator, arguments));
    }
    norm(operator, arguments)
        .or_else(|| reduction(operator, arguments))
        .or_else(|| moved(operator, arguments))
        .or_else(|| elementwise(operator, arguments))
}

fn new_cost(class: OpClass, flops: f64, read_bytes: f64, elements: f64, result: Dtype) -> Cost {
    Cost {
        class,
        flops,
        read_bytes,
        written_bytes: elements * result.bytes(),
        output_elements: elements,
        dtype: result,
        gemm: None,
        convolution: None,
        paged: None,
        details: String::new(),
    }
}

// --- Norms and softmax -----------------------------------------------------------------------------------------

/// Operations per element: mean, variance, scale and shift of a norm; exponential, sum and quotient of a softmax.
const NORM_FLOPS: f64 = 8.0;
const SOFTMAX_FLOPS: f64 = 5.0;

fn norm(operator: &str, arguments: &Arguments) -> Option<Cost> {
    // The tensors of full size that are read; the result has the shape of the first. The last number is the factor over
    // the operations of forward.
    let (class, first, second, factor) = match operator {
        "native_layer_norm"
        | "native_group_norm"
        | "native_batch_norm"
        | "cudnn_batch_norm"
        | "miopen_batch_norm"
        | "_native_batch_norm_legit"
        | "_batch_norm_with_update"
        | "_fused_rms_norm"
        | "batch_norm_elemt" => (OpClass::Norm, 0, None, 1.0),
        "native_layer_norm_backward"
        | "native_group_norm_backward"
        | "native_batch_norm_backward"
        | "cudnn_batch_norm_backward"
        | "miopen_batch_norm_backward"
        | "_fused_rms_norm_backward"
        | "batch_norm_backward"
        | "batch_norm_backward_elemt" => (OpClass::Norm, 0, Some(1), 2.0),
        // Only sums over channels are written.
        "batch_norm_stats" => return read_only(OpClass::Norm, arguments, 0, NORM_FLOPS / 2.0),
        "_softmax" | "_log_softmax" | "_masked_softmax" | "_safe_softmax" => {
            (OpClass::Softmax, 0, None, 1.0)
        }
        "_softmax_backward_data" | "_log_softmax_backward_data" => {
            (OpClass::Softmax, 0, Some(1), 1.0)
        }
        _ => return None,
    };
    let one = arguments.matrix(first)?;
    let others = second.map_or(Some(0.0), |at| arguments.matrix(at).map(Tensor::bytes))?;
    let flops_per_element = if class == OpClass::Norm { NORM_FLOPS } else { SOFTMAX_FLOPS };
    // `half_to_float`: 16 bit in, 32 bit out.
    let widens = class == OpClass::Softmax && second.is_none() && arguments.flag(2) == Some(true);
    let result = if widens { Dtype::Fp32 } else { one.dtype };
    let elements = one.elements();
    Some(new_cost(
        class,
        flops_per_element * factor * elements,
        one.bytes() + others,
        elements,
        result,
    ))
}

/// Operations per element of an RMS norm: square, sum, scale by the norm, scale by the weight.
const RMS_NORM_FLOPS: f64 = 4.0;

/// RMS norms of inference servers; those with an addition add a residual first, and write the sum, too.
fn serving_norm(library: &str, operator: &str, arguments: &Arguments) -> Option<Cost> {
    // The positions of the input, of the residual, and of the weight. Results that are arguments are not read.
    let (input, residual, weight) = match (library, operator) {
        ("aiter", "rms_norm" | "rmsnorm2d_fwd") => (0, None, 1),
        ("aiter", "rmsnorm2d_fwd_with_add_ck" | "rmsnorm2d_fwd_with_add") => (1, Some(2), 4),
        ("_C", "rms_norm") | ("sgl_kernel", "rmsnorm") | ("aiter", "rms_norm_cu") => (1, None, 2),
        ("_C", "fused_add_rms_norm") | ("sgl_kernel", "fused_add_rmsnorm") => (0, Some(1), 2),
        _ => return None,
    };
    let (one, weight) = (arguments.matrix(input)?, arguments.tensor(weight)?);
    let residual = residual.map_or(Some(0.0), |at| arguments.matrix(at).map(Tensor::bytes))?;
    let elements = one.elements();
    let additions = if residual > 0.0 { 1.0 } else { 0.0 };
    let mut cost = new_cost(
        OpClass::Norm,
        (RMS_NORM_FLOPS + additions) * elements,
        one.bytes() + residual + weight.bytes(),
        elements,
        one.dtype,
    );
    cost.written_bytes += residual;
    Some(cost)
}

/// The copy of new keys and values into a paged cache.
fn cache_write(library: &str, operator: &str, arguments: &Arguments) -> Option<Cost> {
    if library != "_C_cache_ops" || !operator.starts_with("reshape_and_cache") {
        return None;
    }
    let (key, value) = (arguments.matrix(0)?, arguments.matrix(1)?);
    let cache = cache_dtype(operator, arguments).unwrap_or(key.dtype);
    let elements = key.elements() + value.elements();
    Some(new_cost(OpClass::Copy, 0.0, key.bytes() + value.bytes(), elements, cache))
}

/// The type of the elements of a paged cache, from an operator that writes to it.
pub(super) fn cache_dtype(operator: &str, arguments: &Arguments) -> Option<Dtype> {
    operator.contains("reshape_and_cache").then(|| arguments.matrix(2))?.map(|cache| cache.dtype)
}

fn read_only(
    class: OpClass,
    arguments: &Arguments,
    at: usize,
    flops_per_element: f64,
) -> Option<Cost> {
    let input = arguments.matrix(at)?;
    let flops = flops_per_element * input.elements();
    Some(new_cost(class, flops, input.bytes(), 0.0, input.dtype))
}

// --- Reductions ------------------------------------------------------------------------------------------------

fn reduction(operator: &str, arguments: &Arguments) -> Option<Cost> {
    let is_known = matches!(
        operator,
        "sum"
            | "mean"
            | "max"
            | "min"
            | "amax"
            | "amin"
            | "argmax"
            | "argmin"
            | "prod"
            | "norm"
            | "linalg_vector_norm"
            | "var"
            | "var_mean"
            | "std"
            | "all"
            | "any"
            | "logsumexp"
    );
    // Two tensors: `max(a, b)` compares element by element.
    if !is_known || arguments.matrix(1).is_some() && matches!(operator, "max" | "min") {
        return None;
    }
    let input = arguments.matrix(0)?;
    // Norms have their order before the dimensions.
    let at = if operator.ends_with("norm") { 2 } else { 1 };
    let dims = arguments.numbers(at).or_else(|| Some(vec![arguments.number(at)?]));
    let kept = kept_elements(input, dims);
    Some(new_cost(OpClass::Reduction, input.elements(), input.bytes(), kept, input.dtype))
}

/// The number of elements of `input` after reducing these dimensions; one if the dimensions are not known.
fn kept_elements(input: &Tensor, dims: Option<Vec<f64>>) -> f64 {
    let Some(dims) = dims.filter(|dims| !dims.is_empty()) else { return 1.0 };
    let rank = input.shape.len() as f64;
    let is_reduced = |at: usize| dims.iter().any(|&dim| (dim - at as f64).rem_euclid(rank) < 0.5);
    let kept = input.shape.iter().enumerate().filter(|&(at, _)| !is_reduced(at));
    kept.map(|(_, length)| length).product()
}

// --- Copies and gathers ----------------------------------------------------------------------------------------

fn moved(operator: &str, arguments: &Arguments) -> Option<Cost> {
    match operator {
        "copy_" => {
            let (to, from) = (arguments.matrix(0)?, arguments.matrix(1)?);
            Some(new_cost(OpClass::Copy, 0.0, from.bytes(), to.elements(), to.dtype))
        }
        "fill_" | "zero_" => {
            let to = arguments.matrix(0)?;
            Some(new_cost(OpClass::Copy, 0.0, 0.0, to.elements(), to.dtype))
        }
        "index_select" => {
            let (table, index) = (arguments.matrix(0)?, arguments.matrix(2)?);
            let dim = arguments.number(1).unwrap_or(0.0);
            let rows = kept_elements(table, Some(vec![dim])).max(1.0);
            Some(gathered(rows * index.elements(), table.dtype, index))
        }
        "gather" => {
            let (table, index) = (arguments.matrix(0)?, arguments.matrix(2)?);
            Some(gathered(index.elements(), table.dtype, index))
        }
        "embedding_dense_backward" => {
            let (gradient, index) = (arguments.matrix(0)?, arguments.matrix(1)?);
            Some(gathered(gradient.elements(), gradient.dtype, index))
        }
        _ => None,
    }
}

fn gathered(elements: f64, dtype: Dtype, index: &Tensor) -> Cost {
    new_cost(OpClass::Gather, 0.0, elements * dtype.bytes() + index.bytes(), elements, dtype)
}

// --- Elementwise -----------------------------------------------------------------------------------------------

/// The number of inputs that are read, and the kind of output.
fn arity(operator: &str) -> Option<(usize, Output)> {
    use Output::{Bool, Like, WithMask};
    Some(match operator {
        "neg" | "abs" | "exp" | "log" | "sqrt" | "rsqrt" | "reciprocal" | "sin" | "cos"
        | "tanh" | "sigmoid" | "relu" | "gelu" | "silu" | "mish" | "softplus" | "elu"
        | "leaky_relu" | "hardtanh" | "hardswish" | "hardsigmoid" | "clamp" | "clamp_min"
        | "clamp_max" | "threshold" | "pow" | "erf" | "floor" | "ceil" | "round" | "sign"
        | "exp2" | "log2" | "log1p" | "expm1" | "square" | "tril" | "triu" | "cumsum" => (1, Like),
        "add"
        | "sub"
        | "rsub"
        | "mul"
        | "div"
        | "maximum"
        | "minimum"
        | "fmod"
        | "remainder"
        | "floor_divide"
        | "atan2"
        | "threshold_backward"
        | "gelu_backward"
        | "silu_backward"
        | "sigmoid_backward"
        | "tanh_backward"
        | "hardtanh_backward"
        | "hardswish_backward"
        | "leaky_relu_backward"
        | "elu_backward"
        | "native_dropout_backward"
        | "masked_fill"
        | "mse_loss"
        | "max"
        | "min"
        | "bitwise_and"
        | "bitwise_or"
        | "bitwise_xor" => (2, Like),
        "addcmul" | "addcdiv" | "lerp" | "mse_loss_backward" | "where" => (3, Like),
        "native_dropout" | "_fused_dropout" => (1, WithMask),
        "eq" | "ne" | "lt" | "le" | "gt" | "ge" | "logical_and" | "logical_or" | "logical_xor" => {
            (2, Bool)
        }
        "logical_not" | "bitwise_not" | "isnan" | "isinf" => (1, Bool),
        _ => return None,
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    /// The type of the inputs.
    Like,
    Bool,
    /// The type of the inputs, and a mask of one byte per element.
    WithMask,
}

fn elementwise(operator: &str, arguments: &Arguments) -> Option<Cost> {
    // `add_` writes into its first input.
    let (name, in_place) = match operator.strip_suffix('_') {
        Some(name) => (name, true),
        None => (operator, false),
    };
    let (count, output) = arity(name)?;
    let inputs = || (0..count).filter_map(|at| arguments.tensor(at));
    let elements = if in_place { arguments.tensor(0)?.elements() } else { broadcast(inputs())? };
    if elements < 1.0 {
        return None;
    }
    let result = match output {
        _ if in_place => arguments.tensor(0)?.dtype,
        Output::Bool => Dtype::Other(1),
        // The type of the values, not of the condition.
        _ if name == "where" => arguments.tensor(1).or_else(|| arguments.tensor(2))?.dtype,
        Output::Like | Output::WithMask => arguments.promoted(count)?,
    };
    let read: f64 = inputs().map(Tensor::bytes).sum();
    let mut cost = new_cost(OpClass::Elementwise, elements, read, elements, result);
    if output == Output::WithMask {
        cost.written_bytes += elements;
    }
    Some(cost)
}

/// The number of elements of the shape that all inputs are broadcast to.
fn broadcast<'t>(inputs: impl Iterator<Item = &'t Tensor>) -> Option<f64> {
    let mut shape: Vec<f64> = Vec::new();
    for tensor in inputs {
        for (i, &length) in tensor.shape.iter().rev().enumerate() {
            match shape.get_mut(i) {
                None => shape.push(length),
                Some(known) if *known <= 1.0 => *known = length,
                Some(known) if length <= 1.0 || (*known - length).abs() < 0.5 => {}
                // These shapes cannot be broadcast.
                Some(_) => return None,
            }
        }
    }
    Some(shape.iter().product())
}
