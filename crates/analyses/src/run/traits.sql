--! question = "Which framework, device and features does the run use?"
--! row = "the run: what texts and expressions of rules read as run.vendor, run.is_training and so on"
--! window = "recording"
--! scope = "run"
--! needs = ["run_rank_traits", "comm_collectives"]
--! when_empty = "the run has no rank"
--! [columns]
--! rank_count = { doc = "ranks that were read", unit = "count", metric = "run" }
--! world_size = { doc = "ranks in the job; absent where no trace says", unit = "number", metric = "run" }
--! vendor = "nvidia, amd, mtia, xpu, or cpu (no device activity); absent if nothing tells, or ranks differ"
--! torch_device = "the type of torch.device that belongs to the vendor: cuda (NVIDIA and AMD), mtia, xpu or cpu"
--! device_name = "product name of the devices; absent if no trace says, or ranks differ"
--! device_family = "generation of the devices, such as Hopper or AMD; CPU without device activity; absent if a trace does not say, or ranks differ"
--! has_tensor_cores = "all devices have tensor cores; absent if a trace does not say, or ranks differ"
--! has_tf32 = "their tensor cores take 32-bit floats, rounded to TF32; absent like has_tensor_cores"
--! has_bf16 = "they multiply bfloat16 in hardware; absent like has_tensor_cores"
--! uses_fused_attention = "operators or kernels of fused attention run"
--! is_channels_last = "norms or pooling run on tensors in channels_last"
--! detects_anomaly = "autograd searches gradients for NaN"
--! optimizer = "class of the optimizer"
--! optimizer_implementation = "fused, foreach or single: how the optimizer updates its parameters"
--! has_fused_optimizer = "PyTorch has a fused version of that class of optimizer for the device"
--! pins_copies = "all copies from host to device come from page-locked memory"
--! loads_in_workers = "a DataLoader gets its batches from worker processes"
--! step_source = "what marks the steps: profiler_step, composer, determined, engine (an inference server) or optimizer; absent without marks, or if ranks differ"
--! has_host = "operators were recorded on some rank"
--! has_stacks = "Python frames or call stacks were recorded on some rank"
--! is_training = "some rank runs a backward pass or an optimizer; false if an inference engine or pipeline runs, or if both passes are known not to run; absent if unknown"
--! has_backward = "some rank runs a backward pass; absent if unknown, see run_rank_traits; so are all that follow"
--! has_optimizer = "some rank runs an optimizer"
--! core_count = { doc = "processor cores that a process may use; the fewest of all ranks. Absent where the recording does not say, like the next two", unit = "count", metric = "run" }
--! thread_count = { doc = "threads that an operator on the CPU uses; the most of all ranks", unit = "count", metric = "run" }
--! has_fast_bfloat16 = "the processors multiply matrices of bfloat16: AVX512_BF16, AMX, or BF16 of ARM"
--! unprofiled_step_ns = { doc = "mean step before the profiler started, of the slowest rank, see unprofiled_steps; absent where it was not timed", unit = "ns", metric = "run" }
--! is_compiled = "torch.compile made some of the code"
--! has_graph_launches = "captured CUDA or HIP graphs are launched"
--! is_graphed = "replays of captured graphs launch at least half of the kernels of some rank"
--! differentiates_twice = "the backward pass of a backward pass runs (`create_graph=True`)"
--! enters_autocast = "a frame enters torch.autocast, which may also switch it off"
--! loader_kind = "map, iterable or pipeline (of Transformers)"
--! collectives = "kinds of collectives, each once, by their time; absent if there are none"
--! main_collective = "the kind that takes most time, or is called most where no time is known; absent if there are none"
--! shards_parameters = "all_gather and reduce_scatter run, as in FSDP and ZeRO; absent if a collective does not tell its kind"
--! reduction_dtype = "element type with most bytes in all_reduce and reduce_scatter: bf16, fp16, fp32, fp64 or another as written; absent if unknown"
--! frameworks = "the frameworks below that are used, each by its name; absent if none is known to be"
--! uses_transformers = "Transformers"
--! uses_hf_trainer = "the Trainer of Transformers"
--! uses_hf_pipeline = "a Transformers pipeline"
--! uses_lightning = "Lightning"
--! uses_composer = "Composer"
--! uses_accelerate = "Accelerate"
--! uses_deepspeed = "DeepSpeed"
--! uses_fsdp = "FullyShardedDataParallel or fully_shard"
--! uses_ddp = "DistributedDataParallel"
--! uses_megatron = "Megatron"
--! uses_vllm = "vLLM"
--! uses_sglang = "SGLang"
--! uses_diffusers = "Diffusers"
--! uses_xdit = "xDiT"
--! uses_torchtitan = "torchtitan"
--! uses_timm = "timm"
--! uses_torchrec = "TorchRec"
WITH kinds AS (
    SELECT
        name,
        count(*) AS call_count,
        coalesce(sum(dur_ns), 0) AS comm_ns
    FROM comm_collectives
    WHERE name <> 'barrier'
    GROUP BY name
),
types AS (
    SELECT
        CASE
            WHEN lower(dtype) LIKE '%bfloat16%' THEN 'bf16'
            WHEN lower(dtype) LIKE '%half%' OR lower(dtype) = 'float16' THEN 'fp16'
            WHEN lower(dtype) IN ('float', 'float32', 'c10::float') THEN 'fp32'
            WHEN lower(dtype) IN ('double', 'float64') THEN 'fp64'
            ELSE dtype
        END AS dtype,
        coalesce(message_bytes, input_bytes, 0) AS bytes
    FROM (
        SELECT CAST(dtype AS VARCHAR) AS dtype, message_bytes, input_bytes
        FROM comm_collectives
        WHERE name IN ('all_reduce', 'reduce_scatter') AND dtype IS NOT NULL
    )
),
typed AS (
    SELECT dtype, sum(bytes) AS bytes, count(*) AS call_count FROM types GROUP BY dtype
),
reductions AS (
    SELECT first_value(dtype ORDER BY bytes DESC, call_count DESC, dtype) AS reduction_dtype FROM typed
),
communication AS (
    SELECT
        string_agg(CAST(name AS VARCHAR), ', ' ORDER BY comm_ns DESC, call_count DESC, name) AS collectives,
        first_value(CAST(name AS VARCHAR) ORDER BY comm_ns DESC, call_count DESC, name)
            FILTER (WHERE name NOT IN ('other', 'coalesced')) AS main_collective,
        bool_or(name = 'all_gather') AND bool_or(name = 'reduce_scatter') AS shards_parameters,
        coalesce(bool_or(name IN ('other', 'coalesced')), false) AS has_unknown_kinds
    FROM kinds
),
run AS (
    SELECT
        count(*) AS rank_count,
        max(world_size) AS world_size,
        CASE WHEN count(DISTINCT coalesce(vendor, '')) = 1 THEN min(vendor) END AS vendor,
        CASE WHEN count(DISTINCT coalesce(device_name, '')) = 1 THEN min(device_name) END AS device_name,
        CASE WHEN count(*) = count(device_family) AND count(DISTINCT device_family) = 1 THEN min(device_family) END AS device_family,
        CASE WHEN count(*) = count(has_tensor_cores) AND bool_and(has_tensor_cores) = bool_or(has_tensor_cores) THEN bool_and(has_tensor_cores) END AS has_tensor_cores,
        CASE WHEN count(*) = count(has_tf32) AND bool_and(has_tf32) = bool_or(has_tf32) THEN bool_and(has_tf32) END AS has_tf32,
        CASE WHEN count(*) = count(has_bf16) AND bool_and(has_bf16) = bool_or(has_bf16) THEN bool_and(has_bf16) END AS has_bf16,
        bool_or(uses_fused_attention) AS uses_fused_attention,
        bool_or(is_channels_last) AS is_channels_last,
        bool_or(detects_anomaly) AS detects_anomaly,
        CASE WHEN count(*) = count(optimizer) AND count(DISTINCT optimizer) = 1 THEN min(optimizer) END AS optimizer,
        bool_or(has_fused_optimizer) AS has_fused_optimizer,
        CASE WHEN count(*) = count(optimizer_implementation) AND count(DISTINCT optimizer_implementation) = 1 THEN min(optimizer_implementation) END AS optimizer_implementation,
        CASE WHEN count(*) = count(pins_copies) AND bool_and(pins_copies) = bool_or(pins_copies) THEN bool_and(pins_copies) END AS pins_copies,
        CASE WHEN count(DISTINCT loads_in_workers) = 1 THEN bool_and(loads_in_workers) END AS loads_in_workers,
        CASE WHEN count(DISTINCT coalesce(step_source, '')) = 1 THEN min(step_source) END AS step_source,
        bool_or(has_host) AS has_host,
        bool_or(has_stacks) AS has_stacks,
        bool_or(has_backward) AS has_backward,
        bool_or(has_optimizer) AS has_optimizer,
        min(core_count) AS core_count,
        max(thread_count) AS thread_count,
        bool_and(has_fast_bfloat16) AS has_fast_bfloat16,
        max(unprofiled_step_ns) AS unprofiled_step_ns,
        bool_or(is_compiled) AS is_compiled,
        bool_or(has_graph_launches) AS has_graph_launches,
        bool_or(is_graphed) AS is_graphed,
        bool_or(differentiates_twice) AS differentiates_twice,
        bool_or(enters_autocast) AS enters_autocast,
        CASE WHEN count(DISTINCT loader_kind) = 1 THEN min(loader_kind) END AS loader_kind,
        bool_or(uses_transformers) AS uses_transformers,
        bool_or(uses_hf_trainer) AS uses_hf_trainer,
        bool_or(uses_hf_pipeline) AS uses_hf_pipeline,
        bool_or(uses_lightning) AS uses_lightning,
        bool_or(uses_composer) AS uses_composer,
        bool_or(uses_accelerate) AS uses_accelerate,
        bool_or(uses_deepspeed) AS uses_deepspeed,
        bool_or(uses_fsdp) AS uses_fsdp,
        bool_or(uses_ddp) AS uses_ddp,
        bool_or(uses_megatron) AS uses_megatron,
        bool_or(uses_vllm) AS uses_vllm,
        bool_or(uses_sglang) AS uses_sglang,
        bool_or(uses_diffusers) AS uses_diffusers,
        bool_or(uses_xdit) AS uses_xdit,
        bool_or(uses_torchtitan) AS uses_torchtitan,
        bool_or(uses_timm) AS uses_timm,
        bool_or(uses_torchrec) AS uses_torchrec
    FROM run_rank_traits
    HAVING count(*) > 0
)
SELECT
    r.rank_count, r.world_size, r.vendor,
    CASE
        WHEN r.vendor IN ('nvidia', 'amd') THEN 'cuda'
        WHEN r.vendor IN ('mtia', 'xpu', 'cpu') THEN r.vendor
    END AS torch_device,
    r.device_name, r.device_family,
    r.has_tensor_cores, r.has_tf32, r.has_bf16, r.uses_fused_attention, r.is_channels_last, r.detects_anomaly, r.optimizer, r.optimizer_implementation,
    CASE WHEN r.vendor = 'mtia' THEN false ELSE r.has_fused_optimizer END AS has_fused_optimizer,
    r.pins_copies, r.loads_in_workers, r.step_source, r.has_host, r.has_stacks,
    CASE
        WHEN r.has_backward OR r.has_optimizer THEN true
        WHEN r.uses_vllm OR r.uses_sglang OR r.uses_xdit OR r.uses_hf_pipeline THEN false
        WHEN NOT r.has_backward AND NOT r.has_optimizer THEN false
    END AS is_training,
    r.has_backward, r.has_optimizer, r.core_count, r.thread_count, r.has_fast_bfloat16, r.unprofiled_step_ns, r.is_compiled, r.has_graph_launches,
    r.is_graphed, r.differentiates_twice, r.enters_autocast, r.loader_kind,
    c.collectives, c.main_collective,
    CASE WHEN c.shards_parameters THEN true WHEN NOT c.has_unknown_kinds THEN false END AS shards_parameters,
    d.reduction_dtype,
    nullif(concat_ws(
        ', ',
        CASE WHEN r.uses_transformers THEN 'Transformers' END,
        CASE WHEN r.uses_lightning THEN 'Lightning' END,
        CASE WHEN r.uses_composer THEN 'Composer' END,
        CASE WHEN r.uses_accelerate THEN 'Accelerate' END,
        CASE WHEN r.uses_deepspeed THEN 'DeepSpeed' END,
        CASE WHEN r.uses_fsdp THEN 'FSDP' END,
        CASE WHEN r.uses_ddp THEN 'DDP' END,
        CASE WHEN r.uses_megatron THEN 'Megatron' END,
        CASE WHEN r.uses_vllm THEN 'vLLM' END,
        CASE WHEN r.uses_sglang THEN 'SGLang' END,
        CASE WHEN r.uses_diffusers THEN 'Diffusers' END,
        CASE WHEN r.uses_xdit THEN 'xDiT' END,
        CASE WHEN r.uses_torchtitan THEN 'torchtitan' END,
        CASE WHEN r.uses_timm THEN 'timm' END,
        CASE WHEN r.uses_torchrec THEN 'TorchRec' END
    ), '') AS frameworks,
    r.uses_transformers, r.uses_hf_trainer, r.uses_hf_pipeline, r.uses_lightning, r.uses_composer, r.uses_accelerate,
    r.uses_deepspeed, r.uses_fsdp, r.uses_ddp, r.uses_megatron, r.uses_vllm, r.uses_sglang, r.uses_diffusers, r.uses_xdit,
    r.uses_torchtitan, r.uses_timm, r.uses_torchrec
FROM run r
CROSS JOIN communication c
CROSS JOIN reductions d
