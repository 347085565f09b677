"""What is added up in computed places on a GPU: kernels of atomic operations, or PyTorch's operators
where eager adds up in a fixed order."""

import subprocess
import sys

import braze
import pytest
import torch
import torch.nn.functional as F
from support import reasons

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.uint8]
EPS = {torch.float64: 1e-13, torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}


@pytest.fixture(autouse=True)
def _gradients():
    torch.manual_seed(0)
    with torch.enable_grad():
        yield


def made(*shape, dtype=torch.float32):
    if dtype.is_floating_point:
        return torch.randn(shape, device="cuda").to(dtype)
    return torch.randint(0, 9, shape, device="cuda").to(dtype)


def below(bound, *shape, kind="random"):
    """Places: random, all the same, or each row its own."""
    if kind == "same":
        return torch.full(shape, bound // 2, device="cuda")
    if kind == "own":
        return torch.arange(shape[0], device="cuda").remainder(bound)
    return torch.randint(0, bound, shape, device="cuda")


def near(got, expected, exact):
    """As near to double precision as eager, or as the dtype allows; whole numbers are the same."""
    assert (got.dtype, got.shape, got.stride()) == (
        expected.dtype,
        expected.shape,
        expected.stride(),
    )
    if not got.dtype.is_floating_point:
        assert torch.equal(got, expected)
        return
    finite = exact.isfinite()
    assert torch.equal(got.isnan(), expected.isnan())
    assert torch.equal(got.isinf(), expected.isinf())
    if not finite.any():
        return
    error, eager = ((t.double() - exact)[finite].abs().max() for t in (got, expected))
    scale = 1 + exact[finite].abs().max()
    assert error <= max(2 * eager, EPS[got.dtype] * scale), (error, eager)


def wide(value):
    is_float = isinstance(value, torch.Tensor) and value.dtype.is_floating_point
    return value.detach().double() if is_float else value


def check(fn, *args, calls=1):
    compiled = braze.compile(fn, fullgraph=True)
    exact = fn(*map(wide, args))
    with torch.no_grad():
        for _ in range(calls):
            before = [a.clone() for a in args]
            near(compiled(*args), fn(*args), exact)
            for value, old in zip(args, before, strict=True):
                assert torch.equal(value.nan_to_num(), old.nan_to_num())  # nothing is written to
    assert not reasons(compiled)
    return compiled


def gradients(fn, floats, others):
    leaves = [x.detach().clone().requires_grad_() for x in floats]
    result = fn(*leaves, *others)
    torch.manual_seed(1)
    weight = torch.randn(result.shape, device="cuda", dtype=torch.float64).to(result.dtype)
    return torch.autograd.grad(result, leaves, weight, allow_unused=True)


def check_backward(fn, floats, *others):
    compiled = braze.compile(fn, fullgraph=True)
    exact = gradients(fn, [x.double() for x in floats], others)
    for got, expected, true in zip(
        gradients(compiled, floats, others), gradients(fn, floats, others), exact, strict=True
    ):
        assert (got is None) == (expected is None)
        if got is not None:
            near(got, expected, true)
    assert not reasons(compiled)


SHAPES = [(1, 1, 1), (7, 100, 33), (50, 20_000, 4), (1000, 5000, 256), (3, 40_000, 1), (40, 1, 8)]


@pytest.mark.parametrize("kind", ["random", "same", "own"])
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
@pytest.mark.parametrize("places, rows, width", SHAPES)
def test_rows_that_are_added(places, rows, width, dtype, kind):
    x, source = made(places, width, dtype=dtype), made(rows, width, dtype=dtype)
    if dtype == torch.float16 and kind == "same":
        source = source / 64  # sums that halves hold
    index = below(places, rows, kind=kind)
    check(lambda x, i, s: x.index_add(0, i, s), x, index, source, calls=3)
    check(lambda x, i, s: x.index_add(0, i.int(), s), x, index, source)
    check(lambda x, i, s: x.scatter_add(0, i[:, None].expand_as(s), s), x, index, source)


def test_nothing_to_add():
    x, source, index = made(40, 8), made(0, 8), below(40, 0)
    for fn in (
        lambda x, i, s: x.index_add(0, i, s) * 2,
        lambda x, i, s: x.scatter_add(0, i[:, None].expand_as(s), s) * 2,
        lambda x, i, s: x.index_put((i,), s) * 2,
    ):
        assert torch.equal(braze.compile(fn)(x, index, source), x * 2)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_rows_along_each_dim(dim, dtype):
    x, source = made(30, 40, 50, dtype=dtype), made(30, 40, 50, dtype=dtype)
    index = below(x.shape[dim], x.shape[dim])
    check(lambda x, i, s: x.index_add(dim, i, s), x, index, source)
    own = below(x.shape[dim], 20, 30, 40)
    check(lambda x, i, s: x.scatter_add(dim, i, s), x, own, source)
    check(lambda x, i: x.scatter(dim, i, 3), x, own)
    turned = x.transpose(0, 2)
    check(lambda x, i, s: x.scatter_add(dim, i, s), turned, own[:, :, :30].clamp(max=29), source)


REDUCES = ["sum", "prod", "mean", "amax", "amin"]


@pytest.mark.parametrize("with_self", [True, False])
@pytest.mark.parametrize("reduce", REDUCES)
@pytest.mark.parametrize("dtype", FLOATS + [torch.int64, torch.int32], ids=str)
def test_reductions_by_place(dtype, reduce, with_self):
    x, source = made(300, 64, dtype=dtype), made(2000, 64, dtype=dtype)
    if reduce == "prod":
        x, source = x.clamp(1, 2), source.clamp(1, 2)
    index = below(250, 2000, 64)  # some places get nothing

    def scatter(x, index, source):
        return x.scatter_reduce(0, index, source, reduce, include_self=with_self)

    check(scatter, x, index, source, calls=2)


def test_numbers_that_are_none():
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([1.0, nan, -inf, inf, -nan], device="cuda")
    source = torch.tensor([nan, 1.0, -inf, -inf, 2.0, nan, -0.0], device="cuda")
    index = torch.tensor([0, 1, 2, 3, 4, 3, 2], device="cuda")
    for reduce in REDUCES:
        check(
            lambda x, i, s, reduce=reduce: x.scatter_reduce(0, i, s, reduce, include_self=True),
            x,
            index,
            source,
        )


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS + [torch.bool], ids=str)
def test_elements_that_are_set(dtype):
    x = made(200, 64, dtype=torch.float32).to(dtype)
    source = made(100, 64, dtype=torch.float32).to(dtype)
    index = torch.stack([torch.randperm(200, device="cuda")[:100] for _ in range(64)], 1)
    rows = torch.randperm(200, device="cuda")[:100]
    check(lambda x, i, s: x.scatter(0, i, s), x, index, source)
    check(lambda x, i, s: x.index_put((i,), s), x, rows, source)
    check(lambda x, i, s: x.index_put((i - 200,), s), x, rows, source)  # from the end

    def put(x, i, j, s):
        x = x.clone()
        x[i, j] = s[:, 0]
        return x

    check(put, x, rows, below(64, 100), source)


