"""The models that benchmarks, tests and the demo share: published configurations, random weights.

Nothing is downloaded. All are fp32, in eval mode, without a key-value cache.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Model:
    name: str
    title: str
    make: Callable[[], tuple[torch.nn.Module, tuple[torch.Tensor, ...]]]


def build(name: str, seed: int = 0) -> tuple[torch.nn.Module, tuple[torch.Tensor | None, ...]]:
    """The module and its positional arguments; the same numbers for the same seed."""
    torch.manual_seed(seed)
    module, arguments = (MODELS.get(name) or CAPTURED[name]).make()
    return module.eval(), arguments


def tensors(output) -> list[torch.Tensor]:
    """Every tensor of a model's output, in order: of tuples, lists, dicts, ModelOutputs, caches."""
    if isinstance(output, torch.Tensor):
        return [output]
    if isinstance(output, dict):
        output = output.values()
    elif type(output).__module__.startswith("transformers"):
        output = vars(output).values()
    elif not isinstance(output, (list, tuple)):
        return []
    return [tensor for part in output for tensor in tensors(part)]


def _tokens(vocabulary: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, vocabulary, shape)


def _bert_base():
    from transformers import BertConfig, BertModel

    config = BertConfig()
    return BertModel(config), (_tokens(config.vocab_size, 4, 128),)


def _gpt2_small():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(use_cache=False)
    return GPT2LMHeadModel(config), (_tokens(config.vocab_size, 1, 256),)


def _llama_4l():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=512,
        intermediate_size=1376,
        num_hidden_layers=4,
        num_attention_heads=8,
        vocab_size=32000,
        use_cache=False,
    )
    return LlamaForCausalLM(config), (_tokens(config.vocab_size, 1, 128),)


def _resnet50():
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(num_labels=1000)  # the defaults are ResNet-50's
    return ResNetForImageClassification(config), (torch.randn(4, 3, 224, 224),)


def _distilbert():
    from transformers import DistilBertConfig, DistilBertModel

    config = DistilBertConfig()
    return DistilBertModel(config), (_tokens(config.vocab_size, 4, 128),)


def _t5_small():
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(num_layers=6, use_cache=False)  # otherwise the defaults are T5-small's
    tokens, decoder = _tokens(config.vocab_size, 2, 64), _tokens(config.vocab_size, 2, 32)
    return T5ForConditionalGeneration(config), (tokens, None, decoder)


MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        Model("bert_base", "BERT-base, 4x128 tokens", _bert_base),
        Model("gpt2_small", "GPT-2 small, 1x256 tokens", _gpt2_small),
        Model("llama_4l", "Llama, 4 layers of 512, 1x128 tokens", _llama_4l),
        Model("resnet50", "ResNet-50, 4x3x224x224", _resnet50),
    )
}

# The capture suite's: language models, whose sizes vary.
CAPTURED: dict[str, Model] = {
    "bert_base": MODELS["bert_base"],
    "distilbert": Model("distilbert", "DistilBERT, 4x128 tokens", _distilbert),
    "gpt2_small": MODELS["gpt2_small"],
    "llama_4l": MODELS["llama_4l"],
    "t5_small": Model("t5_small", "T5-small, 2x64 and 2x32 tokens", _t5_small),
}
