"""What attention does before its products: rotary embeddings, and keys put behind those of a cache."""

import braze
import pytest
import torch
from comparing import assert_same


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


@pytest.mark.parametrize("heads", [2, 3, 4])
@pytest.mark.parametrize("width", [16, 32])
def test_gradients_through_a_rotary_embedding_of_what_is_scaled(heads, width):
    torch.manual_seed(0)
    c, s = torch.randn(12, width), torch.randn(12, width)

    def turned(x):
        q = (x * 0.25).view(2, 12, heads, width).transpose(1, 2)
        return ((q * c + rotate_half(q) * s) ** 2).sum()

    x = torch.randn(2, 12, heads * width, requires_grad=True)
    with torch.enable_grad():
        (expected,) = torch.autograd.grad(turned(x), x)
        (got,) = torch.autograd.grad(braze.compile(turned, fullgraph=True)(x), x)
    assert_same(got, expected, rtol=1e-5, atol=1e-5)


def test_keys_behind_an_empty_cache():
    torch.manual_seed(0)
    w = torch.randn(16, 16, requires_grad=True)

    def step(x):
        keys = torch.cat([torch.tensor([]), x @ w])
        loss = (keys @ keys.t()).sum()
        loss.backward()
        return loss.detach()

    x = torch.randn(8, 16)
    with torch.enable_grad():
        expected = step(x)
        gradient, w.grad = w.grad, None
        assert_same(braze.compile(step, fullgraph=True)(x), expected, rtol=1e-4, atol=1e-3)
    assert_same(w.grad, gradient, rtol=1e-4, atol=1e-3)


def one(x, w):
    return torch.cat([x @ w])


def stacked(x, w):
    return torch.stack([x @ w])[0]


def chained(x, w):
    return torch.cat([torch.cat([x @ w])])


def viewed(x, w):
    return torch.cat([x @ w]).view(16, 8)


READERS = {
    "sort": lambda t: t.sort()[0],
    "matmul": lambda t: t @ t.t(),
    "svd": lambda t: torch.linalg.svdvals(t),
    "rfft": lambda t: torch.fft.rfft(t).abs(),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("join", [one, stacked, chained, viewed])
def test_one_tensor_alone_is_put_together(join, reader):
    torch.manual_seed(0)
    x, w = torch.randn(8, 16), torch.randn(16, 16)

    def function(x, w):
        return READERS[reader](join(x, w))

    with torch.no_grad():
        assert_same(braze.compile(function)(x, w), function(x, w), rtol=1e-4, atol=1e-4)
