--! question = "How is memory divided into parameters, activations, gradients and optimizer state?"
--! row = "one category of tensor in one exported memory timeline"
--! window = "recording"
--! sort = ["at_peak_bytes"]
--! needs = ["memory_timeline_sizes"]
--! order = ["rank", "timeline", "category"]
--! when_empty = "the run holds no exported memory timeline: record with profile_memory=True, record_shapes=True, with_stack=True, and call prof.export_memory_timeline(\"memory_rank0.raw.json.gz\", device=\"cuda:0\") after it"
--! [columns]
--! rank = "rank"
--! timeline = "file, see memory_timelines"
--! category = "parameter, optimizer_state, input, temporary, activation, gradient, autograd_detail, unknown"
--! at_peak_bytes = { doc = "held when all categories together were at their peak; the rows of a file add up to peak_bytes of memory_timeline_summary", unit = "bytes" }
--! at_peak_ratio = { doc = "share of that peak", unit = "ratio" }
--! peak_bytes = { doc = "most that the category held at any moment", unit = "bytes" }
--! peak_ts_ns = { doc = "first moment at which it did", unit = "ns" }
--! mean_bytes = { doc = "held on average over time, rounded down", unit = "bytes" }
--! start_bytes = { doc = "held at the first moment", unit = "bytes" }
--! end_bytes = { doc = "held at the last moment", unit = "bytes" }
WITH categories AS (
    SELECT rank, timeline, position, ts_ns, total_bytes, 'parameter' AS category, parameter_bytes AS bytes FROM memory_timeline_sizes
    UNION ALL SELECT rank, timeline, position, ts_ns, total_bytes, 'optimizer_state', optimizer_state_bytes FROM memory_timeline_sizes
    UNION ALL SELECT rank, timeline, position, ts_ns, total_bytes, 'input', input_bytes FROM memory_timeline_sizes
    UNION ALL SELECT rank, timeline, position, ts_ns, total_bytes, 'temporary', temporary_bytes FROM memory_timeline_sizes
    UNION ALL SELECT rank, timeline, position, ts_ns, total_bytes, 'activation', activation_bytes FROM memory_timeline_sizes
    UNION ALL SELECT rank, timeline, position, ts_ns, total_bytes, 'gradient', gradient_bytes FROM memory_timeline_sizes
    UNION ALL SELECT rank, timeline, position, ts_ns, total_bytes, 'autograd_detail', autograd_detail_bytes FROM memory_timeline_sizes
    UNION ALL SELECT rank, timeline, position, ts_ns, total_bytes, 'unknown', unknown_bytes FROM memory_timeline_sizes
),
ranked_threads AS (
    SELECT
        rank, timeline, category, ts_ns, bytes,
        lead(ts_ns) OVER w - ts_ns AS dur_ns,
        first_value(bytes) OVER (PARTITION BY rank, timeline, category ORDER BY total_bytes DESC, position) AS at_peak_bytes,
        first_value(bytes) OVER w AS start_bytes,
        last_value(bytes) OVER (PARTITION BY rank, timeline, category ORDER BY position ROWS BETWEEN UNBOUNDED PRECEDING
            AND UNBOUNDED FOLLOWING) AS end_bytes,
        max(bytes) OVER (PARTITION BY rank, timeline, category) AS peak_bytes,
        max(total_bytes) OVER (PARTITION BY rank, timeline) AS total_peak_bytes
    FROM categories
    WINDOW w AS (PARTITION BY rank, timeline, category ORDER BY position)
)
SELECT
    rank, timeline, category,
    max(at_peak_bytes) AS at_peak_bytes,
    ratio!(max(at_peak_bytes), max(total_peak_bytes)) AS at_peak_ratio,
    max(peak_bytes) AS peak_bytes,
    min(CASE WHEN bytes = peak_bytes THEN ts_ns END) AS peak_ts_ns,
    CAST(sum(CAST(bytes AS DOUBLE) * dur_ns) / nullif(sum(dur_ns), 0) AS BIGINT) AS mean_bytes,
    max(start_bytes) AS start_bytes,
    max(end_bytes) AS end_bytes
FROM ranked_threads
GROUP BY rank, timeline, category