@pytest.mark.parametrize(
    "dtype", [torch.int64, torch.int32, torch.float32, torch.bfloat16], ids=str
)
def test_puts_that_add_up(dtype):
    """Of floats eager adds up in a fixed order: so does what is compiled."""
    x, source = made(100, 64, dtype=dtype), made(5000, 64, dtype=dtype)
    index = below(100, 5000)
    compiled = check(lambda x, i, s: x.index_put((i,), s, accumulate=True), x, index, source)
    first = compiled(x, index, source)
    for _ in range(5):
        assert torch.equal(compiled(x, index, source), first)


@pytest.mark.parametrize("bins", [1, 7, 256, 1024, 5000])
def test_counts(bins):
    for ids in (below(bins, 3_000_000), below(bins, 3_000_000, kind="same"), below(bins, 1)):

        def count(ids):
            counts = torch.zeros(bins, dtype=torch.int64, device="cuda")
            return counts.index_add(0, ids, torch.ones_like(ids))

        check(count, ids, calls=2)
        check(lambda ids: F.one_hot(ids[:1000], bins), ids)
        check(lambda ids: F.one_hot(ids[:1000], bins).sum(0), ids)


@pytest.mark.parametrize("kind", ["random", "same", "skewed"])
def test_sums_into_few_places(kind):
    ids = below(100, 2_000_000, kind="same" if kind == "same" else "random")
    if kind == "skewed":
        ids = torch.where(torch.rand(ids.shape, device="cuda") < 0.9, 3, ids)
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int64):
        source = made(2_000_000, dtype=dtype)
        x = made(100, dtype=dtype)
        check(lambda x, i, s: x.index_add(0, i, s), x, ids, source)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (1000,), (300, 4096)])
def test_histograms(shape, dtype):
    x = made(*shape, dtype=dtype)
    for bins, low, high in [(1, -1, 1), (10, -4, 4), (256, -4.0, 4.0), (100, 0, 0)]:
        check(lambda x, b=bins, lo=low, hi=high: torch.histc(x, b, lo, hi), x)
    if x.numel() > 2:
        flat = x.view(-1)
        flat[0], flat[1], flat[2] = float("nan"), 4.0, -4.0
        check(lambda x: torch.histc(x, 16, -4, 4), x)


