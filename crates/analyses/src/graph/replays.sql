--! question = "How long does each launch of a CUDA or HIP graph take, and how much of that is gaps?"
--! row = "one replay: the kernels, copies and fills of one graph launch on one device"
--! window = "recording"
--! needs = ["device_work", "graph_matches", "graph_nodes", "kernels"]
--! order = ["rank", "launch_ts_ns", "launch", "device"]
--! when_empty = "no CUDA or HIP graph is launched"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! launch = "launching call"
--! launch_name = "function that launched the graph"
--! launch_ts_ns = { doc = "start of the launching call", unit = "ns" }
--! launch_dur_ns = { doc = "duration of the launching call", unit = "ns" }
--! launch_thread = "lane of the launching call"
--! step = "step of the launching call"
--! graph_id = "graph, as the profiler numbers it; absent in traces before 2026 and on AMD"
--! capture = "capture that it replays, see graph_nodes; absent if none fits"
--! capture_name = "innermost host annotation around the capture"
--! confidence = "how well the capture fits, see graph_matches: exact, reordered, partial, order, ambiguous or none"
--! activity_count = { doc = "kernels, copies and fills", unit = "count" }
--! kernel_count = { doc = "kernels", unit = "count" }
--! matched_count = { doc = "activities with a node of the capture, on all devices", unit = "count" }
--! start_ns = { doc = "start of the first activity", unit = "ns" }
--! dur_ns = { doc = "from there to the end of the last one", unit = "ns" }
--! busy_ns = { doc = "time in which an activity of the replay runs, overlap merged", unit = "ns" }
--! gap_ns = { doc = "dur_ns less busy_ns", unit = "ns" }
--! sum_ns = { doc = "time of all activities, overlap not merged", unit = "ns" }
--! delay_ns = { doc = "from the start of the launching call to the first activity", unit = "ns" }
WITH activity AS (
    SELECT w.*, max_before!(w.end_ns, PARTITION BY w.rank, w.device, w.launch ORDER BY w.ts_ns, w.end_ns, w.event_id) AS until_ns
    FROM device_work w
    JOIN graph_matches m ON m.rank = w.rank AND m.launch = w.launch
),
graphs AS (
    SELECT rank, launch, min(graph_id) AS graph_id FROM kernels WHERE graph_id IS NOT NULL GROUP BY rank, launch
),
captures AS (
    SELECT rank, capture, min(CAST(capture_name AS VARCHAR)) AS capture_name FROM graph_nodes GROUP BY rank, capture
),
replays AS (
    SELECT
        rank, device, launch, min(launch_name) AS launch_name, min(launch_ts_ns) AS launch_ts_ns,
        min(launch_end_ns) - min(launch_ts_ns) AS launch_dur_ns, min(launch_thread) AS launch_thread, min(step) AS step,
        count(*) AS activity_count,
        count_if!(category = 'kernel') AS kernel_count,
        min(ts_ns) AS start_ns,
        max(end_ns) - min(ts_ns) AS dur_ns,
        sum(greatest(0, end_ns - greatest(ts_ns, coalesce(until_ns, ts_ns)))) AS busy_ns,
        sum(dur_ns) AS sum_ns
    FROM activity
    GROUP BY rank, device, launch
)
SELECT
    r.rank, r.device, r.launch, r.launch_name, r.launch_ts_ns, r.launch_dur_ns, r.launch_thread, r.step, g.graph_id,
    m.capture, c.capture_name, m.confidence, r.activity_count, r.kernel_count, m.matched_count, r.start_ns, r.dur_ns,
    r.busy_ns, r.dur_ns - r.busy_ns AS gap_ns, r.sum_ns, r.start_ns - r.launch_ts_ns AS delay_ns
FROM replays r
JOIN graph_matches m ON m.rank = r.rank AND m.launch = r.launch
LEFT JOIN graphs g ON g.rank = r.rank AND g.launch = r.launch
LEFT JOIN captures c ON c.rank = m.rank AND c.capture = m.capture
