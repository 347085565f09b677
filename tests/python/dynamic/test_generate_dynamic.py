"""`generate()` with a key-value cache: two compiles after the prompt serve every length."""

import braze
import pytest
import torch
from support import entries, reasons

from bench.zoo import gpt2, llama

pytest.importorskip("transformers", reason="the models come from transformers")

NEW_TOKENS = 64
OPTIONS = dict(
    max_new_tokens=NEW_TOKENS,
    do_sample=False,
    eos_token_id=None,
    output_logits=True,
    return_dict_in_generate=True,
)


def compiled_module(model):
    fast = braze.compile(model)
    return fast, fast


def compiled_forward(model):
    forward = braze.compile(model.forward)
    model.forward = forward
    return model, forward


@pytest.mark.parametrize("how", [compiled_module, compiled_forward])
@pytest.mark.parametrize("make", [gpt2, llama], ids=["gpt2", "llama"])
def test_generate(make, how):
    torch.manual_seed(0)
    model = make().eval()
    prompts = [torch.randint(3, 96, size) for size in ((2, 5), (3, 11))]
    expected = [model.generate(prompt, **OPTIONS) for prompt in prompts]
    fast, compiled = how(model)
    for number, (prompt, wanted) in enumerate(zip(prompts, expected, strict=True)):
        out = fast.generate(prompt, **OPTIONS)
        assert torch.equal(out.sequences, wanted.sequences)
        assert out.sequences.shape[1] == prompt.shape[1] + NEW_TOKENS
        for ours, theirs in zip(out.logits, wanted.logits, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
        if number == 0:
            # The prompt, the first token after it, all others.
            assert len(entries(compiled)) <= 3, [e["guards"][-6:] for e in entries(compiled)]
    assert not reasons(compiled)
    # A batch of another size: a prompt and its tokens, if they share nothing with the first.
    assert len(entries(compiled)) <= 5
