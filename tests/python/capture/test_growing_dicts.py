"""Dicts of the standard library's classes, whose numbers change call by call, and lists whose last
items are read behind an append."""

import collections
import copy
import json
import pickle

import braze
import pytest
import torch
from support import entries, same

CALLS = 8


def counted(state):
    def f(x):
        state["calls"] += 1
        return x + 1

    return f


def read_as_well(state):
    def f(x):
        state["calls"] += 2
        return x * state["calls"]

    return f


def by_method(state):
    def f(x):
        state.__setitem__("calls", state["calls"] + 1)
        return x + state.get("calls", 0)

    return f


def kept_elsewhere(state):
    state["last"] = 0

    def f(x):
        state["last"] = state["calls"]
        state["calls"] = state["last"] + 3
        return x - 1

    return f


def returned(state):
    def f(x):
        state["calls"] += 1
        return state["calls"], x + 1

    return f


def with_floats(state):
    state["loss"] = 0.5

    def f(x):
        state["calls"] += 1
        state["loss"] = state["loss"] * 0.5 + 1
        return x + state["loss"]

    return f


# Compiled for the first number, and once more for all others.
GROW = [counted, read_as_well, by_method, kept_elsewhere, returned, with_floats]
KINDS = {
    "defaultdict": lambda: collections.defaultdict(int, calls=2),
    "OrderedDict": lambda: collections.OrderedDict(calls=2),
    "Counter": lambda: collections.Counter(calls=2),
}


def told(make, kind, way):
    state = kind()
    call = way(make(state))
    results = []
    for k in range(CALLS):
        results.append((call(torch.arange(3.0) + k), copy.deepcopy(state)))
    return results, call


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", GROW, ids=lambda make: make.__name__)
def test_numbers_that_change_vary(make, kind):
    expected, _ = told(make, KINDS[kind], lambda function: function)
    got, compiled = told(make, KINDS[kind], braze.compile)
    same(got, expected)
    assert len(entries(compiled)) <= 3


def test_elements_that_are_counted():
    def make(state):
        def f(x):
            state.update(["a", "b", "a"])
            return x + 1

        return f

    expected, _ = told(make, collections.Counter, lambda function: function)
    got, compiled = told(make, collections.Counter, braze.compile)
    same(got, expected)
    assert len(entries(compiled)) <= 4


# Whoever looks at the numbers gets them.
ASKED = {
    "repr": repr,
    "str": str,
    "list of items": lambda d: list(d.items()),
    "sorted": lambda d: sorted(d.items(), key=lambda item: (item[1], item[0])),
    "sorted keys": lambda d: sorted(d, key=d.get),
    "sum": lambda d: sum(d.values()),
    "max": lambda d: max(d.values()),
    "max key": lambda d: max(d, key=d.get),
    "values": lambda d: tuple(d.values()),
    "plain": dict,
    "copied": lambda d: d.copy(),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "json": json.dumps,
    "pickle": lambda d: pickle.loads(pickle.dumps(d)),
    "equal": lambda d: (d == {"calls": 4, "b": 1}, d != dict(d), {"calls": 5} == d),
    "has": lambda d: (7 in d.values(), ("b", 1) in d.items(), "b" in d),
    "format": lambda d: f"{d['calls']:>4}|{d}",
    "popped": lambda d: (d.pop("calls"), dict(d)),
    "last item": lambda d: (d.popitem(), dict(d)),
    "or": lambda d: d | {"calls": 1},
    "type": lambda d: (type(d["calls"]), isinstance(d["calls"], int)),
    "index": lambda d: list(range(10))[d["calls"] % 10],
    "as key": lambda d: {value: key for key, value in d.items()},
    "hash": lambda d: hash(d["calls"]),
    "is": lambda d: d["calls"] is d["calls"],
    "bool": lambda d: [bool(value) for value in d.values()],
    "unpacked": lambda d: (lambda **named: named)(**d),
    "zip": lambda d: list(zip(*d.items())),
    "filter": lambda d: list(filter(None, d.values())),
    "divided": lambda d: {key: value / 2 for key, value in d.items()},
    "bytes": lambda d: bytes(d["calls"]),
    "text times": lambda d: "a" * d["calls"],
    "kept": lambda d: (d.setdefault("calls", 0), d.setdefault("new", 1)),
}
OF_COUNTERS = {
    "most common": lambda c: c.most_common(),
    "most common one": lambda c: c.most_common(1),
    "elements": lambda c: sorted(c.elements()),
    "total": lambda c: c.total(),
    "missing": lambda c: c["none"],
    "subtract": lambda c: (c.subtract({"b": 3}), dict(c)),
    "plus": lambda c: c + collections.Counter(b=2),
    "minus": lambda c: c - collections.Counter(calls=2),
    "and": lambda c: c & collections.Counter(calls=3),
    "or": lambda c: c | collections.Counter(calls=3),
    "positive": lambda c: +c,
    "at most": lambda c: c <= collections.Counter(calls=6, b=1),
    "of it": lambda c: collections.Counter(c),
    "update": lambda c: (c.update({"b": 2, "c": 1}), dict(c)),
    "update itself": lambda c: (c.update(c), dict(c)),
    "delete": lambda c: (c.__delitem__("b"), dict(c)),
}
OF_ORDERED = {
    "to the end": lambda d: (d.move_to_end("calls"), list(d.items())),
    "reversed": lambda d: list(reversed(d.items())),
    "first": lambda d: (d.popitem(last=False), list(d)),
    "equal in order": lambda d: d == collections.OrderedDict(b=1, calls=4),
}


