//! The inputs of a call: shapes, types, values.

use serde_json::Value;

use super::shapes::{leading_list, member_text, numbers};

/// An element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dtype {
    Fp64,
    Fp32,
    Fp16,
    Bf16,
    Fp8,
    Int8,
    /// Integers and Booleans of this many bytes, for which there are no peaks.
    Other(u8),
}

impl Dtype {
    /// Parses the name of a type in PyTorch's traces.
    fn parse(text: &str) -> Option<Self> {
        let name = text.rsplit("::").next().unwrap_or(text).trim_start_matches("struct ");
        Some(match name {
            "double" | "Double" => Self::Fp64,
            "float" | "Float" => Self::Fp32,
            "Half" => Self::Fp16,
            "BFloat16" => Self::Bf16,
            "signed char" | "char" => Self::Int8,
            "unsigned char" | "bool" => Self::Other(1),
            "short" | "short int" => Self::Other(2),
            "int" | "unsigned int" => Self::Other(4),
            "long int" | "long" | "long long" | "unsigned long" => Self::Other(8),
            _ if name.starts_with("Float8") => Self::Fp8,
            _ => return None,
        })
    }

    pub(super) fn bytes(self) -> f64 {
        match self {
            Self::Fp64 => 8.0,
            Self::Fp32 => 4.0,
            Self::Fp16 | Self::Bf16 => 2.0,
            Self::Fp8 | Self::Int8 => 1.0,
            Self::Other(bytes) => f64::from(bytes),
        }
    }

    /// The name of the type in device tables.
    pub(super) fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::Fp64 => "fp64",
            Self::Fp32 => "fp32",
            Self::Fp16 => "fp16",
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
            Self::Int8 => "int8",
            Self::Other(_) => return None,
        })
    }

    fn is_float(self) -> bool {
        !matches!(self, Self::Int8 | Self::Other(_))
    }
}

/// A tensor among the inputs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tensor {
    pub(super) shape: Vec<f64>,
    /// Empty where it was not recorded.
    pub(super) strides: Vec<f64>,
    pub(super) dtype: Dtype,
}

impl Tensor {
    pub(super) fn elements(&self) -> f64 {
        self.shape.iter().product()
    }

    /// Bytes in memory. Elements that a stride of 0 repeats are stored once.
    pub(super) fn bytes(&self) -> f64 {
        let stored = self.shape.iter().enumerate().map(|(i, &length)| {
            let is_repeated = self.strides.get(i) == Some(&0.0) && length > 0.0;
            if is_repeated { 1.0 } else { length }
        });
        stored.product::<f64>() * self.dtype.bytes()
    }
}

/// The inputs of one call. An argument that is not a tensor, or that was not recorded, is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Arguments {
    pub(super) tensors: Vec<Option<Tensor>>,
    /// Values of arguments that are not tensors, as written; empty where not recorded.
    pub(super) values: Vec<String>,
}

impl Arguments {
    /// Parses columns of `cpu_ops`; `args` may hold strides and values.
    pub(super) fn parse(dims: &str, types: &str, args: Option<&str>) -> Option<Self> {
        let (dims, types) = (leading_list(dims)?, leading_list(types)?);
        let list = |key| args.and_then(|args| leading_list(member_text(args, key)?));
        let strides = list("Input Strides").unwrap_or_default();
        let values = list("Concrete Inputs").unwrap_or_default();
        let tensors = dims.iter().enumerate().map(|(i, shape)| {
            let dtype = Dtype::parse(types.get(i)?.as_str()?)?;
            let strides = strides.get(i).and_then(numbers).unwrap_or_default();
            Some(Tensor { shape: lengths(shape)?, strides, dtype })
        });
        let values = values.iter().map(argument_text);
        Some(Self { tensors: tensors.collect(), values: values.collect() })
    }

    pub(super) fn tensor(&self, at: usize) -> Option<&Tensor> {
        self.tensors.get(at)?.as_ref()
    }

    /// A tensor with dimensions. An input without dimensions may be a number.
    pub(super) fn matrix(&self, at: usize) -> Option<&Tensor> {
        self.tensor(at).filter(|tensor| !tensor.shape.is_empty())
    }

