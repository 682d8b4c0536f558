--! question = "Which single waits for the GPU lead to idle time?"
--! row = "one part of an idle gap that one call waiting for the device explains"
--! window = "counted_steps"
--! needs = ["idle_gap_causes"]
--! order = ["rank", "device", "ts_ns", "kind", "name", "op_name", "source"]
--! when_empty = "no device of the trace is idle because the host waited for it"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! gap_ts_ns = { doc = "start of the gap", unit = "ns" }
--! ts_ns = { doc = "first moment of the part", unit = "ns" }
--! dur_ns = { doc = "idle time", unit = "ns" }
--! kind = "kind of wait: read (a value or a size: aten::item, nonzero and the like), copy (a copy that blocks its caller) or call (a synchronization of device, stream or event)"
--! name = "the call that waits"
--! op_name = "operator around it"
--! source = "line of the program around it"
SELECT
    rank, device, gap_ts_ns,
    min(ts_ns) AS ts_ns,
    sum(dur_ns) AS dur_ns,
    -- A read is what needs a value or a size on the host.
    CASE
        WHEN op_name IN ('aten::item', 'aten::_local_scalar_dense', 'aten::is_nonzero', 'aten::nonzero', 'aten::masked_select',
            'aten::unique', 'aten::_unique2', 'aten::unique_consecutive', 'aten::bincount', 'aten::equal',
                'aten::repeat_interleave') THEN 'read'
        WHEN name LIKE '%Memcpy%' THEN 'copy'
        ELSE 'call'
    END AS kind,
    name, op_name, source
FROM idle_gap_causes
WHERE cause = 'synchronization'
GROUP BY rank, device, gap_ts_ns, name, op_name, source
