--! question = "When is the GPU idle, and what was the host doing in each gap?"
--! row = "one idle gap of a device, with its causes"
--! window = "counted_steps"
--! needs = ["idle_gap_causes"]
--! order = ["rank", "device", "ts_ns"]
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! ts_ns = { doc = "start of the gap: everything before it has ended", unit = "ns" }
--! end_ns = { doc = "end of the gap: the next activity starts", unit = "ns" }
--! dur_ns = { doc = "duration, never 0", unit = "ns" }
--! next_event_id = "the activity that ends the gap; absent at the end of the recording"
--! previous_event_id = "the activity whose end begins the gap; absent at the start of the window"
--! next_category = "kernel, memcpy or memset"
--! next_dur_ns = { doc = "duration of that activity", unit = "ns" }
--! launch = "call that launched it"
--! step = "step of that activity; of the one before where none follows"
--! cause = "cause of most of it, see idle_gap_causes"
--! dataloader_ns = { doc = "part in which the launching thread was loading data", unit = "ns" }
--! sync_ns = { doc = "part that a wait for the device explains", unit = "ns" }
--! host_ns = { doc = "part in which the launch had not returned for another reason, or had and nothing had started", unit = "ns" }
--! device_wait_ns = { doc = "part in which the activity was launched and waited for other work of the device", unit = "ns" }
--! unlinked_ns = { doc = "part with a cause that cannot be told, or a first launch, which does not recur", unit = "ns" }
SELECT
    rank, device, gap_ts_ns AS ts_ns,
    max(gap_end_ns) AS end_ns,
    sum(dur_ns) AS dur_ns,
    max(next_event_id) AS next_event_id,
    max(previous_event_id) AS previous_event_id,
    max(next_category) AS next_category,
    max(next_dur_ns) AS next_dur_ns,
    max(launch) AS launch,
    max(step) AS step,
    first_value(CAST(cause AS VARCHAR) ORDER BY dur_ns DESC, ts_ns) AS cause,
    sum_if!(dur_ns, cause = 'data_loading') AS dataloader_ns,
    sum_if!(dur_ns, cause = 'synchronization') AS sync_ns,
    sum_if!(dur_ns, cause NOT IN ('data_loading', 'synchronization') AND side IN ('host', 'launch')) AS host_ns,
    sum_if!(dur_ns, side = 'device') AS device_wait_ns,
    sum_if!(dur_ns, side IN ('unknown', 'warmup')) AS unlinked_ns
FROM idle_gap_causes
GROUP BY rank, device, gap_ts_ns
