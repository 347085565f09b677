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


def test_instance_norm():
    def function(x, weight, bias):
        return (F.instance_norm(x, None, None, weight, bias),)

    args = 3 + torch.randn(3, 5, 20, 17), channels(5), channels(5)
    check(function, *args)
    assert not calls_of(function, *args)


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


def windows(x, *args):
    return F.max_pool2d(x, *args, return_indices=True)


# kernel, stride, padding, dilation, ceil_mode
@pytest.mark.parametrize(
    "arguments",
    [(2,), (3, 2, 1), (3, 1, 1), ((1, 3), (2, 1)), ((3, 2), 2, (1, 0)), (3, 2, 1, 1, True),
     (2, 3, 0, 1, True), (3, 3)],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_maxima_of_windows(arguments, dtype):
    few = torch.randint(4, (2, 3, 20, 37)).to(dtype)  # many equal ones
    special = torch.randn(3, 20, 37, dtype=dtype)
    special[torch.rand(3, 20, 37) < 0.2] = NAN
    special[:, :6, :6] = -INF
    special[:, 14:, 30:] = INF
    compiled = braze.compile(windows)
    for x in (few, special, torch.randn(1, 2, 7, 5, dtype=dtype)):
        for a, b in zip(compiled(x, *arguments), windows(x, *arguments), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)
            assert a.stride() == b.stride()
    assert not calls_of(windows, few, *arguments)
    alone = F.max_pool2d(special, *arguments)
    pool = braze.compile(lambda x: F.max_pool2d(x, *arguments))
    torch.testing.assert_close(pool(special), alone, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    "arguments", [(3, 1, 1, 2), (5, 1, 2), (13, 1, 6)], ids=["dilated", "25 points", "169 points"]
)
def test_other_windows_are_pytorchs(arguments):
    x = torch.randn(2, 3, 20, 37)
    for a, b in zip(braze.compile(windows)(x, *arguments), windows(x, *arguments), strict=True):
        assert torch.equal(a, b)
    assert len(calls_of(windows, x, *arguments)) == 1


def test_maxima_of_channels_last_are_pytorchs():
    for shape in ((2, 3, 20, 37), (2, 1, 20, 37), (1, 4, 3, 1)):
        x = torch.randn(shape).to(memory_format=LAST)
        for a, b in zip(braze.compile(windows)(x, 3, 2, 1), windows(x, 3, 2, 1), strict=True):
            assert torch.equal(a, b) and a.stride() == b.stride()


def test_a_maximum_over_its_gradient():
    with torch.enable_grad():
        x = torch.randint(4, (2, 3, 12, 13)).float().requires_grad_()
        twin = x.detach().clone().requires_grad_()
        F.max_pool2d(x.relu(), 3, 2, 1).pow(2).sum().backward()
        braze.compile(lambda x: F.max_pool2d(x.relu(), 3, 2, 1).pow(2).sum())(twin).backward()
    assert torch.equal(twin.grad, x.grad)


def depthwise(stride, padding, mask):
    def function(dy, x, weight):
        made = aten.convolution_backward(
            dy, x, weight, [x.shape[1]], stride, padding, [1, 1], False, [0, 0], x.shape[1], mask
        )
        return [gradient for gradient in made if gradient is not None]

    return function


@pytest.mark.parametrize("format", [PLAIN, LAST], ids=str)
@pytest.mark.parametrize(
    "size, window, stride, padding",
    [
        ((2, 6, 14, 15), (7, 7), (1, 1), (3, 3)),
        ((2, 40, 7, 7), (7, 7), (1, 1), (3, 3)),
        ((2, 6, 1, 1), (7, 7), (1, 1), (3, 3)),
        ((1, 1, 4, 1), (5, 5), (1, 1), (2, 2)),
        ((1, 3, 33, 40), (5, 7), (2, 1), (0, 3)),
        ((2, 5, 30, 29), (5, 5), (2, 2), (2, 2)),
        ((2, 5, 4, 31), (3, 9), (1, 1), (1, 0)),
    ],
)
def test_gradients_of_a_depthwise_convolution(size, window, stride, padding, format):
    x = torch.randn(size).to(memory_format=format)
    weight = torch.randn(size[1], 1, *window)
    y = F.conv2d(x, weight, None, stride, padding, groups=size[1])
    dy = torch.randn(y.shape).to(memory_format=format)
    for mask in ([True, True, True], [False, True, False], [True, True, False]):
        function = depthwise(stride, padding, mask)
        check(function, dy, x, weight, floor=1e-5)
        # What is left is the gradient of the input.
        assert len(calls_of(function, dy, x, weight)) == mask[0]


def test_small_windows_are_pytorchs():
    x, weight = torch.randn(2, 5, 30, 30), torch.randn(5, 1, 3, 3)
    dy = torch.randn(2, 5, 30, 30)
    function = depthwise((1, 1), (1, 1), [False, True, True])
    check(function, dy, x, weight, floor=1e-5)
    assert any("convolution_backward" in line for line in calls_of(function, dy, x, weight))


def test_training_with_a_depthwise_convolution():
    convolution = torch.nn.Conv2d(6, 6, 7, padding=3, groups=6)
    x = torch.randn(2, 6, 32, 32)
    wanted, got = [], []
    for call, seen in ((convolution, wanted), (braze.compile(convolution), got)):
        with torch.enable_grad():
            convolution.zero_grad()
            y = call(x)
            y.pow(2).sum().backward()
        seen += [y.detach()] + [p.grad.clone() for p in convolution.parameters()]
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-3)
