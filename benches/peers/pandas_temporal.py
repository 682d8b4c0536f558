"""pandas with orjson, from nothing to the temporal breakdown: a frame of all events, then sorted boundaries in numpy.

    python pandas_temporal.py TRACE ...

One trace a rank, ranks in order. Prints the breakdown of each as JSON, times in us.
"""

import gzip
import json
import sys

import numpy as np
import orjson
import pandas as pd

COMMUNICATION = r"^(?:nccl|rccl|hccl|oneccl|nvshmem)|ncclKernel|ncclDevKernel|cross_device_reduce"
DEVICE = ["kernel", "memcpy", "memset", "gpu_memcpy", "gpu_memset"]


def read(path):
    with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
        trace = orjson.loads(file.read())
    events = pd.DataFrame(trace["traceEvents"])
    return events[events["ph"] == "X"]


def with_correlation(events):
    return events.assign(correlation=[args.get("correlation", 0) for args in events["args"]])


def counted(events):
    """Device activities; as HTA and we count, without what the last of several steps launched."""
    category = events["cat"].str.lower()
    device = with_correlation(events[category.isin(DEVICE)])
    steps = events[events["name"].str.startswith("ProfilerStep#")]
    if steps["name"].nunique() < 2:
        return device
    launches = with_correlation(events[category.str.contains("(?:^|_)(?:runtime|driver)$", na=False)])
    launched = device["correlation"].map(launches.groupby("correlation")["ts"].max())
    return device[launched < steps["ts"].max()]


def breakdown(rank, device):
    is_kernel = device["cat"].str.lower() == "kernel"
    is_collective = np.array(["Collective name" in args for args in device["args"]], dtype=bool)
    computes = is_kernel & ~is_collective & ~device["name"].str.contains(COMMUNICATION)
    start = device["ts"].to_numpy(dtype=float)
    times = np.concatenate([start, start + device["dur"].to_numpy(dtype=float)])
    order = np.argsort(times, kind="stable")
    delta = np.repeat([1, -1], len(device))[order]
    running = np.cumsum(delta)[:-1]
    computing = np.cumsum(delta * np.tile(computes.to_numpy(), 2)[order])[:-1]
    lengths = np.diff(times[order])
    idle, compute = lengths[running == 0].sum(), lengths[computing > 0].sum()
    row = {"idle_us": idle, "compute_us": compute, "kernel_us": lengths.sum()}
    row["non_compute_us"] = lengths.sum() - idle - compute
    return {"rank": rank, **{name: float(value) for name, value in row.items()}}


json.dump([breakdown(rank, counted(read(path))) for rank, path in enumerate(sys.argv[1:])], sys.stdout)
