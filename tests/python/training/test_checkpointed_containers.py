"""Checkpointed functions that read containers from outside, and that change them."""

import copy

import braze
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
        self.named = nn.ModuleDict({"a": nn.Linear(8, 8), "b": nn.Tanh()})
        self.scales = {"first": 2.0, "second": 3.0}
        self.steps = [1.0, 0.5]
        self.seen = []
        self.counts = {}


def of_a_sequence(m, x):
    return m.body(x)


def of_an_item(m, x):
    return m.body[1](m.body[0](x))


def in_a_loop(m, x):
    for layer in m.layers:
        x = layer(x).tanh()
    return x


def by_name(m, x):
    for name, module in m.named.items():
        x = module(x) * m.scales["first" if name == "a" else "second"]
    return x + sum(m.scales.values()) * len(m.scales)


def by_number(m, x):
    for number, step in enumerate(m.steps):
        x = m.layers[number](x) * step
    return x * sum(m.steps)


@pytest.mark.parametrize("read", [of_a_sequence, of_an_item, in_a_loop, by_name, by_number])
@pytest.mark.parametrize("use_reentrant", [False, True])
def test_reading_is_no_effect(read, use_reentrant):
    torch.manual_seed(0)
    net = Parts()
    twin = copy.deepcopy(net)

    def run(m, x):
        return checkpoint(lambda y: read(m, y), x, use_reentrant=use_reentrant).square().sum()

    fast = braze.compile(run, fullgraph=not use_reentrant)
    x = torch.randn(4, 8)
    for _ in range(2):
        results = []
        for call, m in ((fast, net), (run, twin)):
            leaf = x.clone().requires_grad_()
            m.zero_grad()
            call(m, leaf).backward()
            results.append([leaf.grad, *[p.grad for p in m.parameters()]])
        for got, expected in zip(*results, strict=True):
            assert (got is None) == (expected is None)
            if got is not None:
                torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def appends(m, x):
    m.seen.append(len(m.seen))
    return x.sin()


def appends_behind_a_read(m, x):
    y = x * sum(m.steps)
    m.steps.append(1.0)
    return y.sin()


def updates(m, x):
    m.counts["calls"] = m.counts.get("calls", 0) + 1
    return x.cos()


def updates_behind_a_read(m, x):
    for name, scale in m.scales.items():
        x = x * scale
    m.scales.update(first=m.scales["first"] + 1)
    return x.cos()


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("change", [appends, appends_behind_a_read, updates, updates_behind_a_read])
def test_changes_are_made_once_more_in_the_backward(change, before):
    def run(m, x):
        if before:  # its containers have been written to by then
            m.steps.insert(0, 1.5)
            m.scales.update(third=1.25)
            m.seen.extend([7])
            m.counts.setdefault("calls", 3)
        return checkpoint(lambda y: change(m, y), x * 2, use_reentrant=False).sum()

    states = []
    for call in (braze.compile(run), run):
        m, x = Parts(), torch.linspace(-1, 1, 8).requires_grad_()
        for _ in range(3):
            call(m, x).backward()
        states.append((x.grad, m.steps, m.scales, m.seen, m.counts))
    torch.testing.assert_close(states[0][0], states[1][0], rtol=1e-4, atol=1e-4)
    assert states[0][1:] == states[1][1:]
