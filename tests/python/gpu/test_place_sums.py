"""Gradients of tables and of indexed tensors on a GPU: sums in a fixed order
(`runtime/cuda/place_sums.h`), right for every list of places and the same bits each time."""

import subprocess
import sys

import braze
import pytest
import torch
import torch.nn.functional as F
from support import reasons

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
EPS = {torch.float64: 1e-13, torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}


@pytest.fixture(autouse=True)
def _gradients():
    torch.manual_seed(0)
    with torch.enable_grad():
        yield


def places(kind, rows, count):
    if kind == "same":
        return torch.full((count,), rows // 2, device="cuda")
    if kind == "few":  # long lists beside short ones
        few = torch.randint(0, min(rows, 3), (count,), device="cuda")
        own = torch.randint(0, rows, (count,), device="cuda")
        return torch.where(torch.rand(count, device="cuda") < 0.5, few, own)
    return torch.randint(0, rows, (count,), device="cuda")


def expected(source, place, dim, rows, skipped=-1):
    counts = (place >= 0) & (place < rows) & (place != skipped)
    chosen = source.double().index_select(dim, counts.nonzero().view(-1))
    sizes = list(source.shape)
    sizes[dim] = rows
    zeros = torch.zeros(sizes, device=source.device, dtype=torch.float64)
    return zeros.index_add(dim, place[counts].long(), chosen)


def close(got, exact, count):
    """Of sums of `count` numbers, rounded once."""
    scale = 1 + exact.abs().max()
    assert (got.double() - exact).abs().max() <= 4 * EPS[got.dtype] * scale * max(
        1, count**0.5 / 64
    )


SHAPES = [  # before, elements, behind, rows
    (1, 1, 1, 1),
    (1, 33, 8, 1),
    (1, 5000, 256, 999),
    (1, 300, 96, 20_000),
    (7, 2048, 1, 2048),
    (3, 700, 5, 40),
    (2, 1025, 24, 3),
    (513, 3, 1, 1),
]


@pytest.mark.parametrize("kind", ["random", "same", "few"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("before, elements, behind, rows", SHAPES)
def test_sums(before, elements, behind, rows, dtype, kind):
    source = torch.randn(before, elements, behind, device="cuda").to(dtype)
    place = places(kind, rows, elements)
    exact = expected(source, place, 1, rows)
    first = torch.ops.braze.sum_by_place(source, place, 1, rows)
    assert first.dtype == dtype and first.shape == (before, rows, behind) and first.is_contiguous()
    close(first, exact, elements)
    for _ in range(4):
        assert torch.equal(torch.ops.braze.sum_by_place(source, place.int(), 1, rows), first)
    off = source.view(-1).new_empty(source.numel() + 1)[1:].view_as(source).copy_(source)
    close(torch.ops.braze.sum_by_place(off, place, 1, rows), exact, elements)


@pytest.mark.parametrize("kind", ["random", "same", "few"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("before, elements, behind, rows", SHAPES)
def test_what_is_there_before(before, elements, behind, rows, dtype, kind):
    source = torch.randn(before, elements, behind, device="cuda").to(dtype)
    base = torch.randn(before, rows, behind, device="cuda").to(dtype)
    kept = base.clone()
    place = places(kind, rows, elements)
    got = torch.ops.braze.sum_by_place(source, place, 1, rows, -1, True, base)
    close(got, expected(source, place, 1, rows) + base.double(), elements)
    assert torch.equal(base, kept)
    turned = base.transpose(0, 2).contiguous().transpose(0, 2)
    assert torch.equal(torch.ops.braze.sum_by_place(source, place, 1, rows, -1, True, turned), got)


@pytest.mark.parametrize("kind", ["random", "same", "few"])
def test_what_is_skipped(kind):
    source = torch.randn(4000, 16, device="cuda")
    place = places(kind, 50, 4000)
    place[::7] = 50
    place[::11] = -3
    for skipped in (-1, 0, 25):
        got = torch.ops.braze.sum_by_place(source, place, 0, 50, skipped)
        close(got, expected(source, place, 0, 50, skipped), 4000)


def test_numbers_that_are_none():
    source = torch.zeros(100, 8, device="cuda", dtype=torch.bfloat16)
    source[3], source[7], source[50] = float("nan"), float("inf"), -0.0
    place = torch.arange(100, device="cuda") % 40
    got = torch.ops.braze.sum_by_place(source, place, 0, 40)
    assert got[3].isnan().all() and got[7].isposinf().all()
    assert torch.equal(got[10], torch.zeros_like(got[10]))


def gradients(fn, leaves, *others):
    leaves = [x.detach().clone().requires_grad_() for x in leaves]
    result = fn(*leaves, *others)
    torch.manual_seed(1)
    weight = torch.randn(result.shape, device="cuda", dtype=torch.float64).to(result.dtype)
    return torch.autograd.grad(result, leaves, weight)


def check(fn, leaves, *others, mode=None):
    """Near double precision, no further away than eager or the dtype; the same bits again."""
    compiled = braze.compile(fn, fullgraph=True, mode=mode)
    exact = gradients(fn, [x.double() for x in leaves], *others)
    eager = gradients(fn, leaves, *others)
    first = gradients(compiled, leaves, *others)
    for got, known, true in zip(first, eager, exact, strict=True):
        assert (got.dtype, got.shape, got.stride()) == (known.dtype, known.shape, known.stride())
        error, bound = (got.double() - true).abs().max(), (known.double() - true).abs().max()
        assert error <= max(2 * bound, EPS[got.dtype] * (1 + true.abs().max()))
    for _ in range(5):
        for got, known in zip(gradients(compiled, leaves, *others), first, strict=True):
            assert torch.equal(got, known)
    assert not reasons(compiled)


@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
@pytest.mark.parametrize("padding", [None, 3, -1])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_tables(dtype, padding, mode):
    ids = places("few", 1000, 4 * 300).view(4, 300)
    for width in (64, 25, 3):
        table = torch.randn(1000, width, device="cuda").to(dtype)
        check(lambda w, i: F.embedding(i, w, padding_idx=padding) * 2, [table], ids, mode=mode)
        check(lambda w, i: F.embedding(i.t(), w), [table], ids.int(), mode=mode)


INDEXED = {
    "rows": lambda x, i, j: x[i],
    "columns": lambda x, i, j: x[:, i],
    "last": lambda x, i, j: x[..., i],
    "pairs": lambda x, i, j: x[i, j],
    "elements": lambda x, i, j: x.view(20, -1)[i, j],
    "pairs_behind": lambda x, i, j: x[:, i, j],
    "from_the_end": lambda x, i, j: x[i - 20, j],
    "squares": lambda x, i, j: x[i.view(10, -1), j.view(10, -1)],
    "sums": lambda x, i, j: x[i].sum(0),
    "apart": lambda x, i, j: x[i, :, j],
    "broadcast": lambda x, i, j: x[i.view(10, -1), j[:10, None]],
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", INDEXED)
def test_indexed(name, dtype):
    x = torch.randn(20, 20, 24, device="cuda").to(dtype)
    i, j = places("few", 20, 200), places("random", 20, 200)
    check(INDEXED[name], [x], i, j)


ADDED = {
    "put": lambda x, i, s: x.index_put((i,), s, accumulate=True),
    "put_one": lambda x, i, s: x.index_put((i,), s[0], accumulate=True),
    "put_columns": lambda x, i, s: torch.ops.aten.index_put(
        x.t().contiguous(), [None, i], s.t(), True
    ),
    "rows": lambda x, i, s: x.index_add(0, i, s),
    "columns": lambda x, i, s: x.t().contiguous().index_add(1, i, s.t().contiguous()),
    "made": lambda x, i, s: x.index_add(0, i, s * 2 + 1),
    "twice": lambda x, i, s: x.index_add(0, i, s, alpha=2),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ADDED)
def test_added_to_what_is_there(name, dtype):
    fn = ADDED[name]
    x, source = (torch.randn(n, 128, device="cuda").to(dtype) for n in (700, 6000))
    compiled = braze.compile(fn, fullgraph=True)
    for kind in ("random", "few", "same"):
        i = places(kind, 700, 6000)
        kept = x.clone()
        got, eager = compiled(x, i, source), fn(x, i, source)
        exact = fn(x.double(), i, source.double())
        assert (got.dtype, got.shape, got.stride()) == (eager.dtype, eager.shape, eager.stride())
        assert torch.equal(x, kept)
        error, bound = (got.double() - exact).abs().max(), (eager.double() - exact).abs().max()
        assert error <= max(2 * bound, EPS[dtype] * (1 + exact.abs().max()))
    assert not reasons(compiled)


def test_indices_of_the_cpu():
    x = torch.randn(20, 8, device="cuda", requires_grad=True)
    i = torch.randint(0, 20, (100,))
    compiled = braze.compile(lambda x, i: x[i] * 2)
    for fn in (compiled, lambda x, i: x[i] * 2):
        (gradient,) = torch.autograd.grad(fn(x, i).sum(), x)
        torch.testing.assert_close(gradient.sum(), torch.tensor(1600.0, device="cuda"))
    with pytest.raises(RuntimeError, match="its places are on cpu"):
        torch.ops.braze.sum_by_place(x.detach(), torch.zeros(20, dtype=torch.int64), 0, 3)


def test_in_place():
    def add(x, i, s):
        x[i] += s
        x.index_put_((i,), s, accumulate=True)
        return x.sum()

    x, s = torch.randn(50, 16, device="cuda"), torch.randn(400, 16, device="cuda")
    i = places("few", 50, 400)
    own, other = x.clone(), x.clone()
    with torch.no_grad():
        braze.compile(add)(own, i[:1], s[:1])
        add(other, i[:1], s[:1])
        torch.testing.assert_close(own, other)
        compiled = braze.compile(lambda x, i, s: x.index_put_((i,), s, accumulate=True))
        assert compiled(own, i, s) is own
        torch.testing.assert_close(own, other.index_put_((i,), s, accumulate=True))


def test_it_is_the_sum_that_runs():
    fn = braze.compile(lambda w, i: F.embedding(i, w))
    table = torch.randn(100, 64, device="cuda", requires_grad=True)
    ids = torch.randint(0, 100, (40,), device="cuda")
    fn(table, ids).sum().backward()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        fn(table, ids).sum().backward()
        torch.cuda.synchronize()
    names = {event.key for event in profile.key_averages()}
    assert {"link_places", "order_places", "sum_places"} <= names


REFUSED = """
import braze, torch
x = torch.randn(10, 10, 16, device="cuda", requires_grad=True)
i = torch.zeros(5, dtype=torch.int64, device="cuda")
def later(x, i, j):
    return torch.zeros_like(x).index_put((i, j), x[0, :5], accumulate=True)
fn = braze.compile(later)
with torch.no_grad():
    fn(x, i, i)
    torch.cuda.synchronize()
    try:
        fn(x, i, i + 10)
        torch.cuda.synchronize()
    except Exception as error:
        print("refused", "device-side assert" in str(error))
"""


def test_an_index_that_is_none():
    done = subprocess.run([sys.executable, "-c", REFUSED], capture_output=True, text=True)
    assert "refused True" in done.stdout, done.stderr
