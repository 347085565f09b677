"""What functions whose frames CPython makes rely on: their closures and their defaults."""

import braze
import pytest
import torch
from showing import outcome, same

X = torch.arange(4.0)


def scaled():
    scale = 2

    def g(v, n=2, *, of=torch.nn):
        for k in range(n):
            yield v * k * scale, of is torch.nn

    def put(value):
        nonlocal scale
        scale = value

    return g, put


@pytest.mark.parametrize("outside", [True, False])
def test_what_a_generator_function_closes_over_and_its_defaults(outside):
    g, put = scaled()
    f = (lambda x: [*g(x)]) if outside else (lambda x, g: [*g(x)])
    given = (X,) if outside else (X, g)
    fast = braze.compile(f)
    changes = [
        lambda: None,
        lambda: put(3),
        lambda: put(X),
        lambda: setattr(g, "__defaults__", (3,)),
        lambda: setattr(g, "__kwdefaults__", {"of": torch}),
    ]
    for change in changes:
        change()
        for _ in range(2):
            assert same(outcome(f, *given), outcome(fast, *given))


def test_the_default_of_a_function_that_native_code_calls_is_known_from_elsewhere():
    class Scale:
        by = 2

    def key(v, scale=Scale):
        return v * scale.by

    def f(x):
        return x * Scale.by, sorted([1, -2, 3], key=key)

    fast = braze.compile(f)
    for default in (Scale, type("Other", (), {"by": -1})):
        key.__defaults__ = (default,)
        assert same(outcome(f, X), outcome(fast, X))


@pytest.mark.parametrize("dynamic", [None, True])
def test_tensors_and_containers_as_defaults_of_a_generator_function(dynamic):
    tensor, items = torch.ones(3), [1, 2]

    def g(v, w=tensor, n=2, of=items, *, k=tensor):
        for item in of[:n]:
            yield v.sum() * item + w + k * len(of)

    def f(x):
        return [*g(x)]

    fast = braze.compile(f, dynamic=dynamic)
    changes = [
        lambda: None,
        lambda: tensor.add_(1),
        lambda: items.append(5),
        lambda: setattr(g, "__defaults__", (torch.ones(5), 1, items)),
        lambda: setattr(g, "__kwdefaults__", {"k": torch.ones(1)}),
        lambda: setattr(g, "__defaults__", (torch.ones(6), 7, items)),
        lambda: items.__setitem__(slice(None), [3]),
    ]
    for change in changes:
        change()
        for _ in range(2):
            assert same(outcome(f, X), outcome(fast, X))


def test_a_default_that_is_given_as_well():
    def g(v, n=2):
        for k in range(n):
            yield v * k

    fast = braze.compile(lambda x, n: [*g(x, n)])
    for n in (2, 2, 3, 1):
        g.__defaults__ = (n + 1,)
        assert same([*g(X, n)], fast(X, n))
