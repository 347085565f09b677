"""Two Python floats that vary and are compared: the outcome is a guard, not the numbers."""

import math

import braze
import pytest
import torch
from support import entries, reasons, same

X = torch.arange(4.0)


def serve(fn, make, count, calls=14):
    """Calls over one state each give what eager gives; at most so many entries are made."""
    fast = braze.compile(fn)
    ours, theirs = make(), make()
    for i in range(calls):
        same(fast(X, ours, i), fn(X, theirs, i))
        assert repr(ours) == repr(theirs)
    assert not reasons(fast)
    assert len(entries(fast)) <= count, [entry["guards"] for entry in entries(fast)]
    return fast


def state():
    return {"step": 0, "lr": 0.3, "best": math.inf}


def counted(rate):
    def fn(x, s, i):
        s["step"] += 1
        return x * rate(s)

    return fn


RATES = {
    "a rate and a count": lambda s: min(s["lr"], 1 / math.sqrt(s["step"])),
    "two of a count": lambda s: min(s["step"] ** -0.5, s["step"] * 4**-1.5),
    "the larger": lambda s: max(0.9 ** s["step"], 1 / s["step"]),
    "three": lambda s: max(min(s["lr"], 1 / s["step"]), 0.9 ** s["step"], 0.05),
    "a branch": lambda s: 1.0 if s["lr"] * 2 > 1 / s["step"] else 2.0,
    "a chain": lambda s: 3.0 if 0.01 < 1 / s["step"] <= s["lr"] else 1 / s["step"],
    "not equal": lambda s: 2.0 if s["lr"] * s["step"] != 1 / s["step"] else 1.0,
}


@pytest.mark.parametrize("name", RATES)
def test_rates(name):
    # The first counts are numbers; then one entry for each outcome that there is.
    serve(counted(RATES[name]), state, 6)


def test_the_outcome_decides():
    def fn(x, a, b):
        return [x * 2 if outcome else x for outcome in (a < b, a <= b, a > b, a >= b, a == b)]

    fast = braze.compile(fn)
    pairs = [(0.5, 0.7), (0.6, 0.9), (0.9, 0.6), (1.5, 1.5), (2.5, 2.5), (3.0, 1.0), (1.0, 3.0)]
    for a, b in pairs * 2:
        same(fast(X, a, b), fn(X, a, b))
    # One for numbers, one for each outcome.
    assert len(entries(fast)) <= 5


def test_of_equal_ones_the_first():
    def fn(x, a, b):
        return x, max(a, b), min(a, b), math.copysign(1, max(a, b)), math.copysign(1, min(a, b))

    fast = braze.compile(fn)
    for a, b in ((0.5, 0.7), (0.6, 0.9), (0.0, -0.0), (-0.0, 0.0), (0.9, 0.6), (-0.0, 0.0)):
        got, wanted = fast(X, a, b), fn(X, a, b)
        same(got, wanted)
        assert repr(got[1:]) == repr(wanted[1:])


def test_no_number_and_infinity():
    def fn(x, a, b):
        return x * min(a, b), [a < b, a == b, a != b, a >= b, max(a, b)]

    fast = braze.compile(fn)
    values = [0.5, 0.7, math.nan, math.inf, -math.inf]
    for a in values:
        for b in values:
            got, wanted = fast(X, a, b), fn(X, a, b)
            assert repr(got) == repr(wanted), (a, b)


def test_a_float_and_itself():
    def fn(x, a):
        return x * a, a == a, a < a, max(a, a), a * 2 == a + a

    fast = braze.compile(fn)
    for a in (0.5, 0.7, math.nan, 0.9, math.nan):
        assert repr(fast(X, a)) == repr(fn(X, a))


def test_the_best_so_far():
    """Behind a break a loss is compared with the best one."""

    def fn(x, s, i):
        loss = ((x + 7 * i) % 5).sum().item()
        if loss < s["best"]:
            s["best"] = loss
        return x + 1

    fast = braze.compile(fn)
    ours, theirs = state(), state()
    for i in range(14):
        same(fast(X, ours, i), fn(X, theirs, i))
        assert ours == theirs
    assert len(entries(fast)) <= 5


def test_the_best_so_far_in_a_list():
    best = {"ours": [math.inf], "theirs": [math.inf]}

    def fn(x, best, i):
        loss = (x * (20 - i) + i % 3).sum().item()
        if loss < best[0]:
            best[0] = loss
        return x * 2

    fast = braze.compile(fn)
    for i in range(12):
        same(fast(X, best["ours"], i), fn(X, best["theirs"], i))
    assert best["ours"] == best["theirs"]


@torch.enable_grad()
def test_an_optimizer_that_bounds_its_rate():
    class Bounded(torch.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 0.5})

        @torch.no_grad()
        def step(self):
            for group in self.param_groups:
                group["step"] = group.get("step", 0) + 1
                rate = min(group["lr"], 1 / math.sqrt(group["step"]))
                for p in group["params"]:
                    p.add_(p.grad, alpha=-rate)

    def make():
        p = torch.nn.Parameter(X.clone())
        optimizer = Bounded([p])

        def step(x):
            optimizer.zero_grad()
            (p * x).pow(2).sum().backward()
            optimizer.step()

        return p, step

    (p, ours), (q, theirs) = make(), make()
    fast = braze.compile(ours)
    for i in range(12):
        fast(X * 0.1 * (i + 1))
        theirs(X * 0.1 * (i + 1))
        torch.testing.assert_close(p, q)
    assert len(entries(fast)) <= 6
