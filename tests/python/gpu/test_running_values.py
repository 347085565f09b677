"""Running sums, products, extrema and logarithms of sums: kernels of rows and columns, with what is
around them."""

import braze
import pytest
import torch
from support import reasons

CLOSE = {
    torch.float32: {"rtol": 1e-5, "atol": 1e-3},
    torch.float64: {"rtol": 1e-12, "atol": 1e-9},
    torch.float16: {"rtol": 1e-2, "atol": 1e-1},
    torch.bfloat16: {"rtol": 5e-2, "atol": 1.0},
}
SHAPES = [
    (3, 5),
    (700, 33),
    (64, 128),
    (129, 1000),
    (512, 4096),
    (5000, 63),
    (7, 20001),
    (8, 40, 96),
]


HALVES = (torch.float16, torch.bfloat16)


def as_tuple(value):
    return (value,) if isinstance(value, torch.Tensor) else tuple(value)


def reference(fn, args):
    """Eager's results; of halves, whose running values it rounds at each element, those in double
    precision."""
    results = as_tuple(fn(*args))
    if not any(a.dtype in HALVES for a in args):
        return results
    wide = as_tuple(fn(*(a.double() if a.dtype in HALVES else a for a in args)))
    return tuple(w.to(r.dtype) for w, r in zip(wide, results, strict=True))


def check(fn, *args, close=None):
    compiled = braze.compile(fn, fullgraph=True)
    got, again = as_tuple(compiled(*args)), as_tuple(compiled(*args))
    for kind, value in zip(as_tuple(fn(*args)), got, strict=True):
        assert value.dtype == kind.dtype and value.stride() == kind.stride()
    for want, value, same in zip(reference(fn, args), got, again, strict=True):
        own = close if close and want.dtype in CLOSE else CLOSE.get(want.dtype, {})
        torch.testing.assert_close(value, want, equal_nan=True, **own)
        assert torch.equal(value.nan_to_num(), same.nan_to_num())
    assert not reasons(compiled)
    return compiled


def made(shape, dtype):
    if dtype == torch.bool:
        return torch.rand(shape, device="cuda") < 0.5
    if not dtype.is_floating_point:
        return torch.randint(0 if dtype == torch.uint8 else -9, 9, shape, device="cuda").to(dtype)
    return torch.randn(shape, device="cuda").to(dtype)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64, torch.int64])
def test_sums_of_each_shape(dtype, shape):
    x = made(shape, dtype)
    for dim in range(len(shape)):
        check(lambda x, dim=dim: x.cumsum(dim), x)


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32]
)
@pytest.mark.parametrize("dim", [0, 1])
def test_sums_of_each_dtype(dtype, dim):
    x = made((257, 320), dtype)
    check(lambda x: x.cumsum(dim), x)
    check(lambda x: x.cumsum(dim, dtype=torch.float64), x)
    check(lambda x: x.cumsum(dim, dtype=torch.float16), x % 2 if dtype != torch.bool else x)
    if not dtype.is_floating_point and dtype != torch.bool:
        check(lambda x: x.cumsum(dim, dtype=dtype), x)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64, torch.int64])
@pytest.mark.parametrize("op", [torch.cummax, torch.cummin])
def test_extrema_and_their_places(op, dtype, shape):
    x = made(shape, dtype)
    x = (x * 2).round() if dtype.is_floating_point else x  # many are equal
    for dim in range(len(shape)):
        check(lambda x, dim=dim: tuple(op(x, dim)), x)
        check(lambda x, dim=dim: op(x, dim).values, x)
        check(lambda x, dim=dim: op(x, dim).indices, x)


@pytest.mark.parametrize("op", [torch.cummax, torch.cummin])
def test_extrema_of_what_is_no_number(op):
    x = made((130, 3000), torch.float32)
    for value in (torch.nan, torch.inf, -torch.inf):
        x[torch.rand_like(x) < 0.001] = value
    x[3] = torch.nan
    x[4], x[5] = torch.inf, -torch.inf
    for dim in (0, 1):
        check(lambda x, dim=dim: tuple(op(x, dim)), x)


