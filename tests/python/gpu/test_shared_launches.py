"""Backwards that read matrices by rows and by columns, in one launch, against eager in float64."""

import braze
import pytest
import torch
import torch.nn.functional as F

FUNCTIONS = {
    "layer_norm": lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
    "rms_norm": lambda x, w, b: F.rms_norm(x, x.shape[-1:], w, 1e-5),
    "normalized_gelu": lambda x, w, b: F.gelu(F.layer_norm(x, x.shape[-1:], w, b)),
    "two_norms": lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b) + F.rms_norm(x, (x.shape[-1],), b),
    "scaled_softmax": lambda x, w, b: torch.softmax(x * w + b, -1),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _gradients():
    torch.manual_seed(0)
    with torch.enable_grad():
        yield


def gradients(function, inputs, tangent):
    leaves = [x.detach().requires_grad_() for x in inputs]
    used = [x for x, g in zip(leaves, _used(function, leaves, tangent)) if g is not None]
    return torch.autograd.grad(function(*leaves), used, tangent)


def _used(function, leaves, tangent):
    return torch.autograd.grad(function(*leaves), leaves, tangent, allow_unused=True)


def distance(found, exact):
    return ((found.double() - exact).abs().max() / exact.abs().max().clamp_min(1e-30)).item()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "shape",
    [(8192, 4096), (65536, 256), (43690, 768), (33554, 1000), (4, 2048, 2048), (16400, 1023)],
    ids=str,
)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name, shape, dtype):
    function, width = FUNCTIONS[name], shape[-1]
    inputs = [
        torch.randn(shape, dtype=dtype, device="cuda"),
        torch.randn(width, dtype=dtype, device="cuda"),
        torch.randn(width, dtype=dtype, device="cuda"),
    ]
    tangent = torch.randn(shape, dtype=dtype, device="cuda")
    exact = gradients(function, [x.double() for x in inputs], tangent.double())
    eager = gradients(function, inputs, tangent)
    compiled = braze.compile(function, fullgraph=True, dynamic=False)
    found = gradients(compiled, inputs, tangent)
    again = gradients(compiled, inputs, tangent)
    least = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}[dtype]
    for ours, theirs, right, same in zip(found, eager, exact, again, strict=True):
        assert ours.dtype == theirs.dtype and ours.stride() == theirs.stride()
        assert distance(ours, right) <= max(2 * distance(theirs, right), least)
        assert torch.equal(ours, same)
