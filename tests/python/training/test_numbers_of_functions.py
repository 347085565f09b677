"""Floats that vary as arguments of functions with gradients of the user's own: one compile for all,
with eager's results and gradients."""

import math

import braze
import pytest
import torch
from support import entries, reasons, same

X = torch.linspace(-2, 3, 16).reshape(4, 4)
VALUES = [0.0, 0.3, 0.7, -1.5, 2.0, 11.0]


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -ctx.factor * gradient, None


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor, *rest):
        ctx.save_for_backward(x)
        ctx.numbers = (factor, *rest)
        return x * factor + math.exp(factor)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        first, *rest = ctx.numbers
        for each in rest:
            gradient = gradient * (1 - each) / 3
        return gradient * first * x.cos(), *[None] * len(ctx.numbers)


class ByHalves(torch.autograd.Function):
    @staticmethod
    def forward(x, factor, power=2.0):
        return x * factor**power, x.detach() + factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.factor, ctx.power = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, gradient, other):
        (x,) = ctx.saved_tensors
        return gradient * (ctx.factor * ctx.power) + other * x, None, None


class Decided(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * 2 if factor > 0.5 else x * factor

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor if ctx.factor < 1 else gradient * 3, None


class Printed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.text = f"{factor:.2f}"
        return x * factor

    @staticmethod
    def backward(ctx, gradient):
        return gradient * float(ctx.text), None


FUNCTIONS = {
    "a gradient reversed": (lambda x, s: Reversed.apply(x * 2, s).sum(), 2),
    "of a leaf": (lambda x, s: Reversed.apply(x, s).square().sum(), 2),
    "a module of it": (lambda x, s: torch.relu(Reversed.apply(x @ x.T, s * 0.5)).sum(), 2),
    "several numbers": (lambda x, s: Scaled.apply(x.sin(), s, s * 2, 0.5).sum(), 2),
    "computed": (lambda x, s: (Scaled.apply(x, 2 / (1 + math.exp(-s)) - 1) * s).sum(), 2),
    "a context of its own": (lambda x, s: sum(y.sum() for y in ByHalves.apply(x * 3, s)), 2),
    "by keyword": (lambda x, s: ByHalves.apply(x, factor=s, power=3.0)[0].sum(), 2),
    "twice": (lambda x, s: Reversed.apply(Reversed.apply(x.cos(), s), 1 - s).sum(), 2),
    "in a decision": (lambda x, s: Decided.apply(x.exp(), s).sum(), None),
    "as text": (lambda x, s: Printed.apply(x.exp(), s).sum(), None),
}


def step(call, value):
    x = X.clone().requires_grad_()
    result = call(x, value)
    result.backward()
    return result, x.grad


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_the_users(name):
    fn, count = FUNCTIONS[name]
    fast = braze.compile(fn)
    for value in VALUES:
        same(step(fast, value), step(fn, value))
    assert not reasons(fast)
    if count is not None:
        assert len(entries(fast)) == count, [entry["guards"] for entry in entries(fast)]


def test_without_gradients():
    fn = lambda x, s: (Scaled.apply(x, s), ByHalves.apply(x, s))
    fast = braze.compile(fn)
    for value in VALUES:
        same(fast(torch.ones(3), value), fn(torch.ones(3), value))
    assert len(entries(fast)) == 2


def test_in_front_of_a_break():
    def fn(x, s):
        y = Reversed.apply(x * 2, s)
        braze.graph_break()
        return (y * s).sum()

    fast = braze.compile(fn)
    for value in VALUES:
        same(step(fast, value), step(fn, value))


def test_a_backward_with_side_effects():
    seen = []

    class Noted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, gradient):
            seen.append(ctx.factor)
            return gradient * ctx.factor, None

    fast = braze.compile(lambda x, s: Noted.apply(x * 2, s).sum())
    for value in VALUES:
        step(fast, value)
        assert seen.pop() == value
        assert not seen


def test_a_module_with_a_function():
    class Layer(torch.nn.Module):
        def forward(self, x, alpha):
            return Reversed.apply(x * 2, alpha).sum()

    layer = Layer()
    fast = braze.compile(layer)
    for value in VALUES:
        same(step(fast, value), step(layer, value))
    assert len(entries(fast)) == 2


def test_a_forward_under_autocast():
    class Cast(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(ctx, x, factor):
            ctx.factor = factor
            return x * factor

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, gradient):
            return gradient * ctx.factor, None

    fn = lambda x, s: Cast.apply(x * 2, s).sum()
    fast = braze.compile(fn)
    for value in VALUES:
        same(step(fast, value), step(fn, value))


def test_integers_and_floats():
    fn = lambda x, s: Reversed.apply(x * 2, s).sum()
    fast = braze.compile(fn)
    for value in (2, 3, 5, 0.5, 0.7, 0.9, 7, True, 1.5):
        same(step(fast, value), step(fn, value))
    assert len(entries(fast)) <= 5


def test_second_gradients():
    fn = lambda x, s: Reversed.apply(x.sin(), s).square().sum()
    fast = braze.compile(fn)
    for value in VALUES[1:4]:
        outcomes = []
        for call in (fast, fn):
            x = X.clone().requires_grad_()
            (first,) = torch.autograd.grad(call(x, value), x, create_graph=call is fn)
            outcomes.append(first.detach())
        same(*outcomes)
