"""Running sums, products and extrema, and sums into computed places, as kernels: eager's results."""

import braze
import pytest
import torch
from support import outcome, same

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32,
          torch.uint8, torch.bool]  # fmt: skip
SCANS = {
    "cumsum": lambda x, d: x.cumsum(d),
    "cumprod": lambda x, d: x.cumprod(d),
    "cummax": lambda x, d: x.cummax(d),
    "cummin": lambda x, d: x.cummin(d),
    "among others": lambda x, d: ((x * 2).cumsum(d) + 1, x.cumsum(d).amax(d), x.cummax(d)[0]),
    "share": lambda x, d: x.double().cumsum(d) / x.double().cumsum(d).sum(d, keepdim=True),
}
SHAPES = [(), (1,), (70,), (5, 33), (33, 5), (3, 1, 40), (2, 3, 4, 5), (0,), (3, 0), (0, 3)]


def values(shape, dtype):
    torch.manual_seed(sum(shape))
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    return torch.randint(0, 4, shape).to(dtype)


def result(function, *args):
    """("returned", value) or ("raised", exception)."""
    return outcome(function, args, {})[:2]


def in_order(function, *args):
    """The result in eager on one thread: several race for a place that is written to twice."""
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        return result(function, *args)
    finally:
        torch.set_num_threads(threads)


