//! Checks costs against the formulas, computed by hand.

use super::cost::{Context, Cost, OpClass};
use super::inputs::Arguments;
use super::operator_cost::operator_cost;

fn arguments(dims: &str, types: &str, values: &str) -> Arguments {
    let args = format!("{{\"Concrete Inputs\":{values},\"Ev Idx\":3}}");
    Arguments::parse(dims, types, Some(&args)).expect("inputs")
}

fn cost(name: &str, dims: &str, types: &str, values: &str) -> Option<Cost> {
    operator_cost(name, &arguments(dims, types, values), Context::default())
}

/// Operations, bytes read, bytes written.
fn numbers(cost: Option<Cost>) -> (f64, f64, f64) {
    let cost = cost.expect("a cost");
    (cost.flops, cost.read_bytes, cost.written_bytes)
}

fn same(a: (f64, f64, f64), b: (f64, f64, f64)) {
    let near = |x: f64, y: f64| (x - y).abs() <= 1e-9 * y.abs();
    assert!(near(a.0, b.0) && near(a.1, b.1) && near(a.2, b.2), "{a:?} {b:?}");
}

const BF16: &str = "c10::BFloat16";

fn types(of: &[&str]) -> String {
    format!("[\"{}\"]", of.join("\", \""))
}

#[test]
fn matmul_costs_two_m_n_k() {
    let of = cost("aten::mm", "[[64, 32], [32, 16]]", &types(&["float", "float"]), "[\"\", \"\"]");
    same(
        numbers(of),
        (2.0 * 64.0 * 16.0 * 32.0, 4.0 * (64.0 * 32.0 + 32.0 * 16.0), 4.0 * 64.0 * 16.0),
    );
    // The bias is read too.
    let of = cost(
        "aten::addmm",
        "[[16], [64, 32], [32, 16], [], []]",
        &types(&[BF16, BF16, BF16, "Scalar", "Scalar"]),
        "[]",
    );
    same(numbers(of), (65_536.0, 2.0 * (16.0 + 2048.0 + 512.0), 2.0 * 1024.0));
    let of =
        cost("aten::bmm", "[[8, 64, 32], [8, 32, 16]]", &types(&["c10::Half", "c10::Half"]), "[]");
    same(numbers(of), (8.0 * 65_536.0, 16.0 * 2560.0, 16.0 * 1024.0));
    // 8-bit factors give a 16-bit result.
    let of = cost(
        "aten::_scaled_mm",
        "[[64, 32], [32, 16]]",
        &types(&["c10::Float8_e4m3fn", "c10::Float8_e4m3fn"]),
        "[]",
    );
    same(numbers(of), (65_536.0, 2560.0, 2048.0));
    // Shapes that do not fit have no cost.
    assert_eq!(cost("aten::mm", "[[64, 32], [31, 16]]", &types(&["float", "float"]), "[]"), None);
    assert_eq!(cost("aten::mm", "[[64, -32], [-32, 16]]", &types(&["float", "float"]), "[]"), None);
    assert_eq!(
        cost("aten::mm", "[[1e300, 1e300], [1e300, 16]]", &types(&["float", "float"]), "[]"),
        None
    );
}

#[test]
fn is_aligned_requires_rows_at_multiples_of_16_bytes() {
    let is_aligned = |dims: &str, strides: &str| {
        let args = format!("{{\"Input Strides\":{strides}}}");
        let arguments = Arguments::parse(dims, &types(&[BF16, BF16]), Some(&args)).unwrap();
        operator_cost("aten::mm", &arguments, Context::default()).unwrap().gemm.unwrap().is_aligned
    };
    assert!(is_aligned("[[141, 512], [512, 1024]]", "[[512, 1], [1, 512]]"));
    // The result has 30522 columns: 61044 bytes per row.
    assert!(!is_aligned("[[141, 512], [512, 30522]]", "[[512, 1], [1, 512]]"));
    // The first factor is transposed: its 141 columns are contiguous.
    assert!(!is_aligned("[[512, 141], [141, 1024]]", "[[1, 512], [1, 141]]"));
    assert!(is_aligned("[[512, 144], [144, 1024]]", "[[1, 512], [1024, 1]]"));
}