def test_with_what_is_around():
    x, source, index = made(100, 64), made(5000, 64), below(100, 5000)

    def step(x, i, s):
        gathered = torch.softmax(x[i] + s, -1)
        added = (x * 2).index_add(0, i, gathered.exp())
        counts = torch.zeros_like(x[:, 0]).index_add(0, i, gathered.amax(-1))
        return (added / (1 + counts[:, None])).relu()

    check(step, x, index, source)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gradients(dtype):
    x, source, index = made(100, 64, dtype=dtype), made(3000, 64, dtype=dtype), below(100, 3000)
    own = below(100, 3000, 64)
    check_backward(lambda x, s, i: x.index_add(0, i, s.sin()), [x, source], index)
    check_backward(lambda x, s, i: x.scatter_add(0, i, s.sin()), [x, source], own)
    check_backward(lambda x, i: x.gather(0, i).sin(), [x], own)
    check_backward(lambda x, i: torch.take_along_dim(x, i, 0) * 2, [x], own)
    check_backward(lambda x, i: x.index_select(0, i).sin(), [x], index)
    check_backward(lambda x, i: x[i] * 2, [x], index)
    check_backward(lambda x, i: x[:, i].sin(), [x], below(64, 30))
    check_backward(lambda x, i: F.embedding(i, x) * 2, [x], index)
    for reduce in ("sum", "mean", "amax"):
        check_backward(
            lambda x, s, i, r=reduce: x.scatter_reduce(0, i, s, r, include_self=True),
            [x, source],
            own,
        )


def test_gradients_of_embeddings_are_the_same_each_time():
    table, index = made(50, 64, dtype=torch.bfloat16).requires_grad_(), below(50, 20_000)
    for fn in (lambda t, i: F.embedding(i, t).sin(), lambda t, i: t[i].sin()):
        compiled = braze.compile(fn, fullgraph=True)
        weight = made(20_000, 64, dtype=torch.bfloat16)
        first = None
        for _ in range(4):
            (grad,) = torch.autograd.grad(compiled(table, index), table, weight)
            assert first is None or torch.equal(grad, first)
            first = grad


def test_writes_to_arguments():
    def update(x, i, s):
        x.index_add_(0, i, s)
        x.mul_(2)

    compiled = braze.compile(update, fullgraph=True)
    x, index, source = made(100, 64), below(100, 5000), made(5000, 64)
    a, b, exact = x.clone(), x.clone(), x.double()
    compiled(a, index, source)
    update(b, index, source)
    update(exact, index, source.double())
    near(a, b, exact)
    assert a._version == b._version


@pytest.mark.parametrize("width", [1, 16, 33])
def test_sizes_that_vary(width):
    compiled = braze.compile(
        lambda x, i, s: x.index_add(0, i, s).scatter_add(0, i[:, None].expand_as(s), s),
        fullgraph=True,
        dynamic=True,
    )
    for places, rows in [(5, 100), (100, 5), (1000, 30_000), (17, 2_000_000 // width)]:
        x, source, index = made(places, width), made(rows, width), below(places, rows)

        def eager(x, i, s):
            return x.index_add(0, i, s).scatter_add(0, i[:, None].expand_as(s), s)

        near(compiled(x, index, source), eager(x, index, source),
             eager(x.double(), index, source.double()))  # fmt: skip
    assert not reasons(compiled)


def test_deterministic_algorithms():
    x, source, index = made(10, 64), made(50_000, 64), below(10, 50_000)

    def add(x, i, s):
        return x.index_add(0, i, s * 2)

    compiled = braze.compile(add, fullgraph=True)
    near(compiled(x, index, source), add(x, index, source), add(x.double(), index, source.double()))
    torch.use_deterministic_algorithms(True)
    try:
        first = compiled(x, index, source)
        assert torch.equal(first, add(x, index, source))
        for _ in range(5):
            assert torch.equal(compiled(x, index, source), first)
        refused = braze.compile(lambda x: torch.histc(x, 10, 0.0, 1.0))
        with pytest.raises(RuntimeError, match="deterministic"):
            refused(x)
    finally:
        torch.use_deterministic_algorithms(False)
    near(compiled(x, index, source), add(x, index, source), add(x.double(), index, source.double()))


OUT_OF_RANGE = """
import braze, torch
x, s = torch.zeros(10, 8, device="cuda"), torch.ones(3, 8, device="cuda")
index = torch.tensor([0, BAD, 1], device="cuda")
fn = braze.compile(lambda x, i, s: CALL, fullgraph=True)
fn(x, index.clamp(0, 9), s)
torch.cuda.synchronize()
print("in range")
fn(x, index, s)
torch.cuda.synchronize()
print("not refused")
"""
CALLS = [
    "x.index_add(0, i, s)",
    "x.scatter_add(0, i[:, None].expand_as(s), s)",
    "x.scatter(0, i[:, None].expand_as(s), s)",
    "x.scatter_reduce(0, i[:, None].expand_as(s), s, 'amax')",
    "x.index_put((i,), s)",
]


@pytest.mark.parametrize("bad", [10, -11])
@pytest.mark.parametrize("call", CALLS)
def test_indices_out_of_range(call, bad):
    """A failed assertion on the device, as eager's, which the process does not survive."""
    run = subprocess.run(
        [sys.executable, "-c", OUT_OF_RANGE.replace("CALL", call).replace("BAD", str(bad))],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode != 0
    assert "in range" in run.stdout and "not refused" not in run.stdout, run.stderr
    assert "device-side assert" in run.stderr, run.stderr
