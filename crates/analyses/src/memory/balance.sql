--! question = "Does one rank need more memory than the others?"
--! row = "one device of one rank: its peak memory compared with the other ranks"
--! window = "recording"
--! scope = "run"
--! needs = ["memory_peak", "memory_pressure"]
--! order = ["rank", "device"]
--! requires = ["memory_events", "memory_snapshot"]
--! when_empty = "the run holds neither allocator events of a GPU with totals (record with profile_memory=True and torch 1.10 or newer) nor a memory snapshot"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! rank_count = { doc = "ranks whose peak is known", unit = "count", metric = "device" }
--! peak_allocated_bytes = { doc = "most memory allocated at once", unit = "bytes", metric = "device" }
--! median_peak_bytes = { doc = "its median over ranks", unit = "bytes", metric = "device" }
--! above_median_ratio = { doc = "excess of the peak over that median, divided by the median; absent with a single rank", unit = "ratio", metric = "device" }
--! reserved_ratio = { doc = "peak reservation (of a snapshot: the peak) over memory on the device; absent where it is not known", unit = "ratio", metric = "device" }
--! is_snapshot = "the peak is that of a memory snapshot: the trace of the rank has none"
WITH peaks AS (
    SELECT rank, device, peak_allocated_bytes, reserved_ratio, false AS is_snapshot FROM memory_peak
    UNION ALL
    SELECT rank, device, peak_bytes AS peak_allocated_bytes, ratio!(peak_bytes, capacity_bytes) AS reserved_ratio, true AS is_snapshot
    FROM memory_pressure
    WHERE snapshot IS NOT NULL AND device >= 0 AND rank NOT IN (SELECT DISTINCT rank FROM memory_peak)
),
counted AS (
    SELECT count(DISTINCT rank) AS rank_count, median(CAST(peak_allocated_bytes AS DOUBLE)) AS median_peak_bytes FROM peaks
)
SELECT
    p.rank, p.device, c.rank_count, p.peak_allocated_bytes, c.median_peak_bytes,
    CASE WHEN c.rank_count > 1 THEN greatest(p.peak_allocated_bytes / nullif(c.median_peak_bytes, 0) - 1, 0) END AS above_median_ratio,
    p.reserved_ratio, p.is_snapshot
FROM peaks p
CROSS JOIN counted c