#[test]
fn convolution_costs_two_operations_per_output_and_weight() {
    // ResNet-50's first: 112 x 112 x 64 results of 3 x 7 x 7.
    let dims = "[[32, 3, 224, 224], [64, 3, 7, 7], [], [], [], [], [], [], []]";
    let kinds = types(&["float", "float", "", "", "", "", "", "", ""]);
    let values =
        "[\"\", \"\", \"\", \"[2, 2]\", \"[3, 3]\", \"[1, 1]\", \"False\", \"[0, 0]\", \"1\"]";
    let outputs = 32.0 * 64.0 * 112.0 * 112.0;
    let (input, weight) = (32.0 * 3.0 * 224.0 * 224.0, 64.0 * 3.0 * 49.0);
    let expected = (2.0 * outputs * 3.0 * 49.0, 4.0 * (input + weight), 4.0 * outputs);
    same(numbers(cost("aten::convolution", dims, &kinds, values)), expected);
    // The same with the argument order of vendor operators.
    let values =
        "[\"\", \"\", \"[3, 3]\", \"[2, 2]\", \"[1, 1]\", \"1\", \"False\", \"False\", \"True\"]";
    same(numbers(cost("aten::cudnn_convolution", dims, &kinds, values)), expected);
    // Without strides, the output shape is known only from the gradient.
    let bare = Arguments::parse(dims, &kinds, None).unwrap();
    assert_eq!(operator_cost("aten::cudnn_convolution", &bare, Context::default()), None);
    let gradient = [32.0, 64.0, 112.0, 112.0];
    let context = Context { gradient: Some(&gradient), enclosing: None };
    same(numbers(operator_cost("aten::cudnn_convolution", &bare, context)), expected);
    // Groups are in the shape of the weights. A transposed convolution multiplies each input.
    let values = "[\"\", \"\", \"\", \"[2]\", \"[1]\", \"[1]\", \"True\", \"[0]\", \"2\"]";
    let of_transposed = cost("aten::convolution", "[[1, 4, 10], [4, 3, 4], []]", &kinds, values);
    let out = (10.0 - 1.0) * 2.0 - 2.0 + 3.0 + 1.0;
    same(numbers(of_transposed), (2.0 * 40.0 * 12.0, 4.0 * (40.0 + 48.0), 4.0 * 3.0 * out));
}

#[test]
fn convolution_backward_costs_forward_per_gradient() {
    let dims =
        "[[10, 512, 7, 7], [10, 256, 14, 14], [512, 256, 3, 3], [], [], [], [], [], [], [], []]";
    let kinds = types(&[BF16, BF16, BF16, "", "", "", "", "", "", "", ""]);
    let values = |mask: &str| {
        format!(
            "[\"\", \"\", \"\", \"[0]\", \"[2, 2]\", \"[1, 1]\", \"[1, 1]\", \"False\", \"[0, 0]\", \"1\", \"{mask}\"]"
        )
    };
    let one = 2.0 * 10.0 * 512.0 * 49.0 * 256.0 * 9.0;
    let flops =
        |mask: &str| numbers(cost("aten::convolution_backward", dims, &kinds, &values(mask))).0;
    assert!((flops("[True, True, False]") / (2.0 * one) - 1.0).abs() < 1e-12);
    assert!((flops("[False, True, False]") / one - 1.0).abs() < 1e-12);
    // PyTorch before 1.11: two operators in one.
    let enclosing = Arguments::parse(
        "[[10, 256, 14, 14], [10, 512, 7, 7], [512, 256, 3, 3]]",
        &types(&[BF16, BF16, BF16]),
        None,
    )
    .unwrap();
    let inside = Arguments::parse(
        "[[], [10, 512, 7, 7], [512, 256, 3, 3]]",
        &types(&["", BF16, BF16]),
        None,
    )
    .unwrap();
    let context = Context { enclosing: Some(&enclosing), gradient: None };
    let cost = operator_cost("aten::cudnn_convolution_backward_input", &inside, context).unwrap();
    assert!((cost.flops / one - 1.0).abs() < 1e-12);
    assert!((cost.written_bytes - 2.0 * 10.0 * 256.0 * 196.0).abs() < 0.5);
}

#[test]
fn attention_costs_two_matmuls_and_half_if_causal() {
    // 2 samples, 100 queries and keys, 8 heads of 64; keys have 2 heads.
    let dims =
        "[[2, 100, 8, 64], [2, 100, 2, 64], [2, 100, 2, 64], [], [], [], [], [], [], [], []]";
    let kinds = types(&[
        BF16, BF16, BF16, "", "", "Scalar", "Scalar", "Scalar", "Scalar", "Scalar", "Scalar",
    ]);
    let values = |causal: &str| {
        format!(
            "[\"\", \"\", \"\", \"\", \"\", \"100\", \"100\", \"0.\", \"{causal}\", \"False\", \"0.125\"]"
        )
    };
    let all = 2.0 * 2.0 * 8.0 * 100.0 * 100.0 * 128.0;
    let (q, kv) = (2.0 * 2.0 * 100.0 * 8.0 * 64.0, 2.0 * 2.0 * 100.0 * 2.0 * 64.0);
    let name = "aten::_flash_attention_forward";
    same(numbers(cost(name, dims, &kinds, &values("False"))), (all, q + 2.0 * kv, q));
    same(numbers(cost(name, dims, &kinds, &values("True"))), (all / 2.0, q + 2.0 * kv, q));
    // Without the causal flag there is no cost.
    assert_eq!(cost(name, dims, &kinds, "[]"), None);
    // The lengths of packed sequences are not recorded.
    let packed =
        "[[1, 200, 8, 64], [1, 200, 8, 64], [1, 200, 8, 64], [3], [3], [], [], [], [], [], []]";
    let packed_kinds = types(&[
        BF16, BF16, BF16, "int", "int", "Scalar", "Scalar", "Scalar", "Scalar", "Scalar", "Scalar",
    ]);
    assert_eq!(cost(name, packed, &packed_kinds, &values("False")), None);
    // Backward: five matmuls instead of two.
    let dims = "[[2, 8, 100, 64], [2, 8, 100, 64], [2, 8, 100, 64], [2, 8, 100, 64], [2, 8, 100, 64], [2, 8, 100], [], [], [], [], [], []]";
    let kinds = types(&[
        BF16, BF16, BF16, BF16, BF16, "float", "", "", "Scalar", "Scalar", "Scalar", "Scalar",
    ]);
    let values =
        "[\"\", \"\", \"\", \"\", \"\", \"\", \"\", \"\", \"100\", \"100\", \"0.\", \"True\"]";
    let backward = cost("aten::_scaled_dot_product_flash_attention_backward", dims, &kinds, values);
    same(numbers(backward), (2.5 * all / 2.0, 5.0 * q, 3.0 * q));
}

