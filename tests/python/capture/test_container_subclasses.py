"""Methods that a subclass of a container has: only those are asked that CPython asks."""

import copy
from collections import OrderedDict, defaultdict, deque

import braze
import pytest
import torch

CALLS = []


class Listed(list):
    def __iter__(self):
        CALLS.append("iter")
        return iter("pq")


class Keyed(dict):
    def __contains__(self, key):
        CALLS.append("contains")
        return True

    def __iter__(self):
        CALLS.append("iter")
        return iter("pq")


class Given(dict):
    def get(self, key, default=None):
        CALLS.append(key)
        return default if key == "b" else "given"


class Name(str):
    __hash__ = str.__hash__

    def __eq__(self, other):
        CALLS.append("eq")
        return str.__eq__(self, other)


class Holder:
    value = 3


def lengthened(items):
    items += [1]
    return len(items)


def matched(table):
    match table:
        case {"a": a, "b": b}:
            return a, b
        case {"a": a, **rest}:
            return a, rest


USES = [
    (Listed([3, 1]), lengthened),
    (Listed([3, 1]), lambda o: (o.append(4), list.__repr__(o))),
    (Keyed(a=1), lambda o: (o.get("a"), o.get("z", 5), "z" in o)),
    (Keyed(a=1), lambda o: (o.update(b=2), dict.__repr__(o))),
    (Keyed(a=1), lambda o: dict.__contains__(o, "z")),
    (Given(a=1, b=2), matched),
    (Given(a=1), matched),
    (Name("value"), lambda o: (getattr(Holder, o, 7), hasattr(Holder, o))),
]


@pytest.mark.parametrize("number", range(len(USES)))
def test_methods_of_subclasses(number):
    given, use = USES[number]

    def f(x, given):
        return x + 1, use(given)

    fast = braze.compile(f)
    for call in range(3):
        seen = []
        for function in (f, fast):
            CALLS.clear()
            own = copy.copy(given) if isinstance(given, str) else type(given).__new__(type(given))
            if isinstance(given, list):
                list.extend(own, list.__getitem__(given, slice(None)))
            elif isinstance(given, dict):
                own.update(dict.items(given))
            result, shown = function(torch.full((2,), float(call)), own)
            seen.append(
                (result.tolist(), shown, list(CALLS), str(type(own).__base__.__repr__(own)))
            )
        assert seen[0] == seen[1]


def test_items_that_a_defaultdict_makes():
    """In one from outside, in one of the trace, of any factory."""
    calls = []

    def factory():
        calls.append(len(calls))
        return [len(calls)]

    outside = {kind: defaultdict(kind) for kind in (dict, list, int, factory)}
    outside[None] = defaultdict()

    def f(x, kind):
        table = outside[kind]
        own = defaultdict(dict)
        own["a"]["b"] = x
        table["new"], table["other"]
        if kind is dict:
            table["new"]["x"] = x + 1
        if kind in (list, factory):
            table["new"].append(x * 2)
        if kind is int:
            table["new"] += 3
        return own["a"]["b"] + len(table), own

    fast = braze.compile(f)
    for kind in (dict, list, int, factory):
        kept = []
        for call in (f, fast, fast):
            outside[kind].clear()
            calls.clear()
            x = torch.arange(3.0)
            result, own = call(x, kind)
            assert type(own) is defaultdict and own.default_factory is dict
            kept.append((result, dict(own), dict(outside[kind]), list(calls)))
            assert outside[kind]["new"] is outside[kind]["new"] and len(outside[kind]) == 2
        for got in kept[1:]:
            torch.testing.assert_close(got, kept[0])
    with pytest.raises(KeyError, match="new"):
        fast(torch.ones(3), None)
    assert "captured as a whole" in braze.explain(f)(torch.ones(3), dict)


def test_a_factory_that_is_exchanged():
    table = defaultdict(list)

    def f(x, key):
        return x + len(table[key])

    fast = braze.compile(f)
    assert fast(torch.zeros(1), 5).item() == 0 and table == {5: []}
    table.clear()
    table.default_factory = lambda: (1, 2)
    assert fast(torch.zeros(1), 5).item() == 2 and table == {5: (1, 2)}


class Deque(deque):
    def __len__(self):
        CALLS.append("len")
        return 77

    def __getitem__(self, index):
        CALLS.append(index)
        return 100.0


def test_deque_of_a_subclass():
    """Guards read its length and items past the methods of its class."""

    def f(given, x):
        for item in given:
            x = x + item
        return x + given[0]

    fast = braze.compile(f, fullgraph=True)
    for items in ([1.0, 2.0], [1.0, 2.0], [1.0, 3.0], [1.0]):
        seen = []
        for function in (fast, f):
            CALLS.clear()
            seen.append((function(Deque(items), torch.ones(2)).tolist(), list(CALLS)))
        assert seen[0] == seen[1]


@pytest.mark.parametrize("base", [dict, OrderedDict])
def test_keywords_of_a_subclass(base):
    """`**` asks the class where it has an order or an __iter__ of its own."""

    class Asked(base):
        def __iter__(self):
            self.asked = True
            return super().__iter__()

        def __getitem__(self, key):
            return super().__getitem__(key) * 2

    def keywords(**named):
        return list(named.items())

    def use(given, x):
        return x + sum(value * i for i, (_, value) in enumerate(keywords(**given)))

    def moved(given, x):
        given.move_to_end("a")
        return use(given, x)

    for cls in (base, Asked):
        for function in (use, moved) if base is OrderedDict else (use,):
            fast = braze.compile(function)
            for i in range(2):
                ours, theirs = cls(a=1, b=2, c=5), cls(a=1, b=2, c=5)
                x = torch.ones(2) * i
                assert fast(ours, x).tolist() == function(theirs, x).tolist()
                assert getattr(ours, "asked", None) == getattr(theirs, "asked", None)
                assert list(base.__iter__(ours)) == list(base.__iter__(theirs))
