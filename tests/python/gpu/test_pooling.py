"""Pooling, resampling and padding of images on a GPU, which are kernels there, against eager."""

import braze
import pytest
import torch
import torch.nn.functional as F
from support import reasons

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
EPS = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
FORMATS = [torch.contiguous_format, torch.channels_last]


@pytest.fixture(autouse=True)
def _gradients():
    torch.manual_seed(0)
    with torch.enable_grad():
        yield


def images(*shape, dtype=torch.float32, layout=torch.contiguous_format):
    return torch.randn(shape, device="cuda").to(dtype).contiguous(memory_format=layout)


def same_type(a, b):
    return (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())


def near(got, expected, exact, eps):
    """As near to double precision as eager, or as the dtype allows."""
    assert same_type(got, expected)
    error, eager = ((t.double() - exact).abs().max() for t in (got, expected))
    assert error <= max(2 * eager, eps * (1 + exact.abs().max())), (error, eager)


def check(fn, x):
    """Results and gradients."""
    compiled = braze.compile(fn, fullgraph=True)
    with torch.no_grad():
        got, expected = compiled(x), fn(x)
        near(got, expected, fn(x.double()), EPS[x.dtype])
    assert not reasons(compiled)
    weight = torch.randn(expected.shape, device="cuda").to(x.dtype)
    if x.dim() == 4 and expected.stride()[1] == 1:
        weight = weight.contiguous(memory_format=torch.channels_last)

    def gradient(call, x, weight):
        x = x.detach().clone(memory_format=torch.preserve_format).requires_grad_()
        (grad,) = torch.autograd.grad(call(x), x, weight)
        return grad

    exact = gradient(fn, x.double(), weight.double())
    near(gradient(compiled, x, weight), gradient(fn, x, weight), exact, EPS[x.dtype])


WINDOWS = [
    (2, None, 0, False),
    (3, 2, 1, False),
    (3, 2, 1, True),
    (3, 1, 1, False),
    ((2, 3), (1, 2), (1, 0), True),
    (5, 1, 2, False),
    (2, 3, 0, False),
]


@pytest.mark.parametrize("layout", FORMATS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_maxima(window, dtype, layout):
    kernel, stride, padding, ceil = window

    def pool(x):
        return F.max_pool2d(x, kernel, stride, padding, ceil_mode=ceil)

    for shape in [(2, 3, 9, 11), (4, 16, 56, 56)]:
        x = images(*shape, dtype=dtype, layout=layout)
        check(pool, x)
        check(pool, (x * 2).round() / 2)  # equal ones


@pytest.mark.parametrize("layout", FORMATS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_places_of_maxima(window, dtype, layout):
    kernel, stride, padding, ceil = window

    def pool(x):
        return F.max_pool2d(x, kernel, stride, padding, ceil_mode=ceil, return_indices=True)

    compiled = braze.compile(pool, fullgraph=True)
    x = images(4, 8, 21, 18, dtype=dtype, layout=layout)
    ties = torch.randint_like(x, -1, 2)
    missing = ties.masked_fill(torch.rand_like(x, dtype=torch.float32) < 0.2, float("nan"))
    lowest = ties.masked_fill(torch.rand_like(x, dtype=torch.float32) < 0.7, float("-inf"))
    for given in (x, ties, missing, lowest, torch.full_like(x, float("-inf"))):
        for got, expected in zip(compiled(given), pool(given), strict=True):
            assert same_type(got, expected)
            torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)
    assert not reasons(compiled)


@pytest.mark.parametrize("layout", FORMATS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_means(window, dtype, layout):
    kernel, stride, padding, ceil = window
    x = images(3, 8, 19, 26, dtype=dtype, layout=layout)
    for counts_padding, divisor in [(True, None), (False, None), (True, 7)]:
        check(lambda x: F.avg_pool2d(x, kernel, stride, padding, ceil, counts_padding, divisor), x)


@pytest.mark.parametrize("layout", FORMATS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_means_of_equal_windows(dtype, layout):
    x = images(4, 16, 28, 56, dtype=dtype, layout=layout)
    for size in [(7, 7), (1, 1), (28, 56), (2, 1)]:
        check(lambda x: F.adaptive_avg_pool2d(x, size), x)
    check(lambda x: F.adaptive_avg_pool2d(x, (5, 6)), x)  # windows overlap


@pytest.mark.parametrize("layout", FORMATS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("factor", [2, 3, 4, (2, 1)], ids=str)
def test_larger_images(factor, dtype, layout):
    x = images(4, 8, 14, 15, dtype=dtype, layout=layout)
    check(lambda x: F.interpolate(x, scale_factor=factor), x)
    for corners in (False, True):
        check(
            lambda x: F.interpolate(
                x,
                scale_factor=factor,
                mode="bilinear",
                align_corners=corners,
            ),
            x,
        )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [(7, 5), (20, 23), (14, 15), (1, 1), (28, 30)], ids=str)
def test_sizes_of_images(size, dtype):
    x = images(4, 8, 14, 15, dtype=dtype)
    check(lambda x: F.interpolate(x, size), x)
    for corners in (False, True):
        check(lambda x: F.interpolate(x, size, mode="bilinear", align_corners=corners), x)


@pytest.mark.parametrize("layout", FORMATS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("padding", [(3, 3, 3, 3), (1, 0, 0, 2), (11, 11, 8, 8), (-1, 2, 1, -2)])
def test_reflections(padding, dtype, layout):
    check(
        lambda x: F.pad(x, padding, mode="reflect"), images(3, 4, 9, 12, dtype=dtype, layout=layout)
    )


def test_an_image_without_a_batch():
    x = images(3, 32, 32)
    check(lambda x: F.max_pool2d(x, 3, 2, 1), x)
    check(lambda x: F.avg_pool2d(x, 2), x)
    check(lambda x: F.pad(x, (2, 2, 2, 2), mode="reflect"), x)


def test_with_what_stands_around_it():
    x = images(8, 64, 56, 56, dtype=torch.float16)
    check(lambda x: F.max_pool2d(F.relu(x), 3, 2, 1) * 2, x)
    check(lambda x: F.relu(F.interpolate(F.avg_pool2d(x + 1, 2), scale_factor=2) + x), x)


def test_gradients_are_the_same_each_time():
    x = images(8, 16, 40, 40, dtype=torch.float16).requires_grad_()
    pool = braze.compile(
        lambda x: F.pad(F.interpolate(x, scale_factor=2, mode="bilinear"), (3,) * 4, mode="reflect")
    )
    first, second = (torch.autograd.grad(pool(x).pow(2).sum(), x)[0] for _ in range(2))
    assert torch.equal(first, second)
