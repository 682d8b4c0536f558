--! question = "What does an exported memory timeline show in total?"
--! row = "one exported memory timeline"
--! window = "recording"
--! needs = ["memory_timelines", "memory_timeline_sizes"]
--! order = ["rank", "timeline"]
--! when_empty = "the run holds no exported memory timeline: record with profile_memory=True, record_shapes=True, with_stack=True, and call prof.export_memory_timeline(\"memory_rank0.raw.json.gz\", device=\"cuda:0\") after it"
--! [columns]
--! rank = "rank"
--! timeline = "number of the file within the rank"
--! file = "file it was read from"
--! form = "raw or sizes"
--! moment_count = { doc = "moments", unit = "count", metric = "rank" }
--! dur_ns = { doc = "from the first moment to the last", unit = "ns", metric = "rank" }
--! start_bytes = { doc = "held at the first moment: what was there before, where the profiler knew of it", unit = "bytes", metric = "rank" }
--! peak_bytes = { doc = "most that was held at once", unit = "bytes", metric = "rank" }
--! peak_ts_ns = { doc = "first moment at which it was", unit = "ns" }
--! end_bytes = { doc = "held at the last moment", unit = "bytes", metric = "rank" }
--! first_half_peak_bytes = { doc = "most that was held at once in the first half of the moments", unit = "bytes", metric = "rank" }
--! second_half_peak_bytes = { doc = "the same in the second half: more than that if memory grows", unit = "bytes", metric = "rank" }
--! unknown_ratio = { doc = "share of the peak that PyTorch assigned no category: high if record_shapes or with_stack was off", unit = "ratio", metric = "rank" }
WITH ranked_threads AS (
    SELECT
        rank, timeline, ts_ns, total_bytes,
        first_value(total_bytes) OVER (PARTITION BY rank, timeline ORDER BY position) AS start_bytes,
        first_value(total_bytes) OVER (PARTITION BY rank, timeline ORDER BY position DESC) AS end_bytes,
        ntile(2) OVER (PARTITION BY rank, timeline ORDER BY position) AS half,
        first_value(ts_ns) OVER p AS peak_ts_ns,
        first_value(unknown_bytes) OVER p AS unknown_bytes
    FROM memory_timeline_sizes
    WINDOW p AS (PARTITION BY rank, timeline ORDER BY total_bytes DESC, position)
),
ends AS (
    SELECT
        rank, timeline, max(total_bytes) AS peak_bytes, max(start_bytes) AS start_bytes, max(end_bytes) AS end_bytes,
        max(peak_ts_ns) AS peak_ts_ns, max(unknown_bytes) AS unknown_bytes,
        max(CASE WHEN half = 1 THEN total_bytes END) AS first_half_peak_bytes,
        max(CASE WHEN half = 2 THEN total_bytes END) AS second_half_peak_bytes
    FROM ranked_threads
    GROUP BY rank, timeline
)
SELECT
    t.rank, t.timeline, t.file, t.form, t.moment_count, t.end_ns - t.start_ns AS dur_ns,
    e.start_bytes, e.peak_bytes, e.peak_ts_ns, e.end_bytes,
    e.first_half_peak_bytes, e.second_half_peak_bytes,
    ratio!(e.unknown_bytes, e.peak_bytes) AS unknown_ratio
FROM memory_timelines t
JOIN ends e ON e.rank = t.rank AND e.timeline = t.timeline
