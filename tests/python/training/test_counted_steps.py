"""Steps that are compiled as a whole and count themselves in plain Python."""

import copy
import math

import braze
import pytest
import torch
import torch.nn.functional as F
from comparing import assert_same, assert_same_state
from support import entries, reasons
from whole_steps import batches, loss_of, network


def compare(make_step, steps, **tolerance):
    """Steps in eager and compiled, with what they return; the compiled step."""
    module = network()
    twin = copy.deepcopy(module)
    step, fast = make_step(module), braze.compile(make_step(twin))
    data = batches()
    for number in range(steps):
        answers = []
        for call in (step, fast):
            torch.manual_seed(number)
            answers.append(call(*data[number % len(data)]))
        assert_same(answers[1].detach(), answers[0].detach(), rtol=1e-4, atol=1e-5)
        assert_same_state(module, twin, rtol=1e-3, atol=1e-5)
    assert not reasons(fast)
    return fast


def test_gradients_of_four_calls():
    def make(module):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        calls = [0]

        def step(x, y):
            loss = loss_of(module, x, y) / 4
            loss.backward()
            calls[0] += 1
            if calls[0] % 4 == 0:
                torch.nn.utils.clip_grad_norm_(module.parameters(), 0.1)
                optimizer.step()
                optimizer.zero_grad()
            return loss

        return step

    fast = compare(make, steps=24)
    # A call behind a step, one among others, the fourth; the first of each with what it finds.
    assert len(entries(fast)) <= 7


class Adam(torch.optim.Optimizer):
    """Kingma and Ba 2015, algorithm 1, as it is written by hand: each parameter counts its steps."""

    def __init__(self, parameters, lr=1e-2, betas=(0.9, 0.99), eps=1e-3):
        super().__init__(parameters, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["mean"], state["square"] = torch.zeros_like(p), torch.zeros_like(p)
                state["step"] += 1
                state["mean"].mul_(beta1).add_(p.grad, alpha=1 - beta1)
                state["square"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                mean = state["mean"] / (1 - beta1 ** state["step"])
                square = state["square"] / (1 - beta2 ** state["step"])
                p.addcdiv_(mean, square.sqrt_().add_(group["eps"]), value=-group["lr"])


def test_an_optimizer_by_hand():
    def make(module):
        optimizer = Adam(module.parameters())

        def step(x, y):
            optimizer.zero_grad()
            loss = loss_of(module, x, y)
            loss.backward()
            optimizer.step()
            return loss

        return step

    fast = compare(make, steps=20)
    # The first makes the state, the second counts from 1, all later ones are the third.
    assert len(entries(fast)) <= 4


def test_a_decay_that_follows_from_the_count():
    """A moving average of weights whose decay grows with the steps, as EMA classes have it."""

    def make(module):
        average = copy.deepcopy(module).requires_grad_(False)
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2, eps=1e-4)
        seen = {"updates": 0}

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(module(x), y)
            loss.backward()
            optimizer.step()
            seen["updates"] += 1
            decay = min(0.99, (1 + seen["updates"]) / (10 + seen["updates"]))
            with torch.no_grad():
                for mean, p in zip(average.parameters(), module.parameters()):
                    mean.mul_(decay).add_(p, alpha=1 - decay)
            return loss + sum(p.sum() for p in average.parameters())

        return step

    fast = compare(make, steps=20)
    assert len(entries(fast)) <= 4


class GroupScheduler:
    """A scheduler that is no `LRScheduler` and writes to the optimizer's groups, as timm's do."""

    def __init__(self, optimizer, warmup, total, field="lr"):
        self.optimizer, self.warmup, self.total, self.field = optimizer, warmup, total, field
        self.base_values = [group[field] for group in optimizer.param_groups]
        self.metric = None

    def values_at(self, t):
        if t < self.warmup:
            return [1e-4 + t * (base - 1e-4) / self.warmup for base in self.base_values]
        return [
            1e-4 + 0.5 * (base - 1e-4) * (1 + math.cos(math.pi * t / self.total))
            for base in self.base_values
        ]

    def step_update(self, t, metric=None):
        self.metric = metric
        values = self.values_at(t)
        for group, value in zip(self.optimizer.param_groups, values):
            group[self.field] = value * group["lr_scale"] if "lr_scale" in group else value


@pytest.mark.parametrize("groups", [1, 2])
def test_a_scheduler_that_writes_to_groups(groups):
    def make(module):
        parameters = list(module.parameters())
        given = [{"params": parameters[k::groups], "lr": 0.1 / (k + 1)} for k in range(groups)]
        if groups == 2:
            given[1]["lr_scale"] = 0.5
        optimizer = torch.optim.SGD(given, lr=0.1, momentum=0.9)
        scheduler = GroupScheduler(optimizer, warmup=5, total=24)
        updates = [0]

        def step(x, y):
            optimizer.zero_grad()
            loss = loss_of(module, x, y)
            loss.backward()
            optimizer.step()
            updates[0] += 1
            scheduler.step_update(updates[0])
            return loss.detach() * optimizer.param_groups[-1]["lr"]

        return step

    fast = compare(make, steps=24)
    assert len(entries(fast)) <= 6
