"""Schedulers of learning rates in steps of training that are compiled as a whole."""

import copy
import warnings

import braze
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from comparing import assert_same
from scheduled_steps import (
    CYCLE_MOMENTUM,
    OPTIMIZERS,
    SCHEDULERS,
    Run,
    S,
    assert_one_graph,
    compare,
    network,
    state_of,
    whole,
)
from support import entries
from torch.optim import swa_utils


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", SCHEDULERS)
def test_one_graph(name, optimizer):
    run = compare(whole, SCHEDULERS[name], OPTIMIZERS[optimizer])
    # Without and with the optimizer's state, and again where momentum turns out to vary.
    assert len(entries(run.call)) <= (3 if name in CYCLE_MOMENTUM else 2)
    assert_one_graph(run)


def test_no_compile_in_fifty_steps():
    run = compare(whole, SCHEDULERS["lambda, warm up"], OPTIMIZERS["adamw"], steps=3)
    before = len(entries(run.call))
    for number in range(50):
        run(number)
    assert len(entries(run.call)) == before <= 2


def test_changes_from_outside_between_calls():
    def between(run, number):
        if number == 5:
            run.scheduler.step()
        if number == 9:
            run.optimizer.param_groups[0]["lr"] = 0.123
        if number == 12:
            run.scheduler.load_state_dict(copy.deepcopy(run.scheduler.state_dict()))
        if number == 15:
            run.optimizer.load_state_dict(copy.deepcopy(run.optimizer.state_dict()))
        if number == 18:
            run.scheduler.last_epoch = 1

    run = compare(whole, SCHEDULERS["exponential"], OPTIMIZERS["adamw"], between=between)
    assert len(entries(run.call)) <= 4


def test_a_function_of_another_kind_between_calls():
    def between(run, number):
        if number == 5:
            run.scheduler.lr_lambdas[0] = lambda epoch: 1 / (1 + epoch)

    compare(whole, SCHEDULERS["lambda"], between=between, steps=10)


def test_now_and_then():
    def make(module, optimizer, scheduler):
        def step(x, y):
            loss = F.cross_entropy(module(x), y)
            loss.backward()
            optimizer.step()
            module.number += 1
            if module.number % 4 == 0:
                scheduler.step()
            optimizer.zero_grad(set_to_none=True)
            return loss.detach()

        module.number = 0
        return step

    run = compare(make, SCHEDULERS["step"], steps=20)
    assert len(entries(run.call)) <= 6


def test_gradients_are_accumulated_between_steps():
    def make(module, optimizer, scheduler):
        def step(x, y):
            total = 0
            for i in range(4):
                loss = F.cross_entropy(module(x[i : i + 2]), y[i : i + 2]) / 2
                loss.backward()
                total = total + loss.detach()
                if (i + 1) % 2 == 0:
                    nn.utils.clip_grad_norm_(module.parameters(), 1.0)
                    optimizer.step()
                    optimizer.zero_grad()
            scheduler.step()
            return total

        return step

    run = compare(make, SCHEDULERS["linear"], steps=20)
    assert len(entries(run.call)) <= 2
    assert_one_graph(run)


def test_twice_in_a_step():
    def make(module, optimizer, scheduler):
        step_before = whole(module, optimizer, scheduler)

        def step(x, y):
            loss = step_before(x, y)
            scheduler.step()
            return loss

        return step

    run = compare(make, SCHEDULERS["cosine"])
    assert len(entries(run.call)) <= 2
    assert_one_graph(run)


def test_two_steps_of_the_optimizer():
    """The second has the new rate."""

    def make(module, optimizer, scheduler):
        once = whole(module, optimizer, scheduler)

        def step(x, y):
            return once(x, y), once(x, y)

        return step

    compare(make, SCHEDULERS["exponential"], steps=8)


def test_two_optimizers():
    def make(module, optimizer, scheduler):
        first, second = (
            torch.optim.Adam(module[0].parameters(), lr=1e-2),
            torch.optim.SGD(module[2].parameters(), lr=1e-1),
        )
        of_first = S.ExponentialLR(first, 0.9)
        of_second = S.StepLR(second, 3)

        def step(x, y):
            first.zero_grad()
            second.zero_grad()
            loss = F.cross_entropy(module(x), y)
            loss.backward()
            first.step()
            of_first.step()
            second.step()
            of_second.step()
            return loss.detach()

        return step

    run = compare(make, SCHEDULERS["constant"], steps=20)
    assert len(entries(run.call)) <= 2
    assert_one_graph(run)


