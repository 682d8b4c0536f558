--! question = "Which driver calls take memory from the GPU, and how long do they take?"
--! row = "one function that takes memory from the driver or gives it back, on one rank"
--! window = "recording"
--! sort = ["host_ns"]
--! needs = ["runtime_calls", "steps"]
--! order = ["rank", "name"]
--! requires = ["runtime_calls"]
--! when_empty = "no call in the trace takes memory from the driver (or calls were not recorded: ProfilerActivity.CUDA)"
--! [columns]
--! rank = "rank"
--! name = "function: cudaMalloc, hipFree, cuMemMap ..."
--! call_count = { doc = "calls", unit = "count" }
--! host_ns = { doc = "time of the calls on the host", unit = "ns" }
--! step_call_count = { doc = "calls within steps", unit = "count" }
--! step_host_ns = { doc = "their time", unit = "ns" }
--! later_call_count = { doc = "calls within steps after the first of the recording", unit = "count" }
--! later_host_ns = { doc = "their time", unit = "ns" }
WITH firsts AS (
    SELECT rank, min(ts_ns) AS first_ns FROM steps WHERE source <> 'trace' GROUP BY rank
),
first_steps AS (
    SELECT s.rank, s.step FROM steps s JOIN firsts f ON f.rank = s.rank AND f.first_ns = s.ts_ns
)
SELECT
    c.rank, c.name,
    count(*) AS call_count,
    sum(c.dur_ns) AS host_ns,
    count_if!(f.step IS NOT NULL AND c.step IS NOT NULL) AS step_call_count,
    sum_if!(c.dur_ns, f.step IS NOT NULL AND c.step IS NOT NULL) AS step_host_ns,
    count_if!(c.step <> f.step) AS later_call_count,
    sum_if!(c.dur_ns, c.step <> f.step) AS later_host_ns
FROM runtime_calls c
LEFT JOIN first_steps f ON f.rank = c.rank
WHERE c.name LIKE 'cudaMalloc%' OR c.name LIKE 'cudaFree%' OR c.name = 'cudaHostAlloc'
    OR c.name LIKE 'hipMalloc%' OR c.name LIKE 'hipFree%' OR c.name LIKE 'hipHostMalloc%'
    OR c.name LIKE 'hipHostFree%' OR c.name LIKE 'hipExtMalloc%' OR c.name = 'hipHostAlloc'
    OR c.name LIKE 'cuMemAlloc%' OR c.name LIKE 'cuMemFree%'
    OR c.name IN ('cuMemCreate', 'cuMemRelease', 'cuMemMap', 'cuMemUnmap', 'cuMemSetAccess', 'cuMemAddressReserve', 'cuMemAddressFree',
        'hipMemCreate', 'hipMemRelease', 'hipMemMap', 'hipMemUnmap', 'hipMemSetAccess', 'hipMemAddressReserve', 'hipMemAddressFree')
GROUP BY c.rank, c.name