def exactly(function, compiled, *args):
    """Bit by bit; what eager refuses is refused."""
    same(result(compiled, *args), result(function, *args), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", SCANS)
def test_scan(name, dtype):
    function = SCANS[name]
    with torch.no_grad():
        for shape in SHAPES if dtype == torch.float32 else [(), (5, 33)]:
            x = values(shape, dtype)
            for dim in {-1, 0, len(shape) // 2} if shape else {-1, 0}:
                exactly(function, braze.compile(function), x, dim)


@pytest.mark.parametrize("name", list(SCANS)[:4])
def test_scan_of_other_strides(name):
    function = SCANS[name]
    x = torch.randn(6, 8, 10)
    with torch.no_grad():
        for view in (x.transpose(0, 2), x[::2, :, 1::3], x[:, :1].expand(6, 8, 10), x.flip(1)):
            for dim in range(3):
                exactly(function, braze.compile(function), view, dim)


@pytest.mark.parametrize("name", list(SCANS)[:4])
def test_scan_of_special_values(name):
    function = SCANS[name]
    inf, nan = float("inf"), float("nan")
    x = torch.tensor(
        [[1.0, nan, 2.0, nan, 3.0], [inf, -inf, 0.0, inf, -0.0], [-0.0, 0.0, -0.0, 0.0, 1.0]]
    )
    with torch.no_grad():
        for dim in (0, 1):
            exactly(function, braze.compile(function), x, dim)
            exactly(function, braze.compile(function), x.half(), dim)


def test_scan_in_a_dtype():
    x = torch.randn(4, 9) * 3
    for dtype in (torch.float64, torch.float16, torch.int32, torch.uint8, torch.int64, torch.bool):
        for function in (
            lambda x: x.cumsum(1, dtype=dtype),
            lambda x: x.abs().cumprod(0, dtype=dtype),
        ):
            exactly(function, braze.compile(function), x.abs())


def test_scan_in_place():
    def function(x, n):
        x.cumsum_(0)
        n.cumsum_(-1)
        return x + 1, n * 2

    for n in (torch.arange(6, dtype=torch.int32), torch.arange(6, dtype=torch.uint8)):
        a, b = torch.randn(5, 3), torch.randn(5, 3)
        b.copy_(a)
        m = n.clone()
        same(braze.compile(function)(b, m), function(a, n), rtol=0, atol=0)
        same((b, m), (a, n), rtol=0, atol=0)


def test_logcumsumexp():
    function = lambda x, d: x.logcumsumexp(d)
    inf, nan = float("inf"), float("nan")
    special = torch.tensor(
        [[-inf, -inf, 1.0, inf, -inf, nan, 1.0], [200.0, 1.0, 200.0, -200.0, 0.0, 1.0, 1.0]]
    )
    with torch.no_grad():
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
            for x in (special, torch.randn(40, 30), torch.randn(0, 3), torch.randn(())):
                for dim in (0, -1):
                    x = x.to(dtype)
                    same(braze.compile(function)(x, dim), function(x, dim))


@pytest.mark.parametrize("name", list(SCANS)[:5])
def test_sizes_that_vary(name):
    function = SCANS[name]
    for dim in (0, 1):
        compiled = braze.compile(lambda x: function(x, dim), dynamic=True)
        with torch.no_grad():
            for shape in ((5, 7), (64, 33), (2, 1000), (1000, 2), (5, 1), (0, 4), (17, 16)):
                exactly(lambda x: function(x, dim), compiled, values(shape, torch.float32))


SUMS = {
    "index_add": lambda x, i, s: x.index_add(0, i, s),
    "index_add in place": lambda x, i, s: x.index_add_(0, i, s),
    "index_add with a factor": lambda x, i, s: x.index_add(0, i, s, alpha=2),
    "index_add of a formula": lambda x, i, s: x.index_add(0, i, s.abs() + 1).relu(),
    "rows": lambda x, i, s: x.scatter_add(0, i[:, None].expand_as(s), s),
    "columns": lambda x, i, s: x.scatter_add(1, (i % x.shape[1]).expand(x.shape[0], -1), s[:, 0].contiguous().expand(x.shape[0], -1)),
    "in a row": lambda x, i, s: torch.zeros(x.shape[0]).scatter_add_(0, i, s[:, 0]),
    "count": lambda x, i, s: torch.zeros(x.shape[0], dtype=torch.int64).index_add(0, i, torch.ones_like(i)),
    "product": lambda x, i, s: x[:, 0].contiguous().scatter_reduce(0, i, s[:, 0].contiguous(), "prod"),
    "largest": lambda x, i, s: x[:, 0].contiguous().scatter_reduce(0, i, s[:, 0].contiguous(), "amax"),
    "smallest": lambda x, i, s: x[:, 0].contiguous().scatter_reduce(0, i, s[:, 0].contiguous(), "amin"),
    "largest of rows": lambda x, i, s: x.scatter_reduce(0, i[:, None].expand_as(s), s, "amax"),
    "not itself": lambda x, i, s: x[:, 0].scatter_reduce(0, i, s[:, 0], "sum", include_self=False),
    "mean": lambda x, i, s: x[:, 0].scatter_reduce(0, i, s[:, 0], "mean"),
    "scatter with add": lambda x, i, s: x[:, 0].scatter(0, i, s[:, 0], reduce="add"),
    "index_put": lambda x, i, s: x.index_put((i,), s, accumulate=True),
    "index_put of one row": lambda x, i, s: x.index_put((i - x.shape[0],), x[0] + 1, accumulate=True),
    "index_put of places": lambda x, i, s: x.index_put((i, i % x.shape[1]), s[:, 0], accumulate=True),
    "put": lambda x, i, s: x.index_put((i,), s),
    "put one row": lambda x, i, s: x.index_put((i - x.shape[0],), x[0] + 1),
    "put in places": lambda x, i, s: x.index_put_((i, i % x.shape[1]), s[:, 0]).relu(),
    "put into a cache": lambda x, i, s: (x.__setitem__(i, s.abs()), x * 2)[1],
    "last": lambda x, i, s: x[:, 0].contiguous().scatter(0, i, s[:, 0].contiguous()),
    "last of rows": lambda x, i, s: x.scatter(0, i[:, None].expand_as(s), s + 1),
    "a number": lambda x, i, s: x.scatter(0, i[:, None].expand_as(s), 3).cumsum(0),
    "a number in place": lambda x, i, s: x.scatter_(1, (i % x.shape[1])[: x.shape[0]].expand(x.shape[0], -1).contiguous(), 2.0),
    "one hot": lambda x, i, s: torch.zeros(i.shape[0], x.shape[0], dtype=torch.bool).scatter_(1, i[:, None], True),
    "used twice": lambda x, i, s: (lambda y: (y * 2, y.sum(0), y.cumsum(0)))(x.index_add(0, i, s)),
    "two in a row": lambda x, i, s: x.index_add(0, i, s).index_add(0, i.flip(0), s * 3),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.uint8], ids=str)
@pytest.mark.parametrize("name", SUMS)
def test_sum_into_places(name, dtype):
    function = SUMS[name]
    with torch.no_grad():
        sizes = ((4, 9, 5), (1, 3, 1), (7, 100, 33), (5, 0, 4))
        for rows, count, columns in sizes if dtype == torch.float32 else sizes[2:3]:
            x, s = values((rows, columns), dtype), values((count, columns), dtype)
            i = torch.randint(0, rows, (count,))
            first, second = x.clone(), x.clone()
            same(
                result(braze.compile(function), second, i, s),
                in_order(function, first, i, s),
                rtol=1e-6,
            )
            same(second, first, rtol=1e-6)


@pytest.mark.parametrize("name", [name for name in SUMS if "columns" not in name])
def test_places_out_of_range(name):
    function = SUMS[name]
    compiled = braze.compile(function)
    with torch.no_grad():
        for bad in (3, -1, 2):
            x, s = torch.ones(3, 4), torch.ones(5, 4)
            y, i = x.clone(), torch.tensor([0, 1, bad, 2, 0])
            expected, got = result(function, x, i, s), result(compiled, y, i, s)
            same(got, expected)
            if expected[0] == "returned":
                same(y, x)


@pytest.mark.parametrize("name", SUMS)
def test_sums_of_sizes_that_vary(name):
    function = SUMS[name]
    compiled = braze.compile(function, dynamic=True)
    with torch.no_grad():
        for rows, count, columns in ((4, 9, 5), (6, 20, 8), (40, 300, 17), (3, 2, 64), (2, 2, 2)):
            x, s = torch.randn(rows, columns), torch.randn(count, columns)
            i = torch.randint(0, rows, (count,))
            first, second = x.clone(), x.clone()
            same(result(compiled, second, i, s), in_order(function, first, i, s), rtol=1e-6)
            same(second, first)


def test_the_order_of_sums_does_not_depend_on_threads():
    x, s, i = torch.randn(50, 256), torch.randn(5000, 256) * 1000, torch.randint(0, 50, (5000,))
    compiled = braze.compile(lambda x, i, s: (x.index_add(0, i, s), s.cumsum(0)))
    threads = torch.get_num_threads()
    with torch.no_grad():
        try:
            results = []
            for count in (1, 2, threads):
                torch.set_num_threads(count)
                results.append(compiled(x, i, s))
        finally:
            torch.set_num_threads(threads)
        for other in results[1:]:
            same(other, results[0], rtol=0, atol=0)
        same(results[0], (x.index_add(0, i, s), s.cumsum(0)), rtol=0, atol=0)


ROUNDED = {
    "index_add": lambda x, i, s: x.index_add(0, i, s),
    "index_add of numbers": lambda x, i, s: x[:, 0].contiguous().index_add(0, i, s[:, 0].contiguous()),
    "index_add of columns": lambda x, i, s: x.t().contiguous().index_add(1, i, s.t().contiguous()),
    "index_add of more dims": lambda x, i, s: x[:, :, None].repeat(1, 1, 2).index_add(0, i, s[:, :, None].repeat(1, 1, 2)),
    "scatter_add": lambda x, i, s: x[:, 0].scatter_add(0, i, s[:, 0]),
    "scatter_add of rows": lambda x, i, s: x.scatter_add(0, i[:, None].expand_as(s), s),
    "product": lambda x, i, s: x.scatter_reduce(0, i[:, None].expand_as(s), s * 0.1 + 1, "prod"),
    "largest": lambda x, i, s: x.scatter_reduce(0, i[:, None].expand_as(s), s, "amax"),
    "index_put": lambda x, i, s: x.index_put((i,), s, accumulate=True),
    "gradient": lambda x, i, s: torch.ops.aten.embedding_dense_backward(s, i, x.shape[0], -1, False),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ROUNDED)
def test_halves_are_rounded_where_eager_rounds(name, dtype):
    function = ROUNDED[name]
    with torch.no_grad():
        for rows, count, columns in ((7, 100, 33), (40, 300, 16)):
            x, s = values((rows, columns), dtype), values((count, columns), dtype)
            i = torch.randint(0, rows, (count,))
            same(
                result(braze.compile(function), x, i, s),
                in_order(function, x, i, s),
                rtol=0,
                atol=0,
            )


X, PLACES, S = torch.randn(40, 30), torch.randint(0, 40, (20,)), torch.randn(20, 30)
KERNELS = {
    "cumsum": (lambda: X.cumsum(1), True),
    "cumprod": (lambda: X.cumprod(0), True),
    "cummax": (lambda: X.cummax(1), True),
    "cummin": (lambda: X.half().cummin(0), True),
    "logcumsumexp": (lambda: X.logcumsumexp(1), True),
    "index_add": (lambda: X.index_add(0, PLACES, S), True),
    "scatter_add": (lambda: X[:, 0].scatter_add(0, PLACES, S[:, 0]), True),
    "scatter_reduce": (lambda: X.scatter_reduce(0, PLACES[:, None].expand_as(S), S, "amax"), True),
    "index_put": (lambda: X.index_put((PLACES,), S, accumulate=True), True),
    "halves": (lambda: X.half().cumsum(1), False),
    "halves in places": (lambda: X.half().index_add(0, PLACES, S.half()), True),
    "along columns": (lambda: X.scatter_add(0, PLACES[:, None].expand_as(S).contiguous(), S), True),
    "without itself": (lambda: X.scatter_reduce(0, PLACES[:, None].expand_as(S), S, "sum", include_self=False), False),
    "long rows": (lambda: X.repeat(1, 40).index_add(0, PLACES, S.repeat(1, 40)), True),
    "columns": (lambda: X.index_add(1, PLACES % 30, S.t().repeat(2, 1)[:40]), True),
    "put": (lambda: X.index_put((PLACES,), S), True),
    "halves put": (lambda: X.half().index_put((PLACES,), S.half()), True),
    "scatter": (lambda: X.scatter(0, PLACES[:, None].expand_as(S), S), True),
    "scatter of truths": (lambda: (X > 0).scatter(1, PLACES[None, :20].expand(40, -1) % 30, True), True),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_a_kernel(name):
    function, is_kernel = KERNELS[name]
    with torch.no_grad():
        plan = braze.explain(function)().entries[0]["plan"]
    calls = [line for line in plan.splitlines() if "aten." in line]
    assert (calls == []) == is_kernel, plan
