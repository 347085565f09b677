"""Functions and operators of the users, with gradients of their own, against eager."""

import braze
import pytest
import torch
from comparing import assert_same, assert_same_gradients, leaf


class Scale(torch.autograd.Function):
    """Its gradient is not that of its forward, so that whose formula is used shows."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * ctx.factor * WEIGHT["of"] * x.cos(), None


WEIGHT = {"of": 10.0}


def test_a_function_of_the_users(capfd):
    def f(x):
        return (Scale.apply(x, 3.0) * x).sum()

    assert_same_gradients(f, leaf(4))
    fast = braze.compile(f)
    x = leaf(4)
    grads = []
    for weight in (10.0, 20.0):  # what a backward reads is guarded
        WEIGHT["of"] = weight
        x.grad = None
        fast(x).backward()
        got = x.grad
        x.grad = None
        f(x).backward()
        assert_same(got, x.grad)
    WEIGHT["of"] = 10.0
    assert "internal error" not in capfd.readouterr().err


def test_a_function_whose_backward_has_side_effects():
    calls = []

    class Noted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            calls.append(1)
            return gradient * 2

    fast = braze.compile(lambda x: Noted.apply(x).sum())
    for i in range(3):
        x = leaf(3)
        fast(x).backward()
        assert len(calls) == i + 1
        assert_same(x.grad, torch.full((3,), 2.0))


@pytest.mark.parametrize("has_effects", [False, True])
def test_a_function_in_front_of_a_break(has_effects, capfd):
    """What its backward reads is guarded there too, and its effects happen at each backward."""
    calls = []

    class Weighted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            if has_effects:
                calls.append(1)
            return gradient * WEIGHT["of"]

    def f(x):
        y = Weighted.apply(x).sin()
        braze.graph_break()
        return y.sum()

    fast = braze.compile(f)
    for i, weight in enumerate((10.0, 10.0, 20.0, 30.0)):
        WEIGHT["of"] = weight
        x = leaf(4)
        same_x = x.detach().clone().requires_grad_()
        f(x).backward()
        calls.clear()
        fast(same_x).backward()
        assert len(calls) == has_effects, i
        assert_same(same_x.grad, x.grad)
    WEIGHT["of"] = 10.0
    assert "internal error" not in capfd.readouterr().err


@torch.library.custom_op("braze_training::triple", mutates_args=())
def triple(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@triple.register_fake
def _(x):
    return torch.empty_like(x)


triple.register_autograd(lambda ctx, gradient: gradient * 7)


def test_an_operator_of_the_users():
    assert_same_gradients(lambda x: (triple(x) * x).sum(), leaf(4))
