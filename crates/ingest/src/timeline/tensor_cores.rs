//! Recognizes kernels that use matrix units, by name: NVIDIA's tensor cores, AMD's matrix cores.
//!
//! Traces do not record the use of these units, but names often reveal it. A name is compared with families that use
//! these units, then with families that multiply without them or do not multiply. Of the rest, a name that suggests a
//! product, or one without information (Triton kernels have the names of Python functions), is unknown.

/// `yes`, `no` or `unknown`.
pub(crate) fn tensor_cores(name: &str) -> &'static str {
    let lower = name.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| lower.contains(part));
    let starts = |parts: &[&str]| parts.iter().any(|part| lower.starts_with(part));
    if has(&HELPERS) || has(&SCALAR) {
        "no"
    } else if is_tensile(name) {
        if has_matrix_instruction(name) { "yes" } else { "no" }
    } else if let Some(verdict) = memory_efficient_attention(&lower) {
        verdict
    } else if has(&MATRIX)
        || has(&ATTENTION)
        || starts(&["nvjet"])
        || is_triton_attention(&lower)
        || (lower.contains("ck_tile") && lower.contains("gemm"))
    {
        "yes"
    } else if has(&ELSEWHERE) || starts(&["triton_poi", "triton_red", "triton_per"]) {
        "no"
    } else if has(&PRODUCTS) || (is_plain(name) && !has(&PLAIN_WORK)) {
        "unknown"
    } else {
        "no"
    }
}

/// Run beside products, and bear their names: layouts, offsets, sums of partial results.
const HELPERS: [&str; 13] = [
    "splitkreduce",
    "reducesplitk",
    "splitk_reduce",
    "splitkv_combine",
    "flash_bwd_dot_do_o",
    "flash_bwd_convert_d",
    "reshape_and_cache",
    "offsetskernel",
    "nchwtonhwc",
    "nhwctonchw",
    "im2col",
    "epilogue::impl",
    "matmul_scatter",
];

/// Products on the ordinary units. `ffma` marks them among the xmma kernels, `simt` among CUTLASS's.
const SCALAR: [&str; 22] = [
    "ffma",
    "simt",
    "_f32f32_f32f32_f32_",
    "sgemm_",
    "_sgemm",
    "scudnn",
    "hcudnn",
    "_dgemm",
    "cgemm_",
    "zgemm_",
    "maxwell_hgemm",
    "volta_hgemm",
    "gemv",
    "gemmk1",
    "gemmsn",
    "dot_kernel",
    "dgrad_engine",
    "dgrad_alg",
    "wgrad_alg",
    "implicit_convolve",
    "winograd",
    "fft2d_",
];

/// Instructions, and libraries that are built on them.
const MATRIX: [&str; 51] = [
    // NVIDIA, by shape of the instruction: Volta, Turing, Ampere, Ada.
    "hmma",
    "_imma",
    "s884",
    "h884",
    "d884",
    "c884",
    "s1688",
    "h1688",
    "c1688",
    "s16816",
    "h16816",
    "s161616",
    "h161616",
    "s16832",
    "s16864",
    "i8816",
    "i16816",
    "i16832",
    "m16n8k16",
    // The plugin's list of cuDNN kernels.
    "dgrad_1x1_stride_2x2",
    "first_layer_wgrad_kernel",
    "conv2d_c1_k1",
    "direct_group",
    // What cuBLAS and cuDNN are built from, and CUTLASS.
    "xmma_",
    "tensorop_",
    "mmatensorop",
    "classtensorop",
    "wmma",
    "wgmma",
    "gmma",
    "tcgen05",
    "utcmma",
    "mainloopsm90",
    "mainloopsm100",
    "_sm100",
    "sm100_",
    "deep_gemm",
    "marlin",
    "machete",
    // AMD: MFMA, XDL (what composable kernels call it), MIOpen's GTC kernels, fused experts.
    "mfma",
    "xdlops",
    "_xdl_",
    "_gtcx",
    "fmoe",
    "mla_a16w16",
    "mla_dec",
    // Products in Triton whose names say that they are in 16 bit or less.
    "matmul_ogs",
    "_w8a8_block_fp8_matmul",
    "_scaled_mm_fp8",
    "fp8_gemm",
    "int8_gemm",
];

/// Attention in one kernel. All of these multiply in 16 bit or less.
const ATTENTION: [&str; 9] = [
    "flash_fwd_kernel",
    "flash_fwd_splitkv_kernel",
    "flash_bwd_dq_dk_dv",
    "flashattnfwd",
    "flashattnbwd",
    "fmha",
    "_sdpa_",
    "flash_fprop",
    "flash_bprop",
];

/// Libraries whose kernels do other work, unless a name above matches.
const ELSEWHERE: [&str; 16] = [
    "at::native::",
    "at_cuda_detail",
    "cub::",
    "thrust::",
    "rocprim",
    "hipcub",
    "nccl",
    "rccl",
    "nvshmem",
    "memcpy",
    "memset",
    "cudnn::bn",
    "cudnn::ops",
    "multimem_all_reduce",
    "subtensorop",
    "optensor",
];

