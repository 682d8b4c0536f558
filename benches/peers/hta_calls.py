"""Ten calls of a notebook, HTA against `trace_advisor.hta`, in one run: a Markdown table of seconds.

    pip install . -r tests/python/requirements-hta.txt
    python benches/peers/hta_calls.py RUN ...

Each library runs in a process of its own, one after the other, with the files in the page cache. Calls are made in
the order of the table, once; what a library computes for one call and uses for the next counts for the first. Nothing
is read from the cache of Trace Advisor, and HTA's rounding to whole microseconds is switched off.
"""

import argparse
import importlib
import json
import logging
import os
import subprocess
import sys
import time
import warnings

# HTA rounds times to whole microseconds otherwise.
os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
# Nothing is shown and no cache is used.
os.environ["ADVISOR_CACHE_DIR"] = ""

LIBRARIES = {"HTA": "hta", "Trace Advisor": "trace_advisor.hta"}

CALLS = {
    "get_temporal_breakdown": lambda a, rank: a.get_temporal_breakdown(visualize=False),
    "get_gpu_kernel_breakdown": lambda a, rank: a.get_gpu_kernel_breakdown(visualize=False),
    "get_comm_comp_overlap": lambda a, rank: a.get_comm_comp_overlap(visualize=False),
    "get_idle_time_breakdown": lambda a, rank: a.get_idle_time_breakdown([rank], visualize=False),
    "get_cuda_kernel_launch_stats": lambda a, rank: a.get_cuda_kernel_launch_stats([rank], visualize=False),
    "get_queue_length_summary": lambda a, rank: a.get_queue_length_summary([rank]),
    "get_aten_op_kernels_and_delay": lambda a, rank: a.get_aten_op_kernels_and_delay([rank]),
    "get_memory_bw_summary": lambda a, rank: a.get_memory_bw_summary([rank]),
    "t.get_trace": lambda a, rank: a.t.get_trace(rank),
    "critical_path_analysis": lambda a, rank: a.critical_path_analysis(rank, "ProfilerStep", 0),
}


def measure(package: str, run: str) -> dict[str, float | str]:
    """Seconds of each call with one library, or the type of the exception that it raises."""
    import plotly.graph_objects

    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    plotly.graph_objects.Figure.show = lambda *_, **__: None
    seconds: dict[str, float | str] = {}
    start = time.perf_counter()
    analyzer = importlib.import_module(f"{package}.trace_analysis").TraceAnalysis(trace_dir=run)
    seconds["import, TraceAnalysis"] = time.perf_counter() - start
    rank = min(analyzer.t.get_ranks())
    for name, call in CALLS.items():
        start = time.perf_counter()
        try:
            call(analyzer, rank)
            seconds[name] = time.perf_counter() - start
        except Exception as error:
            seconds[name] = type(error).__name__
    return seconds


def in_process(package: str, run: str) -> dict[str, float | str]:
    """Like `measure`, in a new process."""
    command = [sys.executable, __file__, "--library", package, run]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(result.stdout.splitlines()[-1])


def table(run: str) -> str:
    """The seconds of both libraries for a run, and how many times faster the second one is."""
    theirs, ours = (in_process(package, run) for package in LIBRARIES.values())
    numbers = [{name: value for name, value in column.items() if isinstance(value, float)} for column in (theirs, ours)]
    # A call that fails in one library counts in neither sum.
    shared = numbers[0].keys() & numbers[1].keys()
    for column, of in ((theirs, numbers[0]), (ours, numbers[1])):
        column["sum of the calls that both answer"] = sum(of[name] for name in shared)
    lines = [f"| {os.path.basename(run.rstrip('/'))} | {' | '.join(LIBRARIES)} | ratio |", "|---|---|---|---|"]
    for name, value in theirs.items():
        pair = (value, ours[name])
        is_measured = all(isinstance(seconds, float) for seconds in pair)
        ratio = f"{pair[0] / pair[1]:.1f}x" if is_measured else ""
        cells = [f"{seconds:.3f} s" if isinstance(seconds, float) else f"`{seconds}`" for seconds in pair]
        label = f"`{name}`" if name in CALLS else name
        lines.append(f"| {label} | {' | '.join(cells)} | {ratio} |")
    return "\n".join(lines)


def main() -> None:
    """Measure what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folder with the traces of all ranks")
    parser.add_argument("--library", choices=LIBRARIES.values(), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.library:
        print(json.dumps(measure(arguments.library, arguments.runs[0])))
    else:
        print("\n\n".join(map(table, arguments.runs)))


if __name__ == "__main__":
    main()
