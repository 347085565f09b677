"""Places of extremes on a GPU, and kernels that write to what they reduce."""

import braze
import pytest
import torch
from support import reasons


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def check(fn, *args):
    compiled = braze.compile(fn, fullgraph=True)
    for got, expected in zip(compiled(*args), fn(*args), strict=True):
        assert (got.dtype, got.shape, got.stride()) == (
            expected.dtype,
            expected.shape,
            expected.stride(),
        )
        torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)
    assert not reasons(compiled)


SHAPES = [(1, 1), (3, 5), (300, 1000), (20, 32_000), (4, 70_001), (5000, 33), (1, 3_000_000)]


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("shape", SHAPES)
def test_first_of_equal_ones(shape, dtype):
    x = (torch.randn(shape, device="cuda") * 20).round().to(dtype)
    if dtype.is_floating_point and x.numel() > 10:
        some = torch.rand(shape, device="cuda")
        x = torch.where(some < 1e-4, float("nan"), x)
        x[0] = -float("inf")
    for dim in (0, 1):
        check(lambda x, d=dim: (x.argmax(d), x.argmin(d), *x.max(d), *x.min(d)), x)
    check(lambda x: (x.argmax(), x.argmin()), x)
    check(lambda x: (x.argmax(), x.argmin()), torch.where(x != x, 0, x))
    check(lambda x: (x.T.argmax(), x.T.argmin()), torch.where(x != x, 0, x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("infinite", [False, True])
def test_gradients_that_are_unscaled(dtype, infinite):
    """In place, beside whether all are finite."""

    def unscale(gradients):
        torch._foreach_mul_(gradients, 1.0 / 128)
        return torch.stack([g.isfinite().all() for g in gradients]).all()

    def made():
        torch.manual_seed(0)
        sizes = [(819, 819), (819, 1638), (819,), (410, 819), (3_000_001,), (1,), (64, 4096)]
        gradients = [torch.randn(s, device="cuda").to(dtype) for s in sizes]
        if infinite:
            gradients[3][7, 9] = float("inf")
        return gradients

    compiled = braze.compile(unscale, fullgraph=True)
    got, expected = made(), made()
    for _ in range(3):
        assert compiled(got).item() == unscale(expected).item()
        for a, b in zip(got, expected, strict=True):
            assert torch.equal(a, b) and a._version == b._version
    assert not reasons(compiled)


@pytest.mark.parametrize("shape", [(7, 33), (300, 1000), (4, 70_000), (2000, 64), (64, 20_000)])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_rows_and_columns_in_place(shape, dim, dtype):
    def normalise(x):
        mean, peak = x.mean(dim, keepdim=True), x.amax(dim)
        x.sub_(mean).mul_(2)
        return peak

    compiled = braze.compile(normalise, fullgraph=True)
    x = torch.randn(shape, device="cuda").to(dtype)
    got, expected = x.clone(), x.clone()
    for _ in range(3):
        torch.testing.assert_close(compiled(got), normalise(expected), rtol=1e-3, atol=1e-2)
        torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-2)
    assert not reasons(compiled)
