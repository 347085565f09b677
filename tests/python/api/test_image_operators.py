"""Batch norm in training, maxima of windows and depthwise convolutions' gradients: kernels."""

import braze
import pytest
import torch
import torch.nn.functional as F

aten = torch.ops.aten
PLAIN, LAST = torch.contiguous_format, torch.channels_last
INF, NAN = float("inf"), float("nan")


@pytest.fixture(autouse=True)
def _seed(capfd):
    torch.manual_seed(0)
    with torch.no_grad():
        yield
    assert "internal error" not in capfd.readouterr().err


def calls_of(function, *args):
    """The library calls of the plan."""
    plan = braze.explain(function)(*args).entries[0]["plan"]
    return [line for line in plan.splitlines() if "aten." in line]


def check(function, *args, factor=3, floor=1e-6):
    """Strides and dtypes as eager's; as near to double precision as eager, up to `factor`."""
    wanted, got = function(*args), braze.compile(function)(*args)
    double = [a.double() if torch.is_tensor(a) and a.dtype == torch.float32 else a for a in args]
    for a, b, exact in zip(got, wanted, function(*double), strict=True):
        assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
        error, eager = ((t.double() - exact).abs().max() for t in (a, b))
        assert error <= max(factor * eager, floor * (1 + exact.abs().max())), (error, eager)


def channels(count, dtype=torch.float32):
    return torch.rand(count).to(dtype) + 0.5


@pytest.mark.parametrize("format", [PLAIN, LAST], ids=str)
@pytest.mark.parametrize("shape", [(4, 5, 9, 7), (2, 3, 112, 112), (2, 130, 3, 3), (1, 1, 1, 2)])
def test_batch_norm(shape, format):
    def function(x, weight, bias, mean, var):
        mean, var = mean.clone(), var.clone()
        y = F.batch_norm(x, mean, var, weight, bias, True, 0.1, 1e-5)
        return y.relu(), mean, var

    c = shape[1]
    x = (3 + 2 * torch.randn(shape)).to(memory_format=format)
    args = x, channels(c), channels(c), channels(c), channels(c)
    check(function, *args)
    assert not calls_of(function, *args)
    check(function, x.double(), *(a.double() for a in args[1:]), floor=1e-14)


def test_batch_norm_of_rows_without_parameters():
    def function(x):
        return (F.batch_norm(x, None, None, None, None, True, 0.1, 1e-5),)

    for shape in ((6, 5), (3, 4, 70), (2, 3, 4, 5, 6)):
        check(function, torch.randn(shape))
        assert not calls_of(function, torch.randn(shape))


def test_batch_norm_of_values_far_from_zero():
    def function(x):
        return (F.batch_norm(x, None, None, None, None, True, 0.1, 1e-5),)

    check(function, 1e4 + torch.randn(2, 3, 64, 64), floor=1e-3)


@pytest.mark.parametrize("format", [PLAIN, LAST], ids=str)
@pytest.mark.parametrize("by_batch", [True, False])
@pytest.mark.parametrize("shape", [(4, 5, 9, 7), (2, 3, 112, 112), (2, 130, 3, 3)])
def test_gradients_of_batch_norm(shape, by_batch, format):
    def function(dy, x, weight, mean, var):
        rstd = (var + 1e-5).rsqrt()
        return aten.native_batch_norm_backward(
            dy, x, weight, mean, var, mean, rstd, by_batch, 1e-5, [True, True, True]
        )

    c = shape[1]
    dy, x = (torch.randn(shape).to(memory_format=format) for _ in range(2))
    args = dy, x, channels(c), channels(c), channels(c)
    check(function, *args, floor=1e-5)
    assert not calls_of(function, *args)


def test_halves_stay_with_pytorch():
    def function(x, weight):
        return F.batch_norm(x, None, None, weight, None, True, 0.1, 1e-5)

    x = torch.randn(2, 3, 8, 8).bfloat16()
    for weight in (channels(3), channels(3, torch.bfloat16)):
        torch.testing.assert_close(braze.compile(function)(x, weight), function(x, weight))
    assert len(calls_of(function, x, channels(3))) == 1
