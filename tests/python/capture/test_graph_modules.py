"""Modules whose code torch.fx has written: traced by the user, or of an exported program."""

import contextlib
import copy
import io
import pickle

import braze
import pytest
import torch
from torch import fx, nn

from tests.python.support import reasons, same


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 8)
        self.down = nn.Linear(8, 4)
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x, factor=1.0):
        return self.down(torch.relu(self.up(x))) * self.scale * factor + x.size(0)


X = torch.randn(3, 4)


def exchange(graph, old, new):
    for node in graph.nodes:
        if node.target is old:
            node.target = new


def test_a_traced_module_is_one_graph():
    module = fx.symbolic_trace(Small())
    fast = braze.compile(module, fullgraph=True)
    for x, factor in [(X, 1.0), (X, 2.5), (torch.randn(5, 4), 0.5)]:
        same(fast(x, factor), module(x, factor))


def test_its_gradients():
    module = fx.symbolic_trace(Small())
    with torch.enable_grad():
        braze.compile(module, fullgraph=True)(X).square().sum().backward()
        got = {name: p.grad for name, p in module.named_parameters()}
        module.zero_grad()
        module(X).square().sum().backward()
    same(got, {name: p.grad for name, p in module.named_parameters()})


def test_one_within_a_module():
    module = nn.Sequential(fx.symbolic_trace(Small()), nn.Linear(4, 2))
    same(braze.compile(module, fullgraph=True)(X), module(X))


@pytest.mark.parametrize("through", ["the original", "the compiled"])
def test_a_graph_that_is_edited(through):
    module = fx.symbolic_trace(Small())
    fast = braze.compile(module)
    before = fast(X)
    edited = module if through == "the original" else fast
    exchange(edited.graph, torch.relu, torch.tanh)
    edited.recompile()
    after = fast(X)
    assert not torch.equal(before, after)
    same(after, module(X))
    assert not reasons(fast)


def test_copies_and_pickles():
    module = fx.symbolic_trace(Small())
    fast = braze.compile(module)
    expected = fast(X)
    for made in (copy.deepcopy(fast), copy.copy(fast), pickle.loads(pickle.dumps(fast))):
        same(made(X), expected)


def test_an_error_is_shown_as_in_eager():
    class Sum(nn.Module):
        def forward(self, x):
            return torch.sin(x) + torch.ones(7)

    module = fx.symbolic_trace(Sum())

    def shown(call):
        text = io.StringIO()
        with contextlib.redirect_stderr(text), pytest.raises(RuntimeError) as raised:
            call(X)
        return str(raised.value), text.getvalue().partition("Call using an FX")[2]

    expected = shown(module)
    assert "add = sin + " in expected[1]
    assert shown(braze.compile(module)) == expected


@pytest.mark.parametrize("varies", [False, True])
def test_an_exported_program(varies):
    sizes = {"x": {0: torch.export.Dim("rows", min=2)}} if varies else None
    program = torch.export.export(Small().eval(), (X,), dynamic_shapes=sizes)
    module = program.module()
    fast = braze.compile(module)
    for x in [X, torch.randn(7, 4), torch.randn(9, 4)] if varies else [X, X + 1]:
        same(fast(x), module(x))
    for bad in [torch.randn(3, 5), (torch.randn(3, 4), 1)]:
        with pytest.raises(Exception) as expected:
            module(bad)
        with pytest.raises(type(expected.value)) as raised:
            fast(bad)
        assert str(raised.value) == str(expected.value)


def test_a_metaclass_that_refuses_calls_of_its_classes():
    class Guarded(type):
        def __call__(cls, *args):
            raise TypeError("no public constructor")

    class Module(nn.Linear, metaclass=Guarded):
        pass

    module = type.__call__(Module, 4, 4)
    same(braze.compile(module)(X), module(X))
