"""Training runs on the CPU, with PyTorch and the frameworks that `requirements-training.txt` lists."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# The profiler's library prints to stderr otherwise.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")

FOLDER = Path(__file__).parent


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def start():
    """Runs a Python program that may import `programs`, in a folder; stdout and stderr are captured as text."""

    def start(code, *arguments, launcher=(), cwd=".", **variables):
        Path(cwd, "program.py").write_text(code)
        path = os.pathsep.join(filter(None, [str(FOLDER), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": path, **variables}
        command = [*launcher, sys.executable, "program.py", *arguments]
        if "torchrun" in launcher:
            command = [*launcher[: launcher.index("torchrun")], *torchrun(), "program.py", *arguments]
        return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)

    return start


def torchrun(process_count=2):
    return [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
        f"--nproc-per-node={process_count}",
    ]


def step_numbers(path):
    """The numbers of the steps that a trace marks."""
    with gzip.open(path) as file:
        names = [event.get("name", "") for event in json.load(file)["traceEvents"]]
    prefix = "ProfilerStep#"
    return sorted({int(name.removeprefix(prefix)) for name in names if name.startswith(prefix)})


def assert_first_finding_is_the_loader(report):
    assert report.findings[0].code == "IN001", report.headline
