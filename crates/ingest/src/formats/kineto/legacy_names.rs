//! Names of operators as the profiler of `torch.autograd` wrote them before torch 1.7: without their namespace.

/// Operators of `aten` whose names rules and views know, sorted. Other names may be ranges of the user.
#[rustfmt::skip]
const ATEN: [&str; 119] = [
    "_convolution", "_cudnn_rnn", "_embedding_bag", "_log_softmax", "_softmax", "abs", "adaptive_avg_pool2d", "add",
    "add_", "addbmm", "addcdiv_", "addcmul_", "addmm", "addmv", "as_strided", "avg_pool2d", "baddbmm", "batch_norm",
    "bernoulli_", "bmm", "cat", "chunk", "clamp", "clamp_min", "clone", "constant_pad_nd", "contiguous", "conv1d",
    "conv2d", "conv3d", "conv_transpose2d", "convolution", "copy_", "cudnn_batch_norm", "cudnn_convolution", "cumsum",
    "detach", "detach_", "div", "div_", "dot", "dropout", "embedding", "empty", "empty_like", "empty_strided", "eq",
    "exp", "expand", "fill_", "flatten", "gather", "gelu", "ger", "index", "index_put_", "index_select", "is_nonzero",
    "item", "layer_norm", "leaky_relu", "linear", "log", "log_softmax", "lstm", "masked_fill", "masked_fill_",
    "matmul", "max", "max_pool2d", "max_pool2d_with_indices", "mean", "min", "miopen_batch_norm",
    "miopen_convolution", "mkldnn_convolution", "mm", "mul", "mul_", "mv", "native_batch_norm", "native_layer_norm",
    "neg", "nll_loss", "nonzero", "norm", "normal_", "ones", "ones_like", "permute", "pow", "relu", "relu_",
    "reshape", "resize_", "rsub", "select", "sigmoid", "slice", "slow_conv2d", "slow_conv3d", "softmax", "split",
    "sqrt", "squeeze", "stack", "sub", "sub_", "sum", "tanh", "thnn_conv2d", "thnn_conv2d_forward", "to", "topk",
    "transpose", "unsqueeze", "view", "where", "zero_",
];

/// The name as later versions write it; `None` if it is the same.
pub(super) fn modern_name(name: &str) -> Option<String> {
    if ATEN.binary_search(&name).is_ok() {
        return Some(format!("aten::{name}"));
    }
    // `AddmmBackward`, on the thread of the backward pass.
    let is_backward = name.strip_suffix("Backward").is_some_and(|operator| {
        operator.starts_with(|c: char| c.is_ascii_uppercase())
            && operator.bytes().all(|b| b.is_ascii_alphanumeric())
    });
    (is_backward || name == "torch::autograd::AccumulateGrad")
        .then(|| format!("autograd::engine::evaluate_function: {name}"))
}

#[cfg(test)]
mod tests {
    use super::{ATEN, modern_name};

    #[test]
    fn names_are_sorted() {
        assert!(ATEN.is_sorted());
    }

    #[test]
    fn operators_get_their_namespace_and_ranges_of_the_user_none() {
        assert_eq!(modern_name("mkldnn_convolution").as_deref(), Some("aten::mkldnn_convolution"));
        assert_eq!(
            modern_name("AddmmBackward").as_deref(),
            Some("autograd::engine::evaluate_function: AddmmBackward")
        );
        for name in ["aten::add", "my_forward", "Optimizer.step#SGD.step", "Backward"] {
            assert_eq!(modern_name(name), None, "{name}");
        }
    }
}
