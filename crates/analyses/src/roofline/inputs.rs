//! What an operator was called with: shapes, types, values.

use super::json::{Json, member};

/// A type of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dtype {
    Fp64,
    Fp32,
    Fp16,
    Bf16,
    Fp8,
    Int8,
    /// Integers and truth values of so many bytes, which no peak is known for.
    Other(u8),
}

impl Dtype {
    /// As PyTorch's traces write it.
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

    /// As device tables name it.
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

    /// Bytes that it takes in memory: what is repeated by a stride of 0 is there once.
    pub(super) fn bytes(&self) -> f64 {
        let stored = self.shape.iter().enumerate().map(|(i, &length)| {
            let is_repeated = self.strides.get(i) == Some(&0.0) && length > 0.0;
            if is_repeated { 1.0 } else { length }
        });
        stored.product::<f64>() * self.dtype.bytes()
    }
}

/// The inputs of one call. An argument that is no tensor, or of which nothing is known, is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Arguments {
    pub(super) tensors: Vec<Option<Tensor>>,
    /// Values of arguments that are no tensors, as written; empty where not recorded.
    pub(super) values: Vec<String>,
}

impl Arguments {
    /// From the columns of `cpu_ops`; `args` may hold strides and values.
    pub(super) fn parse(dims: &str, types: &str, args: Option<&str>) -> Option<Self> {
        let dims = Json::first(dims)?;
        let types = Json::first(types)?;
        let strides = args.and_then(|args| Json::first(member(args, "Input Strides")?));
        let values = args.and_then(|args| Json::first(member(args, "Concrete Inputs")?));
        let strides = strides.as_ref().and_then(Json::list).unwrap_or_default();
        let values = values.as_ref().and_then(Json::list).unwrap_or_default();
        let tensors = dims.list()?.iter().enumerate().map(|(i, shape)| {
            let dtype = Dtype::parse(types.list()?.get(i)?.text()?)?;
            let strides = strides.get(i).and_then(numbers).unwrap_or_default();
            Some(Tensor { shape: lengths(shape)?, strides, dtype })
        });
        let values = values.iter().map(|value| value.text().unwrap_or_default().to_owned());
        Some(Self { tensors: tensors.collect(), values: values.collect() })
    }

    pub(super) fn tensor(&self, at: usize) -> Option<&Tensor> {
        self.tensors.get(at)?.as_ref()
    }

    /// A tensor that has dimensions: what has none may be a number.
    pub(super) fn matrix(&self, at: usize) -> Option<&Tensor> {
        self.tensor(at).filter(|tensor| !tensor.shape.is_empty())
    }

    pub(super) fn value(&self, at: usize) -> Option<&str> {
        self.values.get(at).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A list of numbers: `[2, 2]`.
    pub(super) fn numbers(&self, at: usize) -> Option<Vec<f64>> {
        numbers(&Json::first(self.value(at)?)?)
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

    /// The type that a sum of the first `count` inputs has: the widest float among those with dimensions, else the
    /// first.
    pub(super) fn promoted(&self, count: usize) -> Option<Dtype> {
        let with_dims = || (0..count).filter_map(|i| self.matrix(i)).map(|t| t.dtype);
        let floats = with_dims().filter(|dtype| dtype.is_float());
        let widest = floats.max_by(|a, b| a.bytes().total_cmp(&b.bytes()));
        widest.or_else(|| with_dims().next()).or_else(|| self.tensor(0).map(|t| t.dtype))
    }
}

fn numbers(json: &Json) -> Option<Vec<f64>> {
    json.list()?.iter().map(Json::number).collect()
}

/// Lengths of dimensions: whole, not negative, and so few elements that they can be counted.
fn lengths(json: &Json) -> Option<Vec<f64>> {
    let lengths = numbers(json)?;
    let is_length = |length: &f64| *length >= 0.0 && length.fract().abs() < f64::EPSILON;
    let elements: f64 = lengths.iter().product();
    (lengths.iter().all(is_length) && elements < 1e15).then_some(lengths)
}