def asks(question):
    def make(state):
        state["b"] = 1

        def f(x):
            state["calls"] = state.get("calls", 2) + 1
            return question(state), x + 1

        return f

    return make


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("kind", KINDS)
def test_what_looks_at_the_numbers(kind, name):
    expected, _ = told(asks(ASKED[name]), KINDS[kind], lambda function: function)
    got, _ = told(asks(ASKED[name]), KINDS[kind], braze.compile)
    same(got, expected)


@pytest.mark.parametrize("name", OF_COUNTERS)
def test_what_counters_have(name):
    expected, _ = told(asks(OF_COUNTERS[name]), KINDS["Counter"], lambda function: function)
    got, _ = told(asks(OF_COUNTERS[name]), KINDS["Counter"], braze.compile)
    same(got, expected)


@pytest.mark.parametrize("name", OF_ORDERED)
def test_what_ordered_dicts_have(name):
    expected, _ = told(asks(OF_ORDERED[name]), KINDS["OrderedDict"], lambda function: function)
    got, _ = told(asks(OF_ORDERED[name]), KINDS["OrderedDict"], braze.compile)
    same(got, expected)


class Own(collections.Counter):
    def __getitem__(self, key):
        return super().__getitem__(key) * 10


class Plain(collections.OrderedDict):
    pass


@pytest.mark.parametrize("kind", [Own, Plain])
def test_classes_of_the_users(kind):
    for make in GROW:
        expected, _ = told(make, lambda: kind(calls=2), lambda function: function)
        got, _ = told(make, lambda: kind(calls=2), braze.compile)
        same(got, expected)


READ = {
    "last": lambda rows, x: (rows.append(x * 2), rows[-1] + 1)[1],
    "last two": lambda rows, x: (rows.append(x), rows.append(x + 1), rows[-2] * rows[-1])[2],
    "number": lambda rows, x: (rows.append(len(x)), x * rows[-1])[1],
    "twice": lambda rows, x: (rows.append(x), rows[-1], rows.append(x + 1), rows[-1])[1::2],
    "the same object": lambda rows, x: (rows.append(x), rows[-1] is x)[1],
    "beyond": lambda rows, x: (rows.append(x), len(rows) > 1 and rows[-2])[1],
    "from the front": lambda rows, x: (rows.append(x), rows[0] + 1)[1],
    "a slice": lambda rows, x: (rows.append(x), rows[-1:])[1],
    "out of range": lambda rows, x: (rows.append(x), rows[-(10**30)])[1],
    "changed": lambda rows, x: (rows.append(x), rows.__setitem__(-1, x + 1), rows[-1])[2],
    "taken back": lambda rows, x: (rows.append(x), rows.append(1), rows.pop(), rows[-1])[3],
    "in place": lambda rows, x: (rows.append(x.clone()), rows[-1].add_(1), rows[-1])[2],
}
ONCE = {"last", "last two", "number", "twice", "the same object", "in place"}


def outcome(function, *given):
    try:
        return function(*given)
    except (IndexError, TypeError) as error:
        return str(error)


@pytest.mark.parametrize("kind", [list, lambda: collections.deque(maxlen=2)], ids=["list", "deque"])
@pytest.mark.parametrize("name", READ)
def test_last_items_behind_an_append(name, kind):
    told = []
    for way in (lambda function: function, braze.compile):
        rows = kind()
        call = way(lambda x: READ[name](rows, x))
        results = [outcome(call, torch.arange(3.0) + k) for k in range(CALLS)]
        told.append((results, list(rows)))
    same(told[1], told[0])
    if kind is list and name in ONCE:
        assert len(entries(call)) == 1
