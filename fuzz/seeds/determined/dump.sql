--
-- PostgreSQL database dump
--

COPY public.trial_profiler_metrics (id, "values", batches, ts, labels) FROM stdin;
1	{1,2}	{1,2}	{"2026-11-21 10:12:52+00","2026-11-21 10:12:53+00"}	{"name": "cpu_util_simple", "trialId": 5, "agentId": "a", "metricType": "PROFILER_METRIC_TYPE_SYSTEM"}
\.

COPY public.system_metrics (trial_id, end_time, metrics, total_batches, metric_group) FROM stdin;
5	2026-11-21 11:12:52+01	{"agent-a": {"/": {"disk_util": 32.5}, "disk_iops": 10}}	\N	disk
\.
