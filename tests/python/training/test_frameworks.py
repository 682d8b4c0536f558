"""Callbacks and options for trainers: a training without loader workers, whose first finding is the loader."""

import os

import torch
from conftest import assert_first_finding_is_the_loader, step_numbers
from programs import BATCH_SIZE, SlowDataset, small_model
from torch import nn
from torch.utils.data import DataLoader

STEPS = (3, 7)
TRACE = "run/rank0_cycle0.pt.trace.json.gz"


def assert_recorded(recorder):
    assert os.listdir("run") == [os.path.basename(TRACE)]
    assert step_numbers(TRACE) == [3, 4, 5, 6, 7]
    assert_first_finding_is_the_loader(recorder.report)


def test_any_loop():
    import trace_advisor as ta

    recorder = ta.TrainingRecorder("run/", steps=STEPS)
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    recorder.begin()
    for x, y in DataLoader(SlowDataset(10), BATCH_SIZE):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        recorder.step()
    recorder.finish()
    assert_recorded(recorder)


def test_training_that_is_too_short_is_a_warning(capfd):
    import trace_advisor as ta

    recorder = ta.TrainingRecorder("run/")
    recorder.begin()
    for _ in range(4):
        recorder.step()
    recorder.finish()
    recorder.finish()
    assert capfd.readouterr().err.count("the training made 4 steps, and the recording starts with step 10") == 1


def test_lightning():
    import lightning.pytorch as pl
    from trace_advisor.lightning import AdvisorCallback

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = small_model()

        def training_step(self, batch, batch_index):
            x, y = batch
            return nn.functional.cross_entropy(self.model(x), y)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    callback = AdvisorCallback("run/", steps=STEPS)
    options = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = pl.Trainer(max_epochs=1, accelerator="cpu", callbacks=[callback], **options)
    trainer.fit(Module(), DataLoader(SlowDataset(10), BATCH_SIZE))
    assert_recorded(callback)


def test_transformers():
    from trace_advisor.transformers import AdvisorCallback
    from transformers import Trainer, TrainingArguments

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = small_model()

        def forward(self, x, labels):
            return {"loss": nn.functional.cross_entropy(self.model(x), labels)}

    def collate(items):
        return {"x": torch.stack([x for x, _ in items]), "labels": torch.tensor([y for _, y in items])}

    callback = AdvisorCallback("run/", steps=STEPS)
    options = {"report_to": [], "save_strategy": "no", "use_cpu": True, "disable_tqdm": True}
    arguments = TrainingArguments("out", num_train_epochs=1, per_device_train_batch_size=BATCH_SIZE, **options)
    trainer = Trainer(
        Model(), arguments, train_dataset=SlowDataset(10), data_collator=collate, callbacks=[callback]
    )
    trainer.train()
    assert_recorded(callback)


def test_accelerate():
    from accelerate import Accelerator
    from trace_advisor.accelerate import profile_kwargs

    options = profile_kwargs("run/", steps=STEPS)
    accelerator = Accelerator(cpu=True, kwargs_handlers=[options])
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(SlowDataset(10), BATCH_SIZE)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    with accelerator.profile() as profiler:
        for x, y in loader:
            optimizer.zero_grad()
            accelerator.backward(nn.functional.cross_entropy(model(x), y))
            optimizer.step()
            profiler.step()
    assert_recorded(options.on_trace_ready)
