"""Gradients of scaled_dot_product_attention in single precision on the CPU."""

import braze
import pytest
import torch
import torch.nn.functional as F
from torch import nn


def drawn(*sizes, seed=0):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


def compared(function, tensors, tangent=None, times=3.0):
    """Results and gradients are as far off what doubles give as eager's are, or a bit more."""
    exact = [t.detach().double().requires_grad_(t.requires_grad) for t in tensors]
    found = []
    for call, inputs in (
        (braze.compile(function), tensors),
        (function, tensors),
        (function, exact),
    ):
        y = call(*inputs)
        seed = drawn(*y.shape, seed=9) if tangent is None else tangent
        wanted = [t for t in inputs if t.requires_grad]
        found.append([y, *torch.autograd.grad(y, wanted, seed.to(y.dtype))])
    for got, other, right in zip(*found, strict=True):
        assert (got.shape, got.stride(), got.dtype) == (other.shape, other.stride(), other.dtype)
        bound = times * (other - right).abs().max() + 2e-6 * right.abs().max()
        assert (got - right).abs().max() <= bound


SIZES = {
    "small": (2, 3, 5, 7, 8),
    "blocks": (1, 2, 150, 530, 16),
    "one query": (2, 4, 1, 90, 32),
    "one key": (2, 4, 33, 1, 32),
    "deep": (1, 2, 60, 70, 130),
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_sizes(sizes, causal):
    batch, heads, queries, keys, depth = sizes
    tensors = [drawn(batch, heads, n, depth, seed=i) for i, n in enumerate((queries, keys, keys))]
    compared(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal),
        [t.requires_grad_() for t in tensors],
    )


MASKS = {
    "whole": (2, 4, 20, 40),
    "of keys": (2, 1, 1, 40),
    "of queries": (1, 1, 20, 1),
    "matrix": (20, 40),
}


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_masks(mask, hidden):
    q, k, v = (drawn(2, 4, n, 16, seed=i).requires_grad_() for i, n in enumerate((20, 40, 40)))
    scores = drawn(*mask, seed=5)
    if hidden:
        scores = scores.masked_fill(scores < -0.8, float("-inf"))

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=scores.to(q.dtype), scale=0.4)

    compared(attend, [q, k, v])


def test_rows_that_see_nothing():
    q, k, v = (drawn(1, 2, n, 8, seed=i).requires_grad_() for i, n in enumerate((6, 9, 9)))
    mask = torch.zeros(6, 9)
    mask[2:4] = float("-inf")
    call = braze.compile(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask))
    y = call(q, k, v)
    gradients = torch.autograd.grad(y.sum(), [q, k, v])
    assert (y[:, :, 2:4] == 0).all()
    assert (gradients[0][:, :, 2:4] == 0).all()
    assert all(g.isfinite().all() for g in gradients)


@pytest.mark.parametrize("layout", ["by sequence", "packed", "apart", "expanded"])
def test_layouts(layout):
    if layout == "packed":
        packed = drawn(2, 30, 3, 4, 16).requires_grad_()

        def attend(packed):
            q, k, v = packed.permute(2, 0, 3, 1, 4)
            return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

        return compared(attend, [packed])
    if layout == "apart":
        tensors = [drawn(2, 4, 16, 30, seed=i).transpose(2, 3) for i in range(3)]
    elif layout == "expanded":
        tensors = [drawn(2, 4, 30, 16), drawn(2, 1, 30, 16, seed=1), drawn(2, 1, 30, 16, seed=2)]
    else:
        tensors = [drawn(2, 30, 4, 16, seed=i).transpose(1, 2) for i in range(3)]

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k.expand_as(q), v.expand_as(q))

    compared(attend, [t.requires_grad_() for t in tensors])


