//! Costs of matmuls, convolutions and attention.

use super::cost::{Context, Convolution, Cost, Gemm, OpClass};
use super::inputs::{Arguments, Dtype, Tensor};

pub(super) fn cost(
    library: &str,
    operator: &str,
    arguments: &Arguments,
    context: Context<'_>,
) -> Option<Cost> {
    match library {
        "aten" => gemm(operator, arguments)
            .or_else(|| convolution(operator, arguments, context))
            .or_else(|| attention(operator, arguments)),
        "flash_attn" => attention(operator, arguments),
        _ => None,
    }
}

// --- Matmuls ---------------------------------------------------------------------------------------------------

fn gemm(operator: &str, arguments: &Arguments) -> Option<Cost> {
    // The positions of the factors, and of the addend.
    let (left, right, added) = match operator {
        "mm" | "bmm" | "mv" | "dot" | "vdot" | "_scaled_mm" | "_int_mm" | "matmul"
        | "_grouped_mm" => (0, 1, None),
        "addmm" | "addmm_" | "_addmm_activation" | "baddbmm" | "baddbmm_" | "addmv" | "addmv_" => {
            (1, 2, Some(0))
        }
        "linear" => return linear(arguments),
        _ => return None,
    };
    let (one, other) = (arguments.matrix(left)?, arguments.matrix(right)?);
    let gemm = sizes(operator, &one.shape, &other.shape)?;
    let (dtype, result) = result_type(operator, one.dtype);
    let added = added.and_then(|at| arguments.tensor(at)).map_or(0.0, Tensor::bytes);
    let elements = gemm.batch * gemm.m * gemm.n;
    Some(Cost {
        class: OpClass::Gemm,
        flops: 2.0 * elements * gemm.k,
        read_bytes: one.bytes() + other.bytes() + added,
        written_bytes: elements * result.bytes(),
        output_elements: elements,
        dtype,
        gemm: Some(Gemm { is_aligned: is_aligned(one, other, gemm.n, dtype), ..gemm }),
        convolution: None,
        paged: None,
        details: String::new(),
    })
}

/// The sizes of a matmul, if the shapes fit.
fn sizes(operator: &str, one: &[f64], other: &[f64]) -> Option<Gemm> {
    let gemm = |batch, m, n, k| Gemm { batch, m, n, k, is_aligned: true };
    let (inner, found) = match (operator, one, other) {
        // Each group of rows has its own matrix.
        ("_grouped_mm", &[m, k], &[_, inner, n]) => (inner, gemm(1.0, m, n, k)),
        ("_grouped_mm", ..) => return None,
        (_, &[k], &[inner]) => (inner, gemm(1.0, 1.0, 1.0, k)),
        (_, &[m, k], &[inner]) => (inner, gemm(1.0, m, 1.0, k)),
        (_, &[m, k], &[inner, n]) => (inner, gemm(1.0, m, n, k)),
        (_, &[batch, m, k], &[same, inner, n]) if is_same(batch, same) => {
            (inner, gemm(batch, m, n, k))
        }
        _ => return None,
    };
    is_same(inner, found.k).then_some(found)
}

/// Whether two lengths are equal. Lengths are integers.
fn is_same(length: f64, other: f64) -> bool {
    (length - other).abs() < 0.5
}

/// The types of factors and result: 8-bit factors give wider results.
fn result_type(operator: &str, dtype: Dtype) -> (Dtype, Dtype) {
    match (operator, dtype) {
        ("_int_mm", _) => (Dtype::Int8, Dtype::Other(4)),
        (_, Dtype::Fp8) => (Dtype::Fp8, Dtype::Bf16),
        _ => (dtype, dtype),
    }
}

