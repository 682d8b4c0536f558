"""Whole processes, measured; and the Python that has the peers."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "trace-advisor"
REQUIREMENTS = pathlib.Path(__file__).with_name("requirements.txt")
# Without rounding: with it HTA's numbers are off by up to 2 us an event, and it fails on h100_qwen.
ENVIRONMENT = {**os.environ, "HTA_DISABLE_NS_ROUNDING": "1"}


@dataclasses.dataclass
class Measured:
    """What a process took, and the JSON that it printed."""

    seconds: float
    peak_bytes: int
    answer: object

    @staticmethod
    def best(runs):
        return Measured(min(r.seconds for r in runs), min(r.peak_bytes for r in runs), runs[0].answer)


class Failed(Exception):
    """A process ended with an error: the last line that it wrote."""


def python_with_peers():
    """Installs what requirements.txt pins, where this has not been done."""
    folder = CACHE / "peers"
    python, installed = folder / "bin" / "python", folder / "requirements.txt"
    wanted = REQUIREMENTS.read_text()
    if not installed.exists() or installed.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", REQUIREMENTS], check=True)
        installed.write_text(wanted)
    return python


def python_with_perfetto():
    """The Python that `.ci/perfetto` prints, or None."""
    python = pathlib.Path(os.environ.get("ADVISOR_PERFETTO", CACHE / "perfetto" / "bin" / "python"))
    return python if python.is_file() else None


def measure(command):
    """Wall time and peak memory of a process. Of those that it starts, the largest that it waits for counts."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        start = time.monotonic()
        process = subprocess.Popen(command, stdout=out, stderr=errors, env=ENVIRONMENT)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        if process.returncode != 0:
            lines = errors.read().decode(errors="replace").strip().splitlines()
            raise Failed(lines[-1] if lines else f"exit code {process.returncode}")
        answer = json.loads(out.read() or "null")
    if isinstance(answer, dict) and "peak_bytes" in answer:  # it has measured itself
        return Measured(answer["seconds"], answer["peak_bytes"], None)
    return Measured(seconds, usage.ru_maxrss * 1024, answer)