/// Words of products.
const PRODUCTS: [&str; 20] = [
    "gemm",
    "matmul",
    "conv_",
    "conv1d",
    "conv2d",
    "conv3d",
    "convolution",
    "convolve",
    "asmconv",
    "attn",
    "attention",
    "bmm",
    "_mm_",
    "_mm<",
    "linear_",
    "moe_",
    "triton_tem",
    "_mla",
    "dgrad",
    "wgrad",
];

/// Words of other work in the names of plain functions.
const PLAIN_WORK: [&str; 30] = [
    "norm",
    "relu",
    "gelu",
    "silu",
    "swiglu",
    "softmax",
    "topk",
    "transpose",
    "copy",
    "reduce",
    "sort",
    "scan",
    "fill",
    "quant",
    "rotary",
    "rope",
    "embed",
    "elementwise",
    "index",
    "indices",
    "scatter",
    "gather",
    "add",
    "sum",
    "mul_",
    "adam",
    "loss",
    "dropout",
    "pool",
    "routing",
];

/// Tensile, which AMD's BLAS libraries are built with: `Cijk_` and what the kernel was made for.
fn is_tensile(name: &str) -> bool {
    name.starts_with("Cijk_") || name.starts_with("Custom_Cijk_")
}

/// `_MI16x16x1`: the matrix instruction of a Tensile kernel; others have none.
fn has_matrix_instruction(name: &str) -> bool {
    name.match_indices("_MI").any(|(at, _)| {
        let digits = name[at + 3..].bytes().take_while(u8::is_ascii_digit).count();
        digits > 0 && name.as_bytes().get(at + 3 + digits) == Some(&b'x')
    })
}

/// Flash attention in Triton on AMD, which PyTorch calls for `scaled_dot_product_attention`.
fn is_triton_attention(lower: &str) -> bool {
    ["attn_fwd", "attn_bwd", "bwd_kernel_dk_dv", "bwd_kernel_dq", "bwd_kernel_fuse"]
        .iter()
        .any(|name| lower.strip_suffix(".kd").unwrap_or(lower) == *name)
}

/// `fmha_cutlassF_f16_aligned_64x64_rf_sm80`: by type and architecture.
fn memory_efficient_attention(lower: &str) -> Option<&'static str> {
    let at = lower.find("fmha_cutlass")?;
    let rest = &lower[at..];
    let is_single = rest.contains("_f32_");
    let uses =
        rest.contains("sm80") || (!is_single && (rest.contains("sm70") || rest.contains("sm75")));
    Some(if uses { "yes" } else { "no" })
}

/// A bare function's name: no templates, namespaces, parameters or mangling.
fn is_plain(name: &str) -> bool {
    !name.starts_with("_Z")
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.')
}

#[cfg(test)]
mod tests {
    use super::tensor_cores;

    /// Names from real traces, shortened.
    #[test]
    fn tensor_cores_follows_kernel_names() {
        for (verdict, names) in [("yes", YES), ("no", NO), ("unknown", UNKNOWN)] {
            for name in names {
                assert_eq!(tensor_cores(name), verdict, "{name}");
            }
        }
    }

    const YES: &[&str] = &[
        // Volta, Turing, Ampere.
        "volta_h884gemm_128x64_ldg8_nn",
        "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn",
        "volta_fp16_s884cudnn_fp16_256x64_ldg8_relu_f2f_exp_small_nhwc2nchw_tn_v1",
        "turing_fp16_s1688cudnn_fp16_128x128_ldg8_relu_f2f_exp_interior_nhwc_tn_v1",
        "turing_i8816cudnn_int8_128x128_ldg16_relu_large_nt_v0",
        "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x3_nn",
        "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
        "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4>(cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4::Params)",
        "void cutlass_cudnn_train::Kernel<cutlass_tensorop_s1688wgrad_optimized_tf32_256x128_16x3_nhwc_align4>(cutlass_tensorop_s1688wgrad_optimized_tf32_256x128_16x3_nhwc_align4::Params)",
        "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_stage4_warpsize2x2x1_g1_tensor16x8x8_alignc4_execute_kernel_cudnn",
        "_ZN19cutlass_cudnn_train6KernelINS_4conv6kernel23ImplicitGemmConvolutionINS6_11threadblock9MmaPolicyINS6_4warp11MmaTensorOpINS7_ILi64ELi64ELi32EE",
        // Hopper and Blackwell.
        "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNT",
        "nvjet_tst_64x16_64x16_2x4_2cta_h_bz_bias_TNT",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
        "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8>(cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8::Params)",
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm90TmaGmmaWarpSpecialized<7>>>>",
        "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_cga1x1x1_16dp256b_rM_TN_sm100f",
        "void deep_gemm::fp8_gemm_kernel<4096u, 7168u, 128u>",
        // Attention.
        "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t>>",
        "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<64>>",
        "void cutlass::device_kernel<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90>>",
        "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::bfloat16_t, cutlass::arch::Sm80>::Params)",
        "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float, cutlass::arch::Sm80>::Params)",
        "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0",
        // AMD.
        "Cijk_Alik_Bljk_SB_Bias_AS_SAV_UserArgs_MT64x16x32_MI16x16x1_SN_LDSB0_AFC1_AFEM1_ISA90a_MIAV0_MIWT1_1_MO40",
        "Cijk_Ailk_Bljk_BBS_BH_MT64x64x64_MI16x16x16x1_SN_1LDSB0_APM1",
        "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32_wt32x32x8_ws1x1_wr2x2_ta1x8x2x1_1x4x1x64",
        "_ZN2ck16tensor_operation6device37kernel_batched_gemm_xdlops_bwd_weightINS_47GridwiseGemm_bk0mk1_bk0nk1_mn_xdlops_bwd_weight",
        "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_cshuffle_v3INS_28GridwiseGemm_xdl_cshuffle_v3",
        "attn_fwd",
        "bwd_kernel_dk_dv",
        "_ZN5aiter26fmha_fwd_hd128_bf16_causalE",
        "void paged_attention_ll4mi_QKV_mfma16_kernel<0, __hip_bfloat16, __hip_bfloat16>",
        "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu",
    ];

