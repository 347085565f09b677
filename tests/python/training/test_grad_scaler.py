"""Steps of training with `torch.amp.GradScaler`, compiled as a whole: those that it skips, too."""

import copy
import warnings

import braze
import pytest
import torch
import torch.nn as nn
from comparing import assert_same, assert_same_state, captured
from support import entries
from whole_steps import batches, loss_of, network

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "sgd with momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.1, amsgrad=True),
    "adam by lists": lambda p: torch.optim.Adam(p, lr=0.01, foreach=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.9, centered=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
    "adadelta": lambda p: torch.optim.Adadelta(p),
    "adamax": lambda p: torch.optim.Adamax(p, lr=0.01),
    "radam": lambda p: torch.optim.RAdam(p, lr=0.01),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.01),
    "asgd": lambda p: torch.optim.ASGD(p, lr=0.01, t0=2.0),
    "adafactor": lambda p: torch.optim.Adafactor(p),
    "rprop": lambda p: torch.optim.Rprop(p, lr=0.01),
}
INFINITE = (3, 4, 7)
STEPS = 10


def data():
    pairs = batches(STEPS)
    for number in INFINITE:
        pairs[number][0][0, number % 8] = float("inf") if number % 2 else float("nan")
    return pairs


def assert_same_optimizers(one, other, **tolerance):
    a, b = one.state_dict(), other.state_dict()
    assert a["param_groups"] == b["param_groups"]
    assert a["state"].keys() == b["state"].keys()
    for place, state in a["state"].items():
        assert state.keys() == b["state"][place].keys()
        for name, value in state.items():
            if isinstance(value, torch.Tensor):
                assert_same(b["state"][place][name], value, **tolerance)
            else:
                assert b["state"][place][name] == value


class Training:
    """A model, its optimizer and a scaler; `step` is a function of these, compiled or not."""

    def __init__(self, make, step, compiled=False, **scaler):
        self.module = network()
        self.optimizer = make(self.module.parameters())
        self.scaler = torch.amp.GradScaler("cpu", **scaler)
        self.plain = step(self)
        self.step = braze.compile(self.plain) if compiled else self.plain


def clipped(training):
    module, optimizer, scaler = training.module, training.optimizer, training.scaler

    def step(x, y):
        optimizer.zero_grad()
        loss = loss_of(module, x, y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss.detach(), norm

    return step


def short(training):
    module, optimizer, scaler = training.module, training.optimizer, training.scaler

    def step(x, y):
        loss = loss_of(module, x, y)
        scaler.scale(loss).backward()
        assert scaler.step(optimizer) is None
        scaler.update()
        optimizer.zero_grad(set_to_none=False)
        return loss.detach()

    return step


def compare(make, step, pairs=None, **scaler):
    """Both ways side by side; the compiled one."""
    tolerance = dict(rtol=1e-4, atol=1e-5)
    eager = Training(make, step, **scaler)
    fast = Training(make, step, compiled=True, **scaler)
    for number, batch in enumerate(pairs or data()):
        answers = []
        before = [p.detach().clone() for p in fast.module.parameters()]
        for training in (eager, fast):
            torch.manual_seed(number)
            answers.append(training.step(*batch))
        wanted, got = (torch.utils._pytree.tree_leaves(answer) for answer in answers)
        for a, b in zip(got, wanted, strict=True):
            assert_same(a, b, **tolerance)
        assert_same_state(eager.module, fast.module, **tolerance)
        assert_same_optimizers(eager.optimizer, fast.optimizer, **tolerance)
        assert eager.scaler.state_dict() == fast.scaler.state_dict()
        if not batch[0].isfinite().all():
            for p, old in zip(fast.module.parameters(), before, strict=True):
                torch.testing.assert_close(p.detach(), old, rtol=0, atol=0)
    return fast


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_that_are_made_and_steps_that_are_skipped(name):
    fast = compare(OPTIMIZERS[name], clipped, init_scale=8.0, growth_interval=2)
    torch.manual_seed(0)
    assert captured(fast.plain, *batches()[0])


def test_one_entry_serves_both():
    fast = compare(OPTIMIZERS["adamw"], clipped, init_scale=8.0, growth_interval=2)
    # The first step makes the optimizer's state.
    assert [e["exit"] for e in entries(fast.step)] == ["return", "return"]
    before = len(entries(fast.step))
    for batch in data():
        fast.step(*batch)
    assert len(entries(fast.step)) == before


@pytest.mark.parametrize("name", ("sgd", "adamw"))
def test_gradients_that_the_step_checks_itself(name):
    fast = compare(OPTIMIZERS[name], short, init_scale=8.0, growth_interval=3)
    assert captured(fast.plain, *batches()[0])


def test_a_scale_that_is_too_large():
    """It falls until gradients are finite, and does not grow beyond what a float holds."""
    pairs = [pair for _ in range(4) for pair in batches(4)]
    fast = compare(OPTIMIZERS["sgd"], short, pairs, init_scale=3e38, growth_interval=2)
    assert fast.scaler.get_scale() < 3e38


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float64))
def test_gradients_of_other_types(dtype):
    def make_training(compiled):
        module = nn.Linear(8, 4).to(dtype)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=3.0)

        def step(x):
            optimizer.zero_grad()
            loss = module(x).square().mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            return loss.detach()

        return module, scaler, braze.compile(step) if compiled else step

    torch.manual_seed(0)
    module, scaler, step = make_training(False)
    twin, other, fast = make_training(True)
    twin.load_state_dict(module.state_dict())
    for number in range(4):
        x = torch.randn(5, 8, dtype=dtype)
        if number == 2:
            x[0] = torch.inf
        tolerance = dict(rtol=2e-2, atol=1e-3) if dtype == torch.bfloat16 else {}
        assert_same(fast(x), step(x), **tolerance)
        assert_same_state(module, twin, **tolerance)
        assert scaler.state_dict() == other.state_dict()