/// `linear(x, weight, bias)`, where no operator inside has a cost of its own.
fn linear(arguments: &Arguments) -> Option<Cost> {
    let (x, weight) = (arguments.matrix(0)?, arguments.matrix(1)?);
    let (&k, &[n, inner]) = (x.shape.last()?, weight.shape.as_slice()) else { return None };
    if !is_same(k, inner) || k <= 0.0 {
        return None;
    }
    let m = x.elements() / k;
    let bias = arguments.tensor(2).map_or(0.0, Tensor::bytes);
    let is_aligned = fits_16_bytes(k, x.dtype) && fits_16_bytes(n, x.dtype);
    Some(Cost {
        class: OpClass::Gemm,
        flops: 2.0 * m * n * k,
        read_bytes: x.bytes() + weight.bytes() + bias,
        written_bytes: m * n * x.dtype.bytes(),
        output_elements: m * n,
        dtype: x.dtype,
        gemm: Some(Gemm { batch: 1.0, m, n, k, is_aligned }),
        convolution: None,
        paged: None,
        details: String::new(),
    })
}

fn fits_16_bytes(length: f64, dtype: Dtype) -> bool {
    (length * dtype.bytes()) % 16.0 < 0.5
}

/// Whether rows that are adjacent in memory begin at multiples of 16 bytes: for each factor along the dimension
/// with a stride of 1 (the last one where strides are not known), for the result along its last.
fn is_aligned(one: &Tensor, other: &Tensor, n: f64, dtype: Dtype) -> bool {
    let contiguous = |tensor: &Tensor| {
        let rank = tensor.shape.len();
        let last_two = rank.saturating_sub(2)..rank;
        let dense = last_two.clone().rev().find(|&i| tensor.strides.get(i) == Some(&1.0));
        dense.or_else(|| last_two.last()).map_or(0.0, |i| tensor.shape[i])
    };
    // A vector has no rows.
    let is_vector = n <= 1.0 || one.shape.len() < 2;
    is_vector
        || [contiguous(one), contiguous(other), n]
            .iter()
            .all(|&length| fits_16_bytes(length, dtype))
}

// --- Convolutions ----------------------------------------------------------------------------------------------

/// Positions of the arguments of a convolution.
struct ConvolutionArgs {
    stride: usize,
    padding: usize,
    dilation: usize,
    transposed: Transposed,
    output_padding: usize,
}

enum Transposed {
    No,
    Yes,
    /// An argument of this position is the flag.
    At(usize),
}

fn convolution_args(operator: &str) -> Option<ConvolutionArgs> {
    use Transposed::{At, No, Yes};
    let args = |stride, padding, dilation, transposed, output_padding| ConvolutionArgs {
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
    };
    Some(match operator {
        "convolution" | "_convolution" | "convolution_overrideable" => args(3, 4, 5, At(6), 7),
        "conv1d" | "conv2d" | "conv3d" | "cudnn_convolution_relu" => args(3, 4, 5, No, usize::MAX),
        "cudnn_convolution" => args(3, 2, 4, No, usize::MAX),
        "miopen_convolution" | "miopen_depthwise_convolution" | "mkldnn_convolution" => {
            args(4, 3, 5, No, usize::MAX)
        }
        "_conv_depthwise2d" | "conv_depthwise3d" => args(4, 5, 6, No, usize::MAX),
        "cudnn_convolution_transpose" => args(4, 2, 5, Yes, 3),
        "miopen_convolution_transpose" => args(5, 3, 6, Yes, 4),
        _ => return None,
    })
}

