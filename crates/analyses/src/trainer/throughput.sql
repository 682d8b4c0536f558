--! question = "How many samples per second does training process?"
--! row = "one rank: training samples per second"
--! window = "recording"
--! needs = ["counters", "trainer_steps", "trainer_phases"]
--! order = ["rank"]
--! requires = ["machine_metrics"]
--! when_empty = "no throughput was sampled: Determined's profiling of 0.16.1 to 0.29 does (samples_per_second)"
--! [columns]
--! rank = "rank"
--! batch_count = { doc = "batches trained on", unit = "count", metric = "rank" }
--! batch_sample_count = { doc = "samples in a batch, of all workers: what was reported times the time it was reported for, the nearest whole number to the median", unit = "count", metric = "rank" }
--! reported_samples_per_s = { doc = "mean of what Determined reports, which leaves loading out", unit = "number", metric = "rank" }
--! samples_per_s = { doc = "samples of all batches over all time accounted for, loading included", unit = "number", metric = "rank" }
--! throughput_loss_ratio = { doc = "shortfall of samples_per_s, relative to the reported value", unit = "ratio", metric = "rank" }
WITH reports AS (
    SELECT rank, batch, ts_ns, value FROM counters WHERE metric = 'throughput' AND value > 0
),
-- A report covers its batch from the start of the first timing after loading to its own moment.
batches AS (
    SELECT r.rank, median(r.value * (r.ts_ns - s.batch_ts_ns) / 1e9) AS samples
    FROM reports r
    JOIN trainer_steps s ON s.rank = r.rank AND s.batch = r.batch
    WHERE s.source = 'determined' AND r.ts_ns >= s.batch_ts_ns
    GROUP BY r.rank
),
means AS (
    SELECT rank, avg(value) AS reported FROM reports GROUP BY rank
),
times AS (
    SELECT
        rank,
        sum_if!(total_ns, is_part) AS accounted_ns,
        max(CASE WHEN name = 'train_batch' THEN phase_count END) AS batch_count
    FROM trainer_phases
    WHERE source = 'determined'
    GROUP BY rank
),
rates AS (
    SELECT
        m.rank, t.batch_count,
        TRY_CAST(round(b.samples) AS BIGINT) AS batch_sample_count,
        m.reported AS reported_samples_per_s,
        round(b.samples) * t.batch_count * 1e9 / nullif(t.accounted_ns, 0) AS samples_per_s
    FROM means m
    LEFT JOIN batches b ON b.rank = m.rank
    LEFT JOIN times t ON t.rank = m.rank
)
SELECT *, 1 - samples_per_s / nullif(reported_samples_per_s, 0) AS throughput_loss_ratio FROM rates
