"""Small configurations of real models are captured as a whole and replay bit for bit."""

import pytest
import torch
from capturing import capture, same

transformers = pytest.importorskip("transformers")


def bert():
    config = transformers.BertConfig(
        hidden_size=64,
        intermediate_size=128,
        num_attention_heads=4,
        num_hidden_layers=2,
        vocab_size=500,
    )
    return transformers.BertForMaskedLM(config)


def gpt2():
    config = transformers.GPT2Config(n_embd=64, n_head=4, n_layer=2, vocab_size=500)
    return transformers.GPT2LMHeadModel(config)


def llama():
    config = transformers.LlamaConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=500,
    )
    return transformers.LlamaForCausalLM(config)


def resnet():
    return transformers.ResNetForImageClassification(
        transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1])
    )


def vit():
    return transformers.ViTForImageClassification(
        transformers.ViTConfig(
            hidden_size=64,
            intermediate_size=128,
            num_attention_heads=4,
            num_hidden_layers=2,
            image_size=32,
        )
    )


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for v in value.values() for t in tensors(v)]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in tensors(v)]
    return [t for v in getattr(value, "__dict__", {}).values() for t in tensors(v)]


@pytest.mark.parametrize("make", [bert, gpt2, llama, resnet, vit], ids=lambda f: f.__name__)
def test_model(make):
    model = make().eval()
    images = make in (resnet, vit)
    x = torch.randn(2, 3, 32, 32) if images else torch.randint(0, 500, (2, 8))
    before = {name: id(t) for name, t in model.state_dict(keep_vars=True).items()}
    captured = capture(model, x)
    assert captured["exit"] == "return", captured["reason"]
    assert {name: id(t) for name, t in model.state_dict(keep_vars=True).items()} == before
    result, expected = captured["run"](), model(x)
    assert type(result) is type(expected) and list(result) == list(expected)
    assert same(tensors(result), tensors(expected))


def test_module_paths_and_lines():
    model = bert().eval()
    graph = capture(model, torch.randint(0, 500, (1, 4)))["graph"]
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
