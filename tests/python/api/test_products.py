"""Large float32 products."""

from pathlib import Path

import braze
import pytest
import torch
import torch.nn.functional as F
from braze import _C

needs_vectors = pytest.mark.skipif(
    "generic" in (_C.host_isa(), _C.options()["isa"]),
    reason="the kernel needs AVX2 and FMA; a processor with them lifts it",
)


def close(got, expected, inner):
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    assert got.stride() == expected.stride()
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=2e-5 * max(1, inner) ** 0.5)


@needs_vectors
@pytest.mark.parametrize("activation", ["none", "gelu", "gelu_tanh"])
@pytest.mark.parametrize(
    "rows, inner, columns", [(1, 1, 1), (7, 33, 65), (130, 1030, 200), (0, 4, 3)]
)
@pytest.mark.parametrize("layout", ["rows", "columns", "neither"])
def test_the_operator(rows, inner, columns, layout, activation):
    torch.manual_seed(0)
    x, bias = torch.randn(rows, inner), torch.randn(columns)
    matrix = {
        "rows": torch.randn(inner, columns),
        "columns": torch.randn(columns, inner).t(),
        "neither": torch.randn(inner, columns, 2)[:, :, 0],
    }[layout]
    expected = torch.addmm(bias, x, matrix)
    if activation != "none":
        expected = F.gelu(expected, approximate="tanh" if "tanh" in activation else "none")
    close(torch.ops.braze.mm_pointwise(x, matrix, bias, activation), expected, inner)
    out = torch.full((rows, columns + 3), 5.0)
    torch.ops.braze.mm_pointwise.out(x, matrix, bias, activation, out=out[:, :columns])
    torch.testing.assert_close(out[:, :columns], expected, rtol=1e-5, atol=1e-3)
    assert (out[:, columns:] == 5).all()


@needs_vectors
def test_the_operator_takes_odd_rows():
    x = torch.randn(64, 20).t()
    matrix = torch.randn(64, 48)
    close(torch.ops.braze.mm_pointwise(x, matrix, None, "none"), x @ matrix, 64)
    one = torch.randn(1, 64).expand(9, 64)
    close(torch.ops.braze.mm_pointwise(one, matrix, None, "none"), one @ matrix, 64)


@needs_vectors
def test_the_operator_refuses_what_it_cannot_do():
    x, matrix = torch.randn(4, 8), torch.randn(8, 6)
    product = torch.ops.braze.mm_pointwise
    with pytest.raises(RuntimeError, match="expected float32 matrices"):
        product(x.double(), matrix.double(), None, "none")
    with pytest.raises(RuntimeError, match="into"):
        product(x, matrix.t(), None, "none")
    with pytest.raises(RuntimeError, match="a bias of sizes"):
        product(x, matrix, torch.randn(5), "none")
    with pytest.raises(ValueError, match="no activation relu"):
        product(x, matrix, None, "relu")


def layers(inner, columns, activation):
    return torch.nn.Sequential(
        torch.nn.Linear(inner, columns), activation, torch.nn.Linear(columns, inner, bias=False)
    ).eval()


@pytest.mark.parametrize("activation", [torch.nn.GELU(), torch.nn.GELU("tanh"), torch.nn.ReLU()])
@pytest.mark.parametrize("rows", [1, 2, 6, 7, 31, 32, 300])
def test_a_network_as_in_eager(activation, rows):
    torch.manual_seed(1)
    model = layers(768, 1024, activation)
    x = torch.randn(2, rows, 768)
    with torch.no_grad():
        close(braze.compile(model, fullgraph=True)(x), model(x), 1024)


@needs_vectors
def test_special_values_stay_where_eager_has_them():
    torch.manual_seed(2)
    model = layers(768, 1024, torch.nn.Identity())
    fast = braze.compile(model, fullgraph=True)
    for count in (10, 20, 256):
        x = torch.randn(count, 768)
        x[3, 5], x[7, 700], x[9, 1] = float("nan"), float("inf"), -float("inf")
        with torch.no_grad():
            got, expected = fast(x), model(x)
        assert torch.equal(got.isnan(), expected.isnan())
        assert got.isnan().any(1).nonzero().flatten().tolist() == [3, 7, 9]


def mkl_knows_the_processor():
    """There, few rows and gradients are its, and its sums depend on the number of threads."""
    return "GenuineIntel" in Path("/proc/cpuinfo").read_text()


@needs_vectors
def test_threads_do_not_change_a_bit():
    torch.manual_seed(3)
    model = layers(768, 1024, torch.nn.GELU())
    threads = torch.get_num_threads()
    for rows in (700,) if mkl_knows_the_processor() else (1, 6, 700):
        x = torch.randn(rows, 768)
        results = []
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            try:
                results.append(torch.ops.braze.mm_pointwise(x, model[0].weight.t(), None, "none"))
            finally:
                torch.set_num_threads(threads)
        assert torch.equal(results[0], results[1])
        assert torch.equal(results[0], results[2])


@needs_vectors
def test_products_of_gradients():
    """Both factors in the other order; MKL's, bit by bit, on the processors that it knows."""
    torch.manual_seed(5)
    x, weight, dy = torch.randn(300, 768), torch.randn(1024, 768), torch.randn(300, 1024)
    product = torch.ops.braze.mm_pointwise
    for a, b in ((dy, weight), (dy.t(), x), (x.t(), dy), (weight.t(), dy.t())):
        got, expected = product(a, b, None, "none"), a @ b
        close(got, expected, a.shape[1])
        assert not mkl_knows_the_processor() or torch.equal(got, expected)
        close(product(a, b, None, "gelu"), torch.nn.functional.gelu(expected), a.shape[1])


def test_sizes_that_vary():
    torch.manual_seed(4)
    model = layers(768, 1024, torch.nn.GELU())
    fast = braze.compile(model, fullgraph=True, dynamic=True)
    with torch.no_grad():
        for rows in (200, 1, 2, 128, 640, 17):
            x = torch.randn(rows, 768)
            close(fast(x), model(x), 1024)
