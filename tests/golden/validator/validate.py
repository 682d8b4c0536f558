"""Writes counts.json: the violations that PyTorch's own trace validator finds in the corpus and in traces damaged by breaks.json.

    pip install torch==2.15.0 && python validate.py ../shared

Each entry of breaks.json changes the first event that matches: `add` adds to its numbers, and `set_args` sets arguments, or
removes arguments that are null. tests/golden/validator.rs makes the same changes.
"""

import gzip
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

from torch.profiler._trace_validator import validate_trace

HERE = Path(__file__).parent
# Recorded traces, traces that PyTorch 2.15 wrote, and traces of our demo.
FOLDERS = ["traces", "inputs/writers_2026/real", "inputs/writers_2026/pg_kineto"]
OTHER_FORMATS = ["traces/composer/", "traces/determined/"]


def load(path):
    opener = gzip.open if path.name.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def counts(path):
    _, violations = validate_trace(str(path))
    return dict(sorted(Counter(v.rule_name for v in violations).items()))


def matches(event, wanted):
    return all(matches(event.get(k) or {}, v) if isinstance(v, dict) else event.get(k) == v for k, v in wanted.items())


def damaged(root, change):
    trace = load(root / change["trace"])
    event = next(e for e in trace["traceEvents"] if matches(e, change["event"]))
    for key, number in change.get("add", {}).items():
        event[key] += number
    for key, value in change.get("set_args", {}).items():
        event["args"][key] = value
        if value is None:
            del event["args"][key]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_text(json.dumps(trace))
        return counts(path)


def main():
    root = Path(sys.argv[1])
    traces = {}
    paths = sorted(p for folder in FOLDERS for p in (root / folder).rglob("*.json*") if p.is_file())
    for path in paths:
        name = path.relative_to(root).as_posix()
        if name.startswith(tuple(OTHER_FORMATS)):
            continue
        try:
            traces[name] = counts(path)
        except (AttributeError, TypeError, ValueError) as error:
            # The validator expects numbers where old traces have text, or objects where other files have numbers.
            traces[name] = {"error": f"{type(error).__name__}: {error}"[:80]}
    broken = {change["check"]: damaged(root, change) for change in json.loads((HERE / "breaks.json").read_text())}
    (HERE / "counts.json").write_text(json.dumps({"broken": broken, "traces": traces}, indent=1) + "\n")


main()
