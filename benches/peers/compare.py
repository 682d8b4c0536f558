"""Trace Advisor against what a user would pick instead, in one run: Markdown tables of ratios.

    cargo build --release --workspace
    python benches/peers/compare.py --corpus ../shared                  # two minutes
    python benches/peers/compare.py --corpus ../shared --sizes real 58MB 457MB 1GB ranks

Measures wall time and peak memory of whole processes, the best of a few runs each, in turns, files in the page
cache; checks that all that compute the temporal breakdown agree. Peers are installed into a virtual environment in
the cache folder. Perfetto is measured where `.ci/perfetto` has installed it.
"""

import argparse
import contextlib
import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from process import CACHE, Failed, Measured, measure, python_with_peers, python_with_perfetto

HERE = pathlib.Path(__file__).parent
REAL = ["h100_qwen", "mi300_resnet_ddp"]
# Healthy; some 2.94 MB of JSON a step and rank.
DEMO = ["--bottleneck", "none", "--layers", "32", "--json"]
DEMOS = {"58MB": (1, 20), "457MB": (1, 155), "1GB": (1, 340), "ranks": (8, 3)}
# How many times faster `check` is meant to be, and its seconds.
GOALS = {"457MB": {"HTA: breakdown": 100, "DuckDB: load": 20, "Perfetto: load": 20}}
SECONDS = {"58MB": 0.2}
CACHED_GOAL = 5
CHECK, BREAKDOWN, CACHED = "`advisor check`", "`advisor analyze`", "`advisor check`, cached"
BEFORE = "`advisor check`, before"


@dataclasses.dataclass
class Program:
    """One row of a table."""

    name: str
    command: list
    # Whether it prints the breakdown, to be held against ours.
    answers: bool = False


def peers(wanted, files):
    """What is held against ours. Each of the commands works on all files, one a rank."""
    python = python_with_peers()
    scripts = {
        "hta": [("HTA: breakdown", ["hta_temporal.py"], True)],
        "duckdb": [
            ("DuckDB: load", ["duckdb_temporal.py", "--load"], False),
            ("DuckDB: breakdown", ["duckdb_temporal.py"], True),
        ],
        "pandas": [("pandas, orjson: breakdown", ["pandas_temporal.py"], True)],
        "json": [("`json.load`", ["json_load.py"], False)],
    }
    programs = [
        Program(name, [python, HERE / script, *options, *files], answers)
        for peer in wanted
        for name, (script, *options), answers in scripts.get(peer, [])
    ]
    perfetto = python_with_perfetto()
    if "perfetto" in wanted and perfetto and len(files) == 1:
        programs.append(Program("Perfetto: load", [perfetto, HERE / "perfetto_load.py", *files]))
    return programs


def ours(advisor, run, cache):
    def has_cache(command):
        text = subprocess.run([advisor, command, "--help"], check=True, capture_output=True, text=True).stdout
        return "--no-cache" in text

    def program(name, command, *options):
        without = ["--no-cache"] if has_cache(command) else []
        return Program(name, [advisor, command, *options, run, "--format", "json", *without])

    check = program(CHECK, "check", "--exit-zero")
    programs = [check, program(BREAKDOWN, "analyze", "gpu_temporal_breakdown")]
    if check.command[-1] == "--no-cache":
        programs.append(Program(CACHED, [*check.command[:-1], "--cache-dir", cache]))
    return programs


def same(name, theirs, ours):
    """Theirs are sums of doubles of microseconds since 1970, good to 0.25 us each."""
    if len(theirs) != len(ours):
        sys.exit(f"{name}: {len(theirs)} ranks there and {len(ours)} here")
    for their_row, our_row in zip(theirs, ours):
        for us, ns in [("idle_us", "idle_ns"), ("compute_us", "compute_ns"), ("non_compute_us", "non_compute_ns")]:
            want, got = their_row[us], our_row[ns] / 1000
            if abs(want - got) > 1 + 1e-6 * our_row["kernel_time_ns"] / 1000:
                sys.exit(f"{name}: {us} of rank {our_row['rank']} is {want} there and {got} here")


def in_turns(programs, repeat):
    """The best of some runs of each; what fails is said and left out."""
    runs = {program.name: [] for program in programs}
    for _ in range(repeat):
        for program in programs:
            if program.name in runs:
                try:
                    runs[program.name].append(measure(program.command))
                except Failed as error:
                    print(f"left out: {program.name}: {error}", file=sys.stderr)
                    del runs[program.name]
    return {name: Measured.best(measured) for name, measured in runs.items()}