fn convolution(operator: &str, arguments: &Arguments, context: Context<'_>) -> Option<Cost> {
    if operator == "convolution_backward" {
        return convolution_backward(arguments);
    }
    let old_backward =
        |vendor: &str| operator.strip_prefix(vendor)?.strip_prefix("_convolution_backward_");
    if let Some(part) = old_backward("cudnn").or_else(|| old_backward("miopen")) {
        return old_convolution_backward(part, arguments, context);
    }
    let positions = convolution_args(operator)?;
    let (input, weight) = (arguments.matrix(0)?, arguments.matrix(1)?);
    let transposed = match positions.transposed {
        Transposed::No => false,
        Transposed::Yes => true,
        // If the flag was not recorded: most convolutions are not transposed.
        Transposed::At(at) => arguments.flag(at).unwrap_or(false),
    };
    let output = match context.gradient {
        Some(shape) if shape.len() == input.shape.len() => shape.to_vec(),
        _ => output_shape(&positions, transposed, input, weight, arguments)?,
    };
    let elements: f64 = output.iter().product();
    let per_element: f64 = weight.shape.iter().skip(1).product();
    let multiplied = if transposed { input.elements() } else { elements };
    let value = |at: usize| arguments.value(at).unwrap_or("?");
    let details = if arguments.values.is_empty() {
        String::new()
    } else {
        format!(
            "stride {}, padding {}, dilation {}{}",
            value(positions.stride),
            value(positions.padding),
            value(positions.dilation),
            if transposed { ", transposed" } else { "" }
        )
    };
    Some(Cost {
        class: OpClass::Convolution,
        flops: 2.0 * multiplied * per_element,
        read_bytes: input.bytes() + weight.bytes(),
        written_bytes: elements * input.dtype.bytes(),
        output_elements: elements,
        dtype: input.dtype,
        gemm: None,
        convolution: Some(convolution_data(input, weight)),
        paged: None,
        details,
    })
}

fn convolution_data(input: &Tensor, weight: &Tensor) -> Convolution {
    let (shape, strides) = (&input.shape, &input.strides);
    let is_image = shape.len() >= 4 && strides.len() == shape.len() && shape[1] > 1.0;
    let has_pixels = shape.iter().skip(2).product::<f64>() > 1.0;
    let is_channels_last = match (is_image && has_pixels).then(|| (strides[1], strides.last())) {
        Some((1.0, _)) => Some(true),
        Some((_, Some(1.0))) => Some(false),
        _ => None,
    };
    Convolution {
        input_elements: input.elements(),
        weight_elements: weight.elements(),
        input_channels: shape.get(1).copied().unwrap_or(1.0),
        is_channels_last,
    }
}

fn output_shape(
    positions: &ConvolutionArgs,
    transposed: bool,
    input: &Tensor,
    weight: &Tensor,
    arguments: &Arguments,
) -> Option<Vec<f64>> {
    let spatial = input.shape.len().checked_sub(2).filter(|&spatial| spatial > 0)?;
    if weight.shape.len() != input.shape.len() {
        return None;
    }
    let list = |at: usize| {
        let numbers = arguments.numbers(at)?;
        match numbers.len() {
            1 => Some(vec![numbers[0]; spatial]),
            length if length == spatial => Some(numbers),
            _ => None,
        }
    };
    let (stride, padding) = (list(positions.stride)?, list(positions.padding)?);
    let dilation = list(positions.dilation)?;
    let extra = list(positions.output_padding).unwrap_or_else(|| vec![0.0; spatial]);
    let channels = if transposed {
        // Groups are not needed: multiplications are counted by the input.
        weight.shape[1]
    } else {
        weight.shape[0]
    };
    let mut shape = vec![input.shape[0], channels];
    for (i, &step) in stride.iter().enumerate() {
        let (length, kernel) = (input.shape[i + 2], weight.shape[i + 2]);
        let reach = dilation[i] * (kernel - 1.0);
        let out = if transposed {
            (length - 1.0) * step - 2.0 * padding[i] + reach + extra[i] + 1.0
        } else {
            ((length + 2.0 * padding[i] - reach - 1.0) / step).floor() + 1.0
        };
        if !out.is_finite() || out < 0.0 {
            return None;
        }
        shape.push(out);
    }
    Some(shape)
}

