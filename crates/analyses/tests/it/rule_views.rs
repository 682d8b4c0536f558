//! Views that rules judge, on tiny runs, with expectations worked out by hand.

use crate::support::{Run, rows};

const MIB: i64 = 1 << 20;

/// Copies of one step of 1000: 100 ns from pageable memory, half of it under a kernel; 50 ns from pinned memory
/// under one; a small one that the device waits for.
#[test]
fn transfers_are_exposed_while_no_kernel_runs() {
    let mut run = Run::default();
    run.rank(0)
        .step(0, 1, 0, 1_000, true)
        .op(0, "aten::to", 0, 0)
        .memcpy(0, 100, 100, MIB, Some((50, 150)))
        .with_direction("Memcpy HtoD (Pageable -> Device)", "HtoD")
        .kernel_in_step(0, 1, 150, 250, (120, 5))
        .memcpy(0, 300, 50, MIB, Some((210, 5)))
        .with_direction("Memcpy HtoD (Pinned -> Device)", "HtoD")
        .memcpy(0, 500, 10, 1_024, Some((480, 5)))
        .with_direction("Memcpy HtoD (Pageable -> Device)", "HtoD")
        .memcpy(0, 600, 20, 8, Some((590, 5)));
    let session = run.open();
    let columns = [
        "window_ns",
        "h2d_count",
        "h2d_bytes",
        "h2d_ns",
        "h2d_exposed_ns",
        "h2d_per_step_count",
        "small_gap_ns",
        "typed_count",
        "pageable_count",
        "pageable_exposed_ns",
        "d2h_count",
        "d2h_exposed_ns",
    ];
    // The gap of 100 ns before the small copy: its launch returned at 485, after the gap began at 400.
    assert_eq!(
        rows(&session, "gpu_transfers", &columns),
        ["1000 3 2098176 160 60 3 100 3 1 50 1 20"]
    );
    // 1 MiB in 100 ns against 1 MiB in 50 ns: pinned copies would save half of the exposed 50 of 1000 ns.
    let columns = ["pageable_gb_per_s", "pinned_gb_per_s", "pageable_loss_ratio"];
    assert_eq!(rows(&session, "gpu_transfers", &columns), ["10485.76 20971.52 0.025"]);
}

