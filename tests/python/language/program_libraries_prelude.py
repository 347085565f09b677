"""What the statements of `program_libraries.py` use; stands behind `program_prelude.py`."""

# ruff: noqa: F401
import functools
import random

import numpy
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.weak import WeakTensorKeyDictionary

D = torch.distributions
ARRAY = numpy.arange(6, dtype="float32").reshape(2, 3)
SHARED = torch.from_numpy(ARRAY)
LAYER = nn.Linear(3, 3)
LAYER.weight.data = torch.eye(3) * 0.5
LAYER.bias.data = torch.ones(3)
LAYER.requires_grad_(False)
# Of equal rows, a small eps makes more of rounding than a comparison allows.
NORM = nn.BatchNorm1d(3, eps=10.0).requires_grad_(False)
DROP = nn.Dropout(0.5)
WEIGHTS = nn.Parameter(torch.ones(3), requires_grad=False)
OPTIMIZER = torch.optim.SGD([WEIGHTS], 0.1, momentum=0.9)
SCHEDULE = torch.optim.lr_scheduler.StepLR(OPTIMIZER, 2, 0.5)
WEAK = WeakTensorKeyDictionary()
SOURCE = torch.Generator().manual_seed(5)
KEPT = []
IMAGE = torch.arange(96.0).reshape(2, 3, 4, 4).to(memory_format=torch.channels_last)


class Lazy:
    def __init__(self, x):
        self.x = x

    @functools.cached_property
    def twice(self):
        return self.x * 2


LAZY = Lazy(torch.ones(2, 3))


def told(error):
    """An exception's class and message."""
    return f"{type(error).__name__}: {error}"
