"""Compiled functions under what watches PyTorch's calls."""

import braze
import torch
from torch.profiler import ProfilerActivity, profile


def test_profiler_that_keeps_inputs(capfd):
    def f(x):
        (gradient,) = torch.autograd.grad((x * x).sum(), x)
        return gradient

    x = torch.ones(3, requires_grad=True)
    with torch.enable_grad(), profile(activities=[ProfilerActivity.CPU], record_shapes=True):
        assert braze.compile(f)(x).tolist() == [2, 2, 2]
    assert "internal error" not in capfd.readouterr().err


def test_jit_trace(capfd):
    """It is given eager's calls, before and after the function was compiled."""

    def f(x):
        return torch.relu(x + 1)

    x = torch.ones(3)
    compiled = braze.compile(f)
    for _ in range(2):
        traced = torch.jit.trace(compiled, x)
        assert "relu" in traced.code and torch.equal(traced(x - 3), f(x - 3))
        assert torch.equal(compiled(x), f(x))
    layer = torch.nn.Linear(3, 3)
    traced = torch.jit.trace(braze.compile(layer), x)
    torch.testing.assert_close(traced(x), layer(x))
    assert "internal error" not in capfd.readouterr().err
