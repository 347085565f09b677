"""Small models of the kinds that users compile: traced natively, replayed bit for bit."""

import gc

import pytest
import torch
from tracing import trace

transformers = pytest.importorskip("transformers")


class Model:
    """A model with a function that picks one tensor of its result."""

    def __init__(self, model, pick):
        self.model, self.pick = model.eval(), pick
        self.named_parameters, self.named_buffers = model.named_parameters, model.named_buffers

    def __call__(self, *args):
        return self.pick(self.model(*args))


def bert(attention):
    config = transformers.BertConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        vocab_size=50,
        attn_implementation=attention,
    )
    return Model(transformers.BertModel(config), lambda r: r.last_hidden_state)


def gpt2(attention):
    config = transformers.GPT2Config(
        n_embd=32,
        n_layer=2,
        n_head=4,
        vocab_size=50,
        bos_token_id=0,
        eos_token_id=0,
        attn_implementation=attention,
    )
    return Model(transformers.GPT2LMHeadModel(config), lambda r: r.logits)


def llama(attention):
    config = transformers.LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=50,
        attn_implementation=attention,
    )
    return Model(transformers.LlamaForCausalLM(config), lambda r: r.logits)


def resnet(memory_format):
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[2, 2])
    model = transformers.ResNetForImageClassification(config)
    return Model(model.to(memory_format=memory_format), lambda r: r.logits)


MODELS = {
    "bert": lambda: bert("sdpa"), "bert, eager attention": lambda: bert("eager"),
    "gpt2": lambda: gpt2("sdpa"), "gpt2, eager attention": lambda: gpt2("eager"),
    "llama": lambda: llama("sdpa"), "llama, eager attention": lambda: llama("eager"),
    "resnet": lambda: resnet(torch.contiguous_format),
    "resnet, channels last": lambda: resnet(torch.channels_last),
}  # fmt: skip


def example(name):
    if name.startswith("resnet"):
        images = torch.randn(2, 3, 32, 32)
        return images.to(memory_format=torch.channels_last) if "last" in name else images
    return torch.randint(0, 50, (2, 7))


@pytest.mark.parametrize("name", MODELS)
def test_model(name):
    model, x = MODELS[name](), example(name)
    result = trace(model, x)
    assert not result["needs_autograd"]
    expected = model(x)
    assert torch.equal(result["replay"]()[0], expected)
    assert result["outputs"][0].stride() == expected.stride()


def test_traces_leak_nothing():
    model, x = bert("sdpa"), torch.randint(0, 50, (2, 7))

    def tensors():
        gc.collect()
        return sum(1 for o in gc.get_objects() if isinstance(o, torch.Tensor))

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    for _ in range(20):
        trace(model, x)
    count, bytes_before = tensors(), resident()
    for _ in range(200):
        trace(model, x)
    assert tensors() == count
    assert resident() - bytes_before < 8 << 20
