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


def under_autocast(x):
    y = x @ x.t()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = x @ x.t()
        with torch.autocast("cpu", enabled=False):
            w = x @ x.t()
        return y, z, w, x @ x.t()


def without_gradients(x):
    with torch.no_grad():
        y = x * 2
    return y, x + 1


def in_inference_mode(x):
    with torch.inference_mode():
        return x * 2


@pytest.mark.parametrize("f", [under_autocast, without_gradients, in_inference_mode])
@pytest.mark.parametrize("requires_grad", [False, True])
@torch.enable_grad()
def test_switches_of_torch_that_change_on_the_way(f, requires_grad):
    def told(x):
        return x.dtype, x.requires_grad, x.is_inference()

    fast = braze.compile(f, backend=lambda gm, inputs: gm.forward)
    for shift in range(2):
        x = (X + shift).requires_grad_(requires_grad)
        actual, expected = fast(x), f(x)
        torch.testing.assert_close(actual, expected)
        assert [*map(told, actual)] == [*map(told, expected)]


def test_switches_are_back_where_a_backend_raises():
    def backend(gm, inputs):
        def run(*args):
            gm(*args)
            torch.set_grad_enabled(True)
            torch.set_autocast_enabled("cpu", True)
            raise ValueError("in the backend")

        return run

    with pytest.raises(ValueError, match="in the backend"):
        braze.compile(under_autocast, backend=backend)(X)
    assert not torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")
