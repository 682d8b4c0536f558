"""Transformers: `Trainer(..., callbacks=[AdvisorCallback("run/")])`."""

from transformers import TrainerCallback

from trace_advisor._training import TrainingRecorder

__all__ = ["AdvisorCallback"]


class AdvisorCallback(TrainingRecorder, TrainerCallback):
    """Records training steps and prints the report. A step ends with the optimizer, after all accumulated batches.

    The arguments are those of `trace_advisor.TrainingRecorder`.
    """

    def on_train_begin(self, args, state, control, **kwargs):
        self.begin()

    def on_step_end(self, args, state, control, **kwargs):
        self.step()

    def on_train_end(self, args, state, control, **kwargs):
        self.finish()
