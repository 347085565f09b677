"""Objects of classes that a function makes at each call, behind a break."""

import collections
import gc
import weakref

import braze
import pytest
import torch
from support import reasons

ALIVE = []


def iterates(x, n):
    y = x + 1

    class Counts:
        def __init__(self):
            self.n = n

        def __iter__(self):
            return self

        def __next__(self):
            self.n += 1
            if self.n > 5:
                raise StopIteration
            return y * self.n

        def __bool__(self):
            return self.n > 2

    made = Counts()
    word = "many" if made else "few"
    ALIVE.append(weakref.ref(y))  # a break
    first, *others = made
    return word, first, len(others)


@pytest.mark.parametrize("backend", ["aten", "braze"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_no_class_is_kept(dynamic, backend):
    compiled = braze.compile(iterates, dynamic=dynamic, backend=backend)
    ALIVE.clear()
    for n in (3, 3, 2, 2, 2, 1, 4):
        x = torch.ones(2, 3)
        assert str(compiled(x, n)) == str(iterates(x, n))
    gc.collect()
    assert not any(reference() is not None for reference in ALIVE)
    assert any("makes at each call" in reason for reason in reasons(compiled)), reasons(compiled)


def names_itself(x, n):
    y = x + n

    class Pair(collections.namedtuple("Pair", "a b")):
        def __add__(self, other):
            return Pair(self.a + other, self.b)

        def kept(self):
            return y

    ALIVE.append(weakref.ref(Pair))
    return (Pair(y, 1) + 2).a


def is_called_by_its_maker(x, n):
    y = x + n

    class Pair(collections.namedtuple("Pair", "a b")):
        def __add__(self, other):
            return type(self)(self.a + other, self.b)

        @classmethod
        def of(cls, a):
            return cls(a, a)

        def kept(self):
            return y

    ALIVE.append(weakref.ref(Pair))
    return (Pair.of(y) + 2).a


@pytest.mark.parametrize("function", [names_itself, is_called_by_its_maker])
def test_a_class_is_not_kept_by_what_is_compiled_of_its_methods(function):
    ALIVE.clear()
    compiled = braze.compile(function)
    for n in range(4):
        x = torch.arange(3.0)
        assert torch.equal(compiled(x, n), x + n + 2)
    gc.collect()
    assert [reference() for reference in ALIVE] == [None] * 4
