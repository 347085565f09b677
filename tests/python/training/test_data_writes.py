"""Writes to parameters through `Tensor.data`, which autograd's counter of versions does not see."""

import braze
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from comparing import assert_same, assert_same_state
from support import entries


def average(module, other):
    for p, q in zip(other.parameters(), module.parameters()):
        p.data.mul_(0.5).add_(q.data, alpha=0.5)


def copied(module, other):
    for p, q in zip(other.parameters(), module.parameters()):
        p.data.copy_(q.data)


def clamped(module, other):
    for p in other.parameters():
        p.data.clamp_(-0.1, 0.1)


def by_row(module, other):
    for p in other.parameters():
        p.data[0].fill_(0.25)


def both_ways(module, other):
    with torch.no_grad():
        for p in other.parameters():
            p.data.mul_(0.5)
            p.mul_(0.5)
            p.detach().add_(1)
            p.data.data.add_(2)


def through_a_name(module, other):
    data = other.weight.data
    data += 1
    data.detach().mul_(2)


def in_a_step(module, other):
    x = torch.linspace(-1, 1, 12).view(3, 4)
    loss = F.mse_loss(other(x), module(x).detach())
    loss.backward()
    for p in other.parameters():
        p.data.add_(p.grad.data, alpha=-0.1)
        p.grad = None


def saved_for_a_gradient(module, other):
    """The gradient sees what was written, as in eager."""
    x = torch.linspace(-1, 1, 12).view(3, 4)
    hidden = torch.tanh(module(x)) @ other.weight
    other.weight.data.mul_(2.0)
    hidden.sum().backward()


FUNCTIONS = (
    average,
    copied,
    clamped,
    by_row,
    both_ways,
    through_a_name,
    in_a_step,
    saved_for_a_gradient,
)


def assign(module, other):
    for p, q in zip(other.parameters(), module.parameters()):
        p.data = p.data + q.data * 0.5


@pytest.mark.parametrize("function", (*FUNCTIONS, assign))
def test_values_and_versions(function):
    seen = []
    for compiled in (False, True):
        torch.manual_seed(0)
        module, other = nn.Linear(4, 3), nn.Linear(4, 3)
        call = braze.compile(function) if compiled else function
        versions = []
        for _ in range(4):
            call(module, other)
            parameters = (*module.parameters(), *other.parameters())
            versions.append([p._version for p in parameters])
        gradients = [p.grad for p in parameters]
        seen.append((module, other, versions, gradients))
        if compiled and function is not assign:
            assert all(entry["exit"] == "return" for entry in entries(call))
    (a, b, wanted, grads), (c, d, got, others) = seen
    assert_same_state(a, c)
    assert_same_state(b, d)
    assert got == wanted
    for one, other in zip(grads, others, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert_same(other, one)


def test_a_write_between_forward_and_backward_outside():
    """Eager does not refuse it: the counter of what was saved stands still."""

    def forward(weight, x):
        y = torch.tanh(x @ weight)
        weight.data.mul_(1.5)
        return y

    grads = []
    for call in (forward, braze.compile(forward)):
        weight = torch.linspace(-1, 1, 12).view(4, 3).requires_grad_()
        x = torch.linspace(-1, 1, 8).view(2, 4).requires_grad_()
        call(weight, x).sum().backward()
        assert weight._version == 0
        grads.append((weight.grad, x.grad))
    for a, b in zip(*grads, strict=True):
        assert_same(b, a)
