"""Gradients of a part of what requires grad: as in eager, and the others are not computed."""

import copy
import re

import braze
import pytest
import torch
import torch.nn.functional as F
from comparing import assert_same as assert_same_tensor
from torch import nn
from torch.profiler import ProfilerActivity, profile

PRODUCTS = ("aten::mm", "aten::addmm", "braze::mm_pointwise")


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert_same_tensor(one, other)


def products(function):
    """How many products of matrices the call takes."""
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        function()
    return sum(event.name in PRODUCTS for event in seen.events())


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(64, 96), nn.Softplus(), nn.Linear(96, 96), nn.Tanh(), nn.Linear(96, 8)
    )


@pytest.fixture
def pair():
    net = network()
    return net, braze.compile(copy.deepcopy(net))


def an_input():
    return torch.randn(160, 64, generator=torch.Generator().manual_seed(1)).requires_grad_()


def of_input(net):
    x = an_input()
    return torch.autograd.grad(net(x).square().mean(), x)


def of_first_weight(net):
    weight = next(net.parameters())
    return torch.autograd.grad(net(an_input()).square().mean(), weight)


def with_inputs_of_backward(net):
    x, last = an_input(), list(net.parameters())[-1]
    net(x).square().mean().backward(inputs=[x, last])
    return x.grad, *[p.grad for p in net.parameters()]


def one_behind_the_other(net):
    x = an_input()
    loss = net(x).square().mean()
    found = [torch.autograd.grad(loss, p, retain_graph=True)[0] for p in net.parameters()]
    loss.backward()
    return *found, x.grad, *[p.grad for p in net.parameters()]


def penalty(net):
    x = an_input()
    (slope,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
    (net(x).mean() + slope.square().sum(1).sqrt().mean()).backward()
    return slope, x.grad, *[p.grad for p in net.parameters()]


def third_order(net):
    x = an_input()
    (first,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x, create_graph=True)
    return first, second, *torch.autograd.grad(second.sum(), list(net.parameters())[:-1])


def in_turns(net):
    x, found = an_input(), []
    for wanted in (x, *net.parameters(), x):
        (slope,) = torch.autograd.grad(net(x).square().mean(), wanted, create_graph=True)
        found += [slope, *torch.autograd.grad(slope.sum(), wanted)]
    return found


WAYS = [
    of_input,
    of_first_weight,
    with_inputs_of_backward,
    one_behind_the_other,
    penalty,
    third_order,
    in_turns,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_as_in_eager(pair, way):
    net, fast = pair
    for _ in range(2):
        for module in pair:
            module.zero_grad(set_to_none=True)
        assert_same(way(fast), way(net))


@pytest.mark.parametrize("way", [of_input, of_first_weight, penalty], ids=lambda way: way.__name__)
def test_products_of_others_are_not_computed(pair, way):
    net, fast = pair
    way(fast)
    fast.zero_grad()
    # In a second backward what flows to the forward is multiplied apart from what the loss gives.
    more = {penalty: 4}.get(way, 0)
    assert products(lambda: way(fast)) <= products(lambda: way(net)) + more


def test_many_ways_are_compiled_a_few_times(monkeypatch, capfd):
    monkeypatch.setenv("BRAZE_LOG", "timing")
    fast = braze.compile(network())
    x = an_input()
    for _ in range(2):
        loss = fast(x).square().mean()
        for one in (x, *fast.parameters()):
            torch.autograd.grad(loss, one, retain_graph=True)
    compiles = re.findall(r"backward of [^\n]*: total", capfd.readouterr().err)
    assert len(compiles) <= 5


class Two(nn.Module):
    """Results of which each has inputs of its own, and inner ones."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.both = nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(8, 8)

    def forward(self, x, y):
        a, b = self.a(x).tanh(), self.b(y).sigmoid()
        mixed = self.both(a * b)
        return a, b, mixed, F.softplus(mixed).sum()


def asked(net, of, wanted, create_graph):
    generator = torch.Generator().manual_seed(2)
    x, y = (torch.randn(5, 6, generator=generator).double().requires_grad_() for _ in range(2))
    a, b, mixed, loss = net(x, y)
    results = {"a": a, "b": b, "mixed": mixed, "loss": loss}
    inputs = {"x": x, "y": y, "a": a, "mixed": mixed, "wa": net.a.weight, "w": net.both.weight}
    found = torch.autograd.grad(
        sum(results[name].square().sum() for name in of),
        [inputs[name] for name in wanted],
        create_graph=create_graph,
        allow_unused=True,
    )
    depend = [one.square().sum() for one in found if one is not None and one.requires_grad]
    if not depend:
        return found
    return *found, *torch.autograd.grad(sum(depend), list(net.parameters()), allow_unused=True)


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("of", [("loss",), ("a",), ("a", "b"), ("mixed", "loss"), ("b", "loss")])
@pytest.mark.parametrize(
    "wanted", [("x",), ("y",), ("wa",), ("x", "w"), ("mixed",), ("a",), ("a", "y"), ("w", "mixed")]
)
def test_of_several_results(of, wanted, create_graph):
    torch.manual_seed(0)
    net = Two().double()
    fast = braze.compile(copy.deepcopy(net))

    def run(module):
        try:
            return asked(module, of, wanted, create_graph)
        except RuntimeError as error:
            return str(error)[:60]

    expected = run(net)
    for _ in range(2):
        found = run(fast)
        if isinstance(expected, str):
            assert found == expected
        else:
            assert_same(found, expected)


@pytest.mark.parametrize("create_graph", [False, True])
def test_what_was_written_to_is_noticed(create_graph):
    def run(function):
        x = torch.randn(4, 4, generator=torch.Generator().manual_seed(3)).requires_grad_()
        weight = torch.ones(4, 4).requires_grad_()
        middle = weight.exp()
        loss = function(x, middle)
        with torch.no_grad():
            middle.add_(1)
        return torch.autograd.grad(loss, x, create_graph=create_graph)

    def product(x, weight):
        return (x.tanh() * weight).sum()

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        run(product)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        run(braze.compile(product))


def test_gradients_that_nobody_wants_are_none():
    fast = braze.compile(network())
    x = an_input()
    fast(x).sum().backward(inputs=[x])
    assert x.grad is not None
    assert all(p.grad is None for p in fast.parameters())
