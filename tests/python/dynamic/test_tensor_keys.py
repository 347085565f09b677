"""Tensors with symbolic sizes as keys and elements of sets: hashed as the tensors of the call."""

import braze
import pytest
import torch

OUTSIDE = {}


def in_a_display(x, y):
    table = {x: 1, y: 2}
    return table[x] + x, y in table, len({x, y, x})


def in_a_comprehension(x, y):
    return {t: 1 for t in (x, y)}[y] + x, [t.sum() for t in {t for t in (x, y)}]


def by_methods(x, y):
    table, seen = {}, set()
    table.setdefault(x, 3)
    seen.add(x)
    seen.add(y)
    seen.discard(x)
    return table[x] + y, x in table, len(seen), y in seen, x in seen


def in_a_tuple(x, y):
    table = {(x, 1): 2, (y, (x, 2)): 3}
    table[(y, 1)] = 4
    return table[(x, 1)] + y, table[(y, (x, 2))], (y, 1) in table, (x, 2) in table


def outside(x, y):
    OUTSIDE[x] = 3
    return OUTSIDE[x] + x, y in OUTSIDE


@pytest.mark.parametrize("f", [in_a_display, in_a_comprehension, by_methods, in_a_tuple, outside])
def test_keys(f, capfd):
    fast = braze.compile(f, dynamic=True)
    for size in (2, 3, 5):
        x, y = torch.randn(size, 3), torch.randn(size, 3)
        actual = fast(x, y)
        OUTSIDE.clear()
        torch.testing.assert_close(actual, f(x, y))
        OUTSIDE.clear()
    assert "report" not in capfd.readouterr().err


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_an_output_tensor_of_another_size(capfd):
    def f(x, y):
        torch.mul(y, 2, out=x)
        return x + 1

    fast = braze.compile(f, dynamic=True)
    for size in ((2, 3), (3,), (4, 3), (5,)):
        x, twin, y = torch.ones(2, 3), torch.ones(2, 3), torch.randn(size)
        torch.testing.assert_close(fast(x, y), f(twin, y))
        torch.testing.assert_close(x, twin)
    assert "report" not in capfd.readouterr().err
