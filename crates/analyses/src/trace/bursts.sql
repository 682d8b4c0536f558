--! question = "Did the profiler deliver the device's work in one burst, long after its launches?"
--! row = "one rank: work that was launched before anything ran"
--! window = "recording"
--! needs = ["device_work", "steps"]
--! order = ["rank"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no device activity: record the device too (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
--! [columns]
--! rank = "rank"
--! launched_count = { doc = "kernels, copies and fills whose launch is known", unit = "count", metric = "rank" }
--! waiting_count = { doc = "number of these that were launched before the first device work of the rank starts", unit = "count", metric = "rank" }
--! wait_ns = { doc = "from the first known launch to the start of the first device work; absent without known launches", unit = "ns", metric = "rank" }
--! step_count = { doc = "steps of the rank", unit = "count", metric = "rank" }
--! burst_ratio = { doc = "waiting_count over launched_count; 0 if wait_ns is below 1 ms, or if the device may have been busy with work from before the recording: at most 1024 kernels and copies wait, and the first starts before the last step ends on the host; absent without two steps", unit = "ratio", metric = "rank" }
-- A device that is not busy starts launched work within microseconds. While it is busy with work from before the recording, the
-- host can launch only as much work as the queue holds. All steps of a model with short steps may fit into the queue.
WITH firsts AS (
    SELECT rank, min(ts_ns) AS first_ns, min(launch_ts_ns) AS first_launch_ns FROM device_work GROUP BY rank
),
work AS (
    SELECT
        w.rank, min(f.first_ns) AS first_ns, min(f.first_ns - f.first_launch_ns) AS wait_ns,
        count(w.launch_ts_ns) AS launched_count,
        count_if!(coalesce(w.launch_ts_ns < f.first_ns, false)) AS waiting_count
    FROM device_work w
    JOIN firsts f ON f.rank = w.rank
    GROUP BY w.rank
),
marked AS (
    SELECT rank, count(*) AS step_count, max(ts_ns + dur_ns) AS end_ns FROM steps WHERE source <> 'trace' GROUP BY rank
)
SELECT
    w.rank, w.launched_count, w.waiting_count, w.wait_ns, coalesce(m.step_count, 0) AS step_count,
    CASE
        WHEN coalesce(m.step_count, 0) < 2 THEN NULL
        WHEN w.wait_ns >= 1000000 AND (w.waiting_count > 1024 OR w.first_ns >= m.end_ns)
            THEN ratio!(w.waiting_count, w.launched_count)
        ELSE 0
    END AS burst_ratio
FROM work w
LEFT JOIN marked m ON m.rank = w.rank
