"""Tensors that depend on nothing outside but a number of the call are read in each call."""

import braze
import pytest
import torch


def beside_an_integer(x, n):
    return x + 1 if (torch.arange(8) + n >= 0).all() else x - 1


def filled(x, n):
    return x + 1 if torch.full((3,), n).eq(2).any() else x - 1


def compared(x, n):
    return x + 1 if (torch.arange(5) == n).any() else x - 1


def from_a_place_on(x, n):
    mask = torch.arange(8)
    mask[n:] = 0
    mask.add_(n)
    return x + 1 if (mask == n).sum() > 4 else x - 1


def powers(x, n):
    return x * int(torch.tensor([2, 3]).pow(n).sum())


def of_a_size(x, n):
    return x + 1 if (torch.arange(x.shape[0] + n) >= 6).any() else x - 1


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    "function", [beside_an_integer, filled, compared, from_a_place_on, powers, of_a_size]
)
def test_integers(function, dynamic):
    fast = braze.compile(function, dynamic=dynamic)
    for n in (0, 3, 2, 4, 1, 7, 5, 2):
        x = torch.arange(4.0)
        torch.testing.assert_close(fast(x, n), function(x, n), rtol=0, atol=0)
    if function is beside_an_integer:
        for n in (-5, -1, 6):
            torch.testing.assert_close(fast(x, n), function(x, n), rtol=0, atol=0)


@pytest.mark.parametrize("dynamic", [None, True])
def test_floats(dynamic):
    def scaled(x, scale):
        return x + 1 if (torch.arange(8) * scale > 10).any() else x - 1

    fast = braze.compile(scaled, dynamic=dynamic)
    for scale in (1.0, 2.5, 0.5, -3.0, 4.25):
        x = torch.arange(4.0)
        torch.testing.assert_close(fast(x, scale), scaled(x, scale), rtol=0, atol=0)
