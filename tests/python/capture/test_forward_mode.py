"""Tensors that carry a tangent of forward-mode differentiation are left to eager."""

import braze
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.autograd.gradcheck import gradcheck

DATA, DIRECTION = torch.randn(5, 4), torch.randn(5, 4)


def function(x):
    return (x.sin() * x).sum(-1)


def tangent_of(called, x=DATA):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(called(forward_ad.make_dual(x, DIRECTION))).tangent


def test_of_an_argument():
    compiled = braze.compile(function)
    expected = tangent_of(function)
    torch.testing.assert_close(tangent_of(compiled), expected)
    # The same code for what carries none, before and after.
    torch.testing.assert_close(compiled(DATA), function(DATA))
    torch.testing.assert_close(tangent_of(compiled), expected)
    torch.testing.assert_close(compiled(DATA), function(DATA))


def test_of_an_argument_of_compiled_code():
    compiled = braze.compile(function)
    compiled(DATA)
    torch.testing.assert_close(tangent_of(compiled), tangent_of(function))


def test_of_a_module(capfd):
    module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    compiled = braze.compile(module)
    torch.testing.assert_close(tangent_of(compiled), tangent_of(module))
    torch.testing.assert_close(compiled(DATA), module(DATA))
    torch.testing.assert_close(tangent_of(compiled), tangent_of(module))
    assert "internal error" not in capfd.readouterr().err


def test_of_a_tensor_that_the_code_closes_over():
    with forward_ad.dual_level():
        weight = forward_ad.make_dual(torch.ones(4), torch.full((4,), 2.0))
        compiled = braze.compile(lambda x: x @ weight)
        tangent = forward_ad.unpack_dual(compiled(DATA)).tangent
        torch.testing.assert_close(tangent, DATA @ torch.full((4,), 2.0))


def test_gradcheck():
    compiled = braze.compile(function)
    data = DATA.double().requires_grad_()
    with torch.enable_grad():
        assert gradcheck(compiled, (data,), check_forward_ad=True, check_backward_ad=True)
