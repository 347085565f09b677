"""The zoo: every model whole, or with the breaks listed here, correct by the fp64 rule, in three
sizes, and with nothing of the model changed."""

import braze
import pytest
import torch
from accuracy import assert_accurate, exact_result
from support import entries, reasons

from bench.models import tensors
from bench.zoo import ZOO

pytest.importorskip("transformers", reason="the models come from transformers")

# What is not captured as a whole, and why.
BREAKS = {
    # nn.Transformer compares the target's mask with a causal one.
    "transformer": ["aten._local_scalar_dense: it reads the data of a tensor"],
}


@pytest.mark.parametrize("name", ZOO)
def test_model(name):
    zoo = ZOO[name]
    model = zoo.build()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    attributes = set(model.__dict__)
    fast = braze.compile(model, fullgraph=name not in BREAKS)
    for size in zoo.sizes:
        eager, out = model(**zoo.arguments(size)), fast(**zoo.arguments(size))
        assert type(out) is type(eager)
        if isinstance(eager, dict):
            assert list(out) == list(eager)
        exact = exact_result(model, zoo.arguments(size))
        assert_accurate(tensors(out), tensors(eager), exact)
        again = fast(**zoo.arguments(size))
        for a, b in zip(tensors(out), tensors(again), strict=True):
            assert torch.equal(a, b)
    if name in BREAKS:
        assert sorted(set(reasons(fast))) == BREAKS[name]
    else:
        assert all(entry["exit"] == "return" for entry in entries(fast))
    assert set(model.__dict__) == attributes
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key]), key
