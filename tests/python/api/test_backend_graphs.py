"""Graphs for a user's backend that are hard to tell in calls of torch."""

import braze
import pytest
import torch

X = torch.arange(6.0).reshape(2, 3)
LOG = []


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor, None


class Noted(Scaled):
    @staticmethod
    def forward(ctx, x, factor):
        LOG.append(factor)
        return x * factor


def given_a_class(x):
    return Scaled.apply(x, 3) + 1


def with_side_effects(x):
    return Noted.apply(x, 3) + 1


def over_rows_in_native_code(x):
    return [row for row in map(lambda t: t * 2, x)]


def traced_inside(x):
    return torch.jit.trace(lambda t: t * 2 + 1, (x,))(x)


@pytest.mark.parametrize(
    "f", [given_a_class, with_side_effects, over_rows_in_native_code, traced_inside]
)
def test_graphs_that_are_hard_to_tell(f):
    fast = braze.compile(f, backend=lambda gm, inputs: gm.forward)
    for shift in range(3):
        LOG.clear()
        expected, log = f(X + shift), list(LOG)
        LOG.clear()
        torch.testing.assert_close(fast(X + shift), expected)
        assert log == LOG