def test_two_optimizers():
    def make_step(training):
        module, scaler = training.module, training.scaler
        first = torch.optim.AdamW(module[0].parameters(), lr=0.01)
        second = torch.optim.SGD(module[4].parameters(), lr=0.1)
        training.others = first, second

        def step(x, y):
            module.zero_grad()
            loss = loss_of(module, x, y)
            scaler.scale(loss).backward()
            # Only one of them finds what is infinite.
            module[0].weight.grad.masked_fill_(x.abs().max() > 3, torch.inf)
            for optimizer in (first, second):
                scaler.step(optimizer)
            scaler.update()
            return loss.detach()

        return step

    pairs = batches(8)
    for number in (2, 5):
        pairs[number][0][0, 0] = 4.0
    for number in (0, 1, 3, 4, 6, 7):
        pairs[number][0].clamp_(-2, 2)
    fast = compare(OPTIMIZERS["sgd"], make_step, pairs, init_scale=4.0, growth_interval=2)
    assert fast.scaler.get_scale() < 16
    assert captured(fast.plain, *pairs[0])


def test_a_scaler_that_is_switched_off():
    fast = compare(OPTIMIZERS["adamw"], clipped, batches(), enabled=False)
    assert captured(fast.plain, *batches()[0])


def test_what_is_called_out_of_order_is_refused_as_in_eager():
    def twice(training):
        def step(x, y):
            training.optimizer.zero_grad()
            training.scaler.scale(loss_of(training.module, x, y)).backward()
            training.scaler.unscale_(training.optimizer)
            training.scaler.unscale_(training.optimizer)

        return step

    def without_scale(training):
        def step(x, y):
            loss_of(training.module, x, y).backward()
            training.scaler.step(training.optimizer)

        return step

    for make_step, error in ((twice, RuntimeError), (without_scale, AssertionError)):
        messages = []
        for compiled in (False, True):
            training = Training(OPTIMIZERS["sgd"], make_step, compiled)
            with pytest.raises(error) as caught:
                training.step(*batches()[0])
            messages.append(str(caught.value))
        assert messages[0] == messages[1]


