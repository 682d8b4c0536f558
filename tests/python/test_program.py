"""The program in the wheel behaves as the plain one."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import trace_advisor as ta

SCRIPTS = Path(sys.executable).parent
ENDLESS = (
    "WITH n AS (SELECT value AS i FROM generate_series(1, 100000)) "
    "SELECT sum(a.i * b.i * c.i) FROM n a, n b, n c"
)


def run(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, arguments)], capture_output=True, text=True, **options)  # type: ignore[call-overload]


def test_three_names_are_one_program(sample: Path) -> None:
    outputs = [
        run(SCRIPTS / "advisor", "check", sample),
        run(SCRIPTS / "trace-advisor", "check", sample),
        run(sys.executable, "-m", "trace_advisor", "check", sample),
    ]
    assert [output.returncode for output in outputs] == [1, 1, 1]
    assert len({output.stdout for output in outputs}) == 1 and "IN001" in outputs[0].stdout
    assert run(SCRIPTS / "advisor", "--version").stdout.startswith(f"advisor {ta.__version__} ")


def test_exit_codes(sample: Path) -> None:
    assert run(SCRIPTS / "advisor", "check", sample, "--exit-zero").returncode == 0
    failed = run(SCRIPTS / "advisor", "check", "no-such-run")
    assert failed.returncode == 2 and failed.stdout == "" and failed.stderr.startswith("error: ")


def test_a_closed_pipe_ends_without_noise(sample: Path) -> None:
    command = f"{SCRIPTS / 'advisor'} tables --all | head -1"
    output = run("bash", "-c", command)
    assert output.stdout.count("\n") == 1 and output.stderr == ""


def test_the_manual_page_is_installed() -> None:
    page = Path(sys.prefix) / "share/man/man1/advisor.1"
    assert page.read_text() == run(SCRIPTS / "advisor", "man").stdout


def test_colors(sample: Path) -> None:
    always = run(SCRIPTS / "advisor", "--color", "always", "check", sample)
    assert "\x1b[" in always.stdout
    assert "\x1b[" not in run(SCRIPTS / "advisor", "check", sample).stdout


def test_interrupt_ends_the_program(sample: Path) -> None:
    process = subprocess.Popen([SCRIPTS / "advisor", "sql", sample, ENDLESS], stdout=subprocess.DEVNULL)
    time.sleep(1.5)
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    code = process.wait(timeout=20)
    assert code in (-signal.SIGINT, 130) and time.monotonic() - started < 2


def test_interrupt_ends_a_call(sample: Path) -> None:
    script = f"""
import os, signal, threading, time
import trace_advisor as ta
run = ta.open({str(sample)!r})
def interrupt():
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
started = time.monotonic()
try:
    run.sql({ENDLESS!r})
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - started < 1.5)
print(run.sql("SELECT 1 AS one").num_rows, run.check().findings[0].code)
"""
    output = run(sys.executable, "-c", script)
    assert output.stdout == "interrupted True\n1 IN001\n", output.stderr


def test_the_interpreter_runs_during_a_call(sample: Path) -> None:
    script = f"""
import threading, time
import trace_advisor as ta
run = ta.open({str(sample)!r})
ticks = 0
done = False
def count():
    global ticks
    while not done:
        ticks += 1
        time.sleep(0.01)
thread = threading.Thread(target=count)
thread.start()
started = time.monotonic()
run.sql("WITH n AS (SELECT value AS i FROM generate_series(1, 20000)) SELECT sum(a.i * b.i) FROM n a, n b")
seconds = time.monotonic() - started
done = True
thread.join()
print(seconds > 0.1, ticks > seconds * 20)
"""
    output = run(sys.executable, "-c", script)
    assert output.stdout == "True True\n", output.stderr


def test_import_is_light() -> None:
    heavy = "pandas,polars,pyarrow,numpy,torch,plotly,tqdm"
    script = f"import sys, trace_advisor; print([m for m in {heavy!r}.split(',') if m in sys.modules])"
    assert run(sys.executable, "-c", script).stdout == "[]\n"


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("1.13.1", "PyTorch 1.13.1 is too old for `advisor record`, which needs 2.3 or later"),
        ("2.2.2+cu121", "PyTorch 2.2.2+cu121 is too old"),
        ("99.0", "PyTorch 99.0 cannot be recorded: AttributeError"),  # What the recording needs is gone.
    ],
)
def test_record_fails_with_a_reason_on_unsupported_versions_of_pytorch(
    tmp_path: Path, version: str, reason: str
) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text(f"__version__ = {version!r}")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    # The exit code of a program that fails is its own.
    for code, exit_code in (("import torch", 2), ("import torch; raise SystemExit(7)", 7)):
        command = (SCRIPTS / "advisor", "record", "--quiet", "--", sys.executable, "-c", code)
        done = run(*command, cwd=tmp_path, env=environment)
        assert done.returncode == exit_code, done.stderr
        assert f"error: nothing was recorded: {reason}" in done.stderr
    assert not (tmp_path / "run").exists()
