"""Objects whose `__class__` says that they are tensors: they have nothing of one."""

import braze
import pytest
import torch
from torch import nn


class SaysParameter:
    @property
    def __class__(self):
        return nn.Parameter


class SaysTensor:
    __slots__ = ()

    @property
    def __class__(self):
        return torch.Tensor


@pytest.mark.parametrize("kind", [SaysParameter, SaysTensor])
def test_as_arguments_and_in_containers(kind):
    def f(x, value, values):
        return x * 2 if isinstance(value, torch.Tensor) else x + len(values)

    x = torch.arange(4.0)
    fast = braze.compile(f)
    for _ in range(50):
        for value in (kind(), x.clone(), kind(), 3):
            assert torch.equal(fast(x, value, [value]), f(x, value, [value]))
