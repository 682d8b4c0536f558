"""Code that records what a report could not judge."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trace_advisor._report import Report

STEPS_NEEDED = re.compile(r"\bneeds? (\d+) steps")
SNAPSHOT = "torch.cuda.memory."
FIRST_STEP, LAST_STEP, WARMUP_STEPS = 10, 16, 2

LOOP_IMPORTS = """\
import trace_advisor as ta
from torch.profiler import ProfilerActivity, profile, schedule
"""
LOOP = """\
with profile(
    activities=[{activities}],
    schedule=schedule(wait={wait}, warmup={warmup}, active={active}, repeat=1),
    on_trace_ready=ta.on_trace_ready("run/"),
    {options},
) as prof:
    for batch in loader:
        train_step(batch)
        prof.step()
        if prof.step_num > {last}:
            break
"""
CALLBACK_IMPORTS = """\
from trace_advisor.{module} import AdvisorCallback
"""
CALLBACK = """\
callback = AdvisorCallback("run/", steps=({first}, {last}), {options})
{trainer}
"""
TRAINERS = {
    "Lightning": ("lightning", "Trainer(callbacks=[callback]).fit(model, loader)"),
    "Transformers": ("transformers", "trainer.add_callback(callback)\ntrainer.train()"),
    "Composer": (
        "composer",
        'Trainer(model=model, train_dataloader=loader, max_duration="1ep", callbacks=[callback]).fit()',
    ),
}
SNAPSHOT_START = "torch.cuda.memory._record_memory_history()\n"
SNAPSHOT_END = 'torch.cuda.memory._dump_snapshot("run/snapshot_rank0.pickle")\n'


def record_hint(report: Report) -> str:
    """Returns Python code that records what the report could not judge; empty if no option would answer more.

    The first lines, comments, name the options and the rules that need them. The rest is a recording in the framework
    of the program, with these options and those of a good trace; `model`, `loader` and `train_step` stand for the
    program's own. For inference servers, it is a shell script.
    """
    content = report.to_dict()
    recording = content.get("recording") or {}
    rules_by_option, step_count = _needs(content.get("unknown", []), recording.get("is_on_cpu", False))
    instructions = recording.get("instructions") or {}
    if not rules_by_option and not instructions:
        return ""
    comments = [f"# {option}: {_rule_list(codes)}" for option, codes in sorted(rules_by_option.items())]
    comments += [f"# {limit['text']}" for limit in recording.get("limits", [])]
    return "\n".join(comments + [_code(instructions, recording, rules_by_option, step_count)])


def _needs(unknown, is_on_cpu):
    """The rules that each option would answer, and how many steps all of them need."""
    rules_by_option, step_count = {}, 0
    for rule in unknown:
        record_with = rule.get("record_with", [])
        options = [option for option in record_with if option.endswith("=True")]
        if any(option.startswith("activities=") for option in record_with) and not is_on_cpu:
            options.append("activities")
        needed = STEPS_NEEDED.search(rule["reason"])
        if needed:
            step_count = max(step_count, int(needed[1]))
            options.append(f"{needed[1]} steps")
        if any(option.startswith(SNAPSHOT) for option in record_with) and not is_on_cpu:
            options.append("memory snapshot")
        for option in options:
            rules_by_option.setdefault(option, []).append(rule["code"])
    return rules_by_option, step_count


def _code(instructions, recording, rules_by_option, step_count):
    framework = instructions.get("framework", "training loop")
    if framework not in (*TRAINERS, "training loop"):
        return instructions["code"]
    options = {"record_shapes=True", "profile_memory=True"}
    options.update(option for option in rules_by_option if option.endswith("=True"))
    # The last step that is recorded may be cut off.
    last_step = max(LAST_STEP, FIRST_STEP + step_count)
    values = {
        "options": ", ".join(sorted(options)),
        "first": FIRST_STEP,
        "last": last_step,
        "wait": FIRST_STEP - WARMUP_STEPS,
        "warmup": WARMUP_STEPS,
        "active": last_step - FIRST_STEP + 1,
    }
    if framework in TRAINERS:
        values["module"], values["trainer"] = TRAINERS[framework]
        imports, code = CALLBACK_IMPORTS, CALLBACK
    else:
        names = ("CPU",) if recording.get("is_on_cpu") else ("CPU", "CUDA")
        values["activities"] = ", ".join(f"ProfilerActivity.{name}" for name in names)
        imports, code = LOOP_IMPORTS, LOOP
    parts = [imports.format(**values), code.format(**values)]
    if "memory snapshot" in rules_by_option:
        parts = ["import torch\n" + parts[0], SNAPSHOT_START + parts[1] + SNAPSHOT_END]
    return "\n".join(parts)


def _rule_list(codes):
    shown, others = codes[:4], len(codes) - 4
    return ", ".join(shown) + (f" and {others} more" if others > 0 else "")