#[test]
fn pointwise_operators_move_each_tensor_once() {
    let n = 16.0 * 559.0 * 1024.0;
    // One row, broadcast.
    let of = cost("aten::mul", "[[1024], [16, 559, 1024]]", &types(&[BF16, BF16]), "[]");
    same(numbers(of), (n, 2.0 * (1024.0 + n), 2.0 * n));
    // A number instead of a tensor.
    let of =
        cost("aten::add", "[[16, 559, 1], [], []]", &types(&["float", "double", "Scalar"]), "[]");
    same(numbers(of), (8944.0, 4.0 * 8944.0 + 8.0, 4.0 * 8944.0));
    // Conversion to 16 bits.
    let of = cost(
        "aten::copy_",
        "[[16, 559, 1024], [16, 559, 1024], []]",
        &types(&[BF16, "float", "Scalar"]),
        "[]",
    );
    same(numbers(of), (0.0, 4.0 * n, 2.0 * n));
    // Elements repeated by a stride of 0 are stored once.
    let args = "{\"Input Strides\":[[1024, 1], [1, 0]]}";
    let repeated =
        Arguments::parse("[[64, 1024], [64, 1024]]", &types(&["float", "float"]), Some(args))
            .unwrap();
    same(numbers(of_plain("aten::copy_", &repeated)), (0.0, 4.0 * 64.0, 4.0 * 65_536.0));
    let of = cost("aten::eq", "[[16, 559], []]", &types(&["long int", "Scalar"]), "[]");
    same(numbers(of), (8944.0, 8.0 * 8944.0, 8944.0));
    let of = cost(
        "aten::mean",
        "[[16, 559, 1024], [], [], []]",
        &types(&["float", "ScalarList", "Scalar", ""]),
        "[\"\", \"[-1]\", \"True\", \"\"]",
    );
    same(numbers(of), (n, 4.0 * n, 4.0 * 8944.0));
    let of = cost(
        "aten::native_layer_norm",
        "[[1, 141, 512], [], [512], [512], []]",
        &types(&[BF16, "ScalarList", BF16, BF16, "Scalar"]),
        "[]",
    );
    same(numbers(of), (8.0 * 72_192.0, 2.0 * 72_192.0, 2.0 * 72_192.0));
    let of = cost(
        "aten::_softmax",
        "[[8, 100, 100], [], []]",
        &types(&[BF16, "Scalar", "Scalar"]),
        "[\"\", \"-1\", \"True\"]",
    );
    same(numbers(of), (400_000.0, 160_000.0, 320_000.0));
    let of = cost(
        "aten::index_select",
        "[[512, 64], [], [141]]",
        &types(&[BF16, "Scalar", "long int"]),
        "[\"\", \"0\", \"\"]",
    );
    same(numbers(of), (0.0, 2.0 * 141.0 * 64.0 + 8.0 * 141.0, 2.0 * 141.0 * 64.0));
}

fn of_plain(name: &str, arguments: &Arguments) -> Option<Cost> {
    operator_cost(name, arguments, Context::default())
}

#[test]
fn unknown_operators_and_odd_inputs_have_no_cost() {
    let float = types(&["float", "float"]);
    for name in ["aten::some_new_operator", "mine::mm", "mm", "", "aten::", "aten::cat"] {
        assert_eq!(cost(name, "[[2, 2], [2, 2]]", &float, "[]"), None, "{name}");
    }
    for dims in ["", "[]", "[[", "7", "[[2, 2]]", "[[\"a\"], 3]"] {
        let arguments = Arguments::parse(dims, &float, None).unwrap_or_default();
        assert_eq!(operator_cost("aten::mm", &arguments, Context::default()), None, "{dims}");
    }
    assert!(OpClass::Attention.is_product() && !OpClass::Norm.is_product());
}
