"""What a step of a scheduler changes, read and written by the code around it; its warnings and
exceptions; functions of the user's in it."""

import copy
import functools
import traceback
import warnings

import braze
import pytest
import torch
import torch.nn.functional as F
from comparing import assert_same_state
from scheduled_steps import (
    OPTIMIZERS,
    SCHEDULERS,
    Run,
    S,
    assert_one_graph,
    batch,
    compare,
    network,
    rates,
    state_of,
    whole,
)
from support import entries


def test_rates_that_are_read_behind_it():
    def make(module, optimizer, scheduler):
        step_before = whole(module, optimizer, scheduler)

        def step(x, y):
            loss = step_before(x, y)
            return loss, scheduler.get_last_lr()[0], optimizer.param_groups[0]["lr"]

        return step

    run = compare(make, SCHEDULERS["cosine"])
    assert len(entries(run.call)) <= 6


def test_rates_that_are_read_before_it():
    def make(module, optimizer, scheduler):
        def step(x, y):
            group = optimizer.param_groups[0]
            rate, last = group["lr"], scheduler.get_last_lr()
            loss = F.cross_entropy(module(x), y)
            loss.backward()
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            return loss.detach(), rate, last

        return step

    run = compare(make, SCHEDULERS["cosine"])
    assert len(entries(run.call)) <= 3


READERS = {
    "group": lambda o, s: o.param_groups[0]["lr"],
    "get": lambda o, s: o.param_groups[0].get("lr"),
    "getter": lambda o, s: getattr(s, "last_epoch"),
    "items": lambda o, s: [v for k, v in o.param_groups[0].items() if k == "lr"],
    "copy": lambda o, s: dict(o.param_groups[0])["lr"],
    "spread": lambda o, s: {**o.param_groups[0]}["lr"],
    "keywords": lambda o, s: (lambda lr, **others: lr)(**o.param_groups[0]),
    "text": lambda o, s: f"{s.get_last_lr()}",
    "state": lambda o, s: s.state_dict()["last_epoch"],
    "vars": lambda o, s: vars(s)["last_epoch"],
    "dict": lambda o, s: s.__dict__["_step_count"],
    "state of the optimizer": lambda o, s: o.state_dict()["param_groups"][0]["lr"],
    "in a list": lambda o, s: copy.copy([o.param_groups[0]])[0]["lr"],
    "deep": lambda o, s: copy.deepcopy([{"g": {"lr": o.param_groups[0]["lr"]}}]),
    "sorted": lambda o, s: sorted(o.param_groups, key=lambda g: g["lr"])[0]["lr"],
    "values": lambda o, s: list(zip(o.param_groups, o.param_groups))[0][0]["lr"],
}


@pytest.mark.parametrize("name", READERS)
def test_ways_to_read(name):
    def make(module, optimizer, scheduler):
        step_before = whole(module, optimizer, scheduler)

        def step(x, y):
            loss = step_before(x, y)
            return loss, READERS[name](optimizer, scheduler)

        return step

    compare(make, SCHEDULERS["exponential"], steps=6)


WRITERS = {
    "group": lambda o, s: o.param_groups[0].__setitem__("lr", 0.01),
    "item": lambda o, s: operator_of(o.param_groups[0], "lr", 0.02),
    "update": lambda o, s: o.param_groups[0].update(lr=0.03),
    "counter": lambda o, s: setattr(s, "last_epoch", 3),
    "bases": lambda o, s: s.base_lrs.__setitem__(0, 0.5),
    "called": lambda o, s: setattr(o, "_opt_called", True),
}


def operator_of(group, key, value):
    group[key] = value


@pytest.mark.parametrize("name", WRITERS)
def test_ways_to_write(name):
    def make(module, optimizer, scheduler):
        step_before = whole(module, optimizer, scheduler)

        def step(x, y):
            loss = step_before(x, y)
            WRITERS[name](optimizer, scheduler)
            return loss

        return step

    compare(make, SCHEDULERS["cosine"], steps=6)


def test_what_is_written_before_it():
    def make(module, optimizer, scheduler):
        step_after = whole(module, optimizer, scheduler)

        def step(x, y):
            for group in optimizer.param_groups:
                group["lr"] = group["lr"] * 1.5
            return step_after(x, y)

        return step

    compare(make, SCHEDULERS["exponential"], steps=8)


def test_the_wrong_order_is_warned_of():
    def make(module, optimizer, scheduler):
        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(module(x), y)
            loss.backward()
            scheduler.step()
            optimizer.step()
            return loss.detach()

        return step

    run = compare(make, SCHEDULERS["exponential"], steps=6)
    ((message, category, filename, line),) = run.warnings[0]
    assert "before `optimizer.step()`" in message and category is UserWarning
    assert filename == __file__ and line == make.__code__.co_firstlineno + 5
    assert not any(run.warnings[1:])


def test_an_optimizer_without_a_step_is_warned_of():
    def make(module, optimizer, scheduler):
        def step(x, y):
            scheduler.step()
            return module(x).detach()

        return step

    run = compare(make, SCHEDULERS["exponential"], steps=4)
    assert [len(given) for given in run.warnings] == [1, 0, 0, 0]
    assert_one_graph(run, 0)


def test_a_step_that_was_overridden_is_warned_of():
    def make(module, optimizer, scheduler):
        optimizer.step = functools.partial(type(optimizer).step, optimizer)
        return whole(module, optimizer, scheduler)

    run = compare(make, SCHEDULERS["exponential"], steps=4)
    assert [len(given) for given in run.warnings] == [1, 0, 0, 0]


