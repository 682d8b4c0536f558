--! question = "What limits the memory of a device?"
--! row = "one device of one rank, or its host memory where it uses no device: of its snapshots that with the highest peak (one in which an allocation failed goes first), else the allocator events of the trace"
--! window = "recording"
--! needs = ["memory_usage", "memory_owners", "snapshot_oom", "snapshot_fragmentation"]
--! order = ["rank", "device"]
--! requires = ["memory_events", "memory_history"]
--! when_empty = "the run holds neither a memory snapshot with a history (torch.cuda.memory._record_memory_history() before, torch.cuda.memory._dump_snapshot(\"snapshot_rank0.pickle\") after what is to be seen) nor allocator events with totals (profile_memory=True)"
--! [columns]
--! rank = "rank"
--! device = "device ordinal; -1 on the host"
--! memory = "memory space: cuda:0 ... or cpu"
--! snapshot = "snapshot, see snapshots; absent for the allocator events of a trace"
--! has_history = "allocations and releases were recorded, see memory_usage"
--! iteration_count = { doc = "forward passes, see memory_usage, which defines what follows", unit = "count", metric = "device" }
--! peak_bytes = { doc = "most that is allocated at once", unit = "bytes", metric = "device" }
--! capacity_bytes = { doc = "memory that the program can have; absent if unknown", unit = "bytes", metric = "device" }
--! parameter_bytes = { doc = "of the peak: parameters", unit = "bytes", metric = "device" }
--! optimizer_state_bytes = { doc = "of the peak: optimizer state", unit = "bytes", metric = "device" }
--! optimizer_state_ratio = { doc = "share of the peak", unit = "ratio", metric = "device" }
--! gradient_bytes = { doc = "of the peak: gradients", unit = "bytes", metric = "device" }
--! activation_bytes = { doc = "of the peak: activations", unit = "bytes", metric = "device" }
--! activation_ratio = { doc = "share of the peak", unit = "ratio", metric = "device" }
--! unneeded_activation_ratio = { doc = "the same for a snapshot without any backward pass, else 0", unit = "ratio", metric = "device" }
--! temporary_bytes = { doc = "of the peak: temporaries", unit = "bytes", metric = "device" }
--! older_bytes = { doc = "of the peak: older than the recording, and of no known owner", unit = "bytes", metric = "device" }
--! weight_copy_bytes = { doc = "of the peak: copies of weights in 16 bits that forward passes make", unit = "bytes", metric = "device" }
--! top_owner = "owner with most of the peak; absent if nothing is held"
--! top_owner_bytes = { doc = "bytes that top_owner holds", unit = "bytes", metric = "device" }
--! top_phase = "phase that allocates more than half of top_owner_bytes: forward, backward, optimizer or before (the recording)"
--! top_place = "line or module that allocates most of top_owner_bytes"
--! top_place_bytes = { doc = "bytes that top_place allocates", unit = "bytes", metric = "device" }
--! top_activation_place = "line or module with most of the activations"
--! top_activation_bytes = { doc = "its activations", unit = "bytes", metric = "device" }
--! has_backward = "the snapshot has a backward pass; absent for traces, where allocations need not show one"
--! spike_bytes = { doc = "peak above what is held in nine of ten cases", unit = "bytes", metric = "device" }
--! spike_ratio = { doc = "share of the peak", unit = "ratio", metric = "device" }
--! spike_place = "line or module that holds most of it for a short time"
--! spike_place_bytes = { doc = "what that is", unit = "bytes", metric = "device" }
--! kept_bytes = { doc = "allocated in one iteration after another and never released; absent if fewer than three iterations are known", unit = "bytes", metric = "device" }
--! kept_ratio = { doc = "share of the peak", unit = "ratio", metric = "device" }
--! kept_place = "line or module that keeps most of it"
--! kept_owner = "its owner, see memory_owners"
--! kept_place_bytes = { doc = "what it keeps", unit = "bytes", metric = "device" }
--! kept_per_iteration_bytes = { doc = "in each iteration", unit = "bytes", metric = "device" }
--! half_batch_peak_bytes = { doc = "peak with half of the batch", unit = "bytes", metric = "device" }
--! checkpointed_peak_bytes = { doc = "peak if the activations of top_activation_place are computed again", unit = "bytes", metric = "device" }
--! small_state_peak_bytes = { doc = "peak with optimizer state in 8 bits", unit = "bytes", metric = "device" }
--! half_copy_bytes = { doc = "of the peak: allocations of half the size of a parameter or state, where most have one, and copies of weights that forward passes make", unit = "bytes", metric = "device" }
--! half_copy_ratio = { doc = "share of the peak", unit = "ratio", metric = "device" }
--! later_iteration_count = { doc = "iterations after the second of a snapshot; absent if there are none", unit = "count", metric = "device" }
--! later_segment_count = { doc = "segments that the allocator took from the driver in them", unit = "count", metric = "device" }
--! later_segment_rate = { doc = "of these, in each iteration", unit = "number", metric = "device" }
--! later_segment_bytes = { doc = "their size", unit = "bytes", metric = "device" }
--! later_returned_count = { doc = "segments that it gave back in them", unit = "count", metric = "device" }
--! oom_count = { doc = "allocations that failed; absent without a history of the allocator", unit = "count", metric = "device" }
--! oom_requested_bytes = { doc = "size of the last of them", unit = "bytes", metric = "device" }
--! oom_free_bytes = { doc = "free on the device then", unit = "bytes", metric = "device" }
--! oom_allocated_bytes = { doc = "allocated then", unit = "bytes", metric = "device" }
--! oom_unused_bytes = { doc = "held by the caching allocator then, but in no allocation", unit = "bytes", metric = "device" }
--! oom_reserved_bytes = { doc = "held by the caching allocator then", unit = "bytes", metric = "device" }
--! oom_unused_owner = "why most of that cannot be used, see memory_owners"
--! oom_unused_owner_bytes = { doc = "what that is", unit = "bytes", metric = "device" }
--! oom_outside_bytes = { doc = "held then by CUDA, other libraries and other processes; absent without a trace that tells the size of the device", unit = "bytes", metric = "device" }
--! oom_place = "line that asked for it"
--! oom_owner = "owner of most of what was allocated then, in words"
--! oom_owner_bytes = { doc = "what that is", unit = "bytes", metric = "device" }
--! split_bytes = { doc = "free in the end, but in segments that are partly in use; absent without segments", unit = "bytes", metric = "device" }
--! split_ratio = { doc = "share of what is reserved", unit = "ratio", metric = "device" }
WITH ooms AS (
    SELECT
        rank, snapshot, device, count(*) AS oom_count,
        last_value(requested_bytes ORDER BY position) AS requested_bytes,
        last_value(device_free_bytes ORDER BY position) AS free_bytes,
        last_value(allocated_bytes ORDER BY position) AS allocated_bytes,
        last_value(unused_bytes ORDER BY position) AS unused_bytes,
        last_value(reserved_bytes ORDER BY position) AS reserved_bytes,
        last_value(user_frame ORDER BY position) AS place
    FROM snapshot_oom
    GROUP BY rank, snapshot, device
),
candidates AS (
    SELECT
        u.*, o.oom_count, o.requested_bytes, o.free_bytes, o.allocated_bytes, o.unused_bytes, o.reserved_bytes, o.place AS oom_place,
        row_number() OVER (
            PARTITION BY u.rank, u.device
            ORDER BY CASE WHEN o.oom_count > 0 THEN 0 WHEN u.snapshot IS NOT NULL THEN 1 ELSE 2 END, u.has_history DESC, u.peak_bytes DESC, u.snapshot, u.memory
        ) AS place
    FROM memory_usage u
    LEFT JOIN ooms o ON o.rank = u.rank AND o.snapshot = u.snapshot AND o.device = u.device
),
owners AS (
    SELECT
        rank, snapshot, device,
        first_value(replace(owner, '_', ' ') ORDER BY bytes DESC, owner) AS owner,
        max(bytes) AS bytes
    FROM (
        SELECT rank, snapshot, device, owner, sum(bytes) AS bytes
        FROM memory_owners
        WHERE moment = 'oom' AND is_allocated
        GROUP BY rank, snapshot, device, owner
    )
    GROUP BY rank, snapshot, device
),
unused AS (
    SELECT
        rank, snapshot, device,
        first_value(owner ORDER BY bytes DESC, owner) FILTER (WHERE owner LIKE 'free%') AS owner,
        max(CASE WHEN owner LIKE 'free%' THEN bytes END) AS bytes,
        max(CASE WHEN owner = 'outside_allocator' THEN bytes END) AS outside_bytes
    FROM memory_owners
    WHERE moment = 'oom' AND NOT is_allocated
    GROUP BY rank, snapshot, device
)
SELECT
    c.rank, c.device, c.memory, c.snapshot, c.has_history, c.iteration_count, c.peak_bytes, c.capacity_bytes,
    c.parameter_bytes, c.optimizer_state_bytes, c.optimizer_state_ratio, c.gradient_bytes,
    c.activation_bytes, c.activation_ratio,
    CASE WHEN c.has_backward OR c.snapshot IS NULL THEN 0.0 ELSE c.activation_ratio END AS unneeded_activation_ratio,
    c.temporary_bytes, c.older_bytes, c.weight_copy_bytes, c.top_owner, c.top_owner_bytes, c.top_phase, c.top_place, c.top_place_bytes,
    c.top_activation_place, c.top_activation_bytes,
    CASE WHEN c.snapshot IS NOT NULL THEN c.has_backward END AS has_backward,
    c.spike_bytes, c.spike_ratio, c.spike_place, c.spike_place_bytes,
    c.kept_bytes, c.kept_ratio, c.kept_place, c.kept_owner, c.kept_place_bytes, c.kept_per_iteration_bytes,
    c.half_batch_peak_bytes, c.checkpointed_peak_bytes, c.small_state_peak_bytes,
    c.half_copy_bytes, c.half_copy_ratio, c.later_iteration_count, c.later_segment_count, c.later_segment_rate,
    c.later_segment_bytes, c.later_returned_count,
    CASE WHEN c.snapshot IS NOT NULL AND c.has_history THEN coalesce(c.oom_count, 0) END AS oom_count,
    c.requested_bytes AS oom_requested_bytes, c.free_bytes AS oom_free_bytes, c.allocated_bytes AS oom_allocated_bytes,
    c.unused_bytes AS oom_unused_bytes, c.reserved_bytes AS oom_reserved_bytes, n.owner AS oom_unused_owner, n.bytes AS oom_unused_owner_bytes,
    n.outside_bytes AS oom_outside_bytes, c.oom_place,
    w.owner AS oom_owner, w.bytes AS oom_owner_bytes,
    f.split_bytes, f.split_ratio
FROM candidates c
LEFT JOIN owners w ON w.rank = c.rank AND w.snapshot = c.snapshot AND w.device = c.device
LEFT JOIN unused n ON n.rank = c.rank AND n.snapshot = c.snapshot AND n.device = c.device
LEFT JOIN snapshot_fragmentation f ON f.rank = c.rank AND f.snapshot = c.snapshot AND f.device = c.device
WHERE c.place = 1 AND (c.device >= 0 OR c.rank NOT IN (SELECT DISTINCT rank FROM memory_usage WHERE device >= 0))
