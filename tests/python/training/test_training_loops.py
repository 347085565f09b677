"""Loops of `training_loops`, twenty steps: their calls compiled, or the step as a whole."""

import threading

import braze
import pytest
import torch
from same_training import (
    ROUNDINGS,
    assert_same_training,
    change_last_bits,
    layout,
    one_thread,
)
from torch import nn
from training_loops import LOOPS, perceptron


class Run:
    """Steps of a loop; `how`: "calls" or "step" are compiled, or nothing."""

    def __init__(self, loop, dropout, how=None, dtype=torch.float32, rounded=None, steps=20):
        torch.manual_seed(0)
        modules, build, batch = loop(dropout)
        self.module = nn.ModuleDict(modules).to(dtype)
        if rounded is not None:
            change_last_bits(self.module, seed=rounded)
        step = build(braze.compile if how == "calls" else lambda function: function)
        step = braze.compile(step) if how == "step" else step
        self.losses, self.draws, self.layouts, self.first = [], [], [], None
        for number in range(steps):
            torch.manual_seed(1000 + number)
            given = [t.to(dtype) if t.is_floating_point() else t for t in batch(number)]
            torch.manual_seed(number)
            self.losses += [value.item() for value in step(*given)]
            self.draws.append(torch.rand(()).item())
            gradients = {name: p.grad for name, p in self.module.named_parameters()}
            self.layouts.append({name: layout(g) for name, g in gradients.items()})
            if self.first is None:
                self.first = {
                    f"gradient of {name}": g.clone()
                    for name, g in gradients.items()
                    if g is not None
                }

    def state(self):
        return {**self.first, **self.module.state_dict()}


@pytest.mark.parametrize("how", ["calls", "step"])
@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
def test_loop(loop, dropout, how, capfd):
    with one_thread():
        runs = {"eager": Run(loop, dropout), "compiled": Run(loop, dropout, how)}
        runs |= {name: Run(loop, dropout, rounded=i) for i, name in enumerate(ROUNDINGS)}
        if not dropout:
            runs["exact"] = Run(loop, dropout, dtype=torch.float64)
    assert_same_training(runs)
    said = capfd.readouterr().err
    assert "internal error" not in said
    assert "recompile_limit" not in said


def train_one(number, compiled, results):
    """Its own model, data and optimizer; no random numbers, which threads share."""
    maker = torch.Generator().manual_seed(number)
    module = perceptron(8, 16 + number, 4, 0.0, nn.GELU)
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.randn(p.shape, generator=maker) / 4)
    optimizer = torch.optim.AdamW(module.parameters(), 1e-2, eps=1e-4)
    x = torch.randn(6, 8, generator=maker)
    y = torch.randint(4, (6,), generator=maker)

    def whole(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(module(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def by_calls(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(forward(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    forward = braze.compile(module) if compiled else module
    step = by_calls if number % 2 else braze.compile(whole) if compiled else whole
    losses = [step(x, y).item() for _ in range(30)]
    results[number] = losses, [p.detach() for p in module.parameters()]


def test_eight_threads_train_eight_models():
    threads_before = torch.get_num_threads()
    wanted, found = {}, {}
    for number in range(8):
        train_one(number, False, wanted)
    threads = [threading.Thread(target=train_one, args=(i, True, found)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found.keys() == wanted.keys()
    for number in range(8):
        assert found[number][0] == pytest.approx(wanted[number][0], rel=1e-4, abs=1e-5)
        torch.testing.assert_close(found[number][1], wanted[number][1], rtol=1e-3, atol=1e-5)
        assert wanted[number][0][-1] < wanted[number][0][0]
    assert torch.get_num_threads() == threads_before
