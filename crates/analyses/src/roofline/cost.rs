//! The least that a call has to compute and move, from the shapes and types of its inputs.
//!
//! Bytes are the roofline's minimum: each tensor is read or written once. Operations are those of the definition; an
//! addition and a multiplication count as two. `docs/roofline.md` lists the formulas.

use super::inputs::{Arguments, Dtype};

/// The class of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpClass {
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

impl OpClass {
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

    const ALL: [Self; 9] = [
        Self::Gemm,
        Self::Convolution,
        Self::Attention,
        Self::Norm,
        Self::Softmax,
        Self::Elementwise,
        Self::Reduction,
        Self::Copy,
        Self::Gather,
    ];

    /// The class of this name.
    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }

    /// Whether compilers fuse it with the operators around it.
    pub(super) fn is_fusable(self) -> bool {
        matches!(
            self,
            Self::Elementwise | Self::Norm | Self::Softmax | Self::Reduction | Self::Copy
        )
    }

    /// Whether it multiplies matrices, so that matrix units matter.
    pub(super) fn is_product(self) -> bool {
        matches!(self, Self::Gemm | Self::Convolution | Self::Attention)
    }
}

/// A matmul: `batch` times (m, k) by (k, n).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Gemm {
    pub(super) batch: f64,
    pub(super) m: f64,
    pub(super) n: f64,
    pub(super) k: f64,
    /// The contiguous dimensions of operands and result are multiples of 16 bytes.
    pub(super) is_aligned: bool,
}

/// The sizes of a convolution, and the memory format of its input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Convolution {
    pub(super) input_elements: f64,
    pub(super) weight_elements: f64,
    pub(super) input_channels: f64,
    /// The channels of a pixel lie side by side in the input. `None` if its strides were not recorded or fit both formats.
    pub(super) is_channels_last: Option<bool>,
}

/// The sizes of one token in attention over a paged cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PagedAttention {
    pub(super) heads: f64,
    pub(super) key_heads: f64,
    pub(super) width: f64,
    pub(super) value_width: f64,
    pub(super) query_dtype: Dtype,
    pub(super) key_dtype: Dtype,
}

/// The cost of one call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cost {
    pub(super) class: OpClass,
    pub(super) flops: f64,
    pub(super) read_bytes: f64,
    pub(super) written_bytes: f64,
    /// Elements of the main result.
    pub(super) output_elements: f64,
    /// The type of the factors of a product, else of the result.
    pub(super) dtype: Dtype,
    pub(super) gemm: Option<Gemm>,
    pub(super) convolution: Option<Convolution>,
    /// The sizes of a token, of attention over a paged cache: its cost depends on the lengths of the batch.
    pub(super) paged: Option<PagedAttention>,
    /// Properties that shapes do not show: strides, groups, masks.
    pub(super) details: String,
}

impl Cost {
    pub(super) fn bytes(&self) -> f64 {
        self.read_bytes + self.written_bytes
    }
}

/// Facts about a call that its own inputs do not hold.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Context<'a> {
    /// Inputs of the operator around it.
    pub(super) enclosing: Option<&'a Arguments>,
    /// Shape of the gradient of the result, from the backward call. Needed for convolutions without recorded strides.
    pub(super) gradient: Option<&'a [f64]>,
}
