"""Greedy generation with a key-value cache: the compiled model gives eager's tokens."""

import braze
import pytest
import torch
from support import entries

from bench.zoo import ZOO, gpt2, llama

pytest.importorskip("transformers", reason="the models come from transformers")

NEW_TOKENS = 16


@pytest.mark.parametrize("make", [gpt2, llama], ids=["gpt2", "llama"])
def test_generate(make):
    torch.manual_seed(0)
    model = make().eval()
    prompt = torch.randint(3, 96, (2, 5))
    options = dict(max_new_tokens=NEW_TOKENS, do_sample=False, output_logits=True)
    options |= dict(return_dict_in_generate=True, eos_token_id=None)
    expected = model.generate(prompt, **options)
    fast = braze.compile(model, recompile_limit=64)
    out = fast.generate(prompt, **options)
    assert torch.equal(out.sequences, expected.sequences)
    assert out.sequences.shape == (2, 5 + NEW_TOKENS)
    for ours, theirs in zip(out.logits, expected.logits, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert entries(fast) and all(entry["exit"] == "return" for entry in entries(fast))


def test_loop_with_a_cache():
    """The user's own loop, one compiled call a token."""
    model = ZOO["llama_cache"].build()
    fast = braze.compile(model, fullgraph=True, recompile_limit=64)

    def generate(call):
        tokens = torch.arange(3, 10)[None]
        cache, step, out = None, tokens, []
        for _ in range(8):
            result = call(input_ids=step, past_key_values=cache, use_cache=True)
            cache = result.past_key_values
            step = result.logits[:, -1:].argmax(-1)
            out.append(step)
        return torch.cat(out, 1), cache.get_seq_length()

    ours, theirs = generate(fast), generate(model)
    assert torch.equal(ours[0], theirs[0]) and ours[1] == theirs[1]
