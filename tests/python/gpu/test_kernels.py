"""Kernels of CUDA tensors that the generated code loads in packs, or by indices from data."""

import subprocess
import sys

import braze
import pytest
import torch
import torch.nn.functional as F
from support import entries, reasons

LARGE = 1 << 20  # elements, enough for packs of eight


def check(fn, *calls, close=None, operators=0):
    compiled = braze.compile(fn, fullgraph=True)
    for args in calls:
        expected, got = fn(*args), compiled(*args)
        assert got.dtype == expected.dtype and got.stride() == expected.stride()
        torch.testing.assert_close(got, expected, equal_nan=True, **(close or {}))
    assert not reasons(compiled)
    assert [len(entry["operators"]) for entry in entries(compiled)] == [operators]
    return compiled


def shifted(elements, dtype, by=1):
    """A view that begins between the places where packs do."""
    return torch.randn(elements + by, device="cuda").to(dtype)[by:]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_addresses_between_packs(dtype):
    def points(x, y):
        return F.gelu(x + 1) * y

    def rows(x, y):
        return torch.softmax(x * 0.5 + y, -1)

    close = {"rtol": 2e-2, "atol": 2e-3} if dtype != torch.float32 else {}
    x, y = shifted(LARGE, dtype, 8), shifted(LARGE, dtype, 1)
    for fn, shape in ((points, (LARGE,)), (rows, (LARGE // 4096, 4096))):
        check(fn, *((a.view(shape), b.view(shape)) for a in (x, y) for b in (x, y)), close=close)


@pytest.mark.parametrize("by", [1, 3, 8])
def test_writes_between_packs(by):
    def fn(x, y):
        x.mul_(2).add_(y)
        return x.sum()

    def run(fn):
        torch.manual_seed(0)
        base = torch.randn(LARGE + 2 * by, device="cuda", dtype=torch.float16)
        y = shifted(LARGE, torch.float16, by)
        return base, fn(base[by:-by], y)

    for expected, got in zip(run(fn), run(braze.compile(fn)), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-2, atol=1e-2)
    (base, _), (again, _) = run(fn), run(braze.compile(fn))
    assert torch.equal(base[:by], again[:by]) and torch.equal(base[-by:], again[-by:])


def test_every_other_element_between_packs():
    def fn(x):
        x.neg_()
        return x.abs()

    def run(fn):
        torch.manual_seed(0)
        base = torch.randn(2 * LARGE + 1, device="cuda", dtype=torch.float16)
        return base, fn(base[1:].view(-1, 2)[:, 0])

    for expected, got in zip(run(fn), run(braze.compile(fn)), strict=True):
        assert torch.equal(expected, got)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_rows_of_a_table(dtype):
    table = torch.randn(1000, 768, device="cuda", dtype=dtype)
    rows = torch.randint(0, 1000, (64, 33), device="cuda")
    check(lambda t, i: F.embedding(i, t) * 2, (table, rows))
    check(lambda t, i: t[i] * 2, (table, rows - 500))
    check(lambda t, i: t[:, i] + 1, (table, rows[0] % 768))
    check(lambda t, i: torch.index_select(t, 1, i) + 1, (table, rows[0] % 768))
    check(lambda t, i: torch.gather(t, 1, i) + 1, (table, torch.randint(0, 768, (9, 5)).cuda()))


@pytest.mark.parametrize("classes", [1000, 50304, 50257])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_losses_over_many_classes(dtype, classes):
    logits = torch.randn(300, classes, device="cuda", dtype=dtype) * 3
    target = torch.randint(0, classes, (300,), device="cuda")
    target[::7] = -100
    logits[3, 1:] = -torch.inf
    target[3] = 0
    check(lambda x, t: F.cross_entropy(x.float(), t), (logits, target))
    check(lambda x: torch.logsumexp(x.float(), -1), (logits,))
    nothing = torch.full_like(logits, -torch.inf)
    check(lambda x: (x.float() - x.float().amax(-1, True)).exp().sum(-1), (logits,), (nothing,))


LONG_ROWS = {
    "softmax": lambda x: torch.softmax(x, -1),
    "log_softmax": lambda x: torch.log_softmax(x, -1),
    "logsumexp": lambda x: torch.logsumexp(x, -1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "extremes": lambda x: x.amax(-1) - x.amin(-1),
}


@pytest.mark.parametrize(
    "shape", [(3, 50257), (700, 50304), (40, 131072), (5, 262144), (2, 400001)]
)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("name", LONG_ROWS)
def test_rows_of_several_blocks(name, dtype, shape):
    x = torch.randn(shape, device="cuda").to(dtype)
    close = {"rtol": 1e-2, "atol": 1e-3} if dtype == torch.float16 else {"rtol": 1e-5, "atol": 1e-5}
    fn = LONG_ROWS[name]
    compiled = check(fn, (x,), close=close)
    assert torch.equal(compiled(x), compiled(x))  # in the same order each time


def test_sums_over_columns():
    x = torch.randn(5000, 4096, device="cuda", dtype=torch.float16)
    weight = torch.randn(5000, 1, device="cuda")
    check(lambda x, w: (x.float() * w).sum(0), (x, weight), close={"rtol": 1e-4, "atol": 1e-3})
    check(lambda x: torch.var_mean(x.float(), 0)[0], (x,), close={"rtol": 1e-4, "atol": 1e-4})
    check(lambda x: x.argmax(0), (x,))


@pytest.mark.parametrize("compile", ["", "fn = braze.compile(fn)"])
def test_an_index_out_of_range(compile):
    program = f"""
import braze, torch
def fn(table, rows):
    return table[rows] * 2
{compile}
table = torch.randn(10, 8, device="cuda")
print(fn(table, torch.tensor([1, 9], device="cuda")).shape)
fn(table, torch.tensor([1, 10], device="cuda"))
torch.cuda.synchronize()
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.returncode != 0 and "[2, 8]" in run.stdout
    assert "device-side assert triggered" in run.stderr
