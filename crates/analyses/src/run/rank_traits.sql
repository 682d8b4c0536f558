--! question = "Which framework, device and features does each rank use?"
--! row = "one rank: what its trace shows of the program"
--! window = "recording"
--! needs = ["ranks", "steps", "python_frames", "cpu_ops", "annotations", "runtime_calls", "kernels", "memcpys", "device_properties", "processors", "unprofiled_steps", "run_debug_modes", "loader_fetches"]
--! order = ["rank"]
--! when_empty = "the run has no rank"
--! [columns]
--! rank = "rank"
--! vendor = "nvidia, amd, mtia, xpu, or cpu (the trace holds no device activity); absent if nothing tells, as with only a trainer's marks"
--! device_name = "product names of its devices, each once; absent where the trace does not say"
--! device_family = "generation of the devices, see device_properties; CPU without device activity; absent where the trace does not say, or devices differ"
--! has_tensor_cores = "all of its devices have tensor cores, see device_properties; absent if the trace does not say"
--! has_tf32 = "their tensor cores take 32-bit floats, rounded to TF32"
--! has_bf16 = "they multiply bfloat16 in hardware"
--! world_size = { doc = "ranks in the job; absent where the trace does not say", unit = "number", metric = "rank" }
--! step_source = "what marks its steps: see steps.source; absent without any"
--! has_host = "operators were recorded (ProfilerActivity.CPU)"
--! has_stacks = "Python frames or call stacks were recorded (with_stack=True)"
--! has_backward = "autograd runs, or a trainer marks a backward pass; false only if operators were recorded and no graph was replayed, which may hide it; absent if unknown"
--! has_optimizer = "an optimizer runs: Optimizer.step, zero_grad, or a step in torch/optim; false and absent as for has_backward"
--! core_count = { doc = "processor cores that the process may use; absent where the recording does not say, like the next two", unit = "count", metric = "rank" }
--! thread_count = { doc = "threads that an operator on the CPU uses", unit = "count", metric = "rank" }
--! has_fast_bfloat16 = "the processor multiplies matrices of bfloat16: AVX512_BF16, AMX, or BF16 of ARM"
--! unprofiled_step_ns = { doc = "mean step before the profiler started, see unprofiled_steps; absent where it was not timed", unit = "ns", metric = "rank" }
--! is_compiled = "regions of torch.compile, graphs of Inductor or its kernels run; false only if operators were recorded; absent if unknown"
--! has_graph_launches = "captured graphs are launched; absent if no call of a device runtime was recorded"
--! is_graphed = "replays of captured graphs launch at least half of the kernels; absent if no launch of a kernel was recorded"
--! differentiates_twice = "the backward pass of a backward pass runs (`create_graph=True`)"
--! enters_autocast = "a frame enters torch.autocast, which may also switch it off; absent without stacks"
--! uses_fused_attention = "operators or kernels of fused attention run; absent if neither operators nor kernels were recorded"
--! is_channels_last = "norms or pooling run on tensors in channels_last; absent if no kernel was recorded"
--! detects_anomaly = "autograd searches gradients for NaN and reads the answer, see run_debug_modes; absent if the host was not recorded"
--! optimizer = "class of the optimizer, from Optimizer.step; absent if none is recorded, or several are"
--! has_fused_optimizer = "one of the classes of its optimizers has a fused version in PyTorch: Adam, AdamW, SGD, Adagrad; absent where no class is recorded"
--! optimizer_implementation = "fused, foreach or single: how the optimizer updates its parameters, from its operators and kernels; absent without an optimizer or operators"
--! pins_copies = "all copies from host to device come from page-locked memory; absent if there are none"
--! loads_in_workers = "a DataLoader gets its batches from worker processes; from the name of its iterator, or every n-th batch comes late, see loader_fetches.worker_count; false if it loads them itself; absent if neither says"
--! loader_kind = "map (a sampler runs, or torch's fetcher of such data sets), iterable (the fetcher of these), or pipeline (the loader of a Transformers pipeline); absent if no frame tells, as with worker processes"
--! uses_transformers = "frames of Transformers' models, generation, trainer or pipelines; here and below: false only with stacks, absent if unknown"
--! uses_hf_trainer = "frames of transformers/trainer.py"
--! uses_hf_pipeline = "frames of Transformers pipelines"
--! uses_lightning = "frames of Lightning, or marks of its profiler"
--! uses_composer = "frames of Composer's trainer, or its marks"
--! uses_accelerate = "frames of Accelerate"
--! uses_deepspeed = "frames of DeepSpeed"
--! uses_fsdp = "frames of torch/distributed/fsdp, or its ranges"
--! uses_ddp = "ranges or frames of DistributedDataParallel"
--! uses_megatron = "frames of Megatron"
--! uses_vllm = "frames of vLLM, or the marks of its steps without those of SGLang"
--! uses_sglang = "frames of SGLang, or the marks of its steps"
--! uses_diffusers = "frames of Diffusers"
--! uses_xdit = "frames of xDiT (xfuser)"
--! uses_torchtitan = "frames of torchtitan"
--! uses_timm = "frames of timm"
--! uses_torchrec = "frames of TorchRec"
-- Names repeat: each one is classified once per rank.
WITH names AS (
    SELECT DISTINCT rank, 'frame' AS kind, name FROM python_frames
    UNION ALL
    SELECT DISTINCT rank, 'frame', call_stack FROM cpu_ops WHERE call_stack IS NOT NULL
    UNION ALL
    SELECT DISTINCT rank, 'host', name FROM cpu_ops
    UNION ALL
    SELECT DISTINCT rank, 'host', name FROM annotations WHERE NOT on_device
    UNION ALL
    SELECT DISTINCT rank, 'call', name FROM runtime_calls
    UNION ALL
    SELECT DISTINCT rank, 'kernel', name FROM kernels
),
-- In a path, a package follows a slash; a call stack has several paths. The root of a path may be cut off.
plain AS (
    SELECT
        rank, kind, CAST(name AS VARCHAR) AS name,
        CASE WHEN kind = 'frame' THEN '/' || replace(CAST(name AS VARCHAR), ';', '/') ELSE '' END AS path
    FROM names
),
seen AS (
    SELECT
        rank,
        bool_or(kind = 'frame') AS has_stacks,
        bool_or(kind = 'call') AS has_calls,
        bool_or(kind = 'host' AND (
            name LIKE 'autograd::engine::evaluate\_function%' OR name LIKE 'torch::autograd::%'
            OR name LIKE '%Backward' OR name LIKE '%Backward0'
            OR name IN ('event/backward', 'train_batch.backward'))) AS runs_backward,
        bool_or(kind = 'host' AND name LIKE '%BackwardBackward0%') AS differentiates_twice,
        bool_or((kind = 'host' AND (name LIKE 'Optimizer.step%' OR name LIKE 'Optimizer.zero\_grad%'))
            OR (kind = 'frame' AND path || '/' LIKE '%/torch/optim/%: step/%')) AS runs_optimizer,
        bool_or((kind = 'host' AND (name LIKE 'Torch-Compiled Region%' OR name LIKE '## Call CompiledFxGraph%'
            OR name LIKE 'CompiledFunction%'))
            OR (kind = 'kernel' AND regexp_like(name, '^triton_(poi|red|per|tem|for|mm|unk)_'))) AS is_compiled,
        bool_or(kind = 'call' AND name LIKE '%GraphLaunch%') AS launches_graphs,
        bool_or((kind = 'host' AND regexp_like(name, '_scaled_dot_product_(flash|efficient|cudnn|fused)|_(flash|efficient)_attention_(forward|backward)|^flash_attn'))
            OR (kind = 'kernel' AND regexp_like(name, '(?i)flash_(fwd|bwd)|fmha|flash_attn|attn_fwd'))) AS fuses_attention,
        CASE WHEN bool_or(kind = 'kernel') THEN bool_or(kind = 'kernel'
            AND regexp_like(name, '(?i)(norm|pool).*(channels_last|nhwc)|nhwc_?batch_?norm')) END AS is_channels_last,
        bool_or(kind IN ('host', 'kernel') AND regexp_like(name, '^aten::_fused_(adam|sgd|adagrad)|Fused(Adam|Sgd|Optimizer|Adagrad)')) AS updates_fused,
        bool_or(kind = 'host' AND regexp_like(name, '^aten::_foreach_(addcdiv|addcmul|lerp|sqrt|add_)')) AS updates_lists,
        count(DISTINCT CASE WHEN kind = 'host' AND name LIKE 'Optimizer.step%' THEN name END) AS optimizer_count,
        min(CASE WHEN kind = 'host' AND name LIKE 'Optimizer.step%'
            THEN nullif(regexp_replace(name, '^Optimizer\.step#?(.*?)(\.step)?\z', '\1'), '') END) AS optimizer,
        bool_or(kind = 'host' AND name LIKE 'Optimizer.step#%') AS names_optimizer,
        bool_or(kind = 'host' AND regexp_like(name, '^Optimizer\.step#(Adam|AdamW|SGD|Adagrad)(\.step)?\z')) AS has_fused_optimizer,
        bool_or(kind = 'host' AND name LIKE '%\_MultiProcessingDataLoaderIter%') AS loads_in_workers,
        bool_or(kind = 'host' AND name LIKE '%\_SingleProcessDataLoaderIter%') AS loads_itself,
        bool_or(path LIKE '%/torch/amp/autocast\_mode.py(%): \_\_enter\_\_%') AS enters_autocast,
        bool_or(path LIKE '%/transformers/pipelines/pt\_utils.py(%') AS loads_in_pipeline,
        -- In torch/utils/data/_utils/fetch.py the class for iterable data sets comes first, in all releases within the first 40 lines.
        bool_or(regexp_like(path, '/torch/utils/data/_utils/fetch\.py\(([1-9]|[123][0-9])\): fetch')) AS fetches_iterable,
        bool_or(regexp_like(path, '/torch/utils/data/_utils/fetch\.py\(([4-9][0-9])\): fetch')
            OR path LIKE '%/torch/utils/data/sampler.py(%' OR path LIKE '%/torch/utils/data/distributed.py(%') AS fetches_map,
        bool_or(path LIKE '%/transformers/models/%' OR path LIKE '%/transformers/generation/%'
            OR path LIKE '%/transformers/trainer.py(%' OR path LIKE '%/transformers/pipelines/%'
            OR path LIKE '%/transformers/modeling\_utils.py(%') AS in_transformers,
        bool_or(path LIKE '%/transformers/trainer.py(%') AS in_hf_trainer,
        bool_or(path LIKE '%/transformers/pipelines/%') AS in_hf_pipeline,
        bool_or(path LIKE '%/lightning/%' OR path LIKE '%/pytorch\_lightning/%'
            OR path LIKE '%/lightning\_fabric/%' OR (kind = 'host' AND name LIKE '[pl][%')) AS in_lightning,
        bool_or(path LIKE '%/composer/trainer/%' OR path LIKE '%/composer/core/%'
            OR (kind = 'host' AND name = 'event/batch')) AS in_composer,
        bool_or(path LIKE '%/accelerate/%') AS in_accelerate,
        bool_or(path LIKE '%/deepspeed/%') AS in_deepspeed,
        bool_or(path LIKE '%/torch/distributed/fsdp/%' OR path LIKE '%/torch/distributed/\_composable/fsdp/%'
            OR (kind = 'host' AND (name LIKE 'FullyShardedDataParallel.forward%' OR name LIKE 'FSDP::%'))) AS in_fsdp,
        bool_or(path LIKE '%/torch/nn/parallel/distributed.py(%'
            OR (kind = 'host' AND name = 'DistributedDataParallel.forward')) AS in_ddp,
        bool_or(path LIKE '%/megatron/%') AS in_megatron,
        bool_or(path LIKE '%/vllm/%') AS in_vllm,
        bool_or(path LIKE '%/sglang/%' OR (kind = 'host' AND (name LIKE 'step[DECODE%' OR name LIKE 'step[EXTEND%'))) AS in_sglang,
        -- SGLang has taken over these marks, and adds its own.
        bool_or(kind = 'host' AND name LIKE 'execute\_%context\_%generation\_%') AS marks_engine_steps,
        bool_or(path LIKE '%/diffusers/%') AS in_diffusers,
        bool_or(path LIKE '%/xfuser/%') AS in_xdit,
        bool_or(path LIKE '%/torchtitan/%') AS in_torchtitan,
        bool_or(path LIKE '%/timm/%') AS in_timm,
        bool_or(path LIKE '%/torchrec/%') AS in_torchrec
    FROM plain
    GROUP BY rank
),
described AS (
    SELECT
        rank,
        nullif(string_agg(DISTINCT CAST(name AS VARCHAR), ', '), '') AS device_name,
        CASE WHEN count(*) = count(family) AND count(DISTINCT family) = 1 THEN min(CAST(family AS VARCHAR)) END AS family,
        CASE WHEN count(*) = count(has_tensor_cores) THEN bool_and(has_tensor_cores) END AS has_tensor_cores,
        CASE WHEN count(*) = count(has_tf32) THEN bool_and(has_tf32) END AS has_tf32,
        CASE WHEN count(*) = count(has_bf16) THEN bool_and(has_bf16) END AS has_bf16
    FROM device_properties
    GROUP BY rank
),
replaying AS (
    SELECT rank, 2 * count_if!(launch_name LIKE '%GraphLaunch%') >= count(*) AS is_graphed
    FROM kernels
    WHERE launch_name IS NOT NULL
    GROUP BY rank
),
copying AS (
    SELECT rank, bool_and(name LIKE '%Pinned%') AS pins_copies
    FROM (SELECT DISTINCT rank, name FROM memcpys WHERE kind = 'HtoD')
    GROUP BY rank
),
described_processors AS (
    SELECT
        rank, CAST(max(core_count) AS BIGINT) AS core_count, CAST(max(thread_count) AS BIGINT) AS thread_count,
        bool_or(regexp_like(CAST(flags AS VARCHAR), '(^| )(avx512_bf16|amx_bf16|bf16)( |\z)')) AS has_fast_bfloat16
    FROM processors
    GROUP BY rank
),
timed_steps AS (
    SELECT rank, max(mean_dur_ns) AS unprofiled_step_ns FROM unprofiled_steps GROUP BY rank
),
xpu_ranks AS (
    SELECT DISTINCT rank FROM runtime_calls WHERE category LIKE 'xpu%'
),
ranks_with_host AS (
    SELECT DISTINCT rank FROM cpu_ops
),
marked AS (
    SELECT rank, min(CAST(source AS VARCHAR)) AS step_source FROM steps WHERE source <> 'trace' GROUP BY rank
)
SELECT
    r.rank,
    CASE WHEN x.rank IS NOT NULL THEN 'xpu' ELSE nullif(CAST(r.vendor AS VARCHAR), 'unknown') END AS vendor,
    d.device_name,
    CASE WHEN x.rank IS NULL AND r.vendor = 'cpu' THEN 'CPU' ELSE d.family END AS device_family,
    d.has_tensor_cores, d.has_tf32, d.has_bf16,
    CAST(r.world_size AS BIGINT) AS world_size,
    m.step_source,
    h.rank IS NOT NULL AS has_host,
    coalesce(s.has_stacks, false) AS has_stacks,
    CASE
        WHEN s.runs_backward THEN true
        WHEN h.rank IS NOT NULL AND NOT s.launches_graphs THEN false
    END AS has_backward,
    CASE
        WHEN s.runs_optimizer THEN true
        WHEN h.rank IS NOT NULL AND NOT s.launches_graphs THEN false
    END AS has_optimizer,
    c.core_count, c.thread_count, c.has_fast_bfloat16, t.unprofiled_step_ns,
    CASE WHEN s.is_compiled THEN true WHEN h.rank IS NOT NULL THEN false END AS is_compiled,
    CASE WHEN s.launches_graphs THEN true WHEN s.has_calls THEN false END AS has_graph_launches,
    g.is_graphed,
    s.differentiates_twice,
    CASE WHEN s.has_stacks THEN s.enters_autocast END AS enters_autocast,
    s.fuses_attention AS uses_fused_attention,
    s.is_channels_last,
    CASE WHEN b.has_host THEN b.nan_search_count > 0 END AS detects_anomaly,
    CASE WHEN s.optimizer_count = 1 THEN s.optimizer END AS optimizer,
    CASE WHEN s.names_optimizer THEN s.has_fused_optimizer END AS has_fused_optimizer,
    CASE
        WHEN NOT s.runs_optimizer OR h.rank IS NULL THEN NULL
        WHEN s.updates_fused THEN 'fused'
        WHEN s.updates_lists THEN 'foreach'
        ELSE 'single'
    END AS optimizer_implementation,
    y.pins_copies,
    CASE WHEN s.loads_in_workers THEN true WHEN s.loads_itself THEN false WHEN l.worker_count > 1 THEN true END AS loads_in_workers,
    CASE
        WHEN s.loads_in_pipeline THEN 'pipeline'
        WHEN s.fetches_iterable THEN 'iterable'
        WHEN s.fetches_map THEN 'map'
    END AS loader_kind,
    CASE WHEN s.in_transformers THEN true WHEN s.has_stacks THEN false END AS uses_transformers,
    CASE WHEN s.in_hf_trainer THEN true WHEN s.has_stacks THEN false END AS uses_hf_trainer,
    CASE WHEN s.in_hf_pipeline THEN true WHEN s.has_stacks THEN false END AS uses_hf_pipeline,
    CASE WHEN s.in_lightning THEN true WHEN s.has_stacks THEN false END AS uses_lightning,
    CASE WHEN s.in_composer THEN true WHEN s.has_stacks THEN false END AS uses_composer,
    CASE WHEN s.in_accelerate THEN true WHEN s.has_stacks THEN false END AS uses_accelerate,
    CASE WHEN s.in_deepspeed THEN true WHEN s.has_stacks THEN false END AS uses_deepspeed,
    CASE WHEN s.in_fsdp THEN true WHEN s.has_stacks THEN false END AS uses_fsdp,
    CASE WHEN s.in_ddp THEN true WHEN s.has_stacks THEN false END AS uses_ddp,
    CASE WHEN s.in_megatron THEN true WHEN s.has_stacks THEN false END AS uses_megatron,
    CASE WHEN s.in_vllm OR (s.marks_engine_steps AND NOT s.in_sglang) THEN true WHEN s.has_stacks THEN false END AS uses_vllm,
    CASE WHEN s.in_sglang THEN true WHEN s.has_stacks THEN false END AS uses_sglang,
    CASE WHEN s.in_diffusers THEN true WHEN s.has_stacks THEN false END AS uses_diffusers,
    CASE WHEN s.in_xdit THEN true WHEN s.has_stacks THEN false END AS uses_xdit,
    CASE WHEN s.in_torchtitan THEN true WHEN s.has_stacks THEN false END AS uses_torchtitan,
    CASE WHEN s.in_timm THEN true WHEN s.has_stacks THEN false END AS uses_timm,
    CASE WHEN s.in_torchrec THEN true WHEN s.has_stacks THEN false END AS uses_torchrec
FROM ranks r
LEFT JOIN seen s ON s.rank = r.rank
LEFT JOIN described d ON d.rank = r.rank
LEFT JOIN described_processors c ON c.rank = r.rank
LEFT JOIN timed_steps t ON t.rank = r.rank
LEFT JOIN xpu_ranks x ON x.rank = r.rank
LEFT JOIN ranks_with_host h ON h.rank = r.rank
LEFT JOIN marked m ON m.rank = r.rank
LEFT JOIN run_debug_modes b ON b.rank = r.rank
LEFT JOIN replaying g ON g.rank = r.rank
LEFT JOIN copying y ON y.rank = r.rank
LEFT JOIN loader_fetches l ON l.rank = r.rank
