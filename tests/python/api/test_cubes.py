"""Third powers of halves, which eager rounds step by step, or once."""

import braze
import pytest
import torch
import torch.nn.functional as F

DTYPES = [torch.float16, torch.bfloat16]
GPU = pytest.param(
    "cuda",
    marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU; one lifts it"),
)


def numbers(dtype, device):
    x = 3 * torch.randn(50_000, generator=torch.Generator().manual_seed(0))
    x[:5] = torch.tensor([float("inf"), float("-inf"), float("nan"), 300.0, -0.0])
    return x.to(dtype).to(device)


@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_are_those_of_eager(dtype, device):
    x = numbers(dtype, device)

    def cubes(x):
        return x.pow(3), x**3 + 1, torch.pow(x, 3.0)

    for got, expected in zip(braze.compile(cubes, fullgraph=True)(x), cubes(x), strict=True):
        torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_gelu_written_out(dtype, device):
    x = numbers(dtype, device)[5:]

    def gelu(x):
        return 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * torch.pow(x, 3.0))))

    got, expected = braze.compile(gelu, fullgraph=True)(x), gelu(x)
    exact = F.gelu(x.double(), approximate="tanh")
    bound = 2 * (expected.double() - exact).abs().max() + 1e-6
    assert (got.double() - exact).abs().max() <= bound
