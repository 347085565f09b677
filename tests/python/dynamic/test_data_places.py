"""Views by place (as_strided) of tensors whose sizes come from data."""

import braze
import pytest
import torch
from support import reasons, same
from test_data_symbols import BOTH, check

MIXED = torch.tensor([[1.0, -2.0, 3.0], [-1.0, 2.0, 0.5]])
CALLS = [(MIXED,), (MIXED.abs(),), (MIXED * 0,)]


def nonzero_rows(x):
    rows = (x > 0).nonzero()
    return rows.as_strided((rows.shape[0],), (1,)) + 1


def masked(x):
    y = x.masked_select(x > 0)
    return y.as_strided((y.shape[0],), (1,)), y


def fill_diagonal(x):
    rows = (x > 0).nonzero()
    rows.fill_diagonal_(7)
    return rows


def fill_diagonal_later(x):
    y = x * 2
    count = (x > 0).nonzero().shape[0]
    y.fill_diagonal_(7)
    return y + count


def argument(x):
    count = (x > 0).nonzero().shape[0]
    return x.as_strided((2, 2), (1, 2)) * count


@pytest.mark.parametrize("fn", [nonzero_rows, masked, fill_diagonal_later, argument])
def test_places(fn, capfd):
    check(fn, CALLS)
    assert "internal error" not in capfd.readouterr().err


def test_a_diagonal_that_depends_on_data_breaks(capfd):
    fast = braze.compile(fill_diagonal, options=BOTH)
    for args in CALLS:
        same(fast(*args), fill_diagonal(*args))
    assert reasons(fast)
    assert "internal error" not in capfd.readouterr().err


def of_a_view(x, n):
    y = (x * 2)[1:]
    count = n.item()
    return y.as_strided((2,), (1,)) + count


def of_a_view_of_a_view(x, n):
    y = (x * 2)[1:]
    count = n.item()
    return y.t().as_strided((2,), (1,)) + count


@pytest.mark.parametrize("fn", [of_a_view, of_a_view_of_a_view])
def test_a_view_from_before_a_number_breaks(fn, capfd):
    fast = braze.compile(fn, options=BOTH)
    for number in (3, 5):
        args = (MIXED, torch.tensor(number))
        same(fast(*args), fn(*args))
    assert any("viewed by its place" in reason for reason in reasons(fast))
    assert "internal error" not in capfd.readouterr().err
