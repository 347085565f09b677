"""Fields of named tuples, of tuples made in C and of torch's result tuples that are arguments."""

import collections
import os
import time
import typing

import braze
import pytest
import torch
from support import compare, entries, reasons, same

X = torch.randn(4, 3)
Pair = collections.namedtuple("Pair", "x y")


class Typed(typing.NamedTuple):
    x: float
    y: torch.Tensor = X

    @property
    def both(self):
        return self.y * self.x


class Longer(Pair):
    z = 5

    def total(self):
        return self.x + self.y + self.z


def test_numbers_as_fields(capfd):
    def f(x, v):
        return x * v.x

    fast = braze.compile(f)
    for v in (Pair(1, 2), Pair(1, 2), Pair(2, 2), Pair(3, 3), Pair(-1, 9), Pair(2.5, 0)):
        same(fast(X, v), f(X, v))
    assert reasons(fast) == [] and "report" not in capfd.readouterr().err
    assert len(entries(fast)) <= 4


def test_field_that_is_not_read_is_not_guarded():
    fast = braze.compile(lambda x, v: x * v.x)
    for y in (1, "text", None, X):
        same(fast(X, Pair(2, y)), X * 2)
    assert len(entries(fast)) == 1


def test_tensors_as_fields():
    def f(v):
        return v.x @ v.y.T, v.y.sum(), v

    fast = braze.compile(f)
    for _ in range(2):
        made = Pair(X + 1, X)
        got = fast(made)
        same(got, f(made))
        assert got[2] is made
    assert len(entries(fast)) == 1 and reasons(fast) == []


def test_fields_of_derived_classes():
    def f(x, v, t):
        return x * v.total() + v.z + t.both + t.x, v._fields, t._asdict()

    fast = braze.compile(f, fullgraph=True)
    for n in (1, 1, 2, 3):
        args = X, Longer(n, n + 1), Typed(n + 0.5, X)
        same(fast(*args), f(*args))


def test_named_tuples_in_other_places():
    holder = type("Holder", (), {})()
    holder.pair = Pair(Pair(1, X), [Pair(2, 3)])

    def f(x, by_name, items):
        a = holder.pair.x.y + by_name["pair"].x
        for item in items:
            a = a + getattr(item, "y") * x
        return a, holder.pair.y[0].x, by_name["pair"]._replace(y=a)

    fast = braze.compile(f)
    for n in (1, 1, 2):
        args = X, {"pair": Pair(n, 0)}, [Pair(0, n), Typed(1, X)]
        same(fast(*args), f(*args))
    assert reasons(fast) == []


def test_field_of_a_changed_class():
    Local = collections.namedtuple("Local", "x y")

    def f(x, v):
        return x * v.x

    fast = braze.compile(f)
    same(fast(X, Local(2, 3)), X * 2)
    Local.x = Local.y
    same(fast(X, Local(2, 3)), X * 3)
    Local.x = property(lambda self: 7)
    same(fast(X, Local(2, 3)), X * 7)


def test_missing_field():
    def make():
        return lambda x, v: x * v.z

    compare(make, [lambda: (X, Pair(1, 2)), lambda: (X, Longer(1, 2))])


@pytest.mark.parametrize("dim", [0, 1])
def test_result_tuples_of_torch(dim):
    def f(m):
        return m.values * 2, m.indices, m[0].sum()

    fast = braze.compile(f)
    for x in (X, X + 1, torch.randn(4, 3)):
        m = torch.max(x, dim)
        same(fast(m), f(m))
    assert reasons(fast) == [] and len(entries(fast)) == 1


def test_tuples_made_in_c():
    status = os.stat(".")
    clocks = [time.gmtime(0), time.gmtime(10**9)]

    def f(x, status, clock):
        return x * clock.tm_year + (status.st_size > 0), clock.tm_mon, clock[2]

    fast = braze.compile(f)
    for clock in (clocks[0], clocks[0], clocks[1]):
        same(fast(X, status, clock), f(X, status, clock))
    assert reasons(fast) == []


def test_fields_of_structs_in_c(capfd):
    import ctypes

    class Point(ctypes.Structure):
        _fields_ = [("x", ctypes.c_int)]

    def f(x, p):
        return x * p.x

    fast = braze.compile(f)
    for n in (1, 2):
        same(fast(X, Point(n)), X * n)
    assert "report" not in capfd.readouterr().err
