"""Contexts of autograd and autocast around compiled code, inside of it, and around its breaks."""

import braze
import pytest
import torch
import torch.nn as nn
from support import autocast_nesting
from torch.utils.checkpoint import checkpoint

X = torch.ones(3, 4)


def test_function_that_autocast_decorates():
    w = torch.randn(4, 4, requires_grad=True)

    @torch.autocast("cpu", torch.bfloat16)
    def f(x):
        return (x @ w).float().sum()

    fast = braze.compile(f)
    for _ in range(2):
        assert torch.equal(fast(X), f(X))
    with torch.no_grad():
        w.zero_()
    assert fast(X) == f(X) == 0


@pytest.mark.parametrize("options", [{"dtype": torch.bfloat16}, {"enabled": False}])
@pytest.mark.parametrize("how", ["break", "item", "raise"])
def test_autocast_around_a_break(options, how):
    w = torch.randn(4, 4, requires_grad=True)

    def eager(x):
        with torch.autocast("cpu", torch.bfloat16):
            return (x @ w).float().sum()

    @braze.compile
    def f(x):
        with torch.autocast("cpu", **options):
            y = (x @ w).float()
            if how == "break":
                braze.graph_break()
            elif how == "item":
                y = y + y.sum().item()
            else:
                raise ValueError
            return y.sum()

    for _ in range(3):
        if how == "raise":
            with pytest.raises(ValueError):
                f(X)
        else:
            f(X)
        assert autocast_nesting() == 0
    eager(X)
    with torch.no_grad():
        w.zero_()
    assert eager(X) == 0


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint_around_compiled_code(reentrant):
    def gradient(f, x):
        x = x.clone().requires_grad_()
        checkpoint(f, x, use_reentrant=reentrant).sum().backward()
        f(x).sum().backward()
        checkpoint(f, x, use_reentrant=reentrant).sum().backward()
        return x.grad

    def f(x):
        return x.sin().exp()

    torch.testing.assert_close(gradient(braze.compile(f), X), gradient(f, X))


def test_saved_tensors_on_the_cpu():
    module = nn.Linear(4, 4)
    wanted = torch.autograd.grad(module(X).square().sum(), module.weight)[0]
    fast = braze.compile(module)
    for _ in range(2):
        module.zero_grad()
        with torch.autograd.graph.save_on_cpu():
            loss = fast(X).square().sum()
        loss.backward()
        torch.testing.assert_close(module.weight.grad, wanted)


def test_a_hook_for_saved_tensors_that_raises():
    def pack(tensor):
        raise ValueError("pack")

    fast = braze.compile(lambda x: x.sin().exp())
    x = X.clone().requires_grad_()
    fast(x).sum().backward()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        with pytest.raises(ValueError, match="pack"):
            fast(x)
    fast(x).sum().backward()
    torch.testing.assert_close(x.grad, 2 * X.sin().exp() * X.cos())


def test_scripted_module_is_trained():
    module = torch.jit.script(nn.Linear(4, 4))
    loss = braze.compile(module)(X).square().sum()
    loss.backward()
    wanted = torch.autograd.grad(module(X).square().sum(), module.weight)[0]
    torch.testing.assert_close(module.weight.grad, wanted)


def test_lstm_of_halves():
    module = nn.LSTM(4, 4).bfloat16()
    x = torch.ones(3, 2, 4).bfloat16()
    wanted = torch.autograd.grad(module(x)[0].float().sum(), module.weight_hh_l0)[0]
    braze.compile(module)(x)[0].float().sum().backward()
    torch.testing.assert_close(module.weight_hh_l0.grad, wanted)
