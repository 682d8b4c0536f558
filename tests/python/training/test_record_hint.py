"""`record_hint`: its code runs, and records what was missing."""

from pathlib import Path

import torch
import trace_advisor as ta
from programs import small_model

EXAMPLE = Path(__file__).parents[3] / "examples" / "run"


class FakeReport:
    """A report of which only the JSON matters."""

    def __init__(self, unknown=(), **recording):
        self._content = {
            "unknown": [
                {"code": code, "reason": reason, "record_with": record_with} for code, reason, *record_with in unknown
            ],
            "recording": {"is_on_cpu": False, "limits": [], "instructions": None, **recording},
        }

    def to_dict(self):
        return self._content


def test_code_of_a_loop_records_what_was_missing():
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train_step(batch):
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()

    with torch.profiler.profile() as profiler:
        train_step(torch.randn(4, 64))
    Path("before").mkdir()
    profiler.export_chrome_trace("before/trace.json.gz")
    before = ta.open("before").check()
    hint = ta.record_hint(before)
    exec(hint, {"train_step": train_step, "loader": [torch.randn(4, 64)] * 40})
    after = ta.open("run").check()
    assert after.to_dict()["run"]["steps"] == 7
    assert "# with_stack=True: " in hint and "# with_stack=True: " not in ta.record_hint(after)


def test_steps_suffice_for_the_rule_that_needs_most():
    hint = ta.record_hint(FakeReport([("VA001", "outliers need 20 steps that compare"), ("VA002", "needs 6 steps")]))
    assert "# 20 steps: VA001\n" in hint and "active=21" in hint
    compile(hint, "hint", "exec")


def test_memory_snapshots_and_stacks_are_added():
    unknown = [
        ("MM020", "no history", "torch.cuda.memory._record_memory_history()"),
        ("IN007", "no stacks", "with_stack=True"),
    ]
    hint = ta.record_hint(FakeReport(unknown))
    start, end = (hint.index(f"torch.cuda.memory.{name}") for name in ("_record_memory_history()", "_dump_snapshot("))
    assert start < hint.index("with profile(") < end and "with_stack=True,\n)" in hint
    compile(hint, "hint", "exec")


def test_frameworks_get_their_callback_or_script():
    for framework, line in {
        "Lightning": "from trace_advisor.lightning import AdvisorCallback",
        "Transformers": "from trace_advisor.transformers import AdvisorCallback",
        "Composer": "from trace_advisor.composer import AdvisorCallback",
    }.items():
        hint = ta.record_hint(FakeReport(instructions={"framework": framework, "language": "python", "code": ""}))
        assert line in hint
        compile(hint, "hint", "exec")
    script = {"framework": "vLLM", "language": "sh", "code": "vllm serve\n"}
    assert ta.record_hint(FakeReport(instructions=script)) == "vllm serve\n"


def test_complete_report_needs_no_code():
    assert ta.record_hint(FakeReport()) == ""
