//! The simulated network: a small GPT in bf16 on an H100, as operators, gradients and kernels.
//!
//! Names, nesting, grids and register counts are those of real traces; durations are nominal and
//! scaled by the simulation.

/// One kernel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kernel {
    pub(super) name: &'static str,
    pub(super) dur_ns: i64,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) registers: u32,
    pub(super) shared_memory_bytes: u32,
    pub(super) occupancy_pct: u32,
}

/// One operator: the calls of the host, and the kernels they launch.
#[derive(Debug, Clone)]
pub(super) struct Op {
    pub(super) name: &'static str,
    /// Share of the host time of the operator tree that the operator itself takes.
    pub(super) weight: i64,
    /// JSON fragment with the inputs, as `record_shapes` writes it.
    pub(super) args: String,
    pub(super) children: Vec<Op>,
    pub(super) kernels: Vec<Kernel>,
}

impl Op {
    /// An operator with inputs of these shapes (bf16 throughout).
    fn new(name: &'static str, weight: i64, shapes: &[&[u32]]) -> Self {
        Self { name, weight, args: shape_args(shapes), children: vec![], kernels: vec![] }
    }

    fn with(mut self, child: Self) -> Self {
        self.children.push(child);
        self
    }

    fn launching(mut self, kernels: &[Kernel]) -> Self {
        self.kernels.extend_from_slice(kernels);
        self
    }

    /// Nominal device time of all kernels that it launches.
    pub(super) fn device_ns(&self) -> i64 {
        self.kernels.iter().map(|k| k.dur_ns).sum::<i64>()
            + self.children.iter().map(Self::device_ns).sum::<i64>()
    }

    /// Sum of the weights of the tree.
    pub(super) fn total_weight(&self) -> i64 {
        self.weight + self.children.iter().map(Self::total_weight).sum::<i64>()
    }
}

/// One layer call with its gradient.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    /// `nn.Module` class; empty for plain functions.
    pub(super) module: &'static str,
    pub(super) forward: Op,
    /// Autograd node: `AddmmBackward0`.
    pub(super) node: &'static str,
    pub(super) backward: Vec<Op>,
    /// Parameters whose gradients are accumulated after the node.
    pub(super) parameters: u32,
}

impl Layer {
    /// Nominal device time of the gradient.
    pub(super) fn backward_ns(&self) -> i64 {
        self.backward.iter().map(Op::device_ns).sum()
    }
}

/// The whole network.
#[derive(Debug, Clone)]
pub(super) struct Model {
    /// Embeddings.
    pub(super) stem: Vec<Layer>,
    /// One transformer block; all blocks are the same.
    pub(super) block: Vec<Layer>,
    /// Final norm, vocabulary projection, loss.
    pub(super) head: Vec<Layer>,
    pub(super) blocks: u32,
    /// One fused optimizer kernel for the parameters of a block.
    pub(super) adam: Kernel,
    pub(super) all_reduce: Kernel,
    /// Batch copies and scalars.
    pub(super) batch_bytes: i64,
    /// Parameters of one block.
    pub(super) bucket_elements: u64,
}

const BATCH: u32 = 8;
const SEQUENCE: u32 = 1024;
const HIDDEN: u32 = 1024;
const VOCABULARY: u32 = 50304;
const TOKENS: u32 = BATCH * SEQUENCE;

impl Model {
    /// A network of `blocks` transformer blocks.
    pub(super) fn new(blocks: u32) -> Self {
        Self {
            stem: vec![embedding(), residual_add()],
            block: vec![
                layer_norm(),
                linear(3 * HIDDEN, HIDDEN, 62_000),
                attention(),
                linear(HIDDEN, HIDDEN, 26_000),
                residual_add(),
                layer_norm(),
                linear(4 * HIDDEN, HIDDEN, 80_000),
                gelu(),
                linear(HIDDEN, 4 * HIDDEN, 78_000),
                residual_add(),
            ],
            head: vec![layer_norm(), linear(VOCABULARY, HIDDEN, 210_000), cross_entropy()],
            blocks,
            adam: Kernel {
                name: "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false>, float const*, double, double, double, double, double, bool, float const*, float const*>(at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false>, float const*, double, double, double, double, double, bool, float const*, float const*)",
                dur_ns: 66_000,
                grid: [320, 1, 1],
                block: [512, 1, 1],
                registers: 48,
                shared_memory_bytes: 0,
                occupancy_pct: 62,
            },
            all_reduce: Kernel {
                name: "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                dur_ns: 150_000,
                grid: [24, 1, 1],
                block: [512, 1, 1],
                registers: 96,
                shared_memory_bytes: 94_232,
                occupancy_pct: 0,
            },
            batch_bytes: i64::from(TOKENS) * 8,
            bucket_elements: 12 * u64::from(HIDDEN) * u64::from(HIDDEN) + 13 * u64::from(HIDDEN),
        }
    }

