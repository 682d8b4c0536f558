--! question = "How much would the run gain if parts of the critical path cost less, side by side for rules?"
--! row = "one rank: predicted gains if parts of its critical path cost less"
--! window = "recording"
--! needs = ["critical_what_if"]
--! order = ["rank"]
--! when_empty = "the trace holds no event"
--! [columns]
--! rank = "rank"
--! window_ns = { doc = "length of the window as recorded", unit = "ns", metric = "rank" }
--! data_loading_free_ns = { doc = "gain if loading data cost nothing", unit = "ns", metric = "rank" }
--! data_loading_free_ratio = { doc = "gain over the recorded length", unit = "ratio", metric = "rank" }
--! launch_delay_zero_ns = { doc = "gain if device work began when it was submitted", unit = "ns", metric = "rank" }
--! launch_delay_zero_ratio = { doc = "gain over the recorded length", unit = "ratio", metric = "rank" }
--! communication_free_ns = { doc = "gain if communication cost nothing", unit = "ns", metric = "rank" }
--! communication_free_ratio = { doc = "gain over the recorded length", unit = "ratio", metric = "rank" }
--! communication_2x_faster_ns = { doc = "gain if communication took half the time", unit = "ns", metric = "rank" }
--! communication_2x_faster_ratio = { doc = "gain over the recorded length", unit = "ratio", metric = "rank" }
--! copies_free_ns = { doc = "gain if copies cost nothing", unit = "ns", metric = "rank" }
--! copies_free_ratio = { doc = "gain over the recorded length", unit = "ratio", metric = "rank" }
--! host_2x_faster_ns = { doc = "gain if operators, Python and calls took half the time on the host", unit = "ns", metric = "rank" }
--! host_2x_faster_ratio = { doc = "gain over the recorded length", unit = "ratio", metric = "rank" }
--! kernels_2x_faster_ns = { doc = "gain if computing kernels took half the time", unit = "ns", metric = "rank" }
--! kernels_2x_faster_ratio = { doc = "gain over the recorded length", unit = "ratio", metric = "rank" }
--! sync_free_ns = { doc = "gain if the host never waited for the device", unit = "ns", metric = "rank" }
--! sync_free_ratio = { doc = "gain over the recorded length", unit = "ratio", metric = "rank" }
-- The rows of critical_what_if side by side, for rules. Gains of different questions overlap: they do not add up.
SELECT
    rank,
    max(window_ns) AS window_ns,
    max(CASE WHEN scenario = 'data_loading_free' THEN gain_ns END) AS data_loading_free_ns,
    max(CASE WHEN scenario = 'data_loading_free' THEN gain_ratio END) AS data_loading_free_ratio,
    max(CASE WHEN scenario = 'launch_delay_zero' THEN gain_ns END) AS launch_delay_zero_ns,
    max(CASE WHEN scenario = 'launch_delay_zero' THEN gain_ratio END) AS launch_delay_zero_ratio,
    max(CASE WHEN scenario = 'communication_free' THEN gain_ns END) AS communication_free_ns,
    max(CASE WHEN scenario = 'communication_free' THEN gain_ratio END) AS communication_free_ratio,
    max(CASE WHEN scenario = 'communication_2x_faster' THEN gain_ns END) AS communication_2x_faster_ns,
    max(CASE WHEN scenario = 'communication_2x_faster' THEN gain_ratio END) AS communication_2x_faster_ratio,
    max(CASE WHEN scenario = 'copies_free' THEN gain_ns END) AS copies_free_ns,
    max(CASE WHEN scenario = 'copies_free' THEN gain_ratio END) AS copies_free_ratio,
    max(CASE WHEN scenario = 'host_2x_faster' THEN gain_ns END) AS host_2x_faster_ns,
    max(CASE WHEN scenario = 'host_2x_faster' THEN gain_ratio END) AS host_2x_faster_ratio,
    max(CASE WHEN scenario = 'kernels_2x_faster' THEN gain_ns END) AS kernels_2x_faster_ns,
    max(CASE WHEN scenario = 'kernels_2x_faster' THEN gain_ratio END) AS kernels_2x_faster_ratio,
    max(CASE WHEN scenario = 'sync_free' THEN gain_ns END) AS sync_free_ns,
    max(CASE WHEN scenario = 'sync_free' THEN gain_ratio END) AS sync_free_ratio
FROM critical_what_if
GROUP BY rank