def test_a_warning_that_is_an_exception():
    def function(scheduler, x):
        scheduler.step()
        return x + 1

    fast = braze.compile(function)
    for call in (function, fast):
        optimizer = torch.optim.SGD(network().parameters(), lr=0.5)
        scheduler = S.ExponentialLR(optimizer, 0.5)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(UserWarning, match="before"):
                call(scheduler, torch.ones(2))
            assert scheduler._step_count == 1
            optimizer.step()
            call(scheduler, torch.ones(2))
        assert scheduler._step_count == 2 and optimizer.param_groups[0]["lr"] == 0.25


def test_exceptions_of_a_function_of_the_users():
    def of(epoch):
        return 1 / (3 - epoch)

    def run(compiled):
        module = network()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        scheduler = S.LambdaLR(optimizer, of)
        step = whole(module, optimizer, scheduler)
        call = braze.compile(step) if compiled else step
        call(*batch(0)), call(*batch(1))
        with pytest.raises(ZeroDivisionError) as caught:
            call(*batch(2))
        frames = [
            (frame.filename, frame.name, frame.lineno)
            for frame in traceback.extract_tb(caught.value.__traceback__)
            if frame.filename == __file__ and frame.name in ("step", "of")
        ]
        return module, state_of(scheduler), rates(optimizer), frames

    (a, *wanted), (b, *got) = run(False), run(True)
    assert got == wanted
    assert_same_state(a, b)


@pytest.mark.parametrize("kind", ("lambda", "one cycle"))
def test_exceptions_that_the_step_handles(kind):
    def make_scheduler(optimizer):
        if kind == "one cycle":
            return S.OneCycleLR(optimizer, 0.1, total_steps=5)
        return S.LambdaLR(optimizer, lambda epoch: 1 / (5 - epoch))

    def make(module, optimizer, scheduler):
        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(module(x), y)
            loss.backward()
            optimizer.step()
            failed = False
            try:
                scheduler.step()
            except (ValueError, ZeroDivisionError):
                failed = True
            return loss.detach(), failed

        return step

    compare(make, make_scheduler, steps=9)


def test_behind_the_last_step_of_a_cycle():
    def run(compiled):
        module = network()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        scheduler = S.OneCycleLR(optimizer, 0.1, total_steps=5)
        step = whole(module, optimizer, scheduler)
        call = braze.compile(step) if compiled else step
        for number in range(5):
            call(*batch(number))
        with pytest.raises(ValueError, match="Tried to step 6 times"):
            call(*batch(5))
        return module, state_of(scheduler), rates(optimizer)

    (a, *wanted), (b, *got) = run(False), run(True)
    assert got == wanted
    assert_same_state(a, b)


class Config:
    def __init__(self):
        self.gamma = 0.9
        self.seen = []


IMPURE = {
    "prints": lambda c: lambda epoch: print("epoch", epoch) or 0.9**epoch,
    "keeps": lambda c: lambda epoch: c.seen.append(epoch) or 0.9**epoch,
    "reads a tensor": lambda c: lambda epoch: 0.9**epoch * torch.ones(()).item(),
    "reads an attribute": lambda c: lambda epoch: c.gamma**epoch,
    "reads what it is given": lambda c: lambda epoch, c=c: vars(c)["gamma"] ** epoch,
}


@pytest.mark.parametrize("name", IMPURE)
def test_functions_that_do_more(name, capsys):
    texts, seen = [], []
    for compiled in (False, True):
        config = Config()

        def make(module, optimizer, scheduler):
            before = whole(module, optimizer, scheduler)

            def step(x, y):
                print("before")
                loss = before(x, y)
                print("behind")
                config.gamma = config.gamma * 0.9
                return loss

            return step

        run = Run(OPTIMIZERS["sgd"], lambda o: S.LambdaLR(o, IMPURE[name](config)), make, compiled)
        for number in range(10):
            run(number)
        texts.append(capsys.readouterr().out)
        seen.append((config.seen, config.gamma, state_of(run.scheduler), rates(run.optimizer)))
    assert texts[0] == texts[1] and "behind" in texts[0]
    assert seen[0] == seen[1]


_gamma = 0.9


def test_globals_and_variables_that_the_step_sets():
    def run(compiled):
        global _gamma
        _gamma, count = 0.9, 1

        def make(module, optimizer, scheduler):
            before = whole(module, optimizer, scheduler)

            def step(x, y):
                global _gamma
                nonlocal count
                loss = before(x, y)
                _gamma = _gamma * 0.99
                count += 1
                return loss

            return step

        run = Run(
            OPTIMIZERS["sgd"],
            lambda o: S.LambdaLR(o, lambda epoch: _gamma**epoch / count),
            make,
            compiled,
        )
        for number in range(12):
            run(number)
        return state_of(run.scheduler), rates(run.optimizer), _gamma, count

    assert run(True) == run(False)


def test_numbers_that_the_step_sets_for_itself():
    """That is no reason to break."""

    def make(module, optimizer, scheduler):
        before = whole(module, optimizer, scheduler)
        trainer = Config()

        def step(x, y):
            loss = before(x, y)
            trainer.gamma = 1.0
            return loss

        return step

    run = compare(make, SCHEDULERS["lambda"])
    assert_one_graph(run)