#[test]
fn kernel_families_by_name_and_type() {
    let mut run = Run::default();
    run.rank(0).step(0, 1, 0, 1_000, true);
    let kernels: [(&str, &str, &str, i64); 7] = [
        ("void direct_copy_kernel_cuda", "aten::copy_", r#"["float", "float", ""]"#, 100),
        ("void direct_copy_kernel_cuda", "aten::copy_", r#"["float", "c10::BFloat16", ""]"#, 60),
        ("nchwToNhwcKernel<float>", "aten::cudnn_convolution", r#"["float"]"#, 20),
        ("implicit_convolve_sgemm<float>", "aten::cudnn_convolution", r#"["float"]"#, 80),
        ("elementwise_kernel<AddFunctor<double>>", "aten::add", r#"["double", "double"]"#, 40),
        ("elementwise_kernel<AddFunctor<double>>", "aten::add", r#"["float", "Scalar"]"#, 30),
        ("triton_poi_fused_0", "aten::add", "", 10),
    ];
    for (i, (name, op, types, dur_ns)) in kernels.into_iter().enumerate() {
        let start = 100 * i as i64;
        run.op(0, op, start, 10).with_input_types(types);
        run.kernel_on(
            0,
            "computation",
            (0, 7),
            start + 20,
            dur_ns.min(80),
            Some((start, 5)),
            Some(1),
            name,
        );
        run.launched_by_op().with_occupancy(if i == 0 { 0.5 } else { 4.0 }, 0.5);
    }
    let session = run.open();
    let columns = [
        "work_ns",
        "copy_ns",
        "cast_ns",
        "cast_types",
        "conv_ns",
        "slow_conv_ns",
        "layout_ns",
        "layout_conv_ratio",
        "fp64_ns",
        "pointwise_ns",
        "chain_ns",
        "compiled_count",
    ];
    // Durations: 80 60 20 80 40 30 10. Of the two consecutive element-wise kernels, the second could be fused.
    assert_eq!(
        rows(&session, "kernel_families", &columns),
        ["320 80 60 bf16 to fp32 80 80 20 0.25 40 70 30 1"]
    );
    // 80 of 320 ns at half of the multiprocessors.
    let columns = ["sm_use_ratio", "sm_spare_window_ratio", "cast_ratio"];
    assert_eq!(rows(&session, "kernel_families", &columns), ["0.875 0.04 0.1875"]);
}

#[test]
fn matmuls_are_a_family_without_convolutions_attention_and_their_copies() {
    let mut run = Run::default();
    run.rank(0).step(0, 1, 0, 1_000, true);
    let kernels = [
        ("ampere_sgemm_128x64_tn", "aten::addmm", 80),
        ("Cijk_Ailk_Bljk_HHS_BH_MT128x128x16", "", 70),
        ("void custom_product_kernel", "aten::mm", 60),
        // The bias, copied before the product.
        ("void at::native::elementwise_kernel<128, 4>", "aten::addmm", 50),
        ("sm80_xmma_fprop_implicit_gemm_f16", "aten::cudnn_convolution", 40),
        ("cutlass_80_tensorop_f16_s16816gemm", "aten::cudnn_convolution", 30),
        ("void pytorch_flash::flash_fwd_kernel", "aten::_flash_attention_forward", 20),
    ];
    for (i, (name, op, dur_ns)) in kernels.into_iter().enumerate() {
        let start = 100 * i as i64;
        let launch = Some((start, 5));
        run.op(0, op, start, 10);
        run.kernel_on(0, "computation", (0, 7), start + 10, dur_ns, launch, Some(1), name);
        if !op.is_empty() {
            run.launched_by_op();
        }
    }
    let columns = ["kernel_ns", "matmul_ns", "matmul_ratio", "conv_ns", "attention_ns"];
    assert_eq!(rows(&run.open(), "kernel_families", &columns), ["350 210 0.6 70 20"]);
}

/// The first step is warm-up: it takes three times as long as the others.
#[test]
fn operators_in_steps_leave_warm_up_out() {
    let mut run = Run::default();
    run.rank(0);
    for (step, start, dur_ns) in
        [(0, 0, 3_000), (1, 3_000, 1_000), (2, 4_000, 1_000), (3, 5_000, 1_000)]
    {
        run.step(0, step, start, dur_ns, step == 3)
            .op(0, "aten::mm", start + 10, 100)
            .kernel_in_step(0, step, start + 200, 300, (start + 20, 5))
            .launched_by_op();
    }
    let session = run.open();
    let columns = ["name", "call_count", "host_total_ns", "device_self_ns"];
    assert_eq!(rows(&session, "op_by_name", &columns), ["aten::mm 4 400 1200"]);
    let counted = rows(&session, "device_steps", &["step"]);
    assert!(counted.len() < 4 && !counted.contains(&"0".to_owned()), "{counted:?}");
    let count = counted.len();
    let expected = format!("aten::mm {count} {} {}", 100 * count, 300 * count);
    assert_eq!(rows(&session, "op_in_steps", &columns), [expected]);
}

/// Names from recordings on NVIDIA and AMD, of training, compiled code and inference servers.
#[test]
fn each_kernel_has_one_family() {
    let kernels = [
        ("ampere_sgemm_128x64_tn", "aten::addmm", "matmul"),
        ("Cijk_Ailk_Bljk_HHS_BH_MT128x128x16", "", "matmul"),
        ("nvjet_tst_128x64_64x8_1x2_h_bz_NNT", "aten::mm", "matmul"),
        ("triton_tem_fused_mm_0", "", "matmul"),
        ("triton_poi_fused__unsafe_view_mul_silu_2", "", "compiled"),
        ("triton_red_fused_add_mean_mul_pow_rsqrt_0", "", "compiled"),
        ("sm80_xmma_fprop_implicit_gemm_f16", "aten::cudnn_convolution", "convolution"),
        (
            "volta_scudnn_128x128_stridedB_splitK_small_nn_v1",
            "aten::cudnn_convolution_backward_weight",
            "convolution",
        ),
        ("void cudnn::ops::nchwToNhwcKernel<float>", "aten::cudnn_convolution", "layout change"),
        ("batched_transpose_16x32_half", "aten::miopen_convolution", "layout change"),
        (
            "void cudnn::bn_bw_1C11_kernel_new<float, float, float2>",
            "aten::cudnn_batch_norm_backward",
            "norm",
        ),
        ("MIOpenBatchNormFwdTrainSpatialNorm", "aten::miopen_batch_norm", "norm"),
        ("_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_", "", "norm"),
        ("_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16b", "", "norm"),
        ("void pytorch_flash::flash_fwd_kernel", "aten::_flash_attention_forward", "attention"),
        ("void vllm::reshape_and_cache_flash_kernel<float>", "", "cache write"),
        ("_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu", "", "mixture of experts"),
        (
            "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3",
            "vllm::moe_forward",
            "mixture of experts",
        ),
        (
            "void vllm::scaled_fp8_quant_kernel_strided<c10::BFloat16>",
            "_C::static_scaled_fp8_quant",
            "quantization",
        ),
        (
            "void vllm::rotary_embedding_kernel<c10::BFloat16, true>",
            "_C::rotary_embedding",
            "elementwise",
        ),
        (
            "void split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel_cta_per_row_1<float>",
            "",
            "embedding and indexing",
        ),
        (
            "void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16>",
            "aten::index_select",
            "embedding and indexing",
        ),
        ("void cub::DeviceRadixSortOnesweepKernel<long>", "", "sorting and scanning"),
        (
            "void at::native::(anonymous namespace)::max_pool_backward_nchw<float>",
            "aten::max_pool2d_with_indices_backward",
            "pooling",
        ),
        (
            "void at::native::multi_tensor_apply_kernel<at::native::FusedAdamMathFunctor>",
            "aten::_fused_adamw_",
            "lists of tensors",
        ),
        (
            "void (anonymous namespace)::softmax_warp_forward<float>",
            "aten::_softmax",
            "softmax and loss",
        ),
        (
            "void at::native::reduce_kernel<512, 1, ReduceOp<float, MeanOps>>",
            "aten::mean",
            "reduction",
        ),
        ("void at::native::elementwise_kernel<128, 4>", "aten::copy_", "copy"),
        (
            "void at::native::vectorized_elementwise_kernel<4, FillFunctor<float>>",
            "aten::fill_",
            "elementwise",
        ),
        ("something_new", "", "other"),
    ];
    let mut run = Run::default();
    run.rank(0).step(0, 1, 0, 10_000, true);
    for (i, (name, op, _)) in kernels.into_iter().enumerate() {
        let start = 100 * i as i64;
        run.op(0, op, start, 10);
        run.kernel_on(0, "computation", (0, 7), start + 10, 50, Some((start, 5)), Some(1), name);
        if !op.is_empty() {
            run.launched_by_op();
        }
    }
    let session = run.open();
    let mut expected = kernels.map(|(name, _, family)| format!("{name} {family} 1 50"));
    expected.sort();
    let mut found =
        rows(&session, "kernel_by_name", &["name", "family", "call_count", "device_ns"]);
    found.sort();
    assert_eq!(found, expected);
    // Six of them are matmuls by name, those of mixtures of experts included.
    let columns = ["kernel_ns", "matmul_ns"];
    assert_eq!(rows(&session, "kernel_families", &columns), ["1500 300"]);
}

/// A host that launches a step and continues with the next one while the device needs 40 times as long.
#[test]
fn shares_of_a_step_include_the_device_work_that_it_launched() {
    let mut run = Run::default();
    run.rank(0);
    for i in 0..2 {
        let start = 100 * i;
        run.step(0, i, start, 100, i == 1)
            .annotation(0, "Optimizer.step#SGD.step", start + 50, 40)
            .kernel_in_step(0, i, 100 + 4_000 * i, 4_000, (start + 5, 1));
    }
    let session = run.open();
    let columns = ["step_ns", "device_step_ns", "optimizer_ns", "optimizer_ratio"];
    assert_eq!(
        rows(&session, "step_phases_by_step", &columns),
        ["100 4000 40 0.01"],
        "the device may have been busy with earlier work when the first step began"
    );
    assert_eq!(rows(&session, "step_phases", &columns), ["100 4000 40 0.01"]);
    assert_eq!(rows(&session, "step_optimizer", &["host_ns", "host_ratio"]), ["40 0.01"]);
}

#[test]
fn compilation_after_the_first_step_is_not_warm_up() {
    let mut run = Run::default();
    run.rank(0)
        .step(0, 1, 0, 300, false)
        .step(0, 2, 300, 100, false)
        .step(0, 3, 400, 100, true)
        .kernel_in_step(0, 1, 10, 90, (5, 1))
        .kernel_in_step(0, 2, 310, 10, (305, 1))
        .kernel_in_step(0, 3, 410, 80, (405, 1))
        .annotation(0, "_compile.compile_inner (dynamo_timed)", 50, 100)
        .annotation(0, "_compile.compile_inner (dynamo_timed)", 330, 40)
        .annotation(0, "entire_frame_compile (dynamo_timed)", 335, 20);
    run.call(0, "cudaMalloc", 200, 30);
    let session = run.open();
    let columns = [
        "step_count",
        "first_step_ns",
        "median_step_ns",
        "first_step_ratio",
        "warmup_ns",
        "compile_count",
    ];
    assert_eq!(rows(&session, "run_warmup", &columns), ["3 300 100 2 170 3"]);
    let columns =
        ["steady_ns", "steady_compile_ns", "steady_idle_ns", "steady_step_count", "steady_name"];
    assert_eq!(
        rows(&session, "run_warmup", &columns),
        ["200 40 40 1 _compile.compile_inner (dynamo_timed)"]
    );
}

/// `torch.cuda.empty_cache()` in the loop: every step allocates again.
#[test]
fn memory_that_every_step_allocates_is_not_warm_up() {
    let warmup = |calls: &[i64]| {
        let mut run = Run::default();
        run.rank(0)
            .step(0, 1, 0, 100, false)
            .step(0, 2, 100, 100, false)
            .step(0, 3, 200, 100, true)
            .kernel_in_step(0, 1, 10, 80, (5, 1))
            .kernel_in_step(0, 2, 110, 80, (105, 1))
            .kernel_in_step(0, 3, 210, 80, (205, 1));
        for ts_ns in calls {
            run.call(0, "cudaFree", *ts_ns, 20);
        }
        let columns = ["warmup_ns", "warmup_name", "steady_memory_ns"];
        rows(&run.open(), "run_warmup", &columns).remove(0)
    };
    assert_eq!(warmup(&[50, 150, 250]), "0 - 40");
    assert_eq!(warmup(&[50, 150]), "40 cudaFree 0");
    assert_eq!(warmup(&[150, 250]), "0 - 40");
}

#[test]
fn optimizers_are_recognized_by_their_kernels() {
    let mut run = Run::default();
    run.rank(0).step(0, 1, 0, 1_000, true).op(0, "aten::mul", 0, 0).annotation(
        0,
        "Optimizer.step#SGD.step",
        400,
        300,
    );
    let kernels = [
        ("elementwise_kernel", "Optimizer.step#SGD.step", 500),
        ("multi_tensor_apply_kernel<BinaryOp>", "Optimizer.step#SGD.step", 600),
        ("multi_tensor_apply_kernel<FusedSgdMathFunctor>", "Optimizer.step#SGD.step", 650),
        ("FillFunctor", "Optimizer.zero_grad#SGD.zero_grad", 800),
    ];
    for (name, annotation, ts_ns) in kernels {
        let launch = Some((ts_ns - 10, 5));
        run.kernel_on(0, "computation", (0, 7), ts_ns, 20, launch, Some(1), name)
            .in_annotation(annotation);
    }
    let session = run.open();
    let columns = [
        "optimizer",
        "step_count",
        "host_ratio",
        "kernel_count",
        "kernel_ns",
        "gap_ns",
        "foreach_count",
        "fused_count",
        "zero_kernel_count",
        "zero_ns",
        "zero_gap_ns",
    ];
    // Idle before the kernels of the step: 500, 80 and 30 ns; before the fill 130 ns.
    assert_eq!(rows(&session, "step_optimizer", &columns), ["SGD 1 0.3 3 60 610 1 1 1 20 130"]);
}

#[test]
fn optimizer_that_calls_itself_is_called_once() {
    let mut run = Run::default();
    run.rank(0).step(0, 1, 0, 1_000, true);
    for depth in 0..5 {
        run.annotation(0, "Optimizer.step#Wrapper.step", 100 + 10 * depth, 800 - 20 * depth);
    }
    run.annotation(0, "Optimizer.step#Wrapper.step", 920, 50);
    let columns = ["optimizer", "step_count", "call_count"];
    assert_eq!(rows(&run.open(), "step_optimizer", &columns), ["Wrapper 1 2"]);
}

#[test]
fn slow_steps_stand_out_and_may_recur() {
    let mut run = Run::default();
    run.rank(0);
    let mut start = 0;
    for i in 0..9 {
        let dur_ns = if i % 3 == 2 { 150 } else { 100 };
        run.step(0, i, start, dur_ns, i == 8);
        start += dur_ns;
    }
    let columns = [
        "step_count",
        "median_ns",
        "outlier_count",
        "excess_ns",
        "worst_step",
        "worst_ns",
        "period",
        "period_count",
    ];
    assert_eq!(rows(&run.open(), "step_outliers", &columns), ["9 100 3 150 2 150 3 3"]);

    let mut run = Run::default();
    run.rank(0);
    for (i, dur_ns) in [100, 101, 99, 100, 180, 100].into_iter().enumerate() {
        run.step(0, i as i64, i as i64 * 1_000, dur_ns, i == 5);
    }
    let columns = [
        "outlier_count",
        "excess_ns",
        "excess_ratio",
        "worst_step",
        "period",
        "period_excess_ratio",
    ];
    assert_eq!(rows(&run.open(), "step_outliers", &columns), ["1 80 0.117647 4 - 0"]);
}

/// Two ranks, each with one large `all_reduce` and two small broadcasts a step.
#[test]
fn collectives_are_weighted_by_size() {
    let mut run = Run::default();
    for rank in 0..2 {
        run.rank(rank).step(rank, 1, 0, 100_000, false).step(rank, 2, 100_000, 10, true);
        let late = i64::from(rank) * 1_000;
        let kernels = [
            ("ncclDevKernel_AllReduce", "allreduce", 1_000 + late, 20_000 - late, 16 * MIB),
            ("ncclDevKernel_Broadcast", "broadcast", 40_000, 500, 64),
            ("ncclDevKernel_Broadcast", "broadcast", 50_000, 600, 64),
        ];
        for (name, collective, ts_ns, dur_ns, elements) in kernels {
            let launch = Some((ts_ns - 500, 5));
            run.kernel_on(rank, "communication", (0, 20), ts_ns, dur_ns, launch, Some(1), name)
                .as_collective(collective, "0", elements)
                .in_group(2, "Float");
        }
    }
    let session = run.open();
    let columns = [
        "rank",
        "call_count",
        "small_count",
        "small_ns",
        "mergeable_count",
        "latency_ns",
        "large_count",
    ];
    assert_eq!(
        rows(&session, "comm_sizes", &columns),
        ["0 3 2 1100 1 500 1", "1 3 2 1100 1 500 1"]
    );
    // 64 MiB in the 19 us of the later rank, times 2 (n - 1) / n = 1; no link is known for an unnamed device.
    let columns = ["bus_gb_per_s", "group_size", "link_gb_per_s", "link_ratio"];
    assert_eq!(rows(&session, "comm_sizes", &columns), ["3532.045474 2 - -", "3532.045474 2 - -"]);
}

/// 40 gradients and as many `all_reduce` calls in each of two steps, which do not say their sizes.
#[test]
fn collectives_of_unknown_size_are_counted() {
    let mut run = Run::default();
    run.rank(0).step(0, 1, 0, 4_000_000, false).step(0, 2, 4_000_000, 4_000_000, true);
    for i in 0..80 {
        let ts_ns = 100_000 * i;
        let launch = Some((ts_ns + 100, 50));
        run.op(
            0,
            "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad",
            ts_ns,
            90,
        );
        let name = "ncclDevKernel_AllReduce";
        // The last of each step is long.
        let dur_ns = if i % 40 == 39 { 60_000 } else { 20_000 + i };
        run.kernel_on(
            0,
            "communication",
            (0, 20),
            ts_ns + 200,
            dur_ns,
            launch,
            Some(1 + i / 40),
            name,
        );
    }
    let columns = [
        "sized_ratio",
        "small_count",
        "small_mean_bytes",
        "small_median_ns",
        "small_per_step_count",
        "reduce_per_step_count",
        "parameter_count",
        "reduces_each_parameter",
        "latency_ns",
    ];
    let session = run.open();
    assert_eq!(rows(&session, "comm_sizes", &columns), ["0 78 - 20039 39 40 40 true 20000"]);
    // 39 calls of a step would be two.
    assert_eq!(rows(&session, "comm_sizes", &["mergeable_count", "large_count"]), ["74 0"]);
}

/// One rank of eight: each size counts with its fastest call, since the others contain waiting.
#[test]
fn bandwidth_of_one_rank_is_that_of_the_fastest_call() {
    let mut run = Run::default();
    run.rank(0).step(0, 1, 0, 100_000_000, true).device(0, 80 << 30);
    run.device_named(0, "NVIDIA H100 80GB HBM3");
    for (i, (mib, dur_ns)) in
        [(16, 1_000_000), (16, 2_000_000), (2, 1_000_000)].into_iter().enumerate()
    {
        let ts_ns = 10_000_000 * i as i64 + 1_000_000;
        let launch = Some((ts_ns - 500, 5));
        let name = "ncclDevKernel_AllReduce";
        run.kernel_on(0, "communication", (0, 20), ts_ns, dur_ns, launch, Some(1), name)
            .as_collective("allreduce", "0", mib * MIB / 4)
            .in_group(8, "Float");
    }
    // 16 MiB in 1 ms, times 2 (n - 1) / n = 1.75; NVLink carries 450 GB/s one way.
    let columns = [
        "large_count",
        "medium_count",
        "medium_bus_gb_per_s",
        "bus_gb_per_s",
        "link_ratio",
        "medium_link_ratio",
        "is_matched",
    ];
    assert_eq!(rows(&run.open(), "comm_sizes", &columns), ["0 2 29.360128 - - 0.065245 false"]);
}

#[test]
fn trace_quality_counts_missing_and_broken_data() {
    let mut run = Run::default();
    run.rank(0)
        .rank(1)
        .with_world_size(4)
        .step(0, 1, 0, 100, true)
        .step(1, 2, 0, 100, true)
        .warning(0, "truncated-json", 1)
        .warning(1, "negative-duration", 7)
        .warning(-1, "missing-ranks", 1);
    let columns = [
        "rank",
        "flaw_count",
        "is_truncated",
        "damaged_count",
        "damage",
        "missing_rank_count",
        "common_step_count",
    ];
    assert_eq!(
        rows(&run.open(), "trace_completeness", &columns),
        ["0 3 true 1 truncated-json 2 0", "1 3 false 7 negative-duration 2 0"]
    );
}

#[test]
fn outliers_are_the_few_events_that_make_a_recording_long() {
    let columns = ["event_count", "outlier_count", "outlier_name", "outlier_ts_ns", "rest_ns"];
    let base = |extra: &[(i64, i64)]| {
        let mut run = Run::default();
        run.rank(0).step(0, 1, 0, 1_000, true);
        for i in 0..30 {
            run.kernel_in_step(0, 1, 10 * i, 5, (10 * i, 2));
        }
        let (mut start_ns, mut end_ns) = (0, 1_000);
        for &(ts_ns, dur_ns) in extra {
            run.kernel_in_step(0, 1, ts_ns, dur_ns, (0, 5));
            (start_ns, end_ns) = (start_ns.min(ts_ns), end_ns.max(ts_ns + dur_ns));
        }
        run.extent(start_ns, end_ns);
        rows(&run.open(), "trace_outliers", &columns)
    };
    assert!(base(&[])[0].split(' ').nth(1) == Some("0"), "{:?}", base(&[]));
    let late = base(&[(100_000, 5)]);
    assert!(late[0].split(' ').nth(1) == Some("1") && late[0].ends_with(" 295"), "{late:?}");
    let long = base(&[(0, 100_000)]);
    assert!(long[0].split(' ').nth(1) == Some("1") && long[0].ends_with(" 295"), "{long:?}");
    let early = base(&[(-100_000, 5)]);
    assert!(early[0].split(' ').nth(1) == Some("1"), "{early:?}");
    let many = base(&[(100_000, 5), (100_010, 5), (100_020, 5), (100_030, 5)]);
    assert!(many[0].split(' ').nth(1) == Some("0"), "{many:?}");
}

/// TQ007 tells of all damage for which `check` refuses to judge.
#[test]
fn completeness_counts_what_damages_a_trace() {
    use trace_model::damage::{INVALID_EVENT_WARNINGS, TRUNCATION_WARNINGS};
    for code in INVALID_EVENT_WARNINGS.iter().chain(&TRUNCATION_WARNINGS) {
        let mut run = Run::default();
        run.rank(0).step(0, 1, 0, 100, true).warning(0, code, 7);
        let found = rows(&run.open(), "trace_completeness", &["damaged_count", "is_truncated"]);
        let is_truncated = TRUNCATION_WARNINGS.contains(code) || *code == "malformed-event";
        assert_eq!(found, [format!("7 {is_truncated}")], "{code}");
    }
}

#[test]
fn trace_quality_counts_impossible_work() {
    let mut run = Run::default();
    run.rank(0)
        .step(0, 1, 0, 1_000, true)
        .kernel_in_step(0, 1, 100, 50, (130, 5))
        .kernel_in_step(0, 1, 140, 60, (20, 5))
        .kernel_in_step(0, 1, 300, 90, (30, 5));
    let columns = [
        "work_count",
        "early_count",
        "max_early_ns",
        "overlap_count",
        "overlap_ns",
        "overlap_ratio",
    ];
    assert_eq!(rows(&run.open(), "trace_timing", &columns), ["3 1 30 1 10 0.05"]);
}

#[test]
fn profiler_overhead_counts_once() {
    let mut run = Run::default();
    run.rank(0)
        .step(0, 1, 0, 1_000, true)
        .overhead(0, "Buffer Flush", 100, 100)
        .overhead(0, "Instrumentation", 150, 100)
        .overhead(0, "Buffer Flush", 950, 100)
        .python_frame(0, "train.py(1): main", 0, 500);
    let columns =
        ["overhead_count", "overhead_ns", "overhead_ratio", "top_name", "frame_per_step_count"];
    assert_eq!(rows(&run.open(), "trace_overhead", &columns), ["3 200 0.2 Buffer Flush 1"]);
}

/// One kernel at three places of a graph, which is launched in an operator with shapes.
fn replays_of_three_products(has_node_ids: bool, dur_ns: impl Fn(i64, usize) -> i64) -> Run {
    let mut run = Run::default();
    run.rank(0);
    for i in 0..12 {
        let start = i * 1_000;
        run.step(0, i, start, 1_000, i == 11);
        run.op(0, "CompiledFunction", start, 50).with_input_dims("[[512, 2048]]").with_shapes();
        for place in 0..3 {
            let ts_ns = start + 100 + 250 * place as i64;
            let launch = Some((start + 5 + place as i64, 1));
            let dur_ns = dur_ns(i, place);
            run.kernel_on(0, "computation", (0, 7), ts_ns, dur_ns, launch, Some(i), "gemm");
            run.launched_by_op();
            if has_node_ids {
                run.replays_node(7, place as i64);
            }
        }
        run.launched_by_graph(3).without_capture(3);
    }
    run
}

#[test]
fn executions_of_a_graph_compare_by_their_place_in_it() {
    const DURATIONS: [i64; 3] = [220, 57, 166];
    let columns = ["shaped_ratio", "varying_count", "varying_cv_ratio", "drift_ns"];
    for has_node_ids in [false, true] {
        let run = replays_of_three_products(has_node_ids, |_, place| DURATIONS[place]);
        assert_eq!(rows(&run.open(), "kernel_variation", &columns), ["1 0 0 0"], "{has_node_ids}");
        // The last place takes twice or half as long in every second step.
        let alternating = |i: i64, place: usize| match (place, i % 2) {
            (2, 0) => 60,
            (2, _) => 180,
            _ => DURATIONS[place],
        };
        let run = replays_of_three_products(has_node_ids, alternating);
        let session = run.open();
        assert_eq!(rows(&session, "kernel_variation", &["varying_count"]), ["1"], "{has_node_ids}");
        let columns = ["varying_name", "varying_mean_ns", "varying_cv_ratio"];
        assert_eq!(rows(&session, "kernel_variation", &columns), ["gemm 120 0.522233"]);
    }
}

#[test]
fn kernel_slowdown_by_drift_and_communication() {
    let mut run = Run::default();
    run.rank(0);
    for i in 0..6 {
        let start = i * 1_000;
        run.step(0, i, start, 1_000, i == 5);
        for k in 0..4 {
            let ts_ns = start + 100 + k * 200;
            // The last two steps are a tenth slower; under the collective, kernels take twice as long.
            let usual = if i >= 4 { 110 } else { 100 };
            let dur_ns = if k == 3 { 2 * usual } else { usual };
            run.kernel_on(0, "computation", (0, 7), ts_ns, dur_ns, Some((start, 1)), Some(i), "k");
        }
        run.kernel_on(
            0,
            "communication",
            (0, 20),
            start + 650,
            300,
            Some((start, 1)),
            Some(i),
            "nccl",
        );
    }
    let columns = [
        "step_count",
        "kernel_ns",
        "drift_ns",
        "drift_excess_ns",
        "overlapped_ns",
        "slowed_ns",
        "slowdown_ns",
    ];
    // First third: 8 kernels of 125 on average, so 16 later ones take 2000 at that pace, and took 2100. Beside the
    // collective: 4 of 200 and 2 of 220, against 18 of 103.333 alone.
    assert_eq!(rows(&run.open(), "kernel_variation", &columns), ["6 3100 3100 100 1240 1240 620"]);
}

#[test]
fn antipatterns_are_found_by_names() {
    let mut run = Run::default();
    run.rank(0).with_shapes();
    for step in 0..2 {
        run.step(0, step, step * 1_000, 1_000, step == 1);
        for i in 0..10 {
            run.op(0, "aten::mm", step * 1_000 + i * 10, 5)
                .in_step_with_sequence(step, 100 * step + i);
        }
    }
    run.op(0, "autograd::engine::evaluate_function: MmBackward0", 500, 10)
        .in_step_with_sequence(0, 0);
    run.annotation(0, "torch.distributed.ddp.reducer::search_unused_parameters", 300, 40)
        .python_frame(0, "<built-in function print>", 600, 100)
        .python_frame(0, "torch/nn/utils/clip_grad.py(170): clip_grad_norm_", 700, 50)
        .python_frame(0, "torch/utils/data/dataloader.py(480): _get_iterator", 1_000, 200);
    let session = run.open();
    for (view, columns, expected) in [
        ("run_unused_graphs", &["unused_graph_count", "unused_graph_ratio"][..], "1 0.5"),
        ("run_debug_modes", &["print_ratio", "nan_search_count"], "0.05 0"),
        ("run_gradient_clipping", &["clip_ratio"], "0.025"),
        ("loader_restarts", &["restart_count", "restart_ratio"], "1 0.1"),
        ("run_unused_parameters", &["unused_count", "unused_ratio"], "1 0.02"),
    ] {
        assert_eq!(rows(&session, view, columns), [expected], "{view}");
    }
}

/// Two passes of a batch norm and a dropout; `flags` are their arguments, if these were recorded.
fn modes(flags: Option<[&str; 2]>, counts_batches: bool, draws: bool) -> Run {
    let mut run = Run::default();
    run.rank(0);
    for start in [0, 1_000] {
        run.op(0, "aten::conv2d", start, 100);
        if counts_batches {
            run.op(0, "aten::add_", start + 100, 5);
        }
        run.op(0, "aten::batch_norm", start + 110, 50)
            .with_input_dims("[[8,4,9,9],[4],[4],[4],[4],[],[],[],[]]");
        let norm = run.last_op();
        if let Some([training, _]) = flags {
            run.with_args(&format!(
                r#"{{"Concrete Inputs":["","","","","","{training}","0.1","1e-05","True"]}}"#
            ));
        }
        run.op(0, "aten::native_batch_norm", start + 115, 40).with_parent_op(norm);
        run.op(0, "aten::dropout", start + 200, 50);
        let dropout = run.last_op();
        if let Some([_, train]) = flags {
            run.with_args(&format!(r#"{{"Concrete Inputs":["","0.5","{train}"]}}"#));
        }
        if draws {
            run.op(0, "aten::bernoulli_", start + 210, 10).with_parent_op(dropout);
        }
    }
    run
}

#[test]
fn training_mode_is_told_by_arguments_or_by_what_modules_do() {
    let columns = ["training_batch_norm_count", "active_dropout_count", "mode_evidence_count"];
    let of = |run: Run| rows(&run.open(), "run_training_mode", &columns);
    assert_eq!(of(modes(Some(["True", "True"]), true, true)), ["2 2 3"]);
    assert_eq!(of(modes(Some(["False", "False"]), false, false)), ["0 0 0"]);
    // Monte Carlo dropout; statistics that are calibrated again.
    assert_eq!(of(modes(Some(["False", "True"]), false, true)), ["0 2 0"]);
    assert_eq!(of(modes(Some(["True", "False"]), true, false)), ["2 0 0"]);
    // Without shapes.
    assert_eq!(of(modes(None, true, true)), ["2 2 3"]);
    assert_eq!(of(modes(None, false, false)), ["0 0 0"]);
    // Training: a backward pass follows.
    let mut run = modes(Some(["True", "True"]), true, true);
    run.op(0, "autograd::engine::evaluate_function: MulBackward0", 3_000, 10);
    assert_eq!(of(run), ["2 2 0"]);
}

#[test]
fn kernels_of_batch_norm_tell_its_mode() {
    let signs = |kernel: &str| {
        let mut run = modes(None, false, true);
        run.kernel_on(0, "other", (0, 7), 200, 50, None, None, kernel);
        rows(
            &run.open(),
            "run_training_mode",
            &["training_batch_norm_count", "mode_evidence_count"],
        )
    };
    assert_eq!(signs("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512>"), ["2 3"]);
    assert_eq!(signs("void cudnn::bn_fw_inf_1C11_kernel_NCHW<float, float, true, 1>"), ["0 0"]);
}

#[test]
fn gradients_are_never_cleared_if_all_are_added_and_nothing_fills_tensors() {
    let steps = |is_added: bool, clears: Option<&str>| {
        let mut run = Run::default();
        run.rank(0);
        for start in [0, 1_000, 2_000] {
            for at in [100, 200] {
                run.op(0, "torch::autograd::AccumulateGrad", start + at, 50);
                let node = run.last_op();
                let child = if is_added { "aten::add_" } else { "aten::detach" };
                run.op(0, child, start + at + 5, 20).with_parent_op(node);
            }
            // A batch of zeros is not a gradient.
            run.op(0, "aten::zeros", start + 10, 20);
            let zeros = run.last_op();
            run.op(0, "aten::zero_", start + 12, 10).with_parent_op(zeros);
            run.annotation(0, "Optimizer.step#SGD.step", start + 400, 100);
            if let Some(name) = clears {
                run.op(0, name, start + 600, 10);
            }
        }
        rows(&run.open(), "run_gradients", &["added_count", "cleared_count", "never_cleared_count"])
    };
    assert_eq!(steps(true, None), ["6 0 3"]);
    assert_eq!(steps(true, Some("aten::zero_")), ["6 3 0"]);
    assert_eq!(steps(true, Some("aten::_foreach_zero_")), ["6 3 0"]);
    assert_eq!(steps(false, None), ["0 0 0"]);
}

#[test]
fn anomaly_mode_searches_gradients_for_nan() {
    let mut run = Run::default();
    run.rank(0).step(0, 0, 0, 1_000, true);
    run.op_on(0, 1, "autograd::engine::evaluate_function: MmBackward0", 100, 300);
    let engine = run.last_op();
    run.op_on(0, 1, "MmBackward0", 110, 100).with_parent_op(engine);
    let node = run.last_op();
    for (name, ts_ns, dur_ns) in
        [("aten::isnan", 220, 20), ("aten::_is_any_true", 242, 5), ("aten::item", 248, 110)]
    {
        run.op_on(0, 1, name, ts_ns, dur_ns).with_parent_op(engine);
    }
    // A formula of a gradient, a program, and a hook that reads no answer may ask for NaN on their own account.
    run.op_on(0, 1, "aten::isnan", 120, 20).with_parent_op(node).op_on(
        0,
        1,
        "aten::isnan",
        600,
        20,
    );
    run.op_on(0, 1, "autograd::engine::evaluate_function: AddBackward0", 700, 50);
    let other = run.last_op();
    run.op_on(0, 1, "aten::isnan", 710, 20).with_parent_op(other);
    // The gradient, its search, and as much time after the answer was read as the host waited for it: the device idles from
    // 280 on.
    run.kernel(0, "computation", 0, 200, Some((-20, 2)));
    run.kernel(0, "computation", 240, 40, Some((230, 5)));
    run.kernel(0, "computation", 500, 500, Some((450, 5)));
    run.call(0, "cudaStreamSynchronize", 250, 100);
    let columns = ["nan_search_count", "nan_search_ns", "nan_search_ratio"];
    assert_eq!(rows(&run.open(), "run_debug_modes", &columns), ["1 140 0.14"]);
}

/// As PyTorch calls them: under autocast a convolution calls itself, cuDNN adds the bias by an operator of its own, and a
/// batch norm in training counts its batches first.
#[test]
fn biases_before_batch_norm_cost_kernels() {
    let mut run = Run::default();
    run.rank(0).with_shapes().step(0, 0, 0, 1_000, true);
    let biased = "[[1, 3, 8, 8], [4, 3, 3, 3], [4], []]";
    run.op(0, "aten::conv2d", 10, 90).with_input_dims(biased);
    run.op(0, "aten::conv2d", 20, 70).with_input_dims(biased);
    run.op(0, "aten::_convolution", 30, 50);
    let convolution = run.last_op();
    run.op(0, "aten::add_", 60, 10)
        .with_input_dims("[[1, 4, 8, 8], [1, 4, 1, 1], []]")
        .with_parent_op(convolution);
    run.kernel(0, "computation", 70, 40, Some((65, 1))).launched_by_op();
    run.op(0, "aten::add_", 110, 5).with_input_dims("[[], [], []]");
    run.op(0, "aten::batch_norm", 120, 10);
    // This one is followed by something else: half of the biases are of use.
    run.op(0, "aten::conv2d", 200, 50).with_input_dims(biased).op(0, "aten::relu", 260, 10);
    run.op(0, "aten::convolution_backward", 400, 50);
    let backward = run.last_op();
    run.op(0, "aten::sum", 420, 10).with_parent_op(backward);
    run.kernel(0, "computation", 430, 60, Some((425, 1))).launched_by_op();
    // A sum that is none of a bias.
    run.op(0, "aten::sum", 500, 10)
        .kernel(0, "computation", 520, 60, Some((505, 1)))
        .launched_by_op();
    let columns = ["biased_count", "bias_ns", "bias_ratio"];
    assert_eq!(rows(&run.open(), "op_call_sites", &columns), ["1 50 0.05"]);
}

/// The call of a blocking copy also waits for all that the device has to do before it.
#[test]
fn tensors_made_on_the_host_cost_the_fill_and_the_copy() {
    let mut run = Run::default();
    run.rank(0).with_shapes().step(0, 0, 0, 1_000, true);
    run.op(0, "aten::fill_", 10, 30).with_input_dims("[[64], []]");
    run.op(0, "aten::copy_", 50, 800).with_input_dims("[[64], [64], []]");
    let op = run.last_op();
    run.memcpy(0, 800, 20, 256, Some((60, 780))).upload_of_op(op);
    let columns = ["init_copy_count", "init_copy_bytes", "init_copy_ns", "init_copy_ratio"];
    assert_eq!(rows(&run.open(), "op_call_sites", &columns), ["1 256 50 0.05"]);
}

#[test]
fn call_sites_list_shapes_biases_and_host_tensors() {
    let mut run = Run::default();
    run.rank(0).with_shapes();
    for step in 0..3 {
        let start = step * 1_000;
        run.step(0, step, start, 1_000, step == 2);
        run.op(0, "aten::linear", start, 10)
            .with_input_dims(&format!("[[{step}, 8], [8, 8]]"))
            .in_step_with_sequence(step, 0);
        run.op(0, "aten::conv2d", start + 20, 10)
            .with_input_dims("[[1, 3, 8, 8], [4, 3, 3, 3], [4], []]");
        run.op(0, "aten::batch_norm", start + 40, 10);
        run.op(0, "aten::conv2d", start + 60, 10)
            .with_input_dims("[[1, 3, 8, 8], [4, 3, 3, 3], [], []]");
        run.op(0, "aten::batch_norm", start + 80, 10);
    }
    let columns = ["step_count", "shape_count", "shape_site", "biased_count", "init_copy_count"];
    assert_eq!(
        rows(&run.open(), "op_call_sites", &columns),
        ["3 3 aten::linear no. 1 of a step 3 0"]
    );
}

#[test]
fn element_loops_are_runs_of_select() {
    let mut run = Run::default();
    run.rank(0).step(0, 1, 0, 100_000, true).kernel_in_step(0, 1, 1_000, 1_000, (0, 5));
    for i in 0..12 {
        run.op(0, "aten::select", 1_500 + i * 100, 50);
    }
    run.op(0, "aten::select", 500_000, 50);
    run.kernel_in_step(0, 1, 90_000, 10_000, (89_000, 5));
    // From 1500 to 2650, of which the device is idle from 2000 on.
    let columns = ["loop_count", "select_count", "longest_count", "loop_ns", "idle_ns"];
    assert_eq!(rows(&run.open(), "op_indexing_loops", &columns), ["1 12 12 1150 650"]);
}

#[test]
fn recomputed_forward_passes_are_found() {
    let mut run = Run::default();
    run.rank(0).step(0, 1, 0, 1_000, true);
    run.python_frame(0, "torch/utils/checkpoint.py(1500): recompute_fn", 100, 100)
        .on_launch_thread();
    run.kernel_in_step(0, 1, 150, 100, (120, 5)).kernel_in_step(0, 1, 400, 300, (300, 5));
    let columns = ["kernel_ns", "recompute_ns", "recompute_ratio", "avoidable_ratio"];
    assert_eq!(rows(&run.open(), "memory_recompute", &columns), ["400 100 0.25 -"]);
}

/// `use_reentrant=False`: layers run again inside a backward node, numbered as in a forward pass.
#[test]
fn recomputed_layers_are_found_without_stacks() {
    let mut run = Run::default();
    run.rank(0).step(0, 1, 0, 2_000, true);
    for (start, layer) in [(100, "aten::linear"), (1_000, "aten::mm")] {
        run.op_on(0, 1, "autograd::engine::evaluate_function: MmBackward0", start, 500);
        let engine = run.last_op();
        run.op_on(0, 1, "MmBackward0", start + 10, 480).with_parent_op(engine);
        let node = run.last_op();
        // A gradient that is differentiated again (create_graph=True) has numbered operators too, but no layers.
        run.op_on(0, 1, layer, start + 20, 100).in_step_with_sequence(1, 7).with_parent_op(node);
        run.kernel_in_step(0, 1, start + 40, 50, (start + 30, 5));
        run.op_on(0, 1, "aten::mm", start + 200, 100).with_parent_op(node);
        run.kernel_in_step(0, 1, start + 220, 150, (start + 210, 5));
    }
    let columns = ["has_host", "kernel_ns", "recompute_ns", "recompute_count"];
    assert_eq!(rows(&run.open(), "memory_recompute", &columns), ["true 400 50 1"]);
}

/// Nine steps of two operators; every third step is changed by `change`, which gets its number and start.
fn every_third_step(change: impl Fn(&mut Run, i64, i64)) -> Run {
    let mut run = Run::default();
    run.rank(0);
    let mut start = 0;
    for i in 0..9 {
        let is_slow = i % 3 == 2;
        let dur_ns = if is_slow { 200_000 } else { 100_000 };
        run.step(0, i, start, dur_ns, i == 8);
        run.op(0, "aten::add", start + 80_000, 5_000).in_step_with_sequence(i, 0);
        if is_slow {
            change(&mut run, i, start);
        } else {
            run.op(0, "aten::mm", start + 1_000, 60_000).in_step_with_sequence(i, 0);
        }
        start += dur_ns;
    }
    run
}

#[test]
fn slow_steps_do_other_work_or_the_same_more_slowly() {
    let columns = [
        "step_count",
        "excess_ns",
        "op_count",
        "usual_op_count",
        "cause",
        "extra_call_name",
        "extra_call_count",
        "extra_call_ns",
    ];
    let other = every_third_step(|run, step, start| {
        for call in 0..3 {
            run.op(0, "aten::copy_", start + 100_000 + call * 30_000, 25_000)
                .in_step_with_sequence(step, 0);
        }
    });
    assert_eq!(
        rows(&other.open(), "step_excess", &columns),
        ["3 100000 4 2 other_work aten::copy_ 3 75000"]
    );
    let slower = every_third_step(|run, step, start| {
        run.op(0, "aten::mm", start + 1_000, 120_000).in_step_with_sequence(step, 0);
    });
    assert_eq!(
        rows(&slower.open(), "step_excess", &columns),
        ["3 100000 2 2 slower_operators - - -"]
    );
    // The time is outside of operators.
    let waiting = every_third_step(|run, step, start| {
        run.op(0, "aten::mm", start + 1_000, 60_000).in_step_with_sequence(step, 0);
    });
    assert_eq!(rows(&waiting.open(), "step_excess", &columns), ["3 100000 2 2 - - - -"]);
}

#[test]
fn printing_a_tensor_selects_its_finite_values() {
    let mut run = Run::default();
    run.rank(0).step(0, 1, 0, 100_000, false).step(0, 2, 100_000, 100_000, true);
    for start in [10_000, 110_000] {
        run.op(0, "aten::isfinite", start, 5_000);
        run.op(0, "aten::ne", start + 6_000, 1_000);
        run.op(0, "aten::masked_select", start + 8_000, 2_000);
    }
    // Selected by another mask.
    run.op(0, "aten::masked_select", 150_000, 2_000);
    let columns = ["print_count", "step_count", "ts_ns"];
    assert_eq!(rows(&run.open(), "run_printed_tensors", &columns), ["2 2 10000"]);
}

#[test]
fn loops_of_compiled_graphs_count_as_work_of_the_processor() {
    let mut run = Run::default();
    run.rank(0).step(0, 1, 0, 1_000_000, true);
    run.annotation(0, "## Call CompiledFxGraph fabc ##", 100_000, 800_000).annotation_on(2);
    run.op(0, "aten::addmm", 200_000, 200_000);
    run.op(0, "aten::tanh", 910_000, 5_000);
    run.op(0, "aten::sigmoid", 920_000, 5_000);
    run.op(0, "aten::bernoulli_", 930_000, 50_000);
    let columns = [
        "top_op_name",
        "top_op_kind",
        "top_op_count",
        "top_op_ns",
        "gate_count",
        "random_ns",
        "random_name",
    ];
    assert_eq!(
        rows(&run.open(), "op_cpu_work", &columns),
        ["CompiledFxGraph compiled 1 600000 1 50000 aten::bernoulli_"]
    );
}

#[test]
fn host_time_names_the_range_and_the_first_call() {
    let mut run = Run::default();
    run.rank(0);
    run.annotation(0, "outer", 0, 1_000_000).annotation_on(2);
    run.annotation(0, "attention", 100_000, 700_000).annotation_on(2);
    run.op(0, "aten::cudnn_convolution", 150_000, 500_000);
    run.op(0, "aten::cudnn_convolution", 700_000, 10_000);
    run.op(0, "aten::add", 900_000, 1_000);
    let columns = ["name", "call_count", "longest_ns", "longest_is_first", "range_name"];
    assert_eq!(
        rows(&run.open(), "trace_host_time", &columns),
        ["aten::add 1 1000 true -", "aten::cudnn_convolution 2 500000 true attention"]
    );
}
