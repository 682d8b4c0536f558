"""Logging a report to real trackers, in local files."""

import pytest
import trace_advisor as ta
from trace_advisor.logging import log_to_mlflow, log_to_tensorboard, log_to_wandb, scalars

from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "examples" / "run"


@pytest.fixture(scope="module")
def report():
    return ta.open(str(EXAMPLE)).check()


def test_scalars_are_those_of_the_report(report):
    content, values = report.to_dict(), scalars(report)
    assert values["trace_advisor/step_ms"] == content["headline"]["step_ms"]
    assert report.headline.startswith(f"{values['trace_advisor/findings']} findings: ")
    busy = sum(part["ratio"] for part in content["breakdown"]["parts"] if part["is_busy"])
    assert values["trace_advisor/idle_ratio"] == pytest.approx(1 - busy, abs=1e-3)
    assert values["trace_advisor/gain_pct/IN001"] == content["findings"][0]["gain"]["low_pct"]


def test_tensorboard(report):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter("events") as writer:
        log_to_tensorboard(report, writer, step=16)
    events = EventAccumulator("events").Reload()
    logged = {name: events.Scalars(name)[0] for name in events.Tags()["scalars"]}
    assert {name: event.value for name, event in logged.items()} == pytest.approx(scalars(report))
    assert {event.step for event in logged.values()} == {16}
    text = events.Tensors("trace_advisor/report/text_summary")[0].tensor_proto.string_val[0].decode()
    assert "IN001" in text


def test_mlflow(report):
    import mlflow

    mlflow.set_tracking_uri("sqlite:///mlflow.db")
    with pytest.raises(ValueError, match="start_run"):
        log_to_mlflow(report)
    with mlflow.start_run() as run:
        log_to_mlflow(report, step=16)
    assert mlflow.get_run(run.info.run_id).data.metrics == pytest.approx(scalars(report))
    client = mlflow.MlflowClient()
    names = [artifact.path for artifact in client.list_artifacts(run.info.run_id)]
    assert sorted(names) == ["trace_advisor.html", "trace_advisor.json"]
    page = mlflow.artifacts.load_text(f"{run.info.artifact_uri}/trace_advisor.html")
    assert "IN001" in page


def test_wandb_offline(report):
    import wandb

    with pytest.raises(ValueError, match="wandb.init"):
        log_to_wandb(report)
    with wandb.init(mode="offline", project="test", dir=".") as run:
        log_to_wandb(report, step=16)
        logged = {name: run.summary[name] for name in scalars(report)}
    assert logged == pytest.approx(scalars(report))
    pages = list(Path("wandb").glob("offline-run-*/files/media/html/**/*.html"))
    assert len(pages) == 1 and "IN001" in pages[0].read_text()
