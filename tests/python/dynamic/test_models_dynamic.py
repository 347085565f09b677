"""Transformers: one symbolic compile serves batch, sequence and a growing cache."""

import braze
import pytest
import torch
from support import entries, reasons, same

from bench.models import tensors
from bench.zoo import ZOO

pytest.importorskip("transformers", reason="the models come from transformers")

SIZES = ((2, 16), (3, 7), (5, 24), (4, 11))


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "distilbert"])
def test_sizes_under_two_compiles(name):
    model = ZOO[name].build()
    fast = braze.compile(model)
    with torch.no_grad():
        for size in SIZES:
            arguments = {**ZOO[name].inputs(*size), **ZOO[name].options}
            ours, theirs = tensors(fast(**arguments)), tensors(model(**arguments))
            for a, b in zip(ours, theirs, strict=True):
                same(a, b, rtol=1e-4, atol=1e-5)
    assert len(entries(fast)) <= 2
    assert not reasons(fast)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_growing_cache(name):
    from transformers import DynamicCache

    model = ZOO[name].build()

    def step(tokens, cache):
        out = model(input_ids=tokens, past_key_values=cache, use_cache=True)
        return out.logits

    fast = braze.compile(step)
    with torch.no_grad():
        prompt = torch.randint(3, 96, (1, 9))
        ours, theirs = DynamicCache(config=model.config), DynamicCache(config=model.config)
        a, b = fast(prompt, ours), step(prompt, theirs)
        same(a, b, rtol=1e-4, atol=1e-5)
        after_prompt = len(entries(fast))
        for _ in range(12):
            tokens = b[:, -1:].argmax(-1)
            a, b = fast(tokens, ours), step(tokens, theirs)
            same(a, b, rtol=1e-4, atol=1e-5)
    assert not reasons(fast)
    assert len(entries(fast)) - after_prompt <= 2
