"""Parts of small training programs: a model that takes a moment, and a dataset that takes longer."""

import time

import torch
from torch import nn
from torch.utils.data import Dataset

BATCH_SIZE = 4


class SlowDataset(Dataset):
    """Items that take as long as storage does. The model needs a tenth of that."""

    def __init__(self, step_count, wait_s=0.05):
        self._count, self._wait_s = step_count * BATCH_SIZE, wait_s

    def __len__(self):
        return self._count

    def __getitem__(self, index):
        if index >= self._count:
            raise IndexError(index)
        time.sleep(self._wait_s)
        return torch.randn(64), index % 10


def small_model():
    torch.set_num_threads(1)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
