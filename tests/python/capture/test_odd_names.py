"""Names with lone surrogates, which have no UTF-8: Python takes them, and so does Braze."""

import functools

import braze
import pytest
import torch

ODD = "\ud800"


def outcome(function, *args):
    try:
        return "result", repr(function(*args))
    except (AttributeError, TypeError) as error:
        return type(error).__name__, str(error)


def assert_same(function, *calls):
    compiled = braze.compile(function)
    for args in calls:
        for _ in range(2):
            assert outcome(compiled, *args) == outcome(function, *args)


def test_attribute_of_a_tensor():
    def function(x, name):
        return getattr(x * 2, name)

    assert_same(function, (torch.ones(2), ODD), (torch.ones(2), "shape"))


def test_keyword_given_twice():
    def count(**keywords):
        return len(keywords)

    def function(x, first, second):
        return x * 2, count(**first, **second)

    x = torch.ones(2)
    assert_same(function, (x, {ODD: 1}, {"a": 2}), (x, {ODD: 1}, {ODD: 2}))


def test_names_of_a_function():
    def helper(x):
        return x + 1

    def function(x):
        return helper(x) * 2

    for named in (helper, function):
        named.__module__ = named.__name__ = named.__qualname__ = ODD
    assert_same(function, (torch.ones(2),))


@pytest.mark.parametrize("cached", [False, True])
def test_names_of_a_module(cached):
    source = "def part(n): return n + 1\ndef function(x): return x * part(3)"
    space = {"__name__": ODD, "__file__": ODD}
    exec(source, space)
    if cached:
        space["part"] = functools.lru_cache(space["part"])
    assert_same(space["function"], (torch.ones(2),))


def test_names_of_a_class():
    class Kind:
        def __init__(self, value):
            self.value = value

        def __add__(self, other):
            return self.value + other

    Kind.__module__ = Kind.__qualname__ = ODD

    def function(x, thing):
        return (thing + x) * Kind(3).value, isinstance(thing, Kind)

    assert_same(function, (torch.ones(2), Kind(2)), (torch.ones(2), Kind(3)))
