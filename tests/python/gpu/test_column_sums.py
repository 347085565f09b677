"""Sums over rows that are made beside what a kernel does with each of them: gradients of weights and
biases beside those of inputs, of matrices that no cache holds."""

import braze
import pytest
import torch
import torch.nn.functional as F

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="a GPU lifts it")


@pytest.fixture(autouse=True)
def enable_grad():
    with torch.enable_grad():
        yield


def layer_norm(x, w, b):
    return F.layer_norm(x, x.shape[-1:], w, b, 1e-5)


def rms_norm(x, w):
    return F.rms_norm(x, x.shape[-1:], w, 1e-6)


def bias_gelu(x, b):
    return F.gelu(x + b)


def norm_of_gelu(x, w, b):
    return F.gelu(layer_norm(x, w, b))


def two_norms(x, w, b, v):
    y = layer_norm(x, w, b)
    return y + rms_norm(y, v)


def softmax_of_scaled(x, w):
    return F.softmax(x * w, -1)


def gradients(function, tensors, tangent):
    leaves = [t.detach().clone().requires_grad_() for t in tensors]
    result = function(*leaves)
    return torch.autograd.grad(result, leaves, tangent)


def inputs(function, rows, width, dtype):
    count = function.__code__.co_argcount - 1
    x = torch.randn(rows, width, device="cuda", dtype=dtype)
    return [x] + [torch.randn(width, device="cuda", dtype=dtype) for _ in range(count)]


CASES = [
    (layer_norm, 300_000, 64, torch.float16),
    (layer_norm, 16_384, 768, torch.float32),
    (layer_norm, 16_001, 1024, torch.bfloat16),
    (layer_norm, 9_000, 4096, torch.float16),
    (layer_norm, 5_000, 8192, torch.bfloat16),
    (layer_norm, 33_001, 1023, torch.float16),
    (layer_norm, 4_001, 4096, torch.float64),
    (rms_norm, 150_001, 128, torch.bfloat16),
    (rms_norm, 20_000, 1000, torch.float32),
    (rms_norm, 4_096, 16_384, torch.float16),
    (rms_norm, 20_003, 777, torch.float32),
    (bias_gelu, 16_000, 3072, torch.float16),
    (bias_gelu, 16_000, 3001, torch.float16),
    (norm_of_gelu, 20_000, 1024, torch.bfloat16),
    (two_norms, 20_000, 1024, torch.float32),
    (softmax_of_scaled, 20_000, 1000, torch.float32),
]


@pytest.mark.parametrize(("function", "rows", "width", "dtype"), CASES)
def test_gradients_are_as_near_as_eager(function, rows, width, dtype):
    torch.manual_seed(0)
    tensors = inputs(function, rows, width, dtype)
    tangent = torch.randn(rows, width, device="cuda", dtype=dtype)
    eager = gradients(function, tensors, tangent)
    fast = braze.compile(function, fullgraph=True)
    got = gradients(fast, tensors, tangent)
    exact = gradients(function, [t.double() for t in tensors], tangent.double())
    for mine, theirs, truth in zip(got, eager, exact, strict=True):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        assert mine.stride() == theirs.stride()
        scale = truth.abs().max().item()
        error = (mine.double() - truth).abs().max().item()
        bound = 2 * (theirs.double() - truth).abs().max().item()
        assert error <= bound + 8 * torch.finfo(dtype).eps * scale
    for _ in range(3):
        again = gradients(fast, tensors, tangent)
        assert all(torch.equal(a, b) for a, b in zip(got, again, strict=True))


def test_rows_after_other_rows_leave_no_trace():
    """NaNs of one row are in the sums, and in no other row."""
    x = torch.randn(20_000, 1024, device="cuda")
    x[7, 3] = float("nan")
    w = torch.ones(1024, device="cuda")
    tangent = torch.randn_like(x)
    gradients(rms_norm, [x, w], tangent)
    dx, dw = gradients(braze.compile(rms_norm, fullgraph=True), [x, w], tangent)
    assert dx[7].isnan().all() and not dx[:7].isnan().any() and not dx[8:].isnan().any()
    assert dw.isnan().all()


def test_a_part_of_the_gradients():
    x = torch.randn(20_000, 1024, device="cuda")
    w, b = torch.randn(1024, device="cuda", requires_grad=True), torch.zeros(1024, device="cuda")
    fast = braze.compile(layer_norm, fullgraph=True)
    tangent = torch.randn_like(x)
    (got,) = torch.autograd.grad(fast(x, w, b), [w], tangent)
    (want,) = torch.autograd.grad(layer_norm(x.double(), w.double(), b.double()), [w], tangent)
    torch.testing.assert_close(got.double(), want.double(), rtol=1e-4, atol=1e-2)