/// `convolution_backward(grad_output, input, weight, bias_sizes, stride, ..., transposed, ..., output_mask)`: the cost
/// of forward for each of the two gradients that the mask selects.
fn convolution_backward(arguments: &Arguments) -> Option<Cost> {
    let [gradient, input, weight] =
        [arguments.matrix(0)?, arguments.matrix(1)?, arguments.matrix(2)?];
    let transposed = arguments.flag(7).unwrap_or(false);
    let mask = arguments.value(10).unwrap_or("[True, True, False]");
    let mut selected = mask.split(',').map(|flag| flag.contains("rue") || flag.contains('1'));
    let (of_input, of_weight) = (selected.next().unwrap_or(true), selected.next().unwrap_or(true));
    let multiplied = if transposed { input.elements() } else { gradient.elements() };
    let one = 2.0 * multiplied * weight.shape.iter().skip(1).product::<f64>();
    let count = f64::from(u8::from(of_input) + u8::from(of_weight));
    let bytes = |is_selected: bool, tensor: &Tensor| if is_selected { tensor.bytes() } else { 0.0 };
    let details = match (of_input, of_weight) {
        (true, true) => "gradients of input and weight",
        (true, false) => "gradient of input",
        (false, true) => "gradient of weight",
        (false, false) => "gradient of bias",
    };
    Some(Cost {
        class: OpClass::Convolution,
        flops: count * one,
        read_bytes: gradient.bytes() + bytes(of_input, weight) + bytes(of_weight, input),
        written_bytes: bytes(of_input, input) + bytes(of_weight, weight),
        output_elements: if of_input { input.elements() } else { weight.elements() },
        dtype: gradient.dtype,
        gemm: None,
        convolution: Some(convolution_data(input, weight)),
        paged: None,
        details: format!("{details}, stride {}", arguments.value(4).unwrap_or("?")),
    })
}

/// PyTorch before 1.11: `backward_input(size, grad_output, weight)`, `backward_weight(size, grad_output, input)`, inside
/// `backward(input, grad_output, weight)`.
fn old_convolution_backward(
    part: &str,
    arguments: &Arguments,
    context: Context<'_>,
) -> Option<Cost> {
    let gradient = arguments.matrix(1)?;
    let enclosing = context.enclosing?;
    let (input, weight) = (enclosing.matrix(0)?, enclosing.matrix(2)?);
    let per_element: f64 = weight.shape.iter().skip(1).product();
    let (read, written, details) = match part {
        "input" => (weight, input, "gradient of input"),
        "weight" => (input, weight, "gradient of weight"),
        _ => return None,
    };
    Some(Cost {
        class: OpClass::Convolution,
        flops: 2.0 * gradient.elements() * per_element,
        read_bytes: gradient.bytes() + read.bytes(),
        written_bytes: written.bytes(),
        output_elements: written.elements(),
        dtype: gradient.dtype,
        gemm: None,
        convolution: Some(convolution_data(input, weight)),
        paged: None,
        details: details.to_owned(),
    })
}

// --- Attention -------------------------------------------------------------------------------------------------

/// Positions of the arguments of an attention operator.
struct AttentionArgs {
    query: usize,
    /// Layout (batch, length, heads, width) instead of (batch, heads, length, width).
    length_first: bool,
    causal: usize,
    /// Bounds of packed sequences, of queries and of keys.
    packed: Option<(usize, usize)>,
    /// Size of the sliding window; -1 or absent for no window.
    window: Option<usize>,
    is_backward: bool,
}

