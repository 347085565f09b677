"""What the user of a compiled model sees beside its results."""

import braze
import pytest
import torch
from support import entries

from bench.models import tensors
from bench.zoo import ZOO

transformers = pytest.importorskip("transformers", reason="the models come from transformers")


def test_mask_that_the_model_looks_at():
    """In eager the model asks whether a mask is all ones; compiled, it always applies the mask."""
    zoo = ZOO["bert_masked"]
    model = zoo.build()
    fast = braze.compile(model, fullgraph=True)
    for mask in (torch.ones(2, 16, dtype=torch.long), zoo.arguments((2, 16))["attention_mask"]):
        arguments = {**zoo.arguments((2, 16)), "attention_mask": mask}
        for a, b in zip(tensors(fast(**arguments)), tensors(model(**arguments)), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
    assert len(entries(fast)) == 1


def test_one_entry_for_calls_alike():
    zoo = ZOO["bert"]
    fast = braze.compile(zoo.build())
    for seed in range(3):
        fast(**zoo.arguments((2, 16), seed))
    assert len(entries(fast)) == 1 and entries(fast)[0]["exit"] == "return"


def test_parameters_exchanged():
    """Other weights in the same place are used, without a new compilation."""
    zoo = ZOO["gpt2"]
    model = zoo.build()
    fast = braze.compile(model, fullgraph=True)
    arguments = zoo.arguments((1, 7))
    fast(**arguments)
    model.load_state_dict(zoo.build(seed=3).state_dict())
    torch.testing.assert_close(fast(**arguments).logits, model(**arguments).logits)
    assert len(entries(fast)) == 1
