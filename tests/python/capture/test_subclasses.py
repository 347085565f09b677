"""`C.__subclasses__()`: which classes there are of a class is guarded."""

import gc
import subprocess
import sys

import braze
import pytest
import torch
from support import entries, same

X = torch.arange(3.0)


def family():
    class Base:
        factor = 1

    class First(Base):
        factor = 2

    class Second(Base):
        factor = 3

    class OfFirst(First):
        factor = 5

    return Base, [First, Second, OfFirst]


def total(base):
    def f(x):
        return x * sum(c.factor for c in base.__subclasses__())

    return f


def all_below(base):
    """As registries look for their members."""

    def f(x):
        found, open_classes = [], base.__subclasses__()
        while open_classes:
            found.append(open_classes.pop())
            open_classes += found[-1].__subclasses__()
        return x * sum(c.factor for c in found), [c.__name__ for c in found]

    return f


def unbound(base):
    return lambda x: x * sum(c.factor for c in type.__subclasses__(base))


def the_list(base):
    return lambda x: (x + 1, base.__subclasses__())


def an_argument(base):
    def f(x, given):
        return x * len(given.__subclasses__())

    return lambda x: f(x, base)


@pytest.mark.parametrize("make", [total, all_below, unbound, the_list, an_argument])
def test_classes_that_come_and_go(make):
    base, kept = family()
    function = make(base)
    fast = braze.compile(function, fullgraph=True)
    for _ in range(2):
        same(fast(X), function(X))
    assert len(entries(fast)) == 1
    kept.append(type("Third", (base,), {"factor": 7}))
    same(fast(X), function(X))
    kept.append(type("OfThird", (kept[-1],), {"factor": 11}))
    for _ in range(2):
        same(fast(X), function(X))
    # The compiled code holds classes that it has met.
    del kept[-1], kept[1]
    gc.collect()
    same(fast(X), function(X))


def test_an_attribute_of_a_subclass_changes():
    base, kept = family()
    function = total(base)
    fast = braze.compile(function, fullgraph=True)
    same(fast(X), function(X))
    kept[0].factor = 13
    same(fast(X), function(X))


def test_each_call_gives_a_list_of_its_own():
    base, kept = family()

    def f(x):
        found = base.__subclasses__()
        found.clear()
        return x * len(base.__subclasses__()), found

    fast = braze.compile(f, fullgraph=True)
    first, second = fast(X)[1], fast(X)[1]
    assert first == second == [] and first is not second
    same(fast(X), f(X))
    assert len(kept) == 3


def test_classes_of_the_traced_code():
    """Each call makes one of its own, which is there before compiled code could be."""
    base, kept = family()

    def f(x):
        class Of(base):
            factor = 4

        return x * sum(c.factor for c in base.__subclasses__()), Of.factor

    same(braze.compile(f)(X), (X * 9, 4))
    with pytest.raises(braze.GraphBreakError, match="where the traced code makes classes"):
        braze.compile(f, fullgraph=True)(X)
    assert len(kept) == 3


def test_methods_that_are_given():
    (first, kept), (second, also_kept) = family(), family()
    also_kept.append(type("Third", (second,), {}))

    def f(x, method):
        return x * len(method())

    fast = braze.compile(f)
    for base in (first, second, first, second):
        same(fast(X, base.__subclasses__), f(X, base.__subclasses__))
    assert len(kept) == 3


def test_a_metaclass_that_says_something_else():
    told = []

    class Meta(type):
        def __subclasses__(cls):
            told.append(cls.__name__)
            return [int, float]

    class Base(metaclass=Meta):
        pass

    def f(x):
        return x * len(Base.__subclasses__())

    fast = braze.compile(f)
    for _ in range(2):
        same(fast(X), X * 2)
    assert told == ["Base", "Base"]


FIRST_CALL = """
import braze, einops, torch
f = braze.compile(lambda x: einops.rearrange(x, "a b -> b a") + 1, fullgraph=True)
x = torch.arange(6.0).reshape(2, 3)
for _ in range(2):
    assert torch.equal(f(x), x.t() + 1)
"""


def test_the_first_call_of_einops_in_a_process():
    subprocess.run([sys.executable, "-c", FIRST_CALL], check=True, timeout=300)