fn attention_args(operator: &str) -> Option<AttentionArgs> {
    let args = |query, length_first, causal, packed, window, is_backward| {
        Some(AttentionArgs { query, length_first, causal, packed, window, is_backward })
    };
    match operator {
        "_scaled_dot_product_flash_attention" => args(0, false, 4, None, None, false),
        "_scaled_dot_product_efficient_attention" | "_scaled_dot_product_cudnn_attention" => {
            args(0, false, 6, None, None, false)
        }
        "_scaled_dot_product_fused_attention_overrideable" => args(0, false, 5, None, None, false),
        "_flash_attention_forward" => args(0, true, 8, Some((3, 4)), Some(11), false),
        "_efficient_attention_forward" => args(0, true, 9, Some((4, 5)), Some(13), false),
        "_cudnn_attention_forward" => args(0, false, 10, Some((4, 5)), None, false),
        "_flash_attn_forward" => args(0, true, 5, None, Some(6), false),
        "_flash_attn_varlen_forward" => args(0, true, 9, Some((3, 4)), Some(10), false),
        "_scaled_dot_product_flash_attention_backward" => {
            args(1, false, 11, Some((6, 7)), None, true)
        }
        "_scaled_dot_product_efficient_attention_backward" => args(1, false, 11, None, None, true),
        "_scaled_dot_product_cudnn_attention_backward" => args(1, false, 14, None, None, true),
        "_flash_attention_backward" => args(1, true, 11, Some((6, 7)), Some(15), true),
        "_efficient_attention_backward" => args(1, true, 14, Some((6, 7)), None, true),
        "_flash_attn_backward" => args(1, true, 11, None, Some(12), true),
        _ => None,
    }
}

fn attention(operator: &str, arguments: &Arguments) -> Option<Cost> {
    let positions = attention_args(operator)?;
    let tensor = |offset: usize| arguments.matrix(positions.query + offset);
    let (query, key, value) = (tensor(0)?, tensor(1)?, tensor(2)?);
    if positions.window.and_then(|at| arguments.number(at)).is_some_and(|window| window >= 0.0) {
        return None;
    }
    // The length of packed sequences is known only if there is a single one.
    let packed = |(at, _): (usize, usize)| arguments.matrix(at).map(Tensor::elements);
    if positions.packed.and_then(packed).is_some_and(|bounds| bounds > 2.0) {
        return None;
    }
    let (batch, heads, length, width) = layout(&positions, query)?;
    let (_, key_heads, key_length, _) = layout(&positions, key)?;
    let (_, _, _, value_width) = layout(&positions, value)?;
    let causal = is_causal(operator, &positions, arguments)?;
    // Later queries see more keys: half of all pairs if there are as many queries as keys.
    let pairs = if !causal {
        length * key_length
    } else if key_length >= length {
        length * key_length - length * length / 2.0
    } else {
        key_length * key_length / 2.0
    };
    let forward = 2.0 * batch * heads * pairs * (width + value_width);
    let output_elements = batch * heads * length * value_width;
    let output = output_elements * query.dtype.bytes();
    let inputs = query.bytes() + key.bytes() + value.bytes();
    // Backward computes the scores again, and the gradients of values, probabilities, queries and keys: five matmuls
    // instead of two.
    let (flops, read_bytes, written_bytes) = if positions.is_backward {
        (2.5 * forward, inputs + 2.0 * output, inputs)
    } else {
        (forward, inputs, output)
    };
    let mask = if causal { ", causal" } else { "" };
    let shared = if key_heads < heads { format!(", {key_heads} of keys") } else { String::new() };
    Some(Cost {
        class: OpClass::Attention,
        flops,
        read_bytes,
        written_bytes,
        output_elements,
        dtype: query.dtype,
        gemm: None,
        convolution: None,
        paged: None,
        details: format!("{heads} heads{shared}, length {length} x {key_length}{mask}"),
    })
}

/// Batch, heads, length and width of one of the inputs.
fn layout(positions: &AttentionArgs, tensor: &Tensor) -> Option<(f64, f64, f64, f64)> {
    match (tensor.shape.as_slice(), positions.length_first) {
        (&[batch, length, heads, width], true) | (&[batch, heads, length, width], false) => {
            Some((batch, heads, length, width))
        }
        // Packed sequences.
        (&[length, heads, width], true) => Some((1.0, heads, length, width)),
        _ => None,
    }
}

/// Whether attention is causal; absent where it was not recorded, as half of the work would be a guess.
fn is_causal(operator: &str, positions: &AttentionArgs, arguments: &Arguments) -> Option<bool> {
    if operator.starts_with("_efficient_attention_") {
        return arguments.number(positions.causal).map(|mask| mask > 0.0);
    }
    arguments.flag(positions.causal)
}
