"""functools.singledispatch: the function for a class, as it is registered at the call."""

import abc
import collections
import functools
import weakref

import braze
import pytest
import torch
import torch.nn as nn
from showing import outcome, same

X = torch.arange(4.0)


class Base:
    pass


class Derived(Base):
    pass


class Special(Derived):
    pass


def make():
    @functools.singledispatch
    def describe(value, x):
        return x + 1, "other"

    @describe.register
    def _(value: torch.Tensor, x):
        return value * x, "tensor"

    @describe.register
    def _(value: int, x):
        return x * value, "int"

    @describe.register(Base)
    def _(value, x):
        return x - 1, "base"

    @describe.register(list)
    def _(value, x):
        return sum(describe(each, x)[0] for each in value), "list"

    return describe


VALUES = [X, 3, True, 2.5, "a", None, Base(), Derived(), Special(), [X, 2, Derived()], (1,)]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_by_class(value):
    describe = make()

    def f(x, value):
        return describe(value, x)

    fast = braze.compile(f, fullgraph=True)
    for _ in range(2):
        assert same(outcome(fast, X, value), outcome(f, X, value))
    assert len(fast._entries()) == 1


def test_classes_in_turn():
    describe = make()

    def f(x, value):
        return describe(value, x)

    fast = braze.compile(f)
    for value in VALUES * 2:
        assert same(outcome(fast, X, value), outcome(f, X, value)), value


def test_a_tensor_comes_first():
    @functools.singledispatch
    def scale(x):
        return x

    @scale.register
    def _(x: torch.Tensor):
        return x * 2

    fast = braze.compile(lambda x: scale(x) + 1, fullgraph=True)
    assert torch.equal(fast(X), X * 2 + 1)
    assert torch.equal(fast(nn.Parameter(X.clone())), X * 2 + 1)
    assert torch.equal(braze.compile(scale)(X), X * 2)


def test_what_is_registered_later():
    describe = make()

    def f(x, value):
        return describe(value, x)

    fast = braze.compile(f)
    for change in (
        lambda: None,
        lambda: describe.register(Derived, lambda value, x: (x * 5, "derived")),
        lambda: describe.register(Special, lambda value, x: (x * 7, "special")),
        lambda: describe.register(Base, lambda value, x: (x * 11, "another base")),
        lambda: describe.register(object, lambda value, x: (x * 13, "any")),
    ):
        change()
        for value in (Base(), Derived(), Special(), 3, "a"):
            assert same(outcome(fast, X, value), outcome(f, X, value)), value


class Sized(abc.ABC):
    pass


class Plain:
    pass


def test_abstract_classes():
    describe = make()
    describe.register(Sized, lambda value, x: (x * 5, "sized"))
    describe.register(collections.abc.Mapping, lambda value, x: (x * 7, "mapping"))

    def f(x, value):
        return describe(value, x)

    fast = braze.compile(f)
    values = [Plain(), {"a": 1}, collections.OrderedDict(), 3, Base()]
    for value in values:
        assert same(outcome(fast, X, value), outcome(f, X, value)), value
    Sized.register(Plain)
    for value in values:
        assert same(outcome(fast, X, value), outcome(f, X, value)), value


def test_two_that_fit_equally():
    class One(abc.ABC):
        pass

    class Two(abc.ABC):
        pass

    class Both:
        pass

    One.register(Both)
    Two.register(Both)
    describe = make()
    describe.register(One, lambda value, x: x)
    describe.register(Two, lambda value, x: x * 2)
    for call in (describe, braze.compile(lambda value, x: describe(value, x))):
        with pytest.raises(RuntimeError, match="Ambiguous dispatch"):
            call(Both(), X)


def test_methods():
    class Layer:
        def __init__(self, scale):
            self.scale = scale

        @functools.singledispatchmethod
        def apply(self, value, x):
            return x

        @apply.register
        def _(self, value: int, x):
            return x * value * self.scale

        @apply.register
        def _(self, value: torch.Tensor, x):
            return x + value

    layer = Layer(2)

    def f(x, value):
        return layer.apply(value, x)

    fast = braze.compile(f)
    for value in (3, X, "a", 3, 4):
        assert same(outcome(fast, X, value), outcome(f, X, value)), value


def test_without_arguments():
    describe = make()

    def f(x):
        return describe()

    assert same(outcome(braze.compile(f), X), outcome(f, X))


def test_a_subclass_that_is_registered_later():
    class Abstract(abc.ABC):
        pass

    class Concrete:
        pass

    def f(x):
        return x * 2 if issubclass(Concrete, (int, Abstract)) else x

    fast = braze.compile(f)
    assert torch.equal(fast(X), X)
    Abstract.register(Concrete)
    assert torch.equal(fast(X), X * 2)


class Swapped:
    """weakref.WeakKeyDictionary makes what is given here."""

    def __init__(self, made):
        self.made = made

    def __enter__(self):
        self.before = weakref.WeakKeyDictionary
        weakref.WeakKeyDictionary = lambda: self.made

    def __exit__(self, *exception):
        weakref.WeakKeyDictionary = self.before


def test_a_cache_that_the_caller_looks_into():
    class Looked(collections.UserDict):
        pass

    def f(x):
        kept = Looked()
        with Swapped(kept):

            @functools.singledispatch
            def describe(value):
                return value * 2

        y = describe(x)
        return y, len(kept), list(kept)

    fast = braze.compile(f)
    for _ in range(2):
        y, count, keys = fast(X)
        assert torch.equal(y, X * 2)
        assert (count, keys) == (1, [torch.Tensor])
