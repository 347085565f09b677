"""Scaled dot product attention: Braze's own kernel where it is faster."""

import os

import braze
import pytest
import torch
import torch.nn.functional as F
from braze import _C

attention = F.scaled_dot_product_attention
needs_vectors = pytest.mark.skipif(
    "generic" in (_C.host_isa(), os.environ.get("BRAZE_ISA")),
    reason="the kernel needs AVX2 and FMA; a processor with them lifts it",
)


def rows(batch, heads, length, depth, inside=True):
    """[batch, heads, length, depth], in memory with the heads inside of the rows or outside."""
    if inside:
        return torch.randn(batch, length, heads, depth).transpose(1, 2)
    return torch.randn(batch, heads, length, depth)


def close(got, expected):
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    assert got.stride() == expected.stride()
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


def same_as_eager(function, *args):
    with torch.no_grad():
        close(braze.compile(function, fullgraph=True)(*args), function(*args))


def uses_the_kernel(function, *args):
    with torch.no_grad():
        return "braze.attention" in braze.explain(function)(*args).details


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@needs_vectors
def test_the_kernel_is_used():
    x, one = rows(2, 3, 16, 8), rows(2, 3, 1, 8)
    assert uses_the_kernel(attention, x, x, x)
    assert uses_the_kernel(attention, one, x, x)
    assert uses_the_kernel(lambda x: attention(x, x, x, is_causal=True, scale=2.0), x)
    assert uses_the_kernel(lambda x, m: attention(x, x, x, m), x, torch.randn(16, 16) > 0)


def test_the_kernel_is_left_where_it_does_not_fit():
    x = rows(2, 3, 16, 8)
    assert not uses_the_kernel(attention, x.double(), x.double(), x.double())
    spread = torch.randn(2, 3, 16, 16)[..., ::2]
    assert not uses_the_kernel(attention, spread, x, x)


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "queries, keys, depth",
    [
        (1, 1, 1),
        (12, 12, 5),
        (64, 64, 64),
        (65, 70, 33),
        (130, 300, 16),
        (300, 130, 16),
        (16, 1, 7),
        (7, 9, 8),
    ],
)
def test_sizes_and_layouts(queries, keys, depth, causal, inside):
    q = rows(2, 3, queries, depth, inside)
    k, v = rows(2, 3, keys, depth, not inside), rows(2, 3, keys, depth, inside)
    same_as_eager(lambda q, k, v: attention(q, k, v, is_causal=causal), q, k, v)


@pytest.mark.parametrize("kind", [torch.bool, torch.float32])
@pytest.mark.parametrize(
    "sizes",
    [(24, 37), (1, 37), (24, 1), (2, 3, 24, 37), (2, 1, 1, 37), (1, 3, 24, 1), (3, 24, 37)],
)
def test_masks(sizes, kind):
    q, k, v = rows(2, 3, 24, 16), rows(2, 3, 37, 16), rows(2, 3, 37, 16)
    mask = torch.randn(sizes)
    if kind == torch.bool:
        mask = mask > 0
    same_as_eager(attention, q, k, v, mask)
    if mask.dim() == 4:
        same_as_eager(attention, q, k, v, mask.mT.contiguous().mT)
        same_as_eager(attention, q, k, v, mask.expand(2, 3, 24, 37))


def test_rows_that_see_nothing():
    q = rows(2, 3, 24, 16)
    mask = torch.zeros(24, 24)
    mask[3], mask[5, :10], mask[7] = -float("inf"), -float("inf"), torch.finfo(torch.float32).min
    same_as_eager(attention, q, q, q, mask)
    same_as_eager(attention, q, q, q, mask == 0)


def test_special_values_stay_where_eager_has_them():
    q, k, v = rows(1, 2, 24, 16), rows(1, 2, 24, 16), rows(1, 2, 24, 16)
    q[0, 0, 3, 1], q[0, 1, 5, 2], q[0, 1, 9] = float("nan"), float("inf"), 1e20
    v[0, 0, :, 4] = float("inf")
    with torch.no_grad():
        got, expected = braze.compile(attention)(q, k, v), attention(q, k, v)
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("scale", [0.0, -1.5, 3.0])
def test_scales(scale):
    q = rows(2, 3, 24, 16)
    same_as_eager(lambda q: attention(q, q, q, scale=scale), q)