@pytest.mark.parametrize("tangent", ["transposed", "expanded", "apart"])
def test_tangents(tangent):
    tensors = [drawn(2, 3, 25, 16, seed=i).requires_grad_() for i in range(3)]
    given = {
        "transposed": drawn(2, 25, 3, 16).transpose(1, 2),
        "expanded": drawn(1, 3, 1, 16).expand(2, 3, 25, 16),
        "apart": drawn(2, 3, 16, 25).transpose(2, 3),
    }[tangent]
    compared(F.scaled_dot_product_attention, tensors, given)


@pytest.mark.parametrize("which", [(0,), (1,), (2,), (0, 2)])
def test_gradients_of_a_part(which):
    tensors = [drawn(2, 3, 20, 16, seed=i).requires_grad_(i in which) for i in range(3)]
    compared(F.scaled_dot_product_attention, tensors)


def test_shared_heads():
    q = drawn(2, 8, 20, 16).requires_grad_()
    k, v = (drawn(2, 2, 20, 16, seed=i).requires_grad_() for i in (1, 2))
    compared(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True),
        [q, k, v],
    )


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.packed, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = self.packed(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).flatten(2))


def test_lengths_that_vary_and_a_second_backward():
    torch.manual_seed(0)
    layer = Layer()
    fast = braze.compile(layer)
    for length in (9, 12, 30, 31, 5, 130):
        x = drawn(2, length, 32, seed=length).requires_grad_()
        inputs = [x, *layer.parameters()]
        results = [torch.autograd.grad(call(x).square().mean(), inputs) for call in (fast, layer)]
        for got, expected in zip(*results, strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-6)

    def penalty(call):
        x = drawn(2, 11, 32).requires_grad_()
        (slope,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), list(layer.parameters())[:3])

    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        for got, expected in zip(penalty(fast), penalty(layer), strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def test_kernels_that_are_allowed_are_noticed():
    q = drawn(1, 2, 9, 8).requires_grad_()
    fast = braze.compile(lambda q: F.scaled_dot_product_attention(q, q, q))

    def curvature(call):
        (slope,) = torch.autograd.grad(call(q).sum(), q, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), q)[0]

    for _ in range(2):
        with pytest.raises(RuntimeError, match="not implemented"):
            curvature(fast)
        with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
            expected = curvature(lambda q: F.scaled_dot_product_attention(q, q, q))
            torch.testing.assert_close(curvature(fast), expected, rtol=1e-4, atol=1e-4)


def test_threads_change_no_bit():
    q, k, v = (drawn(3, 2, 140, 16, seed=i) for i in range(3))
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 4):
            torch.set_num_threads(threads)
            out, sums = torch.ops.braze.attention_with_logsumexp(q, k, v, None, True, 0.25)
            gradients = torch.ops.braze.attention_backward(q, q, k, v, out, sums, None, True, 0.25)
            found.append((out, sums, *gradients))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


@pytest.mark.parametrize("queries, keys", [(0, 4), (4, 0), (0, 0)])
def test_nothing_to_attend(queries, keys):
    q, k = drawn(2, 2, queries, 8), drawn(2, 2, keys, 8)
    out, sums = torch.ops.braze.attention_with_logsumexp(q, k, k, None, False, 0.5)
    assert out.shape == q.shape and (out == 0).all()
    for got, like in zip(
        torch.ops.braze.attention_backward(q, q, k, k, out, sums, None, False, 0.5),
        (q, k, k),
        strict=True,
    ):
        assert got.shape == like.shape and (got == 0).all()


def test_what_does_not_fit():
    q, out = drawn(1, 2, 4, 8), drawn(1, 2, 4, 8)
    sums = drawn(1, 2, 4)
    backward = torch.ops.braze.attention_backward
    for tangent, logsumexp in ((q[:, :, :3], sums), (q, sums[:, :, :3]), (q.double(), sums)):
        with pytest.raises(RuntimeError, match="attention: "):
            backward(tangent, q, q, q, out, logsumexp, None, False, 0.5)
