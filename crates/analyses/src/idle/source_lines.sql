--! question = "Which lines of the program leave the GPU idle?"
--! row = "one line of the program on one rank, with the time its devices are idle because of it"
--! window = "counted_steps"
--! sort = ["idle_ns"]
--! needs = ["idle_gap_causes"]
--! order = ["rank", "source"]
--! requires = ["device_activity", "python_stacks"]
--! when_empty = "no idle time of a device can be put to a line: record call stacks (with_stack=True)"
--! [columns]
--! rank = "rank"
--! source = "line of the program: train.py:112; see cpu_ops"
--! idle_ns = { doc = "idle time of all devices of the rank, whatever the cause", unit = "ns", metric = "line" }
--! dataloader_ns = { doc = "that of loading data", unit = "ns", metric = "line" }
--! sync_ns = { doc = "that of waits for the device: the line that waits", unit = "ns", metric = "line" }
--! dispatch_ns = { doc = "that of launching: operators and calls into the runtime", unit = "ns", metric = "line" }
--! cpu_compute_ns = { doc = "that of operators that compute on the CPU", unit = "ns", metric = "line" }
--! python_ns = { doc = "that of Python", unit = "ns", metric = "line" }
--! allocation_ns = { doc = "that of taking memory from the driver or giving it back", unit = "ns", metric = "line" }
SELECT
    rank, source,
    sum(dur_ns) AS idle_ns,
    sum_if!(dur_ns, cause = 'data_loading') AS dataloader_ns,
    sum_if!(dur_ns, cause = 'synchronization') AS sync_ns,
    sum_if!(dur_ns, cause IN ('op_dispatch', 'launch_api', 'copy_api')) AS dispatch_ns,
    sum_if!(dur_ns, cause = 'cpu_compute') AS cpu_compute_ns,
    sum_if!(dur_ns, cause = 'python') AS python_ns,
    sum_if!(dur_ns, cause = 'allocation') AS allocation_ns
FROM idle_gap_causes
WHERE source IS NOT NULL
GROUP BY rank, source
