"""Trace Advisor against Holistic Trace Analysis: from process start to the temporal breakdown.

    cargo build --release --workspace
    python benches/peers/compare.py --corpus ../shared

Measures wall time and peak memory of whole processes, best of a few runs each, in turns; checks that
both print the same numbers; writes a Markdown table. HTA is installed into a virtual environment in the
cache folder. Larger traces are made by `advisor demo`: 59 MB and 1 GB of JSON, for which HTA takes minutes and
5 GB of memory.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "trace-advisor"
TRACES = ["h100_qwen", "mi300_resnet_ddp"]
# One rank, healthy; some 2.94 MB of JSON a step.
DEMO = ["--bottleneck", "none", "--ranks", "1", "--layers", "32", "--json"]
DEMO_STEPS = [20, 340]
# The numbers of HTA, in us, and ours, in ns.
COLUMNS = {
    "idle_time(us)": "idle_ns",
    "compute_time(us)": "compute_ns",
    "non_compute_time(us)": "non_compute_ns",
    "kernel_time(us)": "kernel_time_ns",
}


def hta_python():
    folder = CACHE / "peers"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "-r", HERE / "requirements.txt"]
        subprocess.run(pip, check=True)
        (folder / "complete").touch()
    return python


def measure(command):
    """Seconds, peak resident bytes, and what was printed."""
    # Without rounding: with it HTA's numbers are off by up to 2 us an event, and it fails on h100_qwen.
    env = {**os.environ, "HTA_DISABLE_NS_ROUNDING": "1"}
    with tempfile.TemporaryFile() as out:
        start = time.monotonic()
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL, env=env)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - start
        if status != 0:
            sys.exit(f"failed: {' '.join(map(str, command))}")
        out.seek(0)
        return seconds, usage.ru_maxrss * 1024, json.load(out)


def check(name, theirs, ours):
    """HTA adds doubles of microseconds since 1970, good to 0.25 us each."""
    for us, ns in COLUMNS.items():
        want, got = theirs[us], ours[ns] / 1000
        if abs(want - got) > 1 + 1e-6 * abs(want):
            sys.exit(f"{name}: {us} is {want} with HTA and {got} here")


def compare(name, trace, python, advisor, repeat):
    hta = [python, HERE / "hta_temporal.py", trace]
    ours = [advisor, "analyze", "gpu_temporal_breakdown", trace, "--format", "json"]
    runs = [(measure(hta), measure(ours)) for _ in range(repeat)]
    check(name, runs[0][0][2], runs[0][1][2][0])
    best = [(min(r[i][0] for r in runs), min(r[i][1] for r in runs)) for i in (0, 1)]
    with subprocess.Popen(["zcat", "-f", trace], stdout=subprocess.PIPE) as text:
        size = sum(len(part) for part in iter(lambda: text.stdout.read(1 << 20), b""))
    (their_s, their_b), (our_s, our_b) = best
    cells = [
        name,
        f"{size / 1e6:,.1f} MB",
        f"{their_s:.2f} s",
        f"{our_s:.3f} s",
        f"**{their_s / our_s:.0f}x**",
        f"{their_b / 1e6:,.0f} MB",
        f"{our_b / 1e6:,.0f} MB",
        f"{their_b / our_b:.1f}x",
    ]
    print("| " + " | ".join(cells) + " |", flush=True)


def main():
    default = os.environ.get("CARGO_TARGET_DIR", CACHE / "target")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=pathlib.Path, help="folder with traces/; without, only the made trace")
    parser.add_argument("--advisor", default=pathlib.Path(default) / "release" / "advisor")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each, of which the best counts")
    parser.add_argument("--small", action="store_true", help="leave out the trace of 1 GB")
    args = parser.parse_args()
    python = hta_python()
    print("| trace | JSON | HTA 0.5.0 | advisor | faster | HTA memory | advisor memory | less |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|", flush=True)
    for name in TRACES if args.corpus else []:
        for trace in sorted((args.corpus / "traces" / name).glob("*.json*")):
            compare(name, trace, python, args.advisor, args.repeat)
    for steps in DEMO_STEPS[: 1 if args.small else None]:
        folder = pathlib.Path(tempfile.mkdtemp(dir=CACHE))
        try:
            demo = [args.advisor, "demo", *DEMO, "--steps", str(steps), "-o", folder]
            subprocess.run(demo, check=True, stdout=subprocess.DEVNULL)
            compare("`advisor demo`", next(folder.iterdir()), python, args.advisor, args.repeat)
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
