"""Losses of two tensors and their gradients: kernels, with eager's results."""

import copy

import braze
import pytest
import torch
import torch.nn.functional as F
from support import same

LOSSES = {
    "mse": F.mse_loss,
    "smooth_l1": F.smooth_l1_loss,
    "smooth_l1, wide": lambda x, t, reduction: F.smooth_l1_loss(
        x, t, reduction=reduction, beta=2.5
    ),
    "smooth_l1 without a bound": lambda x, t, reduction: F.smooth_l1_loss(
        x, t, reduction=reduction, beta=0.0
    ),
    "huber": lambda x, t, reduction: F.huber_loss(x, t, reduction=reduction, delta=0.5),
    "logits": lambda x, t, reduction: F.binary_cross_entropy_with_logits(
        x, t.sigmoid(), reduction=reduction
    ),
    "weighted logits": lambda x, t, reduction: F.binary_cross_entropy_with_logits(
        x,
        t.sigmoid(),
        weight=torch.linspace(0.5, 2, x.shape[-1], dtype=x.dtype),
        pos_weight=torch.linspace(1, 3, x.shape[-1], dtype=x.dtype),
        reduction=reduction,
    ),
}
BOUNDS = {torch.float32: (2e-6, 1e-6), torch.float64: (1e-13, 1e-13), torch.bfloat16: (2e-2, 1e-2)}


def step_of(loss, reduction):
    def step(x, t):
        value = loss(x, t, reduction=reduction)
        return value, *torch.autograd.grad(value.sum() * 1.5, (x, t))

    return step


def compare(step, x, t, dtype, fast=None):
    with torch.enable_grad():
        fast = fast or braze.compile(step)
        rtol, atol = BOUNDS[dtype]
        got, wanted = (f(x.requires_grad_(), t.requires_grad_()) for f in (fast, step))
        for a, b in zip(got, wanted, strict=True):
            same(a.detach(), b.detach(), rtol=rtol, atol=atol)
    return fast


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("reduction", ("none", "mean", "sum"))
@pytest.mark.parametrize("name", LOSSES)
def test_loss(name, reduction, dtype):
    step = step_of(LOSSES[name], reduction)
    for shape in ((4, 33), (2, 3, 16), (1, 5)):
        x, t = (torch.randn(shape) * 2).to(dtype), torch.randn(shape).to(dtype)
        compare(step, x, t, dtype)
    x, t = torch.randn(8, 6).to(dtype).t(), torch.randn(6, 8).to(dtype)
    compare(step, x.detach(), t, dtype)


@pytest.mark.parametrize("name", LOSSES)
def test_special_values(name):
    values = torch.tensor([0.0, -0.0, 1e-40, 1e30, -1e30, 100.0, -100.0, float("nan"), 0.5, -0.5])
    x, t = (v.reshape(-1, 10).contiguous() for v in torch.cartesian_prod(values, values).T)
    compare(step_of(LOSSES[name], "none"), x, t, torch.float32)


@pytest.mark.parametrize("name", LOSSES)
def test_sizes_that_vary(name):
    fast = None
    for rows in (4, 5, 7, 1, 0):
        x, t = torch.randn(rows, 6), torch.randn(rows, 6)
        fast = compare(step_of(LOSSES[name], "mean"), x, t, torch.float32, fast)


@pytest.mark.parametrize("name", ("mse", "smooth_l1", "huber", "logits"))
def test_they_are_kernels(name):
    with torch.enable_grad():
        x, t = torch.randn(4, 8).requires_grad_(), torch.randn(4, 8).requires_grad_()
        (entry,) = braze.explain(step_of(LOSSES[name], "mean"))(x, t).entries
    assert entry["operators"] == {}


def test_broadcasts_as_eager_does():
    def step(x, t):
        return torch.nn.functional.mse_loss(x, t)

    x, t = torch.randn(4, 8), torch.randn(8)
    with pytest.warns(UserWarning, match="target size"):
        wanted = step(x, t)
    with pytest.warns(UserWarning, match="target size"):
        same(braze.compile(step)(x, t), wanted, rtol=1e-6, atol=1e-6)


def test_training():
    torch.manual_seed(0)
    module = torch.nn.Linear(6, 3)
    twin = copy.deepcopy(module)
    x, t = torch.randn(9, 6), torch.randn(9, 3)
    with torch.enable_grad():
        for model, wrap in ((module, lambda f: f), (twin, braze.compile)):
            wrap(lambda m: F.smooth_l1_loss(m(x), t) + F.mse_loss(m(x).tanh(), t))(model).backward()
    for p, q in zip(module.parameters(), twin.parameters(), strict=True):
        same(q.grad, p.grad, rtol=1e-5, atol=1e-6)
