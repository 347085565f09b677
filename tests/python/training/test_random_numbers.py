"""Gradients under `options={"rng": "counter"}`: what the backward needs of random numbers it computes
again, from the seed of the forward."""

import braze
import pytest
import torch
import torch.utils.checkpoint
from torch.nn import functional as F

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def compiled(function):
    return braze.compile(function, options={"rng": "counter"})


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    "dropout",
    [lambda x: F.dropout(x, 0.3), lambda x: torch.native_dropout(x, 0.3, True)[0]],
    ids=["F.dropout", "native_dropout"],
)
def test_the_gradient_of_dropout_has_the_mask_of_the_forward(dropout, dtype):
    f = compiled(lambda x: dropout(x.exp()))
    x = torch.linspace(-1, 1, 1200, dtype=dtype).reshape(40, 30).requires_grad_()
    for seed in range(3):
        torch.manual_seed(seed)
        result = f(x)
        kept = result != 0
        assert 0.6 < kept.double().mean() < 0.8
        torch.rand(3)  # others draw between a forward and its backward
        (gradient,) = torch.autograd.grad(result.sum(), x)
        assert torch.equal(gradient != 0, kept)
        want = torch.where(kept, x.exp() / 0.7, 0).to(dtype)
        tolerance = {torch.float16: 2e-3, torch.bfloat16: 2e-2}.get(dtype, 1e-5)
        torch.testing.assert_close(result, want, rtol=tolerance, atol=0)
        torch.testing.assert_close(gradient, want, rtol=tolerance, atol=0)


def test_a_mask_is_not_kept():
    """What the forward gives is the result and, for the backward, the seed."""

    def f(x):
        return F.dropout(x, 0.5) + 1

    x = torch.ones(64, 128, requires_grad=True)
    plans = {
        source: braze.explain(f, options={"rng": source})(x).details
        for source in ("eager", "counter")
    }
    outputs = {source: plan.count(": output f32[64, 128]") for source, plan in plans.items()}
    assert outputs == {"eager": 2, "counter": 1}, plans["counter"]


def test_gradients_of_gradients():
    def f(x):
        return (F.dropout(x, 0.5) ** 3).sum()

    torch.manual_seed(0)
    x = torch.linspace(1, 2, 40, requires_grad=True)
    value = compiled(f)(x)
    (first,) = torch.autograd.grad(value, x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    kept = first != 0
    assert 0 < kept.sum() < 40
    torch.testing.assert_close(first, torch.where(kept, 24 * x**2, 0))
    torch.testing.assert_close(second, torch.where(kept, 48 * x, 0))


def test_what_is_recomputed_draws_the_same():
    """A noise that the backward takes: of the same seed there."""

    def f(x):
        noise = torch.randn_like(x)
        return (x * noise).tanh(), noise

    torch.manual_seed(0)
    x = torch.ones(50, 20, requires_grad=True)
    result, noise = compiled(f)(x)
    (gradient,) = torch.autograd.grad(result.sum(), x)
    torch.testing.assert_close(gradient, noise * (1 - noise.tanh() ** 2))


def test_sizes_that_vary_have_the_mask_in_the_backward_too():
    f = braze.compile(lambda x: F.dropout(x, 0.5), options={"rng": "counter"}, dynamic=True)
    for rows in (4, 9, 30):
        x = torch.ones(rows, 11, requires_grad=True)
        result = f(x)
        result.sum().backward()
        assert 0 < (result != 0).sum() < result.numel()
        torch.testing.assert_close(x.grad, result.detach())


def test_a_checkpoint_has_one_mask():
    """torch.utils.checkpoint runs its function again: with the numbers of the first run."""

    def f(x):
        return torch.utils.checkpoint.checkpoint(
            lambda y: F.dropout(y * y, 0.5).exp(), x, use_reentrant=False
        )

    x = torch.linspace(1, 2, 60, requires_grad=True)
    result = compiled(f)(x)
    kept = result != 1
    assert 0 < kept.sum() < 60
    result.sum().backward()
    want = torch.where(kept, result.detach() * 4 * x.detach(), 0)
    torch.testing.assert_close(x.grad, want)
