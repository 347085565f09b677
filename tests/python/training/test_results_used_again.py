"""Results of compiled code whose gradients are asked for in several backwards."""

import braze
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrize

WEIGHT = torch.randn(4, 4, requires_grad=True)
BIAS = torch.randn(4, requires_grad=True)
DATA = torch.randn(4, 4)


def keeps_nothing(bias):
    weight = WEIGHT + WEIGHT.mT
    return weight, F.linear(DATA, weight, bias)


def keeps_its_input(bias):
    weight = WEIGHT * WEIGHT
    return weight, F.linear(DATA, weight, bias)


def gradients(function, bias):
    """In eager a node that has kept nothing runs any number of times."""
    WEIGHT.grad = BIAS.grad = None
    weight, result = function(bias)
    result.sum().backward()
    weight.sum().backward()
    weight.sum().backward()
    return WEIGHT.grad, BIAS.grad


@pytest.mark.parametrize("bias", [None, BIAS])
def test_what_keeps_nothing(bias):
    expected = gradients(keeps_nothing, bias)
    given = gradients(braze.compile(keeps_nothing, fullgraph=True), bias)
    assert torch.equal(given[0], expected[0])
    assert (given[1] is None and expected[1] is None) or torch.equal(given[1], expected[1])


@pytest.mark.parametrize("bias", [None, BIAS])
def test_what_keeps_something(bias):
    for function in (keeps_its_input, braze.compile(keeps_its_input, fullgraph=True)):
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            gradients(function, bias)


def test_a_result_that_is_spent():
    for function in (keeps_nothing, braze.compile(keeps_nothing, fullgraph=True)):
        _, result = function(BIAS)
        result.sum().backward()
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            result.sum().backward()


class Symmetric(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).mT


def test_a_cached_parametrization():
    layer = nn.Linear(4, 4)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    original = layer.parametrizations.weight.original
    found = []
    for function in (layer, braze.compile(layer)):
        original.grad = None
        with parametrize.cached():
            for _ in range(3):
                function(DATA).sum().backward()
        found.append(original.grad)
    torch.testing.assert_close(found[1], found[0])
