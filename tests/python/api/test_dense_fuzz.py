"""Random products and attention through the kernels compiled ahead, against double precision."""

import random

import pytest
import torch
import torch.nn.functional as F
from braze import _C

pytestmark = pytest.mark.skipif(
    "generic" in (_C.host_isa(), _C.options()["isa"]),
    reason="the kernels need AVX2 and FMA; a processor with them lifts it",
)

CASES = 60


def heads(rng, batch, count, rows, depth):
    """A tensor of these sizes whose last stride is 1."""
    forms = [
        lambda: torch.randn(batch, count, rows, depth),
        lambda: torch.randn(batch, rows, count, depth).transpose(1, 2),
        lambda: torch.randn(batch, count, rows + 3, depth + 5)[:, :, 1:-2, 2:-3],
        lambda: torch.randn(1, count, rows, depth).expand(batch, count, rows, depth),
        lambda: torch.randn(batch, rows, 3, count, depth)[:, :, 1].transpose(1, 2),
    ]
    return rng.choice(forms)()


def random_mask(rng, sizes):
    mask = torch.randn([rng.choice([1, size]) for size in sizes[:3]] + [sizes[3]])
    if rng.random() < 0.5:
        mask = mask.masked_fill(torch.rand(mask.shape) < 0.4, -float("inf"))
    if rng.random() < 0.2:
        mask = mask.transpose(-1, -2).contiguous().transpose(-1, -2)
    return mask


def exact_attention(query, key, value, mask, causal, scale):
    group = query.size(1) // key.size(1)
    key, value = (x.double().repeat_interleave(group, 1) for x in (key, value))
    scores = query.double() @ key.transpose(-1, -2) * scale
    if mask is not None:
        scores = scores + mask.double()
    if causal:
        unseen = ~torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(unseen, -float("inf"))
    # A query that sees no key gets zeros.
    return torch.softmax(scores, -1).nan_to_num(0) @ value


@pytest.mark.parametrize("seed", range(CASES))
def test_attention(seed):
    torch.manual_seed(seed)
    rng = random.Random(seed)
    batch, count = rng.choice([1, 2, 3]), rng.choice([1, 2, 4, 6])
    depth = rng.choice([1, 3, 8, 16, 33, 64, 80, 128, 200])
    key_count = rng.choice([n for n in range(1, count + 1) if count % n == 0])
    queries = rng.choice([1, 2, 3, 5, 8, 9, 12, 16, 20, 31, 48, 63, 64, 65, 100, 130])
    keys = rng.choice([1, 2, 7, 31, 64, 100, 255, 256, 257, 300, 520])
    query = heads(rng, batch, count, queries, depth)
    key, value = (heads(rng, batch, key_count, keys, depth) for _ in range(2))
    causal = rng.random() < 0.3
    mask = None
    if not causal and rng.random() < 0.6:
        mask = random_mask(rng, [batch, count, queries, keys])
    scale = rng.choice([depth**-0.5, 0.3, 1.0])
    got = torch.ops.braze.attention(query, key, value, mask, causal, scale)
    expected = exact_attention(query, key, value, mask, causal, scale)
    torch.testing.assert_close(got.double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(CASES))
def test_product(seed):
    torch.manual_seed(seed)
    rng = random.Random(seed)
    rows, inner, columns = (
        rng.choice([1, 2, 3, 5, 7, 12, 13, 16, 33, 48, 49, 64, 65, 100, 200, 513, 1100])
        for _ in range(3)
    )
    if rng.random() < 0.3:
        inner = rng.choice([1023, 1024, 1025, 2500])
    left = rng.choice(
        [
            lambda: torch.randn(rows, inner),
            lambda: torch.randn(rows, inner + 2)[:, 1:-1],
            lambda: torch.randn(inner, rows).t(),
        ]
    )()
    right = rng.choice(
        [
            lambda: torch.randn(inner, columns),
            lambda: torch.randn(columns, inner).t(),
            lambda: torch.randn(columns, inner + 3)[:, 1:-2].t(),
            lambda: torch.randn(inner, columns, 2)[:, :, 1],
        ]
    )()
    bias = torch.randn(columns) if rng.random() < 0.5 else None
    activation = rng.choice(["none", "gelu", "gelu_tanh"])
    got = torch.ops.braze.mm_pointwise(left, right, bias, activation)
    expected = left.double() @ right.double()
    if bias is not None:
        expected = expected + bias.double()
    if activation != "none":
        expected = F.gelu(expected, approximate="tanh" if "tanh" in activation else "none")
    torch.testing.assert_close(got.double(), expected, rtol=1e-4, atol=1e-4 + 2e-5 * inner**0.5)
