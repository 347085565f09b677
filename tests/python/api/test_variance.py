"""Equal values vary by nothing: `std[std == 0] = 1` relies on it."""

import os
import subprocess
import sys

import braze
import pytest
import torch

SHAPES = [(9, 40), (64, 33), (1000, 24), (7, 500), (2, 3)]
FUNCTIONS = {
    "std": lambda x, dim: x.std(dim),
    "biased var": lambda x, dim: x.var(dim, unbiased=False),
    "var_mean": lambda x, dim: torch.var_mean(x, dim, keepdim=True),
    "std_mean": lambda x, dim: torch.std_mean(x, dim),
    "standardised": lambda x, dim: (
        (x - x.mean(dim, True)) / (std := x.std(dim, keepdim=True)).where(std != 0, 1.0)
    ),
}


def equal_along(dim, shape, dtype):
    shape = list(shape)
    length = shape[dim]
    shape[dim] = 1
    return torch.randn(shape).to(dtype).repeat_interleave(length, dim)


@pytest.mark.parametrize("dynamic", [None, True], ids=["auto", "dynamic"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_equal_values(name, dim, dtype, dynamic):
    f = FUNCTIONS[name]
    compiled = braze.compile(lambda x: f(x, dim), dynamic=dynamic, fullgraph=True)
    for shape in SHAPES:
        x = equal_along(dim, shape, dtype)
        found, expected = compiled(x), f(x, dim)
        if name != "standardised":  # a mean alone is rounded in eager too
            torch.testing.assert_close(found, expected, rtol=0, atol=0)
            continue
        torch.testing.assert_close(
            found, expected, rtol=0, atol=1e-5 if dtype != torch.bfloat16 else 1e-1
        )


def test_all_of_them():
    x = torch.full((4096, 1001), -1.3153)
    assert braze.compile(lambda x: x.var())(x).item() == 0
    assert braze.compile(lambda x: x.std(unbiased=False))(x[:, ::3]).item() == 0


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan])
def test_values_that_are_not_finite(value):
    x = torch.randn(6, 50)
    x[2, 7] = value
    for f in (lambda x: torch.var_mean(x, 1), lambda x: torch.std_mean(x, 0), lambda x: x.var()):
        torch.testing.assert_close(braze.compile(f)(x), f(x), equal_nan=True)


def test_gradient():
    """Where the deviation is 0 it has none."""

    def f(x):
        return x.cummin(0)[0].std(0, unbiased=False)

    with torch.enable_grad():
        x = equal_along(0, (9, 40), torch.float32)
        x[1:] += 1
        found, expected = x.clone().requires_grad_(), x.clone().requires_grad_()
        braze.compile(f)(found).sum().backward()
        f(expected).sum().backward()
        assert torch.equal(found.grad, torch.zeros_like(x))
        assert torch.equal(found.grad, expected.grad)


def test_layer_norm_takes_two_walks():
    """A variance to which something is added needs no mean to the last bit."""
    explanation = braze.explain(lambda x: torch.nn.functional.layer_norm(x, (64,)))(
        torch.randn(8, 64)
    )
    assert not any("corrected" in entry["code"] for entry in explanation.entries)
    explanation = braze.explain(lambda x: x.std(1))(torch.randn(8, 64))
    assert any("corrected" in entry["code"] for entry in explanation.entries)


def test_nothing_is_said_about_degrees_of_freedom(tmp_path):
    """A dtype that may be refused is tried on one element, of which PyTorch warns."""
    source = """
import warnings
warnings.simplefilter("error")
import braze
import torch
x = torch.randn(6, 5)
for function in (torch.std, torch.var, torch.std_mean, torch.var_mean):
    for dtype in (torch.bfloat16, torch.complex64):
        braze.compile(lambda x: function(x))(x.to(dtype))
"""
    done = subprocess.run(
        [sys.executable, "-c", source],
        capture_output=True,
        text=True,
        env={**os.environ, "BRAZE_CACHE_DIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("shape", [(70, 70), (6, 300), (300, 6)])
def test_nearly_equal_values(shape, dim):
    f = braze.compile(lambda x: torch.var_mean(x, dim))
    for spread in (1e-6, 1e-5, 1e-4, 1e-3, 1e-2):
        x = 1 + torch.randn(shape) * spread
        exact = torch.var_mean(x.double(), dim)
        for found, eager, right in zip(f(x), torch.var_mean(x, dim), exact, strict=True):
            error, allowed = ((t.double() - right).abs().max() for t in (found, eager))
            assert error <= 2 * allowed + 6e-7 * right.abs().max()


@pytest.mark.parametrize("dim", [0, 1])
def test_neighbours_change_no_bit(dim):
    f = braze.compile(lambda x: torch.var_mean(x, dim))
    x = torch.randn(70, 70)
    beside = x.clone()
    beside.select(1 - dim, 3).fill_(0.3)  # the only one whose mean is corrected
    for found, other in zip(f(x), f(beside), strict=True):
        others = torch.arange(70) != 3
        assert torch.equal(found[others], other[others])