def test_another_optimizer_that_comes_to_be_the_same():
    """Its rate is read behind the step of the scheduler."""

    def function(scheduler, optimizer, x):
        scheduler.step()
        return x * optimizer.param_groups[0]["lr"]

    def make():
        module = network()
        a, b = (torch.optim.SGD(module.parameters(), lr=lr) for lr in (0.5, 0.25))
        return S.ExponentialLR(a, 0.5), a, b

    fast = braze.compile(function)
    x = torch.ones(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for pick in (2, 2, 1, 1, 2, 1):
            ours, theirs = make(), make()
            for _ in range(3):
                assert torch.equal(
                    fast(ours[0], ours[pick], x), function(theirs[0], theirs[pick], x)
                )


def test_the_state_of_the_scheduler_goes_round():
    runs = [Run(OPTIMIZERS["adamw"], SCHEDULERS["cosine"], whole, c) for c in (False, True)]
    for run in runs:
        for number in range(10):
            run(number)
        saved = copy.deepcopy(
            (run.module.state_dict(), run.optimizer.state_dict(), run.scheduler.state_dict())
        )
        other = Run(OPTIMIZERS["adamw"], SCHEDULERS["cosine"], whole, run is runs[1])
        other.module.load_state_dict(saved[0])
        other.optimizer.load_state_dict(saved[1])
        other.scheduler.load_state_dict(saved[2])
        for number in range(10, 20):
            assert_same(other(number), run(number), rtol=1e-4, atol=1e-5)
        assert state_of(other.scheduler) == state_of(run.scheduler)
    assert state_of(runs[0].scheduler) == state_of(runs[1].scheduler)


def test_a_class_with_a_trainer():
    class Trainer:
        def __init__(self, module, optimizer, scheduler):
            self.module, self.optimizer, self.lr_scheduler = module, optimizer, scheduler
            self.global_step = 0

        def training_step(self, x, y):
            with torch.autocast("cpu", enabled=False):
                loss = F.cross_entropy(self.module(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(self.module.parameters(), 1.0)
            self.optimizer.step()
            self.lr_scheduler.step()
            self.module.zero_grad()
            self.global_step += 1
            return loss.detach()

    run = compare(
        lambda *parts: Trainer(*parts).training_step,
        SCHEDULERS["lambda, warm up"],
        OPTIMIZERS["adamw"],
    )
    assert len(entries(run.call)) <= 4


def test_plateaus_read_the_loss():
    def make(module, optimizer, scheduler):
        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(module(x), y)
            loss.backward()
            optimizer.step()
            scheduler.step(loss.detach())
            return loss.detach()

        return step

    run = compare(make, lambda o: S.ReduceLROnPlateau(o, patience=1), steps=12)
    assert len(entries(run.call)) <= 4


def test_an_epoch_that_is_given():
    def make(module, optimizer, scheduler):
        def step(x, y):
            loss = F.cross_entropy(module(x), y)
            loss.backward()
            optimizer.step()
            scheduler.step(scheduler.last_epoch + 2)
            optimizer.zero_grad()
            return loss.detach()

        return step

    run = compare(make, SCHEDULERS["restarts"], steps=8)
    assert run.warnings == [[]] * 8
    run = compare(make, SCHEDULERS["exponential"], steps=8)
    assert all(run.warnings)


def test_a_rate_that_is_a_tensor():
    def make_optimizer(parameters):
        return torch.optim.AdamW(parameters, lr=torch.tensor(0.01), foreach=False)

    compare(whole, SCHEDULERS["exponential"], make_optimizer, steps=5)


def test_averaged_weights():
    def make(module, optimizer, scheduler):
        average = swa_utils.AveragedModel(module)

        def step(x, y):
            loss = F.cross_entropy(module(x), y)
            loss.backward()
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            average.update_parameters(module)
            return loss.detach(), [p.detach().clone() for p in average.parameters()]

        return step

    compare(make, SCHEDULERS["averaging"], steps=20)
