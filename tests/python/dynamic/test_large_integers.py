"""Python's integers do not overflow: what varies is a symbol of 64 bits only where that is enough."""

import braze
import pytest
import torch

VALUES = (2, 3, 5, 2**31, 2**40, -(2**63), 2**62, 2**63 - 1, -5, 2**70, 7)


def arithmetic(x, n):
    numbers = [n + n, n - 1, -n, ~n, abs(n), n * 3, n * n, n**3, n << 9, n >> 2, n // 3, n % 7]
    return x + 1, numbers, sum([n, n, 1]), (n + 1) * (n - 1), n * x.shape[0] * x.shape[0]


def generator_of_numbers(x, seed):
    seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
    return x * (seed >> 40), seed


@pytest.mark.parametrize("function", [arithmetic, generator_of_numbers])
@pytest.mark.parametrize("first", range(0, len(VALUES), 3))
def test_arguments(function, first):
    compiled = braze.compile(function, recompile_limit=50)
    for value in (*VALUES[first:], *VALUES[:first]):
        x = torch.ones(3)
        got, wanted = compiled(x, value), function(x, value)
        assert torch.equal(got[0], wanted[0])
        assert got[1:] == wanted[1:], value


def test_powers_of_sizes():
    def function(x):
        n = x.shape[0]
        return x[:2] + 1, n**3, n**4, n * n * n * n, n * 10**15, n << 45, n * -(2**63)

    for sizes in ((5, 6, 7, 70_000, 80_000), (70_000, 80_000, 5, 6)):
        compiled = braze.compile(function, dynamic=True, recompile_limit=20)
        for size in sizes:
            x = torch.zeros(size)
            assert compiled(x)[1:] == function(x)[1:], size


def test_small_ones_stay_symbols():
    def function(x, n):
        return x * (n * n + 1)

    compiled = braze.compile(function, fullgraph=True, recompile_limit=2)
    for value in (2, 3, 5, 1000, -4, 1234):
        assert compiled(torch.ones(2), value).tolist() == [value * value + 1.0] * 2


def test_numbers_from_data():
    def function(x):
        n = x.sum().item()
        return x * 2, n * n, n + n, n * n * n

    options = {"capture_scalar_outputs": True}
    compiled = braze.compile(function, options=options)
    for value in (1, 2, 3, 2**30, 2**45, -(2**61), 2**62, 5):
        x = torch.tensor([value, 0])
        assert compiled(x)[1:] == function(x)[1:]
