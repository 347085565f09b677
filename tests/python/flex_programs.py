"""Score and mask functions as users of flex_attention write them, and their arguments."""

import math

import braze
import torch
from support import same
from torch.nn.attention import flex_attention as flex

BATCH, HEADS, QUERIES, KEYS, WIDTH = 2, 4, 24, 20, 16
TOLERANCES = {
    torch.float64: 1e-9,
    torch.float32: 2e-5,
    torch.float16: 4e-3,
    torch.bfloat16: 3e-2,
}


def inputs(dtype=torch.float32, device="cpu", key_heads=HEADS, key_batch=BATCH, **sizes):
    """Query, key and value; `queries`, `keys` and `width` (of the value) where they differ."""
    queries, keys = sizes.get("queries", QUERIES), sizes.get("keys", KEYS)
    generator = torch.Generator().manual_seed(1)

    def make(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(device, dtype)

    return (
        make(BATCH, HEADS, queries, WIDTH),
        make(key_batch, key_heads, keys, WIDTH),
        make(key_batch, key_heads, keys, sizes.get("width", WIDTH)),
    )


def tables(device="cpu"):
    """What the functions close over, by name."""
    generator = torch.Generator().manual_seed(2)

    def make(*shape):
        return torch.randn(shape, generator=generator).to(device)

    return {
        "slopes": make(HEADS).exp(),
        "bias": make(HEADS, QUERIES + KEYS),
        "scores": make(BATCH, HEADS, QUERIES, KEYS),
        "factor": torch.tensor(0.7, device=device),
        "wide": make(HEADS).double(),
        "documents": (torch.arange(QUERIES + KEYS) // 7).to(device),
        "lengths": torch.tensor([5, 17]).to(device),
        "pages": torch.arange(KEYS).flip(0).to(device),
    }


def score_mods(table):
    def alibi(score, b, h, q_idx, kv_idx):
        return score + table["slopes"][h] * (kv_idx - q_idx)

    def soft_cap(score, b, h, q_idx, kv_idx):
        return 3.0 * torch.tanh(score / 3.0)

    def causal(score, b, h, q_idx, kv_idx):
        return torch.where(q_idx >= kv_idx, score, -math.inf)

    def relative(score, b, h, q_idx, kv_idx):
        return score + table["bias"][h, q_idx - kv_idx + KEYS]

    def own_bias(score, b, h, q_idx, kv_idx):
        return score * table["factor"] + table["scores"][b, h, q_idx, kv_idx]

    def both(score, b, h, q_idx, kv_idx):
        return soft_cap(alibi(score, b, h, q_idx, kv_idx), b, h, q_idx, kv_idx)

    def one_head(score, b, h, q_idx, kv_idx):
        return score + table["bias"][1, q_idx] * (h == 2)

    def wider(score, b, h, q_idx, kv_idx):
        return score + table["wide"][h]

    def halves(score, b, h, q_idx, kv_idx):
        return (score * 2).half()

    def no_scores(score, b, h, q_idx, kv_idx):
        return (q_idx - kv_idx).abs()

    def some_rows(score, b, h, q_idx, kv_idx):
        return torch.where(q_idx < 3, -math.inf, score)

    def filled(score, b, h, q_idx, kv_idx):
        return score.clone().masked_fill(kv_idx % 3 == 1, -10.0).clamp(max=2.0)

    found = (alibi, soft_cap, causal, relative, own_bias, both, one_head, wider, halves)
    found += (no_scores, some_rows, filled)
    return {function.__name__: function for function in found}


def mask_mods(table):
    def causal(b, h, q_idx, kv_idx):
        return q_idx >= kv_idx

    def window(b, h, q_idx, kv_idx):
        return (q_idx - kv_idx).abs() <= 4

    def documents(b, h, q_idx, kv_idx):
        return table["documents"][q_idx] == table["documents"][kv_idx]

    def padding(b, h, q_idx, kv_idx):
        return kv_idx < table["lengths"][b]

    def pages(b, h, q_idx, kv_idx):
        return (table["pages"][kv_idx] <= q_idx) & (h > 0)

    def late_rows(b, h, q_idx, kv_idx):
        return (q_idx > 2) & (kv_idx >= 0)

    found = {function.__name__: function for function in (causal, window, documents)}
    found |= {"padding": padding, "pages": pages, "late_rows": late_rows}
    found["all_of"] = flex.and_masks(causal, documents)
    found["any_of"] = flex.or_masks(window, padding)
    found["noop"] = flex.noop_mask
    return found


def block_mask(mask_mod, queries=QUERIES, keys=KEYS, device="cpu", **options):
    return flex.create_block_mask(mask_mod, BATCH, HEADS, queries, keys, device=device, **options)


def attend(query, key, value, **options):
    return flex.flex_attention(query, key, value, **options)


def attend_with_sums(query, key, value, **options):
    options["return_aux"] = flex.AuxRequest(lse=True)
    out, aux = flex.flex_attention(query, key, value, **options)
    return out, aux.lse


def gradients_of(function, tensors, options):
    for tensor in tensors:
        tensor.grad = None
    out, sums = function(*tensors[:3], **options)
    generator = torch.Generator().manual_seed(3)
    weights = torch.randn(out.shape, generator=generator).to(out)
    sums = torch.where(sums.isinf(), 0, sums)
    ((out * weights).sum() + (sums * weights[..., 0]).sum()).backward()
    return [tensor.grad for tensor in tensors]


def has_same_gradients(tensors, tolerance, **options):
    expected = gradients_of(attend_with_sums, tensors, options)
    compiled = braze.compile(attend_with_sums, fullgraph=True)
    given = gradients_of(compiled, tensors, options)
    assert any(gradient is not None for gradient in expected)
    same(given, expected, rtol=tolerance, atol=tolerance)