@pytest.mark.parametrize("key_heads", [1, 2, 4])
def test_heads_that_share_keys(key_heads):
    q, k, v = rows(2, 4, 24, 16), rows(2, key_heads, 24, 16), rows(2, key_heads, 24, 16)
    same_as_eager(lambda q, k, v: attention(q, k, v, enable_gqa=True), q, k, v)
    shared = k.expand(2, 4, 24, 16) if key_heads == 1 else q
    same_as_eager(attention, q, shared, shared)


@pytest.mark.parametrize(
    "q, k", [((2, 3, 0, 8), (2, 3, 9, 8)), ((2, 3, 9, 8), (2, 3, 0, 8)), ((0, 3, 9, 8),) * 2]
)
def test_empty(q, k):
    same_as_eager(attention, torch.randn(q), torch.randn(k), torch.randn(k))


def test_three_dimensions_and_other_depths_of_values():
    q = torch.randn(3, 24, 16)
    same_as_eager(attention, q, q, q)
    q, v = rows(2, 3, 24, 16), rows(2, 3, 24, 20)
    same_as_eager(attention, q, q, v)


def test_sizes_that_vary():
    def causal(q, k, v):
        return attention(q, k, v, is_causal=True)

    fast = braze.compile(causal, fullgraph=True, dynamic=True)
    masked = braze.compile(attention, fullgraph=True, dynamic=True)
    with torch.no_grad():
        for queries, keys in [(24, 24), (1, 9), (130, 7), (64, 300), (2, 2), (77, 77)]:
            q, k, v = rows(2, 3, queries, 16), rows(2, 3, keys, 16), rows(2, 3, keys, 16)
            close(fast(q, k, v), causal(q, k, v))
            mask = torch.randn(2, 1, queries, keys)
            close(masked(q, k, v, mask), attention(q, k, v, mask))


def test_gradients_are_eagers():
    q = rows(2, 3, 24, 16).requires_grad_()
    with torch.enable_grad():
        braze.compile(attention)(q, q, q).sum().backward()
        got, q.grad = q.grad, None
        attention(q, q, q).sum().backward()
    torch.testing.assert_close(got, q.grad)


def test_a_layer():
    layer = torch.nn.MultiheadAttention(64, 4, batch_first=True).eval()
    x = torch.randn(3, 50, 64)

    def f(x):
        return layer(x, x * 2, x + 1, need_weights=False)[0]

    same_as_eager(f, x)


@needs_vectors
def test_the_operator():
    operator = torch.ops.braze.attention
    q, k, v = rows(2, 4, 70, 20), rows(2, 2, 33, 20), rows(2, 2, 33, 20)
    mask = torch.randn(70, 33)
    aten = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    expected = aten(q, k, v, 0.0, True, attn_mask=mask, scale=0.3)[0]
    close(operator(q, k, v, mask, True, 0.3), expected)
    out = torch.full((2, 4, 70, 25), 5.0)
    operator.out(q, k, v, mask, True, 0.3, out=out[..., :20])
    torch.testing.assert_close(out[..., :20], expected, rtol=1e-5, atol=1e-5)
    assert (out[..., 20:] == 5).all()


@needs_vectors
def test_the_operator_refuses_what_it_cannot_do():
    operator = torch.ops.braze.attention
    x = rows(2, 4, 16, 8)
    with pytest.raises(RuntimeError, match="expected float32"):
        operator(x, x.double(), x.double(), None, False, 1.0)
    with pytest.raises(RuntimeError, match="attention: query"):
        operator(x, x[:, :3], x[:, :3], None, False, 1.0)
    with pytest.raises(RuntimeError, match="float32 mask"):
        operator(x, x, x, torch.ones(16, 16).bool(), False, 1.0)


@needs_vectors
def test_threads_do_not_change_a_bit():
    x = rows(1, 2, 300, 32)
    threads = torch.get_num_threads()
    results = []
    for count in (1, 2, 5, 32):
        torch.set_num_threads(count)
        try:
            results.append(torch.ops.braze.attention(x, x, x, None, True, 0.2))
        finally:
            torch.set_num_threads(threads)
    assert all(torch.equal(result, results[0]) for result in results)