    /// All layer calls in forward order, with the number of the block (stem and head have none).
    pub(super) fn layers(&self) -> impl DoubleEndedIterator<Item = (Option<u32>, &Layer)> {
        let blocks = (0..self.blocks).flat_map(|b| self.block.iter().map(move |l| (Some(b), l)));
        let plain = |l| (None, l);
        self.stem.iter().map(plain).chain(blocks).chain(self.head.iter().map(plain))
    }

    /// Nominal device time of one forward pass.
    pub(super) fn forward_ns(&self) -> i64 {
        self.layers().map(|(_, l)| l.forward.device_ns()).sum()
    }
}

fn kernel(name: &'static str, dur_ns: i64, blocks: u32, threads: u32) -> Kernel {
    Kernel {
        name,
        dur_ns,
        grid: [blocks, 1, 1],
        block: [threads, 1, 1],
        registers: 32,
        shared_memory_bytes: 0,
        occupancy_pct: 94,
    }
}

fn gemm(name: &'static str, dur_ns: i64, blocks: u32) -> Kernel {
    Kernel {
        registers: 168,
        shared_memory_bytes: 213_656,
        occupancy_pct: 19,
        ..kernel(name, dur_ns, blocks, 384)
    }
}

fn elementwise(dur_ns: i64) -> Kernel {
    kernel(
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)",
        dur_ns,
        TOKENS * HIDDEN / 1024,
        128,
    )
}

fn layer_norm() -> Layer {
    let x: &[u32] = &[BATCH, SEQUENCE, HIDDEN];
    let w: &[u32] = &[HIDDEN];
    let forward = kernel(
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float, c10::BFloat16 const*, c10::BFloat16 const*, c10::BFloat16 const*, float*, float*, c10::BFloat16*)",
        15_000,
        TOKENS,
        128,
    );
    let input = kernel(
        "void at::native::(anonymous namespace)::layer_norm_grad_input_kernel_vectorized<c10::BFloat16, float>(c10::BFloat16 const*, c10::BFloat16 const*, float const*, float const*, c10::BFloat16 const*, c10::BFloat16*, int)",
        22_000,
        TOKENS,
        128,
    );
    let weight = kernel(
        "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernelTemplate<c10::BFloat16, float, 64u, 8u, 64u, false, true, true>(long, long, c10::BFloat16 const*, c10::BFloat16 const*, float const*, float const*, c10::BFloat16*, c10::BFloat16*)",
        16_000,
        264,
        512,
    );
    Layer {
        module: "LayerNorm",
        forward: Op::new("aten::layer_norm", 30, &[x, &[], w, w])
            .with(Op::new("aten::native_layer_norm", 70, &[x, &[], w, w]).launching(&[forward])),
        node: "NativeLayerNormBackward0",
        backward: vec![
            Op::new(
                "aten::native_layer_norm_backward",
                60,
                &[x, x, &[], &[TOKENS, 1], &[TOKENS, 1], w],
            )
            .launching(&[input, weight]),
        ],
        parameters: 2,
    }
}

fn linear(outputs: u32, inputs: u32, dur_ns: i64) -> Layer {
    let x: &[u32] = &[BATCH, SEQUENCE, inputs];
    let w: &[u32] = &[outputs, inputs];
    let flat: &[u32] = &[TOKENS, inputs];
    let gradient: &[u32] = &[TOKENS, outputs];
    let transpose = |shape: &[u32]| {
        Op::new("aten::t", 8, &[shape]).with(Op::new("aten::transpose", 8, &[shape]).with(Op::new(
            "aten::as_strided",
            4,
            &[shape],
        )))
    };
    Layer {
        module: "Linear",
        forward: Op::new("aten::linear", 16, &[x, w, &[outputs]]).with(transpose(w)).with(
            Op::new("aten::addmm", 64, &[&[outputs], flat, w]).launching(&[gemm(
                "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_bias_TNT",
                dur_ns,
                132,
            )]),
        ),
        node: "AddmmBackward0",
        backward: vec![
            transpose(w),
            Op::new("aten::mm", 40, &[gradient, w]).launching(&[gemm(
                "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT",
                dur_ns * 78 / 100,
                132,
            )]),
            transpose(gradient),
            Op::new("aten::mm", 40, &[&[outputs, TOKENS], flat]).launching(&[gemm(
                "nvjet_hsh_256x128_64x4_2x1_v_bz_coopA_NTT",
                dur_ns * 74 / 100,
                132,
            )]),
            Op::new("aten::sum", 24, &[gradient]).launching(&[kernel(
                "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<c10::BFloat16, at::native::func_wrapper_t<c10::BFloat16, at::native::sum_functor<c10::BFloat16, float, c10::BFloat16>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, unsigned int, c10::BFloat16, 4, 4> >(at::native::ReduceOp<c10::BFloat16, at::native::func_wrapper_t<c10::BFloat16, at::native::sum_functor<c10::BFloat16, float, c10::BFloat16>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, unsigned int, c10::BFloat16, 4, 4>)",
                dur_ns * 12 / 100,
                256,
                128,
            )]),
        ],
        parameters: 2,
    }
}