def test_what_was_unscaled_stays_known_between_calls():
    """By the identity of the optimizer."""
    found = []
    for compiled in (False, True):
        training = Training(OPTIMIZERS["adamw"], lambda training: None, False, init_scale=4.0)
        module, optimizer, scaler = training.module, training.optimizer, training.scaler

        def backward(x, y):
            optimizer.zero_grad()
            scaler.scale(loss_of(module, x, y)).backward()
            scaler.unscale_(optimizer)

        def finish():
            scaler.step(optimizer)
            scaler.update()

        if compiled:
            backward, finish = braze.compile(backward), braze.compile(finish)
        for number, batch in enumerate(data()):
            torch.manual_seed(number)
            backward(*batch)
            with pytest.raises(RuntimeError, match="already been called"):
                scaler.unscale_(optimizer)
            finish()
        found.append((copy.deepcopy(module.state_dict()), scaler.state_dict()))
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)


def test_optimizers_of_the_users_and_hooks_are_asked():
    """Code that a step runs beside is run on no step that is skipped."""

    class Counting(torch.optim.SGD):
        steps = 0

        def step(self, closure=None):
            self.steps += 1
            return super().step(closure)

    def hooked(parameters):
        optimizer = torch.optim.SGD(parameters, lr=0.1)
        optimizer.steps = 0

        def count(optimizer, args, kwargs):
            optimizer.steps += 1

        optimizer.register_step_post_hook(count)
        return optimizer

    for make in (lambda p: Counting(p, lr=0.1), hooked):
        fast = compare(make, clipped, init_scale=8.0)
        assert fast.optimizer.steps == STEPS - len(INFINITE)


@pytest.mark.parametrize("name", ("sgd with momentum", "adamw", "nadam"))
@pytest.mark.parametrize("skipped", ((0,), (0, 1, 2), (1,)))
def test_first_steps_that_are_skipped(name, skipped):
    """They make no state."""
    pairs = batches(6)
    for number in skipped:
        pairs[number][0][0, 0] = float("inf")
    fast = compare(OPTIMIZERS[name], clipped, pairs, init_scale=8.0, growth_interval=2)
    assert all(e["exit"] == "return" for e in entries(fast.step))


def scheduled(training):
    before = clipped(training)
    training.scheduler = torch.optim.lr_scheduler.ExponentialLR(training.optimizer, 0.9)

    def step(x, y):
        answer = before(x, y)
        training.scheduler.step()
        return answer

    return step


@pytest.mark.parametrize("skipped", ((), (0,), (0, 1)))
def test_a_scheduler_hears_of_the_first_step_that_is_made(skipped):
    pairs = batches(6)
    for number in skipped:
        pairs[number][0][0, 0] = float("inf")
    seen = []
    for compiled in (False, True):
        training = Training(OPTIMIZERS["adamw"], scheduled, compiled, init_scale=8.0)
        given = []
        for number, batch in enumerate(pairs):
            torch.manual_seed(number)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                training.step(*batch)
            given.append([(str(w.message), w.filename, w.lineno) for w in caught])
        scheduler = training.scheduler.state_dict()
        seen.append((given, scheduler, hasattr(training.optimizer, "_opt_called")))
    assert seen[0] == seen[1]
    assert bool(seen[0][0][0]) == (0 in skipped)
    explained = braze.explain(training.plain)(*batches()[0])
    assert explained.breaks == [] and len(explained.entries) == 1


@pytest.mark.parametrize("skipped", (False, True))
def test_what_follows_the_first_step(skipped):
    def step_of(training):
        before = clipped(training)
        optimizer, scaler, module = training.optimizer, training.scaler, training.module

        def step(x, y):
            answer = before(x, y)
            made = len(optimizer.state) if optimizer.state else "none"
            loss_of(module, torch.zeros_like(x), y).backward()
            scaler.step(optimizer)
            scaler.update()
            return (*answer, made, len(optimizer.state), len(optimizer.state_dict()["state"]))

        return step

    pairs = batches(4)
    if skipped:
        pairs[0][0][0, 0] = float("inf")
    eager, fast = (
        Training(OPTIMIZERS["adamw"], step_of, compiled, init_scale=8.0)
        for compiled in (False, True)
    )
    for number, batch in enumerate(pairs):
        answers = []
        for training in (eager, fast):
            torch.manual_seed(number)
            answers.append(training.step(*batch))
        assert answers[0][2:] == answers[1][2:]
        assert_same_state(eager.module, fast.module, rtol=1e-4, atol=1e-5)
        assert_same_optimizers(eager.optimizer, fast.optimizer, rtol=1e-4, atol=1e-5)