def compare(title, size, run, args):
    files = sorted(run.iterdir()) if run.is_dir() else [run]
    with tempfile.TemporaryDirectory(dir=CACHE) as cache:
        programs = ours(args.advisor, run, cache)
        if args.before:
            [check, *_] = ours(args.before, run, cache)
            programs.append(Program(BEFORE, check.command))
        programs += peers(args.peers, files)
        if any(program.name == CACHED for program in programs):
            measure(next(program.command for program in programs if program.name == CACHED))
        best = in_turns(programs, args.repeat)
    for program in programs:
        if program.answers and program.name in best:
            same(f"{title}, {program.name}", best[program.name].answer, best[BREAKDOWN].answer)
    mega = sum(map(json_bytes, files)) / 1e6
    print(f"\n{title}, {mega:,.1f} MB of JSON\n")
    head = ["", "wall", "MB/s", "memory", "`check` is faster", "breakdown is faster", "`check` takes less", "goal"]
    print("| " + " | ".join(head) + " |\n|---" + "|--:" * (len(head) - 1) + "|")
    check, breakdown = best[CHECK], best[BREAKDOWN]
    for name, it in best.items():
        cells = [name, seconds(it.seconds), f"{mega / it.seconds:,.0f}", f"{it.peak_bytes / 1e6:,.0f} MB"]
        if name in (CHECK, BREAKDOWN, CACHED):
            cells += ["", "", ""]
        else:
            cells += [
                f"**{it.seconds / check.seconds:.1f}x**",
                f"{it.seconds / breakdown.seconds:.1f}x",
                f"{it.peak_bytes / check.peak_bytes:.1f}x",
            ]
        print("| " + " | ".join([*cells, goal(name, size, best)]) + " |", flush=True)


def goal(name, size, best):
    """What issue and design ask for, and whether it is met."""
    check = best[CHECK].seconds
    if name == CHECK and size in SECONDS:
        wanted, is_met = f"{SECONDS[size]} s", check <= SECONDS[size]
    elif name == CACHED:
        wanted, is_met = f"{CACHED_GOAL}x `check`", check >= CACHED_GOAL * best[CACHED].seconds
    elif name in GOALS.get(size, {}):
        ratio = GOALS[size][name]
        wanted, is_met = f"{ratio}x", best[name].seconds >= ratio * check
    else:
        return ""
    return f"{wanted}: {'met' if is_met else 'not met'}"


def seconds(value):
    return f"{value:.3f} s" if value < 1 else f"{value:.2f} s"


def json_bytes(path):
    with subprocess.Popen(["zcat", "-f", path], stdout=subprocess.PIPE) as text:
        return sum(len(part) for part in iter(lambda: text.stdout.read(1 << 20), b""))


def bare_starts(args):
    """What each costs before it has read anything."""
    python = python_with_peers()
    imports = {
        "HTA": "from hta.trace_analysis import TraceAnalysis",
        "DuckDB": "import duckdb; duckdb.connect()",
        "pandas, orjson": "import numpy, orjson, pandas",
        "Python": "import json",
    }
    programs = [Program("`advisor`", [args.advisor, "schema", "report"])]
    programs += [Program(name, [python, "-c", f"{code}; print('null')"]) for name, code in imports.items()]
    print("Bare start: the program or its imports, no trace\n\n| | wall | memory |\n|---|--:|--:|")
    for name, it in in_turns(programs, args.repeat + 2).items():
        print(f"| {name} | {seconds(it.seconds)} | {it.peak_bytes / 1e6:,.0f} MB |", flush=True)


@contextlib.contextmanager
def demo(advisor, ranks, steps):
    folder = pathlib.Path(tempfile.mkdtemp(dir=CACHE))
    try:
        run = folder / "run"
        command = [advisor, "demo", *DEMO, "--ranks", str(ranks), "--steps", str(steps), "-o", run]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        yield run if ranks > 1 else next(run.iterdir())
    finally:
        shutil.rmtree(folder)


def main():
    default = os.environ.get("CARGO_TARGET_DIR", HERE.parents[1] / "target")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=pathlib.Path, help="folder with traces/, for the size `real`")
    parser.add_argument("--advisor", default=pathlib.Path(default) / "release" / "advisor")
    parser.add_argument("--before", help="another program, to compare its `check` with")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each, of which the best counts")
    sizes = ["real", *DEMOS]
    parser.add_argument("--sizes", nargs="+", choices=sizes, default=["real", "58MB"], help="which traces")
    names = ["hta", "duckdb", "pandas", "json", "perfetto"]
    parser.add_argument("--peers", nargs="+", choices=names, default=names, help="which peers")
    args = parser.parse_args()
    if "perfetto" in args.peers and python_with_perfetto() is None:
        print("left out: Perfetto, which `.ci/perfetto` installs", file=sys.stderr)
    # HTA takes no relative paths.
    args.corpus = args.corpus and args.corpus.resolve()
    if "real" in args.sizes and args.corpus is None:
        print("left out: real traces, which --corpus gives", file=sys.stderr)
    CACHE.mkdir(parents=True, exist_ok=True)
    bare_starts(args)
    for size in args.sizes:
        if size != "real":
            ranks, steps = DEMOS[size]
            with demo(args.advisor, ranks, steps) as run:
                title = "`advisor demo`" if ranks == 1 else f"`advisor demo`, {ranks} ranks"
                compare(title, size, run, args)
        elif args.corpus is not None:
            for name in REAL:
                for trace in sorted((args.corpus / "traces" / name).glob("*.json*")):
                    compare(f"`{name}` (gzip)", size, trace, args)


if __name__ == "__main__":
    main()