fn attention() -> Layer {
    let heads: &[u32] = &[BATCH, HIDDEN / 64, SEQUENCE, 64];
    let flat: &[u32] = &[BATCH, SEQUENCE, HIDDEN / 64, 64];
    let flash = |name, dur_ns, registers| Kernel {
        grid: [SEQUENCE / 128, BATCH, HIDDEN / 64],
        registers,
        shared_memory_bytes: 81_920,
        occupancy_pct: 13,
        ..kernel(name, dur_ns, 1, 256)
    };
    Layer {
        module: "",
        forward: Op::new("aten::scaled_dot_product_attention", 20, &[heads, heads, heads]).with(
            Op::new("aten::_scaled_dot_product_flash_attention", 30, &[heads, heads, heads]).with(
                Op::new("aten::_flash_attention_forward", 50, &[flat, flat, flat]).launching(&[flash(
                    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t, pytorch_flash::Flash_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t> >, false, true, false, false, false, true, false, false>(pytorch_flash::Flash_fwd_params)",
                    71_000,
                    255,
                )]),
            ),
        ),
        node: "ScaledDotProductFlashAttentionBackward0",
        backward: vec![
            Op::new("aten::_scaled_dot_product_flash_attention_backward", 30, &[heads, heads, heads, heads]).with(
                Op::new("aten::_flash_attention_backward", 50, &[flat, flat, flat, flat]).launching(&[
                    flash(
                        "void pytorch_flash::flash_bwd_dot_do_o_kernel<true, pytorch_flash::Flash_bwd_kernel_traits<64, 128, 128, 8, 4, 4, 4, false, false, cutlass::bfloat16_t, pytorch_flash::Flash_kernel_traits<64, 128, 128, 8, cutlass::bfloat16_t> > >(pytorch_flash::Flash_bwd_params)",
                        9_000,
                        80,
                    ),
                    flash(
                        "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<pytorch_flash::Flash_bwd_kernel_traits<64, 128, 128, 8, 4, 4, 4, false, false, cutlass::bfloat16_t, pytorch_flash::Flash_kernel_traits<64, 128, 128, 8, cutlass::bfloat16_t> >, false, true, false, false, true, true, false>(pytorch_flash::Flash_bwd_params)",
                        104_000,
                        255,
                    ),
                ]),
            ),
        ],
        parameters: 0,
    }
}

fn residual_add() -> Layer {
    let x: &[u32] = &[BATCH, SEQUENCE, HIDDEN];
    Layer {
        module: "",
        forward: Op::new("aten::add", 100, &[x, x, &[]]).launching(&[elementwise(17_000)]),
        node: "AddBackward0",
        backward: vec![Op::new("aten::add", 20, &[x, x]).launching(&[elementwise(17_000)])],
        parameters: 0,
    }
}

fn gelu() -> Layer {
    let x: &[u32] = &[BATCH, SEQUENCE, 4 * HIDDEN];
    let blocks = TOKENS * HIDDEN / 256;
    Layer {
        module: "GELU",
        forward: Op::new("aten::gelu", 100, &[x]).launching(&[kernel(
            "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2}::operator()() const::{lambda()#4}::operator()() const::{lambda(c10::BFloat16)#1}, std::array<char*, 2ul> >(int, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2}::operator()() const::{lambda()#4}::operator()() const::{lambda(c10::BFloat16)#1}, std::array<char*, 2ul>)",
            32_000,
            blocks,
            128,
        )]),
        node: "GeluBackward0",
        backward: vec![Op::new("aten::gelu_backward", 30, &[x, x]).launching(&[kernel(
            "void at::native::vectorized_elementwise_kernel<4, at::native::GeluBackwardCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2}::operator()() const::{lambda()#4}::operator()() const::{lambda(c10::BFloat16, c10::BFloat16)#1}, std::array<char*, 3ul> >(int, at::native::GeluBackwardCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2}::operator()() const::{lambda()#4}::operator()() const::{lambda(c10::BFloat16, c10::BFloat16)#1}, std::array<char*, 3ul>)",
            44_000,
            blocks,
            128,
        )])],
        parameters: 0,
    }
}