@pytest.mark.parametrize("shape", [(700, 33), (64, 128), (100, 4096), (4096, 100)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
def test_products_and_logarithms_of_sums(dtype, shape):
    x = made(shape, dtype)
    near_one = (made(shape, dtype) * 0.01 + 1).to(dtype)
    x[2] = -torch.inf
    x[5, 7], x[6, 3] = torch.inf, torch.nan
    x[:, 1] = -torch.inf
    for dim in (0, 1):
        check(
            lambda x, dim=dim: x.cumprod(dim),
            near_one,
            close={"rtol": 1e-1, "atol": 1e-2}
            if dtype == torch.float16
            else {"rtol": 1e-4, "atol": 1e-5},
        )
        check(lambda x, dim=dim: x.logcumsumexp(dim), x)


def test_what_is_around_them():
    x, y = made((900, 512), torch.float32), made((512,), torch.float32)
    m = made((900, 512), torch.bool)
    for dim in (0, 1):
        check(lambda x, y, d=dim: (x.exp() * y).cumsum(d) * 2 + x, x, y)
        check(lambda x, m, d=dim: x.masked_fill(m, 0.0).cumsum(d).relu(), x, m)
        check(lambda x, d=dim: torch.softmax(x, d).cumsum(d), x)
        check(lambda x, d=dim: x.cumsum(d).cummax(d).values - x.amax(d, True), x)
        check(lambda x, d=dim: x.cumsum(d) / x.abs().cumsum(d)[..., -1:], x)
        check(lambda m, d=dim: (m.cumsum(d) - 1) * m, m)  # places of what a mask chooses
        check(lambda x, d=dim: x.flip(d).cumsum(d).flip(d) * x, x)
        check(lambda x, d=dim: (x.cumsum(d) - x, x.cumsum(d).half()), x)
    check(lambda x: x.cumsum(0).cumsum(1), x, close={"rtol": 1e-4, "atol": 1e-1})
    check(lambda x: x.t().cumsum(0), x)
    check(lambda x: x[:, 1:].cumsum(1), x)
    check(lambda x: x[::2, 3::5].cumsum(0), x)
    check(lambda x: x.unsqueeze(1).expand(900, 3, 512).cumsum(1), x)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_gradients(dtype, dim):
    fns = {
        "sum": lambda x: x.cumsum(dim),
        "around": lambda x: (x.sigmoid().cumsum(dim) * x).tanh(),
        "largest": lambda x: x.cummax(dim).values * 2,
        "logarithm": lambda x: x.logcumsumexp(dim),
    }
    for name, fn in fns.items():
        x = made((300, 256), dtype)
        gradient = made((300, 256), dtype)
        wide = torch.float64 if dtype in HALVES else dtype  # as `reference` has it
        results = []
        for run, of in ((fn, wide), (braze.compile(fn), dtype)):
            with torch.enable_grad():
                own = x.to(of, copy=True).requires_grad_()
                run(own).backward(gradient.to(of))
            results.append(own.grad.to(dtype))
        close = {"rtol": 2e-2, "atol": 2e-1} if dtype == torch.float16 else CLOSE[dtype]
        torch.testing.assert_close(
            results[1], results[0], msg=lambda m, n=name: f"{n}: {m}", **close
        )


def test_sizes_of_the_call():
    def fn(x):
        values, places = x.cummax(1)
        return x.cumsum(0), x.cumsum(1) * 2, values, places

    compiled = braze.compile(fn, fullgraph=True, dynamic=True)
    for shape in ((3, 7), (900, 64), (64, 900), (1, 5000), (5000, 2), (0, 4), (4, 0), (33, 1)):
        x = made(shape, torch.float32)
        for want, value in zip(fn(x), compiled(x), strict=True):
            torch.testing.assert_close(value, want, rtol=1e-5, atol=1e-3)


def test_a_line_does_not_depend_on_those_beside():
    x = made((4096, 3000), torch.float32)
    rows, columns = (braze.compile(lambda x, d=d: x.cumsum(d), dynamic=False) for d in (1, 0))
    assert torch.equal(rows(x)[:3], rows(x[:3].contiguous()))
    x = made((3000, 20000), torch.float32)
    assert torch.equal(columns(x)[:, :64], columns(x[:, :64].contiguous()))


def test_no_elements():
    for shape in ((0, 5), (5, 0), (0,), (1,), ()):
        x = made(shape, torch.float32)
        check(lambda x: x.cumsum(0), x)


def test_one_long_row_is_left_to_eager():
    x = made((1 << 20,), torch.float32)
    compiled = braze.compile(lambda x: (x + 1).cumsum(0) * 2, fullgraph=True)
    # PyTorch adds up the parts of a single row in the order in which they are ready.
    torch.testing.assert_close(compiled(x), (x + 1).cumsum(0) * 2, rtol=1e-4, atol=1.0)
    check(lambda x: x.cumsum(0), made((1 << 15,), torch.float32))
