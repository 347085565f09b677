"""Integers that the code itself counts on, in lists and dicts, and floats that follow from them."""

import copy
import json
import math

import braze
import pytest
import torch
from support import entries, reasons, same

X = torch.linspace(-3, 3, 12).reshape(3, 4)


def serve(fn, make_state, count, calls=12, look=lambda state: state):
    """Calls that change a state give what eager gives and leave what it leaves."""
    fast = braze.compile(fn)
    ours, theirs = make_state(), make_state()
    for _ in range(calls):
        same(fast(X, ours), fn(X, theirs))
        assert look(ours) == look(theirs)
    assert len(entries(fast)) == count
    assert not reasons(fast)
    return fast


class Counted:
    def __init__(self):
        self.n = 0


def in_a_list(x, state):
    state[0] += 1
    return x * 2


def in_a_dict(x, state):
    state["n"] += 1
    return x + state["n"]


def beside_others(x, state):
    state["seen"].append(state["n"])
    state["n"] = state["n"] + 3
    state["last"] = state["n"] - 1
    return x * 2


# 0 and 1 are numbers, all later ones are one symbol.
PLACES = {
    "list": (in_a_list, lambda: [0, "a"]),
    "dict": (in_a_dict, lambda: {"n": 0, "other": 7}),
    "a large number": (in_a_list, lambda: [10**6]),
}


@pytest.mark.parametrize("place", PLACES)
def test_places(place):
    fn, make = PLACES[place]
    serve(fn, make, 2 if make() == [10**6] else 3)


def test_the_same_number_in_several_places():
    def fn(x, state):
        state["n"] = state["n"] + 3
        state["last"] = state["n"] - 1
        return x * 2

    serve(fn, lambda: {"n": 5, "last": 4}, 2)


def test_a_number_that_is_put_into_a_longer_and_longer_list():
    fast = braze.compile(beside_others)
    ours, theirs = ({"n": 5, "last": 4, "seen": []} for _ in range(2))
    for _ in range(6):
        same(fast(X, ours), beside_others(X, theirs))
        assert ours == theirs
        assert all(type(n) is int for n in ours["seen"])


def test_every_fourth_call():
    def fn(x, state):
        state[0] += 1
        return x * 3 if state[0] % 4 == 0 else x * 2

    serve(fn, lambda: [0], 4)


LOOKS = {
    "sum": sum,
    "sorted": sorted,
    "str": str,
    "repr": repr,
    "max and min": lambda s: (max(s), min(s)),
    "index": lambda s: (s.index(s[0]), s.count(4), 5 in s),
    "tuple": lambda s: (tuple(s), list(s), hash(tuple(s))),
    "joined": lambda s: (s + [1], s * 2, [*s]),
    "compared": lambda s: (s == [2, 4], s < [3, 4]),
    "parts": lambda s: (s[::-1], s[:1], list(reversed(s))),
    "copies": lambda s: (s.copy(), copy.copy(s), copy.deepcopy(s)),
    "pairs": lambda s: (list(enumerate(s)), list(zip(s, s)), dict.fromkeys(s)),
    "any": lambda s: (any(s), all(s), bool(s)),
    "sorted in place": lambda s: s.sort(reverse=True),
    "removed": lambda s: s.remove(4) or s.append(4),
    "json": json.dumps,
    "text": lambda s: f"{s[0]:03d} {s} {s[0]}",
    "a tensor": torch.tensor,
    "unpacked": lambda s: (lambda a, b: a * 10 + b)(*s),
    "extended": lambda s: ([0].__iadd__(s), [9, *s]),
    "a set": lambda s: {*s} | set(s),
}


@pytest.mark.parametrize("look", LOOKS)
def test_what_looks_at_all_of_the_list(look):
    def fn(x, state):
        state[0] += 1
        seen = LOOKS[look](state)
        return x * state[0], seen

    fast = braze.compile(fn)
    ours, theirs = [0, 4], [0, 4]
    for _ in range(6):
        same(fast(X, ours), fn(X, theirs))
        assert ours == theirs
        assert [type(n) for n in ours] == [int, int]


LOOKS_AT_DICTS = {
    "sum": lambda d: sum(d.values()),
    "items": lambda d: (list(d.items()), sorted(d), list(d.values())),
    "text": lambda d: (str(d), f"{d['n']}", "%(n)d" % d),
    "compared": lambda d: (d == {"n": 2, "m": 4}, "n" in d, 2 in d.values()),
    "copies": lambda d: (dict(d), d.copy(), d | {"k": 1}, {**d}, copy.deepcopy(d)),
    "methods": lambda d: (d.get("n"), d.pop("n"), d.setdefault("n", 3), d.update(n=d["m"])),
    "json": json.dumps,
    "keywords": lambda d: (lambda n, m: n * 10 + m)(**d),
    "swapped": lambda d: {v: k for k, v in d.items()},
}


