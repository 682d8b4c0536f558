"""Logs a report to an experiment tracker: scalars, and the page of the report. Each needs its own package only."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trace_advisor._report import Report

__all__ = ["log_to_mlflow", "log_to_tensorboard", "log_to_wandb", "scalars"]

PAGE_NAME = "trace_advisor.html"
PREFIX = "trace_advisor/"


def scalars(report: Report) -> dict[str, float]:
    """Returns the numbers of a report by name, as they are logged.

    `step_ms` is the duration of a step, `predicted_step_ms` that with the fixes of the headline, `idle_ratio` the share of time in
    which the device does nothing, `findings` the number of findings, and `gain_pct/IN001` the share of the step in
    percent that the fix of a finding saves at least. What a recording does not show is left out.
    """
    content = report.to_dict()
    headline = content["headline"]
    values = {
        "findings": headline["findings"],
        "step_ms": headline.get("step_ms"),
        "predicted_step_ms": (headline.get("predicted_step_ms") or {}).get("mid"),
        "idle_ratio": _idle_ratio(content.get("breakdown")),
    }
    for finding in content["findings"]:
        gain = finding.get("gain") or {}
        values[f"gain_pct/{finding['code']}"] = gain.get("low_pct")
    return {PREFIX + name: value for name, value in values.items() if value is not None}


def _idle_ratio(breakdown):
    if not breakdown:
        return None
    return sum(part["ratio"] for part in breakdown["parts"] if not part["is_busy"])


def log_to_wandb(report: Report, run: Any = None, step: int | None = None) -> None:
    """Logs a report to Weights & Biases: numbers, and the page as a panel of the run.

    Args:
        report: what `Run.check` returns.
        run: the run; by default the one that `wandb.init` started.
        step: the step that the numbers belong to.
    """
    import wandb

    run = run or wandb.run
    if run is None:
        raise ValueError("there is no run: call wandb.init(), or pass run=")
    page = {PREFIX + "report": wandb.Html(report.html(), inject=False)}
    # With a step, W&B waits for more by default.
    run.log({**scalars(report), **page}, step=step, commit=True)


def log_to_mlflow(report: Report, run_id: str | None = None, step: int | None = None) -> None:
    """Logs a report to MLflow: metrics, and the page and the JSON report as artifacts.

    Args:
        report: what `Run.check` returns.
        run_id: the run; by default the active one.
        step: the step that the metrics belong to.
    """
    import mlflow

    if run_id is None and mlflow.active_run() is None:
        raise ValueError("there is no run: call mlflow.start_run(), or pass run_id=")
    mlflow.log_metrics(scalars(report), step=step, run_id=run_id)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in ((PAGE_NAME, report.html()), ("trace_advisor.json", report.json())):
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            mlflow.log_artifact(path, run_id=run_id)


def log_to_tensorboard(report: Report, writer: Any, step: int | None = None) -> None:
    """Logs a report to TensorBoard: scalars, and the report as text in Markdown.

    Args:
        report: what `Run.check` returns.
        writer: a `torch.utils.tensorboard.SummaryWriter`.
        step: the step that the scalars belong to.
    """
    for name, value in scalars(report).items():
        writer.add_scalar(name, value, global_step=step)
    writer.add_text(PREFIX + "report", report.markdown(), global_step=step)