    pub(super) fn value(&self, at: usize) -> Option<&str> {
        self.values.get(at).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A list of numbers as PyTorch prints it: `[2, 2]`, `[0.5, 1.]`.
    pub(super) fn numbers(&self, at: usize) -> Option<Vec<f64>> {
        let (list, _) = self.value(at)?.trim_start().strip_prefix('[')?.split_once(']')?;
        if list.trim().is_empty() {
            return Some(Vec::new());
        }
        list.split(',').map(|number| number.trim().parse().ok()).collect()
    }

    pub(super) fn number(&self, at: usize) -> Option<f64> {
        self.value(at)?.parse().ok()
    }

    pub(super) fn flag(&self, at: usize) -> Option<bool> {
        match self.value(at)? {
            "True" | "true" | "1" => Some(true),
            "False" | "false" | "0" => Some(false),
            _ => None,
        }
    }

    /// The type of a sum of the first `count` inputs: the widest float type among those with dimensions, else the type
    /// of the first.
    pub(super) fn promoted(&self, count: usize) -> Option<Dtype> {
        let with_dims = || (0..count).filter_map(|i| self.matrix(i)).map(|t| t.dtype);
        let floats = with_dims().filter(|dtype| dtype.is_float());
        let widest = floats.max_by(|a, b| a.bytes().total_cmp(&b.bytes()));
        widest.or_else(|| with_dims().next()).or_else(|| self.tensor(0).map(|t| t.dtype))
    }
}

/// The text of an argument that is not a tensor. PyTorch writes these as strings; numbers are not values.
fn argument_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Null => value.to_string(),
        _ => String::new(),
    }
}

/// The lengths of dimensions: integers, not negative, with a product that is a plausible number of elements.
fn lengths(shape: &Value) -> Option<Vec<f64>> {
    let lengths = numbers(shape)?;
    let is_length = |length: &f64| *length >= 0.0 && length.fract().abs() < f64::EPSILON;
    let elements: f64 = lengths.iter().product();
    (lengths.iter().all(is_length) && elements < 1e15).then_some(lengths)
}

#[cfg(test)]
mod tests {
    use super::Arguments;

    const FLOATS: &str = "[\"float\", \"float\"]";

    #[test]
    fn parse_skips_inputs_with_odd_shapes() {
        let arguments = Arguments::parse("[[\"2\", \"3\"], [2, 3]] rest", FLOATS, None).unwrap();
        assert!(arguments.tensor(0).is_none(), "numbers as strings are not lengths");
        assert_eq!(arguments.tensor(1).unwrap().shape, [2.0, 3.0]);
        for shape in ["[-1]", "[1.5]", "[1e30]", "[null]", "7"] {
            let arguments = Arguments::parse(&format!("[{shape}]"), FLOATS, None).unwrap();
            assert!(arguments.tensor(0).is_none(), "{shape}");
        }
    }

    #[test]
    fn parse_is_none_for_truncated_shapes() {
        assert_eq!(Arguments::parse("[[2, 3], [4", FLOATS, None), None);
        assert_eq!(Arguments::parse("[[2, 3]]", "[\"float", None), None);
    }

    #[test]
    fn parse_ignores_truncated_values() {
        let args = "{\"Concrete Inputs\":[\"\", \"[2, 2";
        let arguments = Arguments::parse("[[2, 3]]", FLOATS, Some(args)).unwrap();
        assert!(arguments.values.is_empty() && arguments.tensor(0).is_some());
    }

    #[test]
    fn values_are_texts_and_lists_of_printed_numbers() {
        let args = "{\"Concrete Inputs\":[\"[2, -1]\", \"[0.5, 1.]\", \"[]\", \"[2, x]\", 3, true, \"[1\"]}";
        let arguments = Arguments::parse("[]", FLOATS, Some(args)).unwrap();
        let lists: Vec<_> = (0..7).map(|at| arguments.numbers(at)).collect();
        let expected =
            [Some(vec![2.0, -1.0]), Some(vec![0.5, 1.0]), Some(vec![]), None, None, None, None];
        assert_eq!(lists, expected);
        assert_eq!((arguments.value(4), arguments.flag(5)), (None, Some(true)));
    }
}
