"""Functions made anew in each call that lie in containers and partials, or that a nested function
closes over: known by what they do."""

import functools

import braze
import pytest
import torch
from test_fresh_functions import X, check, makes


class Holder:
    def __init__(self, function):
        self.function = function


IN_CONTAINERS = {
    "tuple": (lambda x, h: h[0](x) + h[1], lambda g: (g, 1)),
    "list": (lambda x, h: h[1](x), lambda g: [3, g]),
    "dict": (lambda x, h: h["a"](x), lambda g: {"a": g}),
    "nested": (lambda x, h: h["a"][0][1](x), lambda g: {"a": [(0, g)]}),
    "partial": (lambda x, h: h(x), lambda g: functools.partial(g)),
    "partial of a partial": (lambda x, h: h(x), lambda g: functools.partial(functools.partial(g))),
    "argument of a partial": (
        lambda x, h: h(x),
        lambda g: functools.partial(lambda function, v: function(v) * 2, g),
    ),
    "keyword of a partial": (
        lambda x, h: h(x),
        lambda g: functools.partial(lambda v, function: function(v) * 2, function=g),
    ),
    "items": (lambda x, h: sum(f(x) for f in h), lambda g: [g, lambda v: v + 1]),
    "given back": (lambda x, h: (h[0](x), h[0]("a" * 2) if x is None else None), lambda g: (g,)),
}


@pytest.mark.parametrize("name", IN_CONTAINERS)
def test_in_a_container(name):
    use, hold = IN_CONTAINERS[name]
    check(use, lambda i: (X, hold(makes(torch.full((4,), float(i))))), variants=1)
    check(use, lambda i: (X, hold(lambda v: v * 3)), variants=1)


@pytest.mark.parametrize("name", IN_CONTAINERS)
def test_in_a_container_others_are_others(name):
    use, hold = IN_CONTAINERS[name]
    check(use, lambda i: (X, hold(makes(i // 2))))
    check(use, lambda i: (X, hold([lambda v: v * 3, lambda v: v - 1, makes(2), abs][i % 4])))


def test_in_a_container_it_is_handed_back_itself():
    def f(x, h):
        return h[0](x), h[0]

    fast = braze.compile(f)
    for i in range(4):
        g = makes(torch.full((4,), float(i)))
        result, function = fast(X, (g, 0))
        assert function is g
        assert torch.equal(result, g(X))


def test_one_function_in_two_places():
    def f(x, h):
        return x * 2 if h[0] is h[1] else h[0](x) + h[1](x)

    def make(i):
        g = lambda v: v * 3
        return X, [(g, g), (g, lambda v: v * 3), (makes(1), makes(1))][i % 3]

    check(f, make, calls=9)


def test_in_an_attribute_it_is_itself():
    check(lambda x, h: h.function(x), lambda i: (X, Holder(makes(i // 2))))


def test_what_a_function_gives_behind_a_break():
    def pack(x):
        shape = x.shape
        braze.graph_break()

        def unpack(z):
            return z.reshape(shape) + 1

        return x[None], unpack

    def f(x):
        y, unpack = pack(x)
        return unpack(y * 2)

    fast = braze.compile(f)
    for _ in range(5):
        assert torch.equal(fast(X), f(X))
    count = len(fast._entries())
    for _ in range(5):
        assert torch.equal(fast(X), f(X))
    assert len(fast._entries()) == count


def test_a_decorator_in_a_function():
    def f(x, k):
        def twice(function):
            @functools.wraps(function)
            def wrapper(*args):
                braze.graph_break()
                return function(*args) * 2

            return wrapper

        @twice
        def shifted(y):
            return y + k

        return shifted(x)

    fast = braze.compile(f)
    for _ in range(5):
        assert torch.equal(fast(X, 1), f(X, 1))
    count = len(fast._entries())
    for _ in range(5):
        assert torch.equal(fast(X, 1), f(X, 1))
    assert len(fast._entries()) == count
    for k in (2, 3, 4):
        assert torch.equal(fast(X, k), f(X, k))
