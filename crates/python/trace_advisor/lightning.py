"""Lightning: `Trainer(callbacks=[AdvisorCallback("run/")])`."""

import sys

if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
    from pytorch_lightning import Callback
else:
    from lightning.pytorch import Callback

from trace_advisor._training import TrainingRecorder

__all__ = ["AdvisorCallback"]


class AdvisorCallback(TrainingRecorder, Callback):
    """Records training batches and prints the report. A step is a batch.

    The arguments are those of `trace_advisor.TrainingRecorder`.
    """

    def on_train_start(self, trainer, pl_module):
        self.begin()

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.step()

    def on_train_end(self, trainer, pl_module):
        self.finish()

    def on_exception(self, trainer, pl_module, exception):
        self.finish()
