"""Composer: `Trainer(..., callbacks=[AdvisorCallback("run/")])`."""

from composer import Callback

from trace_advisor._training import TrainingRecorder

__all__ = ["AdvisorCallback"]


class AdvisorCallback(TrainingRecorder, Callback):
    """Records training batches and prints the report. A step is a batch, with all of its microbatches.

    The arguments are those of `trace_advisor.TrainingRecorder`.
    """

    def fit_start(self, state, logger):
        self.begin()

    def batch_end(self, state, logger):
        self.step()

    def fit_end(self, state, logger):
        self.finish()

    def close(self, state, logger):
        self.finish()
