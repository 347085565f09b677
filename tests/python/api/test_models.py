"""Real models from `transformers`, small configurations, whole and correct by the fp64 rule."""

import copy

import braze
import pytest
import torch
from support import entries

transformers = pytest.importorskip("transformers", reason="the models come from transformers")


def ids(vocabulary, *shape):
    return {"input_ids": torch.randint(0, vocabulary, shape)}


def bert():
    config = transformers.BertConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        vocab_size=200,
    )
    return transformers.BertModel(config), ids(200, 2, 16)


def bert_masked():
    model, inputs = bert()
    inputs["attention_mask"] = torch.ones(2, 16, dtype=torch.long)
    inputs["attention_mask"][0, 10:] = 0
    return model, inputs


def gpt2():
    config = transformers.GPT2Config(
        n_embd=64, n_layer=2, n_head=4, vocab_size=200, use_cache=False
    )
    return transformers.GPT2LMHeadModel(config), ids(200, 1, 16)


def llama():
    config = transformers.LlamaConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        vocab_size=200,
        use_cache=False,
    )
    return transformers.LlamaForCausalLM(config), ids(200, 1, 16)


def llama_cache():
    model, inputs = llama()
    return model, {**inputs, "use_cache": True}


def resnet():
    config = transformers.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1])
    return transformers.ResNetForImageClassification(config), {
        "pixel_values": torch.randn(2, 3, 32, 32)
    }


def vit():
    config = transformers.ViTConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        image_size=32,
        patch_size=8,
    )
    return transformers.ViTModel(config), {"pixel_values": torch.randn(2, 3, 32, 32)}


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for v in value.values() for t in tensors(v)]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in tensors(v)]
    return []


def assert_accurate(compiled, eager, reference):
    """rmse(compiled, fp64) <= k * rmse(eager, fp64) + tol / 10, k = 2 (3 below 1000 elements)."""
    for c, e, r in zip(compiled, eager, reference, strict=True):
        assert c.dtype == e.dtype and c.shape == e.shape and c.stride() == e.stride()
        if not c.is_floating_point():
            assert torch.equal(c, e)
            continue

        def rmse(a, r=r):
            return (a.double() - r).square().mean().sqrt().item()

        k = 3 if c.numel() < 1000 else 2
        assert rmse(c) <= k * rmse(e) + 1e-5, (rmse(c), rmse(e))


MODELS = [bert, gpt2, llama, llama_cache, resnet, vit]


@pytest.mark.parametrize("make", MODELS, ids=lambda f: f.__name__)
def test_model(make):
    torch.manual_seed(0)
    model, inputs = make()
    model.eval()
    eager = model(**inputs)
    fast = braze.compile(model, fullgraph=True)
    out = fast(**inputs)
    assert type(out) is type(eager) and list(out) == list(eager)
    exact = copy.deepcopy(model).double()
    reference = exact(
        **{
            k: v.double() if torch.is_tensor(v) and v.is_floating_point() else v
            for k, v in inputs.items()
        }
    )
    assert_accurate(tensors(out), tensors(eager), tensors(reference))
    second = fast(**inputs)
    for a, b in zip(tensors(out), tensors(second), strict=True):
        assert torch.equal(a, b)
    assert len(entries(fast)) == 1 and entries(fast)[0]["exit"] == "return"


def test_mask_that_the_model_looks_at():
    """The model asks whether a given mask is all ones: data, so that part runs in eager."""
    model, inputs = bert_masked()
    model.eval()
    fast = braze.compile(model)
    for _ in range(2):
        for a, b in zip(tensors(fast(**inputs)), tensors(model(**inputs)), strict=True):
            torch.testing.assert_close(a, b)
    assert "padding_mask.all()" in entries(fast)[0]["reason"]


def test_no_module_state_changes():
    model, inputs = bert()
    model.eval()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    keys = set(model.__dict__)
    braze.compile(model)(**inputs)
    assert set(model.__dict__) == keys
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
