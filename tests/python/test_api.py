"""Runs, reports and comparisons."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import trace_advisor as ta


def program(*arguments: object) -> str:
    """What the program prints."""
    command = [sys.executable, "-m", "trace_advisor", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True).stdout


def test_report_is_that_of_the_program(sample: Path) -> None:
    report = ta.open(sample).check()
    assert report.text() == str(report) == program("check", sample)
    assert report.text(full=True) == program("check", sample, "--full")
    assert report.text(explain=True) == program("check", sample, "--explain") != report.text(full=True)
    assert report.markdown() == program("check", sample, "--format", "markdown")
    assert report.sarif() == program("check", sample, "--format", "sarif")
    assert report.html() == program("check", sample, "--format", "html")
    assert json.loads(report.json()) == json.loads(program("check", sample, "--format", "json"))


def test_timeline_is_that_of_the_program(sample: Path) -> None:
    report = ta.open(sample).check()
    assert report.timeline() == program("timeline", sample)
    second = report.findings[1]
    assert report.timeline(second) == report.timeline(second.code) == program("timeline", sample, "--finding", second.code)
    step = report.timeline("IN001", step=5, width=40)
    assert step.startswith("rank 0, step 5: ") and max(map(len, step.splitlines())) <= 40
    assert "\x1b[" in report.timeline(color=True)
    assert report.timeline(format="svg") == program("timeline", sample, "-f", "svg")
    with pytest.raises(ta.AdvisorError, match="invalid variant: png"):
        report.timeline(format="png")
    with pytest.raises(ta.AdvisorError, match="has no step 99"):
        report.timeline(step=99)


def test_findings(sample: Path) -> None:
    report = ta.open(sample).check()
    first = report.findings[0]
    assert (first.code, first.severity, first.ranks) == ("IN001", "high", [0, 1])
    assert first.gain is not None and 10 < first.gain.low_pct < first.gain.mid_pct <= first.gain.high_pct < 50
    assert str(first).splitlines()[0].startswith("high[IN001 ")
    assert "IN001" in repr(first)
    assert report.has_failed and report.is_judged
    assert {"code", "name", "reason"} <= report.unknown[0].keys()
    assert report.plan[0]["fix"] == "loader-workers"


def test_rules_select_and_limit(sample: Path, tmp_path: Path) -> None:
    run = ta.open(sample)
    assert [f.code for f in run.check(select="IN001").findings] == ["IN001"]
    assert "IN001" not in [f.code for f in run.check(ignore=["IN001"]).findings]
    assert not run.check(fail_on="critical").has_failed
    rules = tmp_path / "mine.toml"
    rules.write_text('[policy]\nselect = ["IN001"]\n')
    assert len(run.check(rules).findings) == 1
    baseline = tmp_path / "baseline.json"
    baseline.write_text(run.check().json())
    assert not run.check(baseline=baseline).has_failed


def test_a_step_time_far_from_the_recording_is_asked_about(sample: Path) -> None:
    for step_time in ("1us", "100s"):
        with pytest.warns(UserWarning, match=r"step_time: .* is far from the recording: a step of .* took .* ms"):
            ta.open(sample, step_time=step_time).check()
    recorded_ms = json.loads(ta.open(sample).check().json())["headline"]["step_ms"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ta.open(sample, step_time=f"{recorded_ms}ms").check()


def test_selection_of_a_run(sample: Path) -> None:
    assert ta.open(sample).ranks == [0, 1]
    for ranks in (1, "1", [1], range(1, 2)):
        assert ta.open(sample, ranks=ranks).ranks == [1]
    for steps in ("4-5", range(4, 6), slice(4, 6)):
        run = ta.open(sample, steps=steps)
        assert run.sql("SELECT DISTINCT step FROM steps ORDER BY step").to_dicts() == [{"step": 4}, {"step": 5}]
    early = ta.open(sample, between=(0, 10_000_000)).sql("SELECT count(*) AS n FROM cpu_ops").to_dicts()[0]["n"]
    assert early < ta.open(sample).sql("SELECT count(*) AS n FROM cpu_ops").to_dicts()[0]["n"]


def test_views_take_parameters(sample: Path) -> None:
    run = ta.open(sample)
    rows = run.view("gpu_top_kernels", num_kernels=2)
    names = set(rows.to_pandas()["name"])
    assert len(names) < len(set(run.view("gpu_top_kernels").to_pandas()["name"]))
    opened = ta.open(sample, params={"num_kernels": 2})
    assert opened.view("gpu_top_kernels").to_dicts() == rows.to_dicts()
    tables = dict((name, count) for name, count, _ in run.tables())
    assert tables["kernels"] == run.sql("SELECT * FROM kernels").num_rows > 0


def test_comparison_is_that_of_the_program(sample: Path) -> None:
    run = ta.open(sample)
    comparison = ta.diff(run, run)
    assert str(comparison) == program("diff", sample, sample)
    assert comparison.verdict == "unchanged" and not comparison.has_failed
    assert ta.diff(sample, sample, fail_on="regression").markdown() == comparison.markdown()
    assert comparison.rows().num_rows == len(comparison.to_dict()["rows"])
    assert comparison.html() == program("diff", sample, sample, "--format", "html")
    assert comparison.text(wide=True) == program("diff", sample, sample, "--wide")
    assert comparison.differences == [] and "same time" in comparison.reason


def test_comparison_tells_what_differs_about_the_runs(sample: Path) -> None:
    comparison = ta.diff(sample, sample, before_steps="4", after_steps="4-5")
    assert comparison.differences == [ta.Difference("steps", "1", "2", None)]
    assert comparison.to_dict()["differences"][0]["what"] == "steps"
    assert "differs steps: 1 -> 2\n" in str(comparison)


def test_commands_write_files(sample: Path, tmp_path: Path) -> None:
    folder = ta.export(sample, tmp_path / "tables")
    assert ta.open(folder).check().findings[0].code == "IN001"
    for shard in ["1/2", "2/2"]:
        ta.map_shard(sample, tmp_path / "mapped", shard)
    mapped = ta.open(sample, mapped=tmp_path / "mapped")
    assert mapped.check().sarif() == ta.open(sample).check().sarif()
    merged = ta.merge(ta.open(sample), tmp_path / "merged.json.gz")
    assert merged.stat().st_size > 1000
    copies = ta.augment(sample, tmp_path / "augmented", only="counters")
    assert len(copies) == 2 and all(copy.exists() for copy in copies)
    parts = ta.cut(sample, tmp_path / "small", steps=range(4, 6), ranks=1)
    assert len(parts) == 1 and ta.open(tmp_path / "small").ranks == [1]
    count = "SELECT count(*) AS n FROM kernels"
    part, whole = (ta.open(run, ranks=1, steps="4-5") for run in (tmp_path / "small", sample))
    assert part.sql(count).to_dicts() == whole.sql(count).to_dicts()
    assert len(ta.cut(ta.open(sample), tmp_path / "small", between=(5e6, 20e6), force=True)) == 2
    with pytest.raises(ta.AdvisorError, match="--between"):
        ta.cut(sample, tmp_path / "none")
    assert "IN001" in ta.explain("IN001")
    assert "gpu_idle_causes" in ta.views("idle")
    assert "dur_ns" in ta.describe("kernels")
    assert ta.open(ta.demo(tmp_path / "demo", bottleneck="sync")).check().findings


def test_errors_are_those_of_the_program(sample: Path, tmp_path: Path) -> None:
    run = ta.open(sample)
    with pytest.raises(ta.AdvisorError, match="no-such-run") as missing:
        ta.open("no-such-run")
    assert missing.value.help is not None and "demo" in missing.value.help
    with pytest.raises(ta.AdvisorError, match="dur_nss") as unknown:
        run.sql("SELECT dur_nss FROM kernels")
    assert "dur_ns" in str(unknown.value)
    with pytest.raises(ta.AdvisorError, match="nonsense"):
        run.check(select="nonsense")
    with pytest.raises(ta.AdvisorError, match="--ranks"):
        ta.open(sample, ranks="x")
    with pytest.raises(ta.AdvisorError, match="gpu_idle_causes"):
        run.view("gpu_idle_cause")
    with pytest.raises(ta.AdvisorError, match="num_kernels"):
        run.view("gpu_top_kernels", num_kernels="many")
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[[rule]]\ncode = 1\n")
    with pytest.raises(ta.AdvisorError, match="wrong.toml"):
        run.check(wrong)
    with pytest.raises(ta.AdvisorError, match="already exists|not an export"):
        ta.export(run, tmp_path)
    with pytest.raises(ta.AdvisorError, match="--force"):
        ta.merge(run, wrong)


def test_progress(tmp_path: Path) -> None:
    path = ta.demo(tmp_path / "run", ranks=16)
    seen: list[ta.Progress] = []
    run = ta.open(path, progress=seen.append)
    assert seen and {work.unit for work in seen} <= {"files", "views"}
    assert all(0 <= work.done <= work.total for work in seen)
    seen.clear()
    run.check(progress=seen.append)
    assert {work.stage for work in seen} == {"computing"}

    def fail(_: ta.Progress) -> None:
        raise KeyError("from the callable")

    with pytest.raises(KeyError, match="from the callable"):
        ta.open(path, progress=fail)
    ta.open(path, progress=True)


def test_notebooks_show_tables_and_pages(sample: Path) -> None:
    run = ta.open(sample)
    report = run.check()
    assert "<td" in run._repr_html_() and "kernels" in run._repr_html_()
    assert report._repr_html_().startswith("<iframe ") and "IN001" in report._repr_html_()
    assert len(report._repr_html_()) < len(report.html())
    assert ta.diff(run, run)._repr_html_().startswith("<iframe ")
    hostile = run.sql("SELECT '<script>alert(1)</script>' AS \"<b>\"")
    assert "<script>" not in hostile._repr_html_() and "<b>" not in hostile._repr_html_()
    assert "&lt;script&gt;" in hostile._repr_html_()


def test_a_text_is_a_table_with_units(sample: Path) -> None:
    rows = ta.open(sample).sql("SELECT rank, count(*) AS n, sum(dur_ns) AS sum_ns FROM kernels GROUP BY rank ORDER BY rank")
    assert " ms" in repr(rows) and "(2 rows)" in repr(rows)
