//! What a call has to compute and to move at least, from the shapes and types of its inputs.
//!
//! Bytes are the roofline's minimum: each tensor is read or written once. Operations are those of the definition, an
//! addition and a multiplication being two. `docs/roofline.md` lists the formulas.

use super::inputs::{Arguments, Dtype};
use super::{pointwise, products};

/// What kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Gemm,
    Convolution,
    Attention,
    Norm,
    Softmax,
    Elementwise,
    Reduction,
    Copy,
    Gather,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Gemm => "gemm",
            Self::Convolution => "convolution",
            Self::Attention => "attention",
            Self::Norm => "norm",
            Self::Softmax => "softmax",
            Self::Elementwise => "elementwise",
            Self::Reduction => "reduction",
            Self::Copy => "copy",
            Self::Gather => "gather",
        }
    }

    /// It multiplies, so that matrix units matter.
    pub(super) fn is_product(self) -> bool {
        matches!(self, Self::Gemm | Self::Convolution | Self::Attention)
    }
}

/// A matrix product: `batch` times (m, k) by (k, n).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Gemm {
    pub(super) batch: f64,
    pub(super) m: f64,
    pub(super) n: f64,
    pub(super) k: f64,
    /// The contiguous dimensions of operands and result are multiples of 16 bytes.
    pub(super) is_aligned: bool,
}

/// What one call costs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cost {
    pub(super) kind: Kind,
    pub(super) flops: f64,
    pub(super) read_bytes: f64,
    pub(super) written_bytes: f64,
    /// Elements of the main result.
    pub(super) output_elements: f64,
    /// What is multiplied, or the type of the result.
    pub(super) dtype: Dtype,
    pub(super) gemm: Option<Gemm>,
    /// What shapes do not say: strides, groups, masks.
    pub(super) details: String,
}

impl Cost {
    pub(super) fn bytes(&self) -> f64 {
        self.read_bytes + self.written_bytes
    }
}

/// What is known from elsewhere.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Context<'a> {
    /// Inputs of the operator around.
    pub(super) around: Option<&'a Arguments>,
    /// Shape of the gradient of the result, from the backward call; of convolutions without recorded strides.
    pub(super) gradient: Option<&'a [f64]>,
}

/// The cost of a call, if its operator is known and its inputs say enough.
pub(super) fn of(name: &str, arguments: &Arguments, context: Context<'_>) -> Option<Cost> {
    let (library, operator) = name.split_once("::")?;
    let cost = products::of(library, operator, arguments, context)
        .or_else(|| if library == "aten" { pointwise::of(operator, arguments) } else { None })?;
    (cost.flops.is_finite() && cost.bytes().is_finite() && cost.bytes() > 0.0).then_some(cost)
}
