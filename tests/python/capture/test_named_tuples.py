"""collections.namedtuple called in traced code: a class of each call's own, as in eager."""

import collections
import pickle
from collections import namedtuple

import braze
import pytest
import torch
import torch.nn as nn
from showing import outcome, same

X = torch.arange(4.0)


def used_inside(x):
    Pair = namedtuple("Pair", ["a", "b"])
    pair = Pair(x, x * 2)
    a, b = pair
    other = pair._replace(a=b)
    parts = pair._asdict()
    about = Pair._fields, len(pair), isinstance(pair, tuple), isinstance(pair, Pair), list(parts)
    return other.a + pair[1] + Pair._make([x, 1])[1] + parts["b"], about


def names_and_module(x):
    Pair = namedtuple("Pair", "a b")
    Other = namedtuple("Other", "a b", module="elsewhere")
    return x, Pair.__name__, Pair.__qualname__, Pair.__module__, Other.__module__, Pair.__doc__


def numbers_inside(x):
    Pair = namedtuple("Pair", "a b")
    known = {Pair(1, 2): 3}
    ordered = sorted([Pair(2, "x"), Pair(1, "y")], key=lambda pair: pair.a)
    return x * known[Pair(1, 2)], repr(ordered), Pair(1, 2) == (1, 2)


def defaults(x):
    Pair = namedtuple("Pair", "a b c", defaults=[2, "c"])
    return Pair(x).b * Pair(x, c=1).a, Pair._field_defaults, Pair(x).c


def renamed(x):
    Pair = namedtuple("Pair", ["a", "class", "a"], rename=True)
    return Pair(x, x * 2, x * 3)._1, Pair._fields


def comma(x):
    return namedtuple("Pair", "a, b")(a=x, b=2).b * x


def a_subclass(x):
    class Pair(namedtuple("Pair", "a b")):
        def both(self):
            return self.a + self.b

    return Pair(x, x * 2).both()


CODE = [used_inside, names_and_module, numbers_inside, defaults, renamed, comma, a_subclass]


@pytest.mark.parametrize("code", CODE, ids=lambda code: code.__name__)
def test_inside(code):
    fast = braze.compile(code, fullgraph=True)
    for _ in range(3):
        assert same(outcome(fast, X), outcome(code, X))
    assert len(fast._entries()) == 1


ODD = {
    "twice": lambda x: (namedtuple("Pair", "a a"), x),
    "keyword": lambda x: (namedtuple("Pair", "class b"), x),
    "arguments": lambda x: namedtuple("Pair", "a b")(x),
    "no defaults": lambda x: type(namedtuple("Pair", "a", defaults=[])(x)).__new__.__defaults__,
    "too many defaults": lambda x: (namedtuple("Pair", "a", defaults=[1, 2]), x),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_arguments(name):
    fast = braze.compile(ODD[name])
    for _ in range(2):
        assert same(outcome(fast, X), outcome(ODD[name], X))


def assert_same_class(got, wanted):
    names = ("__name__", "__qualname__", "__module__", "__doc__", "_fields", "_field_defaults")
    for name in names:
        assert getattr(got, name) == getattr(wanted, name), name
    assert got.__new__.__defaults__ == wanted.__new__.__defaults__
    assert [getattr(got, f).__doc__ for f in got._fields] == [
        getattr(wanted, f).__doc__ for f in wanted._fields
    ]
    assert got.__mro__[1:] == wanted.__mro__[1:]


def given_back(x, n):
    Pair = namedtuple("Pair", "a b c", defaults=[7])
    return Pair(x * 2, n)


def test_an_instance_that_leaves():
    fast = braze.compile(given_back, fullgraph=True)
    results = [fast(X, 3) for _ in range(3)]
    for result in results:
        wanted = given_back(X, 3)
        assert repr(result) == repr(wanted) and torch.equal(result.a, wanted.a)
        assert_same_class(type(result), type(wanted))
        with pytest.raises(pickle.PicklingError):
            pickle.dumps(result)
    # As in eager, each call makes a class.
    assert len({type(result) for result in results}) == 3
    assert len(fast._entries()) == 1


def test_instances_of_one_class():
    def f(x):
        Pair = namedtuple("Pair", "a b")
        return [Pair(x, 1), Pair(2, x + 1)], Pair, {"z": Pair(3, 4)}

    fast = braze.compile(f, fullgraph=True)
    (first, second), cls, third = fast(X)
    assert type(first) is type(second) is type(third["z"]) is cls
    assert (third["z"], second.a) == ((3, 4), 2)
    assert torch.equal(second.b, X + 1)
    assert_same_class(cls, f(X)[1])
    assert fast(X)[1] is not cls


def test_an_instance_that_is_stored():
    kept = []

    def f(x):
        kept.append(namedtuple("Pair", "a b")(x * 2, 1))
        return x + 1

    fast = braze.compile(f)
    for _ in range(3):
        assert torch.equal(fast(X), X + 1)
    assert [torch.equal(pair.a, X * 2) for pair in kept] == [True] * 3
    assert len({type(pair) for pair in kept}) == 3


CHANGED = {
    "attribute": lambda cls: setattr(cls, "extra", 3),
    "text": lambda cls: setattr(cls, "__doc__", "pairs"),
    "text of a field": lambda cls: setattr(cls.a, "__doc__", "the first"),
    "defaults": lambda cls: setattr(cls.__new__, "__defaults__", (None, 5)),
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_class_that_is_changed(name):
    change = CHANGED[name]

    def f(x):
        Pair = namedtuple("Pair", "a b")
        change(Pair)
        return Pair(x, 2)

    fast = braze.compile(f)
    for _ in range(2):
        got, wanted = fast(X), f(X)
        assert_same_class(type(got), type(wanted))
        assert vars(type(got)).get("extra") == vars(type(wanted)).get("extra")


def test_tensors_as_defaults_are_a_break():
    def f(x):
        return namedtuple("Pair", "a b", defaults=[x * 2])(x).b + 1

    fast = braze.compile(f)
    for _ in range(3):
        assert torch.equal(fast(X), f(X))
    assert any("namedtuple()" in each["text"] for each in braze.explain(f)(X).breaks)


def test_another_function_of_that_name(monkeypatch):
    def f(x):
        return x * len(collections.namedtuple("Pair", "a b")._fields)

    fast = braze.compile(f)
    assert torch.equal(fast(X), X * 2)
    only = collections.namedtuple("Only", "a")
    monkeypatch.setattr(collections, "namedtuple", lambda name, fields: only)
    assert torch.equal(fast(X), X)


class Features(nn.Module):
    """As in fast_neural_style and lpips."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        a = self.first(x).relu()
        b = self.second(a).relu()
        Outputs = namedtuple("Outputs", ["low", "high"])
        return Outputs(a, b)


@torch.enable_grad()
def test_a_module_that_gives_one():
    torch.manual_seed(0)
    features = Features()

    def loss(x, y):
        f, g = features(x), features(y)
        return (f.high - g.high).pow(2).mean() + f.low.mean()

    fast, module = braze.compile(loss, fullgraph=True), braze.compile(features, fullgraph=True)
    for _ in range(4):
        x, y = torch.randn(2, 4), torch.randn(2, 4)
        torch.testing.assert_close(fast(x, y), loss(x, y))
        got, wanted = module(x), features(x)
        torch.testing.assert_close(tuple(got), tuple(wanted))
        assert_same_class(type(got), type(wanted))
        assert got.low.requires_grad
    assert len(fast._entries()) == 1
