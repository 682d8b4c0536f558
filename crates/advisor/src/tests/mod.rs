//! Tests over several modules at once, on metric rows written by hand.

mod baseline;
mod firing_rates;
mod fuzz;
mod needs;
mod policy;
mod problems;
mod recording;
mod report;
mod shipped;

use trace_model::{MetricSpec, MetricTable, Scope, Unit, Value};

use crate::{RuleSet, RuleSource, shipped_rules};

/// The views that the shipped rules judge: name, scope, columns. The unit of a column is that of
/// its suffix; `*` marks plain numbers.
const VIEWS: &[(&str, Scope, &str)] = &[
    (
        "fsdp_overlap",
        Scope::Rank,
        "rank has_timeline window_ns module_count gather_count gather_ns gather_exposed_ns gather_exposed_ratio forward_exposed_ns \
         first_exposed_ns later_exposed_ratio reduce_exposed_ns worst_module worst_module_exposed_ns",
    ),
    (
        "moe_ranks",
        Scope::Rank,
        "rank has_timeline rank_count call_count token_count mean_token_count *token_load *imbalance has_most expert_ns recording_ns \
         expert_ratio",
    ),
    (
        "flight_summary",
        Scope::Run,
        "has_dump has_timeline dump_count rank_count no_dump_count no_dump_ranks collective_count unfinished_count \
         hidden_count missing_count missing_after_mismatch missing_ranks missing_rank_count missing_call \
         missing_group_name missing_group_description missing_seq missing_source missing_waiting_count \
         missing_waited_ns last_rank last_call last_group_name last_seq last_source last_function \
         last_is_complete mismatch_count mismatch mismatch_group_name mismatch_group_description \
         mismatch_seq mismatch_ranks mismatch_calls mismatch_unfinished_count unmatched_count \
         unmatched_missing unmatched_missing_rank unmatched_waiting_rank unmatched_call unmatched_source",
    ),
    (
        "compile_summary",
        Scope::Rank,
        "rank has_log compile_count compile_ns in_steps_ns recompile_count recompile_ns most_recompile_count \
         recompile_function recompile_file recompile_line recompile_reason graph_break_count graph_break_line_count \
         break_file break_line break_code break_reason break_hint cache_hit_count cache_miss_count cache_miss_ns \
         cache_bypass_count fail_count",
    ),
    (
        "step_time_summary",
        Scope::Rank,
        "rank source step_count mean_ns median_ns min_ns max_ns std_ns cv_ratio slow_cause",
    ),
    (
        "step_phases",
        Scope::Rank,
        "rank step_count step_ns device_step_ns dataloader_ns forward_ns backward_ns optimizer_ns other_ns \
         dataloader_ratio forward_ratio backward_ratio optimizer_ratio other_ratio dataloader_idle_ns dataloader_idle_ratio \
         has_device dataloader_workers fetch_count late_count *fetch_period worker_count worker_batch_ns \
         delivery_ns compute_ns workers_needed_count workers_more_count workers_if_single_count \
         fetch_median_ns median_wait_ratio wait_without_largest_ratio cpu_util_ratio",
    ),
    (
        "gpu_utilization",
        Scope::Device,
        "rank device window_ns kernel_busy_ns kernel_busy_ratio busy_ns busy_ratio idle_ns idle_ratio \
         unattributed_ratio unattributed_cause sm_efficiency_ratio occupancy_ratio *mean_blocks_per_sm activity_count step_count graph_launch_count unlinked_ratio",
    ),
    (
        "gpu_idle_causes",
        Scope::Device,
        "rank device window_ns idle_ns idle_ratio dataloader_ns dataloader_ratio sync_ns sync_ratio \
         allocation_ns allocation_ratio copy_api_ns copy_api_ratio launch_api_ns launch_api_ratio op_dispatch_ns \
         op_dispatch_ratio cpu_compute_ns cpu_compute_ratio creation_ns creation_ratio cpu_work_ns cpu_work_ratio first_launch_ns first_launch_ratio startup_ns startup_ratio compiling_ns compiling_ratio profiler_ns profiler_ratio python_ns python_ratio launch_latency_ns launch_latency_ratio dependency_ns \
         dependency_ratio other_stream_ns other_stream_ratio collective_ns collective_ratio unlinked_ns \
         unlinked_ratio graph_replay_ns graph_replay_ratio unrecorded_work_ns unrecorded_work_ratio stream_capture_ns stream_capture_ratio \
         recording_end_ns recording_end_ratio no_host_events_ns no_host_events_ratio dispatch_ns \
         dispatch_ratio short_dispatch_ns short_dispatch_ratio host_ns host_ratio device_wait_ns device_wait_ratio unattributed_ns unattributed_ratio \
         switch_ns switch_ratio switch_count gap_count sync_count top_sync_name top_sync_op_name top_python_name top_dispatch_name \
         top_cpu_name top_cpu_ratio top_creation_name first_idle_ns first_idle_cause activity_count step_count \
         graph_launch_count top_sync_ratio top_python_ratio top_dispatch_ratio around_python_name \
         around_python_ratio around_dispatch_name around_dispatch_ratio",
    ),
    (
        "step_callbacks",
        Scope::Rank,
        "rank callback_ns callback_count steps_ns callback_ratio cost_ratio top_name top_ns has_device",
    ),
    (
        "idle_clusters",
        Scope::Device,
        "rank device window_ns cluster_count cluster_ns cluster_idle_ns cluster_idle_ratio busy_outside_ratio ts_ns dur_ns cause \
         is_attributed name",
    ),
    (
        "idle_longest_gap",
        Scope::Device,
        "rank device ts_ns dur_ns step_ratio window_ratio cause cause_ns name op_name source step is_attributed \
         long_count long_ns long_ratio",
    ),
    (
        "idle_syncs",
        Scope::Device,
        "rank device window_ns idle_ratio step_count read_count *reads_per_step read_ns read_ratio read_op_name \
         read_source copy_count copy_ns copy_ratio copy_source call_count call_ns call_ratio call_source scaler_ns \
         wait_count launch_count *waits_per_launch known_count blocked_ratio host_idle_ratio d2h_count *d2h_per_step",
    ),
    (
        "idle_source_lines",
        Scope::Line,
        "rank source idle_ns dataloader_ns sync_ns dispatch_ns cpu_compute_ns python_ns allocation_ns",
    ),
    (
        "kernel_sizes",
        Scope::Device,
        "rank device kernel_count short_count short_ratio mean_ns busy_ratio short_gap_ns short_gap_ratio \
         stream_capture_ratio graph_launch_count",
    ),
    (
        "comm_overlap",
        Scope::Rank,
        "rank comm_ns overlap_ns exposed_ns overlap_ratio exposed_ratio window_ns",
    ),
    (
        "comm_exposed",
        Scope::Rank,
        "rank measured_on comm_ns overlap_ns exposed_ns overlap_ratio exposed_ratio cost_ratio window_ns",
    ),
    (
        "run_configuration",
        Scope::Rank,
        "rank file host rank_count *world_size device_type vendor device_count device_names backend parallelism \
         data_parallel_count collective_count gpu_collective_count slow_collective_count step_count has_host \
         has_device has_shapes has_stacks has_modules has_memory missing missing_count \
         has_collective_metadata has_device_properties",
    ),
    ("run_capabilities", Scope::Run, "rank capability rank_count"),
    (
        "memory_timeline_summary",
        Scope::Rank,
        "rank timeline file form moment_count dur_ns start_bytes peak_bytes peak_ts_ns end_bytes \
         first_half_peak_bytes second_half_peak_bytes unknown_ratio",
    ),
    (
        "run_traits",
        Scope::Run,
        "rank_count *world_size vendor torch_device device_name step_source has_host \
         has_stacks is_training has_backward has_optimizer core_count \
         thread_count has_fast_bfloat16 unprofiled_step_ns is_compiled has_graph_launches \
         is_graphed differentiates_twice enters_autocast uses_fused_attention is_channels_last detects_anomaly optimizer \
         optimizer_implementation \
         has_fused_optimizer pins_copies loads_in_workers device_family has_tensor_cores has_tf32 has_bf16 \
         loader_kind collectives main_collective shards_parameters \
         reduction_dtype frameworks uses_transformers uses_hf_trainer uses_hf_pipeline \
         uses_lightning uses_composer uses_accelerate uses_deepspeed uses_fsdp uses_ddp \
         uses_megatron uses_vllm uses_sglang uses_diffusers uses_xdit uses_torchtitan \
         uses_timm uses_torchrec",
    ),
    (
        "kernel_hottest",
        Scope::Device,
        "rank device name op_name input_dims shapes call_count kernel_ns kernel_ratio window_ratio \
         kind bound *tflops_per_s *gb_per_s efficiency_ratio",
    ),
    (
        "op_below_roofline",
        Scope::Operator,
        "rank device name op_name input_dims shapes dtype details call_count kernel_ns call_ns \
         window_ratio *tflops_per_s *gb_per_s bound peak efficiency_ratio is_implausible is_aligned loss_ns \
         loss_ratio device_loss_ratio reason",
    ),
    (
        "op_fusable_chains",
        Scope::Operator,
        "rank device name chain input_dims shapes chain_count kernel_count kernel_ns window_ratio \
         moved_bytes external_bytes fused_ns gain_ns gain_ratio device_gain_ratio",
    ),
    (
        "op_attention",
        Scope::Device,
        "rank device window_ns fused_ns fused_ratio efficient_32bit_ratio math_ns math_ratio math_gain_ratio \
         written_out_count written_out_ns written_out_ratio written_out_gain_ratio scores dtype math_fits_fused",
    ),
    (
        "kernel_tail_waves",
        Scope::Kernel,
        "rank device name kernel_name grid block call_count kernel_ns window_ratio block_count \
         resident_count *waves tail_efficiency_ratio tail_ratio",
    ),
    (
        "op_gemm_alignment",
        Scope::Operator,
        "rank device name op_name shapes dtype is_aligned gemm_m gemm_n gemm_k multiple call_count \
         kernel_ns window_ratio unaligned_ratio efficiency_ratio device_ratio device_gain_ratio",
    ),
    (
        "gpu_roofline",
        Scope::Device,
        "rank device name peak window_ns step_count kernel_ns modeled_ns modeled_ratio matmul_ns \
         matmul_ratio matmul_modeled_ratio implausible_count implausible_ratio *matmul_tflops_per_s \
         matmul_efficiency_ratio low_precision_ratio single_precision_ratio unknown_precision_ratio \
         tiny_gemm_count tiny_gemm_ratio tiny_gemm_loss_ratio norm_ratio norm_loss_ratio \
         sync_norm_count gather_ratio gather_loss_ratio gather_op fp8_ratio fp8_gain_ratio single_kernel_name single_kernel_ratio",
    ),
    (
        "gpu_tensor_cores",
        Scope::Device,
        "rank device name has_tensor_cores has_tf32 peak_source window_ns kernel_ns used_ns unknown_ns used_ratio \
         unknown_ratio eligible_ns eligible_ratio missed_ns missed_ratio missed_gain_ratio tf32_gain_ratio tf32_off_ratio unclear_ns \
         unclear_ratio",
    ),
    (
        "comm_stragglers",
        Scope::Rank,
        "rank rank_count collective_count last_count last_ratio cause_count cause_ratio caused_wait_ns \
         caused_wait_ratio wait_share_ratio own_comm_ns own_wait_ns wait_ratio exposed_ratio step_count \
         late_step_count chance_ratio delay_phase delay_ns last_by",
    ),
    (
        "comm_straggler_causes",
        Scope::Rank,
        "rank rank_count collective_count caused_wait_ns caused_wait_ratio wait_share_ratio step_count \
         late_step_count chance_ratio delay_phase delay_ns cause cause_name reads_data cause_ns name_ns \
         others_name_ns cause_shape others_shape",
    ),
    (
        "comm_clocks",
        Scope::Rank,
        "rank clock aligned_by collective_count ahead_ns offset_ns error_ns misaligned_ratio unaligned_ratio",
    ),
    (
        "queue_length",
        Scope::Stream,
        "rank device stream sample_count *mean_length *std_length *min_length *p25_length *p50_length \
         *p75_length *max_length full_ns full_ratio",
    ),
    (
        "memory_peak",
        Scope::Device,
        "rank device peak_allocated_bytes peak_reserved_bytes total_memory_bytes allocated_ratio \
         reserved_ratio busy_ratio unattributed_ratio peak_step peak_phase",
    ),
    (
        "memory_allocator_churn",
        Scope::Rank,
        "rank step_count steps_ns driver_call_count driver_ns driver_ratio idle_ratio top_name",
    ),
    (
        "memory_fragmentation",
        Scope::Device,
        "rank memory device peak_allocated_bytes unused_at_peak_bytes fragmentation_ratio unused_ratio \
         total_memory_bytes",
    ),
    (
        "memory_growth",
        Scope::Device,
        "rank memory device step_count growth_bytes growth_per_step_bytes rise_ratio rise_count \
         steps_to_full_count top_op_name top_phase top_bytes",
    ),
    (
        "critical_gains",
        Scope::Rank,
        "rank window_ns data_loading_free_ratio communication_free_ratio sync_free_ratio",
    ),
    (
        "source_lines",
        Scope::Line,
        "rank source operator_count operator_self_ns launch_count device_ns communication_ns copy_ns \
         data_loading_ns sync_ns optimizer_ns",
    ),
    (
        "system_gpus",
        Scope::Agent,
        "rank agent device sample_count gpu_util_ratio idle_ratio p95_util_ratio machine_util_ratio \
         max_util_ratio below_busiest_ratio gpu_count most_free_memory_bytes least_free_memory_bytes",
    ),
    (
        "system_input_limits",
        Scope::Agent,
        "rank agent metric device unit *highest_value wait_ns plateau_ratio dataloader_ratio \
         dataloader_idle_ratio",
    ),
    (
        "system_hosts",
        Scope::Agent,
        "rank agent device cpu_sample_count cpu_util_ratio memory_sample_count memory_span_ns \
         memory_free_bytes memory_growth_bytes memory_slope_bytes memory_rise_ratio memory_full_ns \
         machine_count busy_metric busy_ratio highest_busy_ratio below_busiest_ratio",
    ),
    (
        "diff_step_time",
        Scope::Run,
        "before_step_count after_step_count before_median_ns step_ns change_ratio low_ratio high_ratio \
         noise_ratio slower_ratio verdict reason",
    ),
    (
        "diff_operators",
        Scope::Operator,
        "level what name short_name change before_ns after_ns impact_ns noise_ns step_impact_ratio step_ns spread_ratio verdict reason \
         top_host top_host_ratio top_device top_device_ratio",
    ),
    (
        "diff_memory",
        Scope::Device,
        "rank device memory moment before_bytes after_bytes change_bytes change_ratio top_owner top_owner_bytes \
         top_place top_place_bytes batch_ratio",
    ),
    (
        "gpu_counters",
        Scope::Device,
        "rank device sample_count sampled_ns busy_ratio busy_sample_count tensor_ratio dram_ratio sm_active_ratio \
         occupancy_ratio dram_bound_ratio dram_bound_mean_ratio dram_bound_family matmul_window_ratio \
         matmul_sample_count matmul_tensor_ratio matmul_dram_ratio",
    ),
    (
        "gpu_clocks",
        Scope::Device,
        "rank device name sample_count busy_sample_count busy_mean_mhz busy_min_mhz max_mhz base_mhz below_base_ratio",
    ),
    (
        "gpu_transfers",
        Scope::Device,
        "rank device window_ns step_count h2d_count h2d_bytes h2d_ns h2d_exposed_ns \
         h2d_exposed_ratio h2d_per_step_count h2d_mean_bytes small_gap_ns small_gap_ratio \
         typed_count pageable_count pageable_bytes pageable_exposed_ns pageable_exposed_ratio \
         pageable_gb_per_s pinned_gb_per_s pageable_loss_ratio d2h_count d2h_bytes d2h_exposed_ns \
         d2h_exposed_ratio graph_launch_count",
    ),
    (
        "gpu_eager",
        Scope::Device,
        "rank device window_ns has_host kernel_count host_ratio chain_ratio eager_ratio larger_ratio \
         compiled_count graph_launch_count stream_capture_ratio decode_count",
    ),
    (
        "kernel_families",
        Scope::Device,
        "rank device window_ns busy_ratio work_ns kernel_count kernel_ns typed_ratio copy_ns \
         copy_count copy_ratio copy_window_ratio cast_ns cast_count cast_ratio cast_window_ratio \
         cast_types matmul_ns matmul_ratio conv_ns conv_window_ratio slow_conv_ns slow_conv_ratio layout_ns layout_count \
         layout_conv_ratio layout_window_ratio fp64_ns fp64_count fp64_ratio fp64_window_ratio \
         fp64_name fp64_op_name fp64_shape attention_ns cache_ns cache_ratio cache_window_ratio pointwise_ns \
         pointwise_window_ratio compiled_count low_occupancy_ns chain_ns chain_window_ratio \
         sm_use_ratio sm_spare_window_ratio low_occupancy_ratio",
    ),
    (
        "kernel_variation",
        Scope::Device,
        "rank device window_ns step_count kernel_ns drift_ns drift_ratio drift_excess_ns \
         drift_excess_ratio drift_slowdown_ratio varying_count varying_name varying_cv_ratio \
         varying_mean_ns varying_p25_ns varying_share_ratio varying_excess_ratio erratic_count \
         overlapped_ns slowed_ns slowed_ratio slowdown_ns slowdown_ratio slowed_name shaped_ratio",
    ),
    (
        "run_warmup",
        Scope::Rank,
        "rank has_host step_count steps_ns first_step_ns median_step_ns first_step_ratio second_step warmup_ns \
         warmup_ratio warmup_name first_launch_ns steady_memory_ns compile_count compile_ns steady_ns steady_compile_ns \
         steady_compile_ratio steady_idle_ns steady_idle_ratio steady_step_count steady_name \
         region_count graph_launch_count",
    ),
    (
        "run_unused_graphs",
        Scope::Rank,
        "rank has_host op_count steps_ns step_count unused_graph_count unused_graph_ratio training_batch_norm_count",
    ),
    ("run_printed_tensors", Scope::Rank, "rank print_count step_count ts_ns"),
    (
        "run_debug_modes",
        Scope::Rank,
        "rank has_host has_stacks steps_ns print_count print_ns print_ratio nan_search_count \
         nan_search_ns nan_search_ratio",
    ),
    (
        "run_gradient_clipping",
        Scope::Rank,
        "rank has_host has_stacks steps_ns clip_count clip_ns clip_ratio",
    ),
    (
        "run_unused_parameters",
        Scope::Rank,
        "rank has_host steps_ns unused_count unused_ns unused_ratio",
    ),
    (
        "run_gradient_scaler",
        Scope::Rank,
        "rank has_host scaler_count scaler_bubble_ns scaler_bubble_ratio",
    ),
    (
        "loader_restarts",
        Scope::Rank,
        "rank has_host has_stacks steps_ns restart_count restart_ns restart_ratio",
    ),
    (
        "loader_jitter",
        Scope::Rank,
        "rank fetch_count wait_median_ns wait_p95_ns *jitter wait_ratio excess_ratio \
         idle_excess_ratio pattern *fetch_period worker_count",
    ),
    (
        "step_optimizer",
        Scope::Rank,
        "rank has_device optimizer optimizer_count step_count call_count host_ns host_ratio kernel_count \
         kernel_per_step_count kernel_ns kernel_ratio gap_ns gap_ratio foreach_count fused_count \
         single_count zero_kernel_count zero_ns zero_gap_ns zero_ratio",
    ),
    (
        "step_outliers",
        Scope::Rank,
        "rank step_count median_ns limit_ns outlier_count excess_ns excess_ratio worst_step \
         worst_ns worst_is_first worst_phase worst_phase_excess_ns ts_ns dur_ns *period \
         period_count period_excess_ratio period_phase slow_cause slow_op_count usual_op_count \
         extra_call_name extra_call_count extra_call_ns extra_copy_name extra_copy_bytes",
    ),
    (
        "comm_sizes",
        Scope::Rank,
        "rank call_count sum_ns sized_ratio small_count small_mean_bytes small_ns small_ratio \
         small_per_step_count small_median_ns reduce_per_step_count parameter_count \
         reduces_each_parameter host_ratio mergeable_count latency_ns merge_gain_ratio \
         exposed_ratio large_count large_transfer_ns bus_gb_per_s *group_size host_count \
         device_name link_gb_per_s link_ratio medium_count medium_bus_gb_per_s \
         medium_link_ratio medium_exposed_ratio is_matched large_exposed_ratio",
    ),
    ("comm_stream_sharing", Scope::Rank, "rank comm_ns shared_ns shared_ratio exposed_ratio"),
    ("comm_host_syncs", Scope::Rank, "rank sync_count sync_bubble_ns sync_bubble_ratio"),
    (
        "comm_gradient_accumulation",
        Scope::Rank,
        "rank exposed_ratio forward_count update_count *accumulation reduction_count \
         redundant_ratio",
    ),
    (
        "comm_balance",
        Scope::Rank,
        "rank rank_count exchange_count exchange_bytes exchange_mean_bytes *imbalance has_most \
         exchange_exposed_ratio kernel_count kernel_median_count divergence_ratio different_count \
         divergent_count divergent_name usual_name unordered_count",
    ),
    (
        "comm_group_speeds",
        Scope::Collective,
        "rank name highest_rank group_name group_description group_ranks *group_size peer_group_count slow_group_count \
         call_count transfer_ns peer_transfer_ns *slowdown excess_ns exposed_excess_ratio",
    ),
    (
        "pipeline_summary",
        Scope::Rank,
        "rank has_timeline has_messages is_pipeline pipeline stage stage_from named_by schedule rank_count read_count \
         microbatch_count chunk_count step_count step_ns compute_ns mean_compute_ns own_bubble_ratio \
         bubble_ratio schedule_ratio imbalance_ratio rest_ratio is_slowest *slow_factor receive_ratio \
         send_ratio idle_ratio *pass_slowdown ideal_ratio doubled_ratio interleaved_ratio",
    ),
    (
        "memory_recompute",
        Scope::Rank,
        "rank has_host kernel_ns recompute_ns recompute_count recompute_ratio \
         recompute_window_ratio reserved_ratio recompute_host_ratio avoidable_ratio",
    ),
    (
        "memory_balance",
        Scope::Device,
        "rank device rank_count peak_allocated_bytes median_peak_bytes above_median_ratio reserved_ratio is_snapshot",
    ),
    (
        "op_indexing_loops",
        Scope::Rank,
        "rank has_host loop_count select_count longest_count loop_ns idle_ns idle_ratio source",
    ),
    (
        "op_call_sites",
        Scope::Rank,
        "rank has_shapes step_count shape_count shape_site compile_step_count biased_count bias_ns bias_ratio \
         init_copy_count init_copy_bytes init_copy_ns init_copy_ratio init_idle_ns init_idle_ratio init_idle_name init_ratio",
    ),
    (
        "trace_completeness",
        Scope::Rank,
        "rank file flaw_count is_truncated damaged_count damage rank_count *world_size \
         missing_rank_count is_world_size_unknown step_count common_step_count",
    ),
    (
        "trace_outliers",
        Scope::Rank,
        "rank event_count recording_ns outlier_count outlier_name outlier_ts_ns outlier_dur_ns rest_ns outlier_ratio",
    ),
    (
        "trace_timing",
        Scope::Rank,
        "rank work_count work_ns early_count early_ratio max_early_ns overlap_count overlap_ns \
         overlap_ratio erratic_count impossible_ratio",
    ),
    (
        "trace_lost_launches",
        Scope::Rank,
        "rank launch_count lost_count lost_ratio early_count early_ns late_count late_ns step_count counted_step_count",
    ),
    (
        "trace_bursts",
        Scope::Rank,
        "rank launched_count waiting_count wait_ns step_count burst_ratio",
    ),
    (
        "trace_links",
        Scope::Rank,
        "rank wait_count unknown_record_count wrong_record_count stream_wait_count early_wait_count collective_count \
         bare_collective_count backward_count shared_backward_count flaw_count",
    ),
    (
        "trace_overhead",
        Scope::Rank,
        "rank overhead_count overhead_ns window_ns overhead_ratio top_name host_event_count \
         frame_count frame_per_step_count detail_per_ms_count has_stacks has_shapes has_memory",
    ),
    ("trace_sampling", Scope::Rank, "rank op_count missing_count recorded_ratio is_sampled"),
    (
        "graph_coverage",
        Scope::Rank,
        "rank graph_launch_count unmatched_launch_count device_ns replay_ratio marked_replay_ratio module module_replay_ratio \
         unmatched_replay_ratio traced_replay_count traced_gap_count traced_gap_ns traced_gap_ratio median_gap_ns",
    ),
    (
        "trace_quality",
        Scope::Rank,
        "rank step_count found_step_count recurring_step_count device_count kernel_count early_ratio unlinked_ratio no_launch_ratio \
         graph_launch_count has_shapes has_stacks has_memory",
    ),
    (
        "trace_recording",
        Scope::Run,
        "rank_count profiled_rank_count event_count recorded_ns op_count frame_count annotation_count call_count launch_count waited_launch_count wait_name \
         profiler_range_count device_event_count foreign_event_count foreign_kinds foreign_tool listed_device_count listed_device_name device_op_count device_op_name \
         step_count step_source step_ns recurring_op_count recurrence_count recurrence_dur_ns top_op_name top_op_ratio op_ratio warmup_ratio warmup_name busy_ratio idle_ratio startup_idle_ratio startup_idle_name profiler_ratio profiler_name \
         outlier_ratio outlier_count outlier_name rest_ns lost_launch_ratio recorded_step_count burst_ratio burst_wait_ns \
         is_truncated",
    ),
    (
        "trace_host_time",
        Scope::Operator,
        "rank name kind call_count self_ns self_ratio launch_count outside_count op_name window_ns host_ns host_ratio thread_count \
         rank_launch_count",
    ),
    (
        "op_cpu_work",
        Scope::Rank,
        "rank has_device step_count window_ns op_ns python_ns python_ratio outer_op_count python_per_op_ns call_overhead_ns call_overhead_ratio gate_count random_ns random_ratio random_name has_collectives uses_device \
         matmul_ns matmul_ratio convolution_ns convolution_ratio communication_ns communication_ratio other_op_ratio loading_ns loading_ratio top_op_name top_op_kind top_op_count top_op_ns top_op_ratio top_op_dims top_op_row_count top_op_has_one_input slow_conv_ns slow_conv_ratio slow_double_conv_ratio \
         slow_conv_name double_ns double_ratio",
    ),
    (
        "op_cpu_efficiency",
        Scope::Rank,
        "rank has_device uses_device has_shapes window_ns product_ns product_ratio large_product_ns large_product_ratio \
         large_product_gflops fastest_large_product_gflops slow_half_ns slow_half_ratio slow_half_gflops slow_half_dtype single_row_ns \
         single_row_ratio channels_first_ns channels_first_ratio channels_first_share_ratio channels_first_dims channels_first_has_one_input has_group_norm chain_ns chain_ratio chain_bytes_ratio chain_name chain_owner chain_dims optimizer_chain_ns \
         optimizer_chain_ratio optimizer_chain_name stalled_ns stalled_ratio stalled_per_element_ns stalled_name \
         delayed_call_count delayed_op_count delay_ns delay_ratio delayed_name delayed_longest_ns delayed_usual_ns",
    ),
    (
        "run_training_mode",
        Scope::Rank,
        "rank has_host has_backward batch_norm_count training_batch_norm_count dropout_count active_dropout_count \
         is_flag_recorded mode_evidence_count",
    ),
    (
        "run_gradients",
        Scope::Rank,
        "rank has_host optimizer_step_count accumulate_count added_count cleared_count never_cleared_count",
    ),
    (
        "memory_pressure",
        Scope::Device,
        "rank device memory snapshot has_history iteration_count peak_bytes capacity_bytes parameter_bytes optimizer_state_bytes \
         optimizer_state_ratio gradient_bytes activation_bytes activation_ratio unneeded_activation_ratio temporary_bytes older_bytes weight_copy_bytes top_owner top_owner_bytes top_phase \
         top_place top_place_bytes top_activation_place \
         top_activation_bytes has_backward spike_bytes spike_ratio spike_place spike_place_bytes kept_bytes kept_ratio \
         kept_place kept_owner kept_place_bytes kept_per_iteration_bytes half_batch_peak_bytes checkpointed_peak_bytes \
         small_state_peak_bytes half_copy_bytes half_copy_ratio later_iteration_count later_segment_count *later_segment_rate \
         later_segment_bytes later_returned_count oom_count oom_requested_bytes oom_free_bytes oom_allocated_bytes oom_unused_bytes \
         oom_reserved_bytes oom_unused_owner oom_unused_owner_bytes oom_outside_bytes oom_place oom_owner oom_owner_bytes split_bytes split_ratio",
    ),
];

