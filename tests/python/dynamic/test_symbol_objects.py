"""Symbolic sizes as Python objects: which are the same int object."""

import braze
import pytest
import torch
from support import reasons


def identities(x):
    n, m = x.shape[0], x.size(0)
    k = int(n)
    same = n is n, n is m, m is x.shape[0], n is not m, k is n, x.size()[0] is x.shape[0]
    return x + 1, same, n is None, n is True, m is x.size(-2)


@pytest.mark.parametrize("lengths", [(5, 7, 9), (5, 300, 7, 400), (300, 5, 301)])
def test_identity_of_sizes(lengths):
    fast = braze.compile(identities, dynamic=True)
    for n in lengths:
        x = torch.randn(n, 3)
        expected, result = identities(x), fast(x)
        assert torch.equal(expected[0], result[0])
        assert expected[1:] == result[1:]


def test_small_sizes_are_one_object_without_a_break():
    fast = braze.compile(identities, dynamic=True)
    fast(torch.randn(7, 3))
    assert not reasons(fast)


def test_shape_of_results():
    def fn(x):
        y = torch.relu(x)[1:]
        assert type(y.shape) is type(y.size()) is torch.Size
        if y.shape[0] != y.size(-2) or len(y.shape) != y.dim():
            raise ValueError("sizes differ")
        return y.view(y.shape[0] * y.size(1)), y.shape, y.size(), y.shape[-1] + y.size()[0]

    fast = braze.compile(fn, fullgraph=True, dynamic=True)
    for n in (4, 9, 5):
        x = torch.randn(n, 3)
        expected, result = fn(x), fast(x)
        assert torch.equal(expected[0], result[0])
        assert expected[1:] == result[1:] and type(result[1]) is torch.Size


def test_size_of_no_dimension():
    def fn(x):
        try:
            return torch.relu(x).size(5)
        except IndexError:
            return x + 1

    fast = braze.compile(fn, dynamic=True)
    x = torch.randn(4, 3)
    assert torch.equal(fast(x), fn(x))


def test_a_caught_stop_iteration_shows_the_number():
    def counted(n):
        yield 1
        return n

    def f(x, n):
        made = counted(n)
        next(made)
        try:
            next(made)
        except StopIteration as stop:
            return x + n, repr(stop), stop.value * 2

    fast = braze.compile(f, dynamic=True)
    for n in (3, 4, 7):
        expected, result = f(torch.ones(2), n), fast(torch.ones(2), n)
        assert torch.equal(expected[0], result[0])
        assert expected[1:] == result[1:]
