--! question = "What did the hardware counters of a GPU measure in each sampling interval, and what ran in it?"
--! row = "one sampling interval of one GPU: the share of the peak that each counter measured, and the time of kernels by family"
--! window = "recording"
--! needs = ["counters", "device_work", "device_steps"]
--! order = ["rank", "device", "ts_ns"]
--! requires = ["counters"]
--! when_empty = "the trace contains no samples of tensor core, DRAM or SM counters in percent of their peak: record with PerformanceMetricsConfig (PyTorch 2.15, see docs/recording.md)"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! ts_ns = { doc = "start of the interval", unit = "ns" }
--! dur_ns = { doc = "time until the next sample; intervals before a missing sample are left out", unit = "ns" }
--! step = "step that contains the whole interval; absent if there is none"
--! tensor_ratio = { doc = "cycles in which the tensor cores work (sm__pipe_tensor*_cycles_active), over the peak", unit = "ratio" }
--! dram_ratio = { doc = "throughput of DRAM (dram__throughput, gpu__dram_throughput), over the peak", unit = "ratio" }
--! sm_active_ratio = { doc = "cycles in which an SM has a warp (sm__cycles_active), over all SMs and cycles", unit = "ratio" }
--! occupancy_ratio = { doc = "warps on the SMs (sm__warps_active), over their slots", unit = "ratio" }
--! busy_ns = { doc = "time in which a kernel, copy or fill runs", unit = "ns" }
--! matmul_ns = { doc = "time in which a matmul runs, alone or beside other kernels", unit = "ns" }
--! convolution_ns = { doc = "time of convolutions and their changes of layout", unit = "ns" }
--! attention_ns = { doc = "time of attention kernels", unit = "ns" }
--! pointwise_ns = { doc = "time of element-wise kernels and reductions", unit = "ns" }
--! communication_ns = { doc = "time of communication kernels", unit = "ns" }
--! copy_ns = { doc = "time of copies and fills", unit = "ns" }
--! other_ns = { doc = "time of other kernels", unit = "ns" }
-- The time of a CUPTI PM sample is the start of its interval. PyTorch renames some counters (`_pm_label` in
-- torch/profiler/_cuspy/trace.py): SM Active (%), DRAM BW (%), HBM BW (%).
WITH readings AS (
    SELECT
        rank, TRY_CAST(substr(CAST(device AS VARCHAR), 5) AS INT) AS device, ts_ns,
        CASE
            WHEN name LIKE '%pipe\_tensor%cycles\_active%pct\_of\_peak%' THEN 'tensor'
            WHEN name IN ('DRAM BW (%)', 'HBM BW (%)') OR name LIKE 'dram\_\_throughput.%pct\_of\_peak%'
                OR name LIKE 'gpu\_\_dram\_throughput.%pct\_of\_peak%' THEN 'dram'
            WHEN name = 'SM Active (%)' OR name LIKE 'sm\_\_cycles\_active.%pct\_of\_peak%' THEN 'active'
            WHEN name LIKE 'sm\_\_warps\_active.%pct\_of\_peak%' THEN 'occupancy'
        END AS kind,
        value / 100.0 AS ratio
    FROM counters
    WHERE device LIKE 'GPU _' OR device LIKE 'GPU __'
),
samples AS (
    SELECT
        rank, device, ts_ns,
        max(CASE WHEN kind = 'tensor' THEN ratio END) AS tensor_ratio,
        max(CASE WHEN kind = 'dram' THEN ratio END) AS dram_ratio,
        max(CASE WHEN kind = 'active' THEN ratio END) AS sm_active_ratio,
        max(CASE WHEN kind = 'occupancy' THEN ratio END) AS occupancy_ratio
    FROM readings
    WHERE kind IS NOT NULL
    GROUP BY rank, device, ts_ns
),
followed AS (
    SELECT
        *,
        lead(ts_ns) OVER (PARTITION BY rank, device ORDER BY ts_ns) - ts_ns AS dur_ns,
        CAST(row_number() OVER (PARTITION BY rank, device ORDER BY ts_ns) AS BIGINT) AS place
    FROM samples
),
usual AS (
    SELECT rank, device, median(CAST(dur_ns AS DOUBLE)) AS usual_ns FROM followed GROUP BY rank, device
),
spans AS (
    SELECT f.*
    FROM followed f
    JOIN usual u ON u.rank = f.rank AND u.device = f.device
    WHERE f.dur_ns <= 1.5 * u.usual_ns
),
sampled AS (
    SELECT DISTINCT rank, device FROM spans
),
work AS (
    SELECT
        k.rank, k.device, k.ts_ns, k.end_ns,
        CASE
            WHEN k.category <> 'kernel' THEN 'copy'
            WHEN k.kind = 'communication' THEN 'communication'
            WHEN is_attention!(k.name) THEN 'attention'
            WHEN is_layout_change!(k.name) OR is_convolution!(k.name) OR coalesce(k.op_name LIKE '%conv%', false) THEN 'convolution'
            WHEN is_pointwise!(k.name) THEN 'pointwise'
            WHEN is_matmul!(k.name) OR coalesce(is_matmul_op!(k.op_name), false) THEN 'matmul'
            ELSE 'other'
        END AS family
    FROM device_work k
    JOIN sampled s ON s.rank = k.rank AND s.device = k.device
),
-- Samples do not overlap, and neither do steps, so the sum of their numbers at a moment is the number of the one that covers it.
intervals AS (
    SELECT
        rank, device, ts_ns, end_ns, 0 AS sample, 0 AS step, 1 AS works,
        CASE WHEN family = 'matmul' THEN 1 ELSE 0 END AS matmuls,
        CASE WHEN family = 'convolution' THEN 1 ELSE 0 END AS convolutions,
        CASE WHEN family = 'attention' THEN 1 ELSE 0 END AS attentions,
        CASE WHEN family = 'pointwise' THEN 1 ELSE 0 END AS pointwises,
        CASE WHEN family = 'communication' THEN 1 ELSE 0 END AS communications,
        CASE WHEN family = 'copy' THEN 1 ELSE 0 END AS copies,
        CASE WHEN family = 'other' THEN 1 ELSE 0 END AS others
    FROM work
    UNION ALL
    SELECT rank, device, ts_ns, ts_ns + dur_ns, place, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM spans
    UNION ALL
    SELECT d.rank, d.device, s.ts_ns, s.end_ns, 0, s.step + 1, 0, 0, 0, 0, 0, 0, 0, 0
    FROM sampled d
    JOIN device_steps s ON s.rank = d.rank
),
running AS (
    overlap_counts!(intervals, (rank, device),
        (sample, step, works, matmuls, convolutions, attentions, pointwises, communications, copies, others))
),
sums AS (
    SELECT
        rank, device, sample,
        CASE WHEN min(step) = max(step) AND min(step) > 0 THEN min(step) - 1 END AS step,
        sum_if!(dur_ns, works > 0) AS busy_ns,
        sum_if!(dur_ns, matmuls > 0) AS matmul_ns,
        sum_if!(dur_ns, convolutions > 0) AS convolution_ns,
        sum_if!(dur_ns, attentions > 0) AS attention_ns,
        sum_if!(dur_ns, pointwises > 0) AS pointwise_ns,
        sum_if!(dur_ns, communications > 0) AS communication_ns,
        sum_if!(dur_ns, copies > 0) AS copy_ns,
        sum_if!(dur_ns, others > 0) AS other_ns
    FROM running
    WHERE dur_ns > 0 AND sample > 0
    GROUP BY rank, device, sample
)
SELECT
    s.rank, s.device, s.ts_ns, s.dur_ns, w.step,
    s.tensor_ratio, s.dram_ratio, s.sm_active_ratio, s.occupancy_ratio,
    w.busy_ns, w.matmul_ns, w.convolution_ns, w.attention_ns, w.pointwise_ns, w.communication_ns, w.copy_ns, w.other_ns
FROM spans s
JOIN sums w ON w.rank = s.rank AND w.device = s.device AND w.sample = s.place