fn columns(words: &str) -> Vec<(String, Unit)> {
    words
        .split_whitespace()
        .map(|word| match word.strip_prefix('*') {
            Some(name) => (name.to_owned(), Unit::Number),
            None => (word.to_owned(), Unit::of_undeclared(word)),
        })
        .collect()
}

/// Every column with a unit as a metric.
fn metrics() -> Vec<MetricSpec> {
    let mut metrics = Vec::new();
    for (view, scope, words) in VIEWS {
        let columns = columns(words);
        for (column, unit) in columns.iter().filter(|(_, unit)| *unit != Unit::None) {
            metrics.push(MetricSpec {
                view: (*view).to_owned(),
                column: column.clone(),
                unit: *unit,
                scope: *scope,
                doc: format!("The {column} of a {scope}."),
                columns: columns.clone(),
                requires: Vec::new(),
            });
        }
    }
    metrics
}

/// Rows of a view; columns that are not given have no value.
fn view(name: &str, rows: &[&[(&str, Value)]]) -> MetricTable {
    let (_, _, words) = VIEWS.iter().find(|(view, ..)| *view == name).expect(name);
    let columns = columns(words);
    let rows = rows
        .iter()
        .map(|row| {
            let mut values = vec![Value::Null; columns.len()];
            for (column, value) in *row {
                values[columns.iter().position(|(c, _)| c == column).expect(column)] =
                    value.clone();
            }
            values
        })
        .collect();
    let when_empty = format!("the trace has nothing for {name}");
    MetricTable { view: name.to_owned(), columns, rows, when_empty }
}

fn source(name: &str, text: &str) -> RuleSource {
    RuleSource { name: name.to_owned(), text: text.to_owned() }
}

/// The shipped rules with further files on top.
fn with_default(more: &[RuleSource]) -> RuleSet {
    let mut sources = shipped_rules();
    sources.extend_from_slice(more);
    RuleSet::load(&sources, &metrics()).unwrap_or_else(|problems| {
        panic!("{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    })
}
