"""flex_attention and its gradients on a GPU, where PyTorch has them without a patch."""

import warnings

import braze
import pytest
import torch
from flex_programs import (
    TOLERANCES,
    attend,
    block_mask,
    has_same_gradients,
    inputs,
    mask_mods,
    score_mods,
    tables,
)
from support import same
from torch.nn.attention import flex_attention as flex

GPU = "cuda"


@pytest.fixture(autouse=True)
def enable_grad():
    """PyTorch's compiler keeps few versions of a function, and its flex_attention warns."""
    torch._dynamo.reset()
    with torch.enable_grad(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "flex_attention called without torch.compile")
        yield
    torch._dynamo.reset()


def learning(dtype, **options):
    return [tensor.requires_grad_() for tensor in inputs(dtype, GPU, **options)]


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("mask", ["causal", "documents", "late_rows"])
def test_gradients_through_masks(dtype, mask):
    options = {
        "enable_gqa": True,
        "block_mask": block_mask(mask_mods(tables(GPU))[mask], device=GPU),
    }
    has_same_gradients(learning(dtype, key_heads=2), 3 * TOLERANCES[dtype] + 1e-4, **options)


@pytest.mark.parametrize("score", ["alibi", "soft_cap", "causal", "both", "some_rows"])
def test_gradients_through_scores(score):
    has_same_gradients(learning(torch.float32), 1e-4, score_mod=score_mods(tables(GPU))[score])


@pytest.mark.parametrize("score, learned", [("relative", ["bias"]), ("own_bias", ["scores"])])
def test_gradients_of_what_is_closed_over(score, learned):
    table = tables(GPU)
    tensors = [*learning(torch.float32), *(table[name].requires_grad_() for name in learned)]
    has_same_gradients(tensors, 1e-4, score_mod=score_mods(table)[score])


def test_highest_scores():
    request = flex.AuxRequest(lse=True, max_scores=True)
    args, options = inputs(device=GPU), {"score_mod": score_mods(tables(GPU))["alibi"]}
    expected = attend(*args, return_aux=request, **options)
    given = braze.compile(attend, fullgraph=True)(*args, return_aux=request, **options)
    same(given, expected, rtol=1e-4, atol=1e-4)
