"""Small configurations of real models are captured as a whole and replay bit for bit."""

import pytest
import torch
from capturing import capture, same

from bench.models import tensors
from bench.zoo import ZOO

pytest.importorskip("transformers", reason="the models come from transformers")


@pytest.mark.parametrize("name", ["bert", "gpt2_cache", "llama_cache", "resnet", "vit"])
def test_model(name):
    model = ZOO[name].build()
    arguments = ZOO[name].arguments(ZOO[name].sizes[0])
    before = {name: id(t) for name, t in model.state_dict(keep_vars=True).items()}
    captured = capture(model, **arguments)
    assert captured["exit"] == "return", captured["reason"]
    assert {name: id(t) for name, t in model.state_dict(keep_vars=True).items()} == before
    result, expected = captured["run"](), model(**arguments)
    assert type(result) is type(expected) and list(result) == list(expected)
    assert same(tensors(result), tensors(expected))


def test_module_paths_and_lines():
    graph = capture(ZOO["bert"].build(), torch.randint(0, 96, (1, 4)))["graph"]
    line = next(s for s in graph.splitlines() if "encoder.layer.1.attention" in s)
    assert "modeling_bert.py:" in line
    assert "F.layer_norm" in graph or "torch.layer_norm" in graph


def test_capture_does_not_leak():
    import gc
    import sys

    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))
    x = torch.randn(2, 4)
    for _ in range(3):
        capture(model, x)
    gc.collect()
    objects, references = len(gc.get_objects()), sys.getrefcount(model[0])
    for _ in range(20):
        capture(model, x)
    gc.collect()
    objects_after, references_after = len(gc.get_objects()), sys.getrefcount(model[0])
    assert abs(objects_after - objects) < 20
    assert references_after == references
