"""What `advisor record` costs outside of the steps that it records.

    python benches/record_overhead.py ADVISOR [ROUND_COUNT]

Runs a small training loop on the CPU alone and under `advisor record`, in turns, and prints the median duration of a step
before the recording starts, after it has ended, and of the program alone, in microseconds. Needs PyTorch.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile

STEP_COUNT = 12_000
RECORDED = "6000-6003"
# The steps of each part: those around the recording belong to none.
BEFORE, AFTER = (1000, 5900), (6100, STEP_COUNT)

LOOP = f"""
import json, time, torch
torch.set_num_threads(1)
parameter = torch.zeros(8, requires_grad=True)
optimizer = torch.optim.SGD([parameter], lr=0.1)
durations_ns = []
for _ in range({STEP_COUNT}):
    start_ns = time.perf_counter_ns()
    optimizer.zero_grad()
    parameter.sum().backward()
    optimizer.step()
    durations_ns.append(time.perf_counter_ns() - start_ns)
print(json.dumps(durations_ns))
"""


def step_us(command):
    """The median steps of a program, before and after the recording."""
    variables = {**os.environ, "KINETO_LOG_LEVEL": "99"}
    done = subprocess.run(command, stdout=subprocess.PIPE, env=variables, text=True, check=True)
    durations_ns = json.loads(done.stdout)
    return [statistics.median(durations_ns[slice(*part)]) / 1e3 for part in (BEFORE, AFTER)]


def main(advisor, round_count=5):
    program = [sys.executable, "-c", LOOP]
    alone, recorded = [], []
    for _ in range(round_count):
        alone.append(step_us(program))
        with tempfile.TemporaryDirectory() as folder:
            options = ["--quiet", "--no-check", "--steps", RECORDED, "-o", os.path.join(folder, "run")]
            recorded.append(step_us([advisor, "record", *options, "--", *program]))
    for index, part in enumerate(("before", "after")):
        a, b = (min(row[index] for row in rows) for rows in (alone, recorded))
        print(f"{part} the recorded steps: {a:.2f} us alone, {b:.2f} us under `record`, {b - a:+.2f} us per step")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:3]))