    const NO: &[&str] = &[
        // Products without the units: TF32 switched off, or not there.
        "ampere_sgemm_128x64_nn",
        "volta_sgemm_32x32_sliced1x4_tn",
        "cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1",
        "volta_fp16_scudnn_fp16_128x64_relu_small_nn_v1",
        "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(cutlass_80_simt_sgemm_128x32_8x5_nn_align1::Params)",
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas",
        "void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int, int, int, float const*)",
        "void cudnn::cnn::wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(int, int, int)",
        "void implicit_convolve_sgemm<float, float, 1024, 6, 7, 3, 3, 5, 1, false, true, true>(int, int, int)",
        "void cudnn::winograd_nonfused::winogradForwardOutput4x4<float, float>(cudnn::winograd_nonfused::WinogradOutputParams<float, float>)",
        "void fft2d_r2c_32x32<float, false, 5u, true>(float2*, float const*)",
        "ampere_gcgemm_64x64_nt",
        "void gemvNSP_kernel<float, float, float, float, 1, 32, 4, 1024>",
        "void gemmk1_kernel<float, 256, 5, false, false, false, false>",
        "void magma_sgemmEx_kernel<float, float, float, true, false, 6, 4, 6, 3, 4>(int, int, int)",
        "fmha_cutlassF_f32_aligned_64x64_rf_sm70(PyTorchMemEffAttention::AttentionKernel<float, cutlass::arch::Sm70>::Params)",
        "Cijk_Ailk_Bljk_SB_MT32x32x16_SE_K1_MIWT1_1",
        // What runs beside products.
        "void splitKreduce_kernel<float, float, float, float, true, false, false>(cublasSplitKParams<float>)",
        "void cutlass_cudnn_train::Kernel<cutlass_cudnn_train::reduction::kernel::ReduceSplitK<cutlass_cudnn_train::MatrixShape<4, 128>, MmaTensorOp>>",
        "void flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<64>>",
        "void flash_bwd_dot_do_o_kernel<true, Flash_bwd_kernel_traits<64>>",
        "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, unsigned char>(__nv_bfloat16 const*)",
        "void cask_cudnn::computeOffsetsKernel<false, false>(cask_cudnn::ComputeOffsetsParams)",
        "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)2>(cudnn::ops::nchw2nhwc_params_t<float>)",
        "void epilogue::impl::globalKernel<float, float, float, true, true>(int, int, long, float*, cublasLtEpilogue_t)",
        "_finalize_matmul_scatter_bf16",
        "batched_transpose_16x64_pack_1x4_ediv_1x2_half",
        "SubTensorOpWithCastTensor1d",
        // Other work.
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>",
        "void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<3, float, int>",
        "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(float, float, float, float)",
        "void split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel_cta_per_row_1<float, float, float, 2ul>",
        "void linearize_index_kernel<long>(at::GenericPackedTensorAccessor<long, 1ul>)",
        "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb1ELb0ELb1ELi1EEEvPT0_PT_PfS4_S4_S4_diiiiiiib",
        "void tensorrt_llm::kernels::quantize_with_block_size<(tensorrt_llm::BlockScaleQuantizationType)2, __nv_bfloat16, 32, true>",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "triton_poi_fused__unsafe_view_mul_silu_2",
        "triton_red_fused_add_mean_mul_pow_rsqrt_0",
        "create_flashinfer_kv_indices_triton",
        "relu_kernel",
    ];

    const UNKNOWN: &[&str] = &[
        // Triton: the type of the product, if it is one, is not in the name.
        "triton_tem_fused_mm_3",
        "fused_moe_kernel",
        "matmul_kernel",
        "kernel_unified_attention_2d",
        "_fwd_kernel",
        "my_gemm",
        "k",
    ];
}
