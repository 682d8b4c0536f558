"""The callback for Composer, which needs an older PyTorch than the other frameworks, in an environment of its own."""

from conftest import assert_first_finding_is_the_loader, step_numbers
from programs import BATCH_SIZE, SlowDataset, small_model
from torch.utils.data import DataLoader


def test_composer():
    from composer import Trainer
    from composer.models import ComposerClassifier
    from trace_advisor.composer import AdvisorCallback

    callback = AdvisorCallback("run/", steps=(3, 7))
    model = ComposerClassifier(small_model(), num_classes=10)
    loader = DataLoader(SlowDataset(10), BATCH_SIZE)
    Trainer(model=model, train_dataloader=loader, max_duration="1ep", device="cpu", callbacks=[callback]).fit()
    assert step_numbers("run/rank0_cycle0.pt.trace.json.gz") == [3, 4, 5, 6, 7]
    assert_first_finding_is_the_loader(callback.report)
