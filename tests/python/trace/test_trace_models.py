"""Small models of the kinds that users compile: traced natively, replayed bit for bit."""

import gc

import pytest
import torch
from tracing import trace

from bench import zoo

pytest.importorskip("transformers", reason="the models come from transformers")


class Model:
    """A model with a function that picks one tensor of its result."""

    def __init__(self, model, pick):
        self.model, self.pick = model.eval(), pick
        self.named_parameters, self.named_buffers = model.named_parameters, model.named_buffers

    def __call__(self, *args):
        return self.pick(self.model(*args))


def bert(attention):
    return Model(zoo.bert(attn_implementation=attention), lambda r: r.last_hidden_state)


def gpt2(attention):
    return Model(zoo.gpt2(attn_implementation=attention, pad_token_id=None), lambda r: r.logits)


def llama(attention):
    return Model(zoo.llama(attn_implementation=attention), lambda r: r.logits)


def resnet(memory_format):
    return Model(zoo.resnet().to(memory_format=memory_format), lambda r: r.logits)


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
    return torch.randint(3, zoo.VOCABULARY, (2, 7))


@pytest.mark.parametrize("name", MODELS)
def test_model(name):
    model, x = MODELS[name](), example(name)
    result = trace(model, x)
    assert not result["needs_autograd"]
    expected = model(x)
    assert torch.equal(result["replay"]()[0], expected)
    assert result["outputs"][0].stride() == expected.stride()


def test_traces_leak_nothing():
    model, x = bert("sdpa"), torch.randint(3, zoo.VOCABULARY, (2, 7))

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
