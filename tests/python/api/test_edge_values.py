"""Extreme values and overlapping memory, where eager's own kernels do not agree with each other."""

import itertools
import math

import braze
import pytest
import torch
import torch.nn.functional as F
from support import same

EXTREME = [0.0, 1.0, 2.5, math.inf, math.nan, 1e-40, 3e38, 1e20, 0.1, 3.0, 7.0, 2.0**24]
SIGNED = EXTREME + [-value for value in EXTREME]


def pairs(dtype):
    table = torch.tensor(list(itertools.product(SIGNED, SIGNED)), dtype=torch.float64)
    return table[:, 0].to(dtype).contiguous(), table[:, 1].to(dtype).contiguous()


@pytest.mark.parametrize("function", [torch.remainder, torch.fmod], ids=["remainder", "fmod"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_remainders_are_exact(function, dtype):
    """Eager's kernel of vectors gives NaN in float32 where the quotient is too large for it."""
    x, y = pairs(dtype)
    exact = function(x.double(), y.double()).to(dtype)
    same(braze.compile(function)(x, y), exact, rtol=0, atol=0)


@pytest.mark.parametrize("count", [1, 8, 33])
def test_gelu_of_huge_values(count):
    """As eager gives it for a single number; its kernel of vectors overflows."""
    for value in (3e38, -3e38, math.inf, 1e20, -1e20):
        single = F.gelu(torch.tensor([value]))
        same(braze.compile(F.gelu)(torch.full((count,), value)), single.expand(count).clone())


def test_gelu_keeps_the_sign():
    """`gelu(x) > 0` selects what `x > 0` does: erf is never beyond -1."""
    x = torch.linspace(-8, 8, 400_001)
    y = braze.compile(F.gelu)(x)
    assert not (y[x < 0] > 0).any() and not (y[x > 0] < 0).any()
    assert braze.compile(torch.erf)(x).abs().max() == 1


def shift_rows(x):
    x[1:].copy_(x[:-1])
    return x


def shift_and_add(x):
    x[1:].add_(x[:-1])
    return x


@pytest.mark.parametrize("function", [shift_rows, shift_and_add])
@pytest.mark.parametrize("shape", [(4,), (1000,), (5, 3)])
def test_overlap_that_eager_refuses(function, shape):
    """The tensor and the exception are eager's."""
    outcomes = []
    for f in (function, braze.compile(function)):
        x = torch.arange(float(math.prod(shape))).view(shape)
        with pytest.raises(RuntimeError, match="refer to a single memory location") as raised:
            f(x)
        outcomes.append((str(raised.value), x))
    same(outcomes[1], outcomes[0])