@pytest.mark.parametrize("look", LOOKS_AT_DICTS)
def test_what_looks_at_all_of_the_dict(look):
    def fn(x, state):
        state["n"] += 1
        seen = LOOKS_AT_DICTS[look](state)
        return x * state["n"], seen

    fast = braze.compile(fn)
    ours, theirs = ({"n": 0, "m": 4} for _ in range(2))
    for _ in range(6):
        same(fast(X, ours), fn(X, theirs))
        assert ours == theirs
        assert [type(n) for n in ours.values()] == [int, int]


def test_a_type_that_changes():
    def fn(x, state):
        state[0] = state[0] + 1
        return x * (0.5 ** state[0])

    fast = braze.compile(fn)
    for start in (5, 6, 7, 2.5, True, 8, 2**40, 2**70):
        ours, theirs = [start], [start]
        same(fast(X, ours), fn(X, theirs))
        assert ours == theirs
        assert type(ours[0]) is type(theirs[0])


FLOATS = {
    "a power": lambda x, n: x * (1 - 0.9**n),
    "two powers": lambda x, n: x * math.sqrt(1 - 0.999**n) / (1 - 0.9**n),
    "a root": lambda x, n: x * math.sqrt(n),
    "a share": lambda x, n: x * (n / 30),
    "a share of it": lambda x, n: x * (30 / n),
    "a cosine": lambda x, n: x * (0.5 * (1 + math.cos(math.pi * n / 30))),
    "a product": lambda x, n: x * (n * 0.1),
    "a sum": lambda x, n: x * (0.5 + n),
    "later": lambda x, n: x * 0.9 ** (n - 2),
    "made a float": lambda x, n: x * float(n),
    "divided": lambda x, n: x * (n // 0.7) + n % 0.3,
    "returned": lambda x, n: (x * 2, 0.9**n, n / 4),
    "a factor": lambda x, n: x * (2 * n * 0.9**n),
    "a factor alone": lambda x, n: x * (2 * n * 0.5),
    "a factor in a function": lambda x, n: x * math.sqrt(2 * n - 1),
    "a factor in an exponent": lambda x, n: x * 0.999 ** (3 * n),
    "a factor over a sum": lambda x, n: x * (2 * n / (1 + n)),
    "a square": lambda x, n: x * (n * n / 7) - 0.1 * (n**2 - 3 * n + 5),
    "a remainder": lambda x, n: x * math.cos(n % 5 / 5) + 0.5 ** (n // 4),
    "a difference": lambda x, n: (x * (0.5 * (10 - n)), -n / 3, (2 - 4 * n) / 3),
}


@pytest.mark.parametrize("formula", FLOATS)
def test_floats_of_a_counter(formula):
    def fn(x, state):
        state["n"] += 1
        return FLOATS[formula](x, state["n"])

    serve(fn, lambda: {"n": 3}, 2)


def test_floats_of_an_attribute():
    def fn(x, state):
        state.n += 1
        return x * (0.5**state.n)

    serve(fn, Counted, 3, look=vars)


def test_floats_of_two_counters():
    def fn(x, state):
        state[0] += 1
        state[1] += 3
        total = 2 * state[0] + state[1]
        return x * (state[0] * state[1] / total) + 0.9 ** (total - 1), total / 3

    serve(fn, lambda: [3, 5], 2)


def test_floats_of_a_counter_and_a_size():
    def fn(x, n):
        return x * (2 * n * x.shape[0] / 3) - math.sqrt(x.shape[0] + n)

    fast = braze.compile(fn)
    for rows, n in ((2, 3), (4, 5), (5, 7), (5, 9), (6, 9)):
        same(fast(torch.ones(rows, 2), n), fn(torch.ones(rows, 2), n))


def test_a_remainder_by_zero_is_eagers():
    fast = braze.compile(lambda x, n, m: x * (0.5 * (n % m)))
    for n, m in ((5, 3), (7, 4), (8, 5), (9, 7)):
        same(fast(X, n, m), X * (0.5 * (n % m)))
    assert len(entries(fast)) <= 3
    with pytest.raises(ZeroDivisionError):
        fast(X, 7, 0)


def test_with_a_float_that_varies():
    def fn(x, state):
        state["n"] += 1
        state["rate"] *= 0.9
        return x * (state["rate"] / (1 - 0.9 ** state["n"])) + state["rate"] * state["n"]

    serve(fn, lambda: {"n": 3, "rate": 0.5}, 2)


def test_a_division_by_zero_is_eagers():
    def fn(x, state):
        state[0] -= 1
        return x * (1 / state[0])

    fast = braze.compile(fn)
    ours, theirs = [6], [6]
    for _ in range(5):
        same(fast(X, ours), fn(X, theirs))
    for call, state in ((fast, ours), (fn, theirs)):
        with pytest.raises(ZeroDivisionError):
            call(X, state)
    assert ours == theirs == [0]


def test_a_power_too_large_is_eagers():
    def fn(x, state):
        state[0] *= 4
        return x * (2.0 ** state[0])

    fast = braze.compile(fn)
    ours, theirs = [3], [3]
    for _ in range(4):
        same(fast(X, ours), fn(X, theirs))
    for call, state in ((fast, ours), (fn, theirs)):
        with pytest.raises(OverflowError):
            call(X, state)
    assert ours == theirs