fn embedding() -> Layer {
    let table: &[u32] = &[VOCABULARY, HIDDEN];
    let tokens: &[u32] = &[BATCH, SEQUENCE];
    Layer {
        module: "Embedding",
        forward: Op::new("aten::embedding", 40, &[table, tokens]).with(
            Op::new("aten::index_select", 60, &[table, &[TOKENS]]).launching(&[kernel(
                "void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long, unsigned int, 2, 2, -2, true>(at::cuda::detail::TensorInfo<c10::BFloat16, unsigned int>, at::cuda::detail::TensorInfo<c10::BFloat16 const, unsigned int>, at::cuda::detail::TensorInfo<long const, unsigned int>, int, int, unsigned int, unsigned int, long)",
                21_000,
                1056,
                128,
            )]),
        ),
        node: "EmbeddingBackward0",
        backward: vec![
            Op::new("aten::embedding_dense_backward", 60, &[&[BATCH, SEQUENCE, HIDDEN], tokens])
                .launching(&[kernel(
                    "void at::native::(anonymous namespace)::compute_grad_weight<c10::BFloat16, long, false>(long const*, c10::BFloat16 const*, long const*, long, long, long const*, long const*, float*, long)",
                    58_000,
                    2112,
                    128,
                )]),
        ],
        parameters: 1,
    }
}

fn cross_entropy() -> Layer {
    let logits: &[u32] = &[TOKENS, VOCABULARY];
    Layer {
        module: "CrossEntropyLoss",
        forward: Op::new("aten::cross_entropy_loss", 20, &[logits, &[TOKENS]])
            .with(Op::new("aten::log_softmax", 10, &[logits]).with(
                Op::new("aten::_log_softmax", 30, &[logits]).launching(&[kernel(
                    "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float, c10::BFloat16, at::native::(anonymous namespace)::LogSoftMaxForwardEpilogue>(c10::BFloat16*, c10::BFloat16 const*, int)",
                    76_000,
                    TOKENS,
                    1024,
                )]),
            ))
            .with(Op::new("aten::nll_loss_nd", 10, &[logits, &[TOKENS]]).with(
                Op::new("aten::nll_loss_forward", 30, &[logits, &[TOKENS]]).launching(&[kernel(
                    "void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<c10::BFloat16, float, long>(c10::BFloat16*, c10::BFloat16*, c10::BFloat16 const*, long const*, c10::BFloat16 const*, bool, long, long, long, long)",
                    9_000,
                    1,
                    32,
                )]),
            )),
        node: "LogSoftmaxBackward0",
        backward: vec![
            Op::new("aten::nll_loss_backward", 30, &[&[], logits, &[TOKENS]]).launching(&[kernel(
                "void at::native::(anonymous namespace)::nll_loss_backward_reduce_cuda_kernel_2d<c10::BFloat16, long>(c10::BFloat16*, c10::BFloat16 const*, long const*, c10::BFloat16 const*, c10::BFloat16 const*, bool, int, int, long, long)",
                7_000,
                1,
                32,
            )]),
            Op::new("aten::_log_softmax_backward_data", 30, &[logits, logits]).launching(&[kernel(
                "void at::native::(anonymous namespace)::cunn_SoftMaxBackward<8, c10::BFloat16, float, c10::BFloat16, at::native::(anonymous namespace)::LogSoftMaxBackwardEpilogue>(c10::BFloat16*, c10::BFloat16 const*, c10::BFloat16 const*, long)",
                98_000,
                TOKENS,
                1024,
            )]),
        ],
        parameters: 0,
    }
}

/// `"Concrete Inputs"` and its companions for inputs of these shapes; a shape of no dimensions is
/// a scalar argument.
fn shape_args(shapes: &[&[u32]]) -> String {
    let list =
        |f: &dyn Fn(&[u32]) -> String| shapes.iter().map(|s| f(s)).collect::<Vec<_>>().join(", ");
    let strides = |shape: &[u32]| {
        let strides: Vec<u64> = (0..shape.len())
            .map(|i| shape[i + 1..].iter().map(|&d| u64::from(d)).product())
            .collect();
        format!("{strides:?}")
    };
    format!(
        r#""Concrete Inputs": [{}], "Input type": [{}], "Input Strides": [{}], "Input Dims": [{}]"#,
        list(&|s| if s.is_empty() { r#""1""#.to_owned() } else { r#""""#.to_owned() }),
        list(&|s| if s.is_empty() {
            r#""Scalar""#.to_owned()
        } else {
            r#""c10::BFloat16""#.to_owned()
        }),
        list(&strides),
        list(&|s| format!("{s:?}")),
    )
}
