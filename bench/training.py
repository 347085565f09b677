"""Models as they are trained: published configurations, random weights, a loss; dropout at will.

A step is a forward and a backward, without an optimizer (`bench.optimizers` has these); that of a
program (`bench.programs`) is what its step is, with its optimizers.
"""

import copy
import ctypes
import functools
import gc
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from bench import measure
from bench.programs import PROGRAMS, Program


@dataclass(frozen=True)
class Trained:
    """make(dropout): the module, whose result has the loss as `loss` or first, and its inputs."""

    name: str
    title: str
    make: Callable[[float], tuple[nn.Module, dict]]


def build(name: str, dropout: float = 0.0, seed: int = 0) -> tuple[nn.Module, dict]:
    """The module in training mode and its keyword arguments; the same numbers for the same seed."""
    torch.manual_seed(seed)
    module, arguments = TRAINED[name].make(dropout)
    return module.train(), arguments


def forward_of(module: nn.Module, compile_with: Callable = lambda function: function):
    """What a step calls, compiled: the module, or the parts of a program."""
    is_program = isinstance(module, Program)
    return module.calls(compile_with) if is_program else compile_with(module)


def step(module: nn.Module, forward, arguments: dict) -> torch.Tensor:
    """Fresh gradients of the module's parameters for `forward`, which is of `forward_of`."""
    if isinstance(module, Program):
        return sum(module.step(forward, **arguments).values())
    module.zero_grad(set_to_none=True)
    result = forward(**arguments)
    loss = result.loss if hasattr(result, "loss") else result[0]
    loss.backward()
    return loss.detach()


def gradients(module: nn.Module) -> dict[str, torch.Tensor]:
    return {
        name: parameter.grad.clone()
        for name, parameter in module.named_parameters()
        if parameter.grad is not None
    }


class State:
    """All that a step changes, to be put back in place; the random numbers that it draws follow."""

    def __init__(self, module: nn.Module):
        tensors = [*module.parameters(), *module.buffers(), *_of_optimizers(module)]
        self._kept = [(tensor, tensor.detach().clone()) for tensor in tensors]

    @torch.no_grad()
    def restore(self) -> None:
        torch.manual_seed(0)
        for tensor, kept in self._kept:
            tensor.copy_(kept)


def in_double(module: nn.Module) -> nn.Module:
    """A twin in double precision."""
    twin = copy.deepcopy(module).double()
    for tensor in _of_optimizers(twin):
        if tensor.dim():
            tensor.data = tensor.double()
    return twin


def _of_optimizers(module: nn.Module) -> list[torch.Tensor]:
    optimizers = module.optimizers if isinstance(module, Program) else []
    states = [state for optimizer in optimizers for state in optimizer.state.values()]
    return [tensor for state in states for tensor in state.values()]


def peak_mb(step: Callable[[], object], steps: int = 3) -> float:
    """The most memory that the last of some steps had, beyond what the process held before all.

    In MiB, of what is resident: with what compiled code keeps from step to step.
    """
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    _forget_peak()
    before = measure.peak_rss_mb()
    for _ in range(steps):
        _forget_peak()
        step()
    return measure.peak_rss_mb() - before


def _forget_peak() -> None:
    """What is resident now counts as the highest so far."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def _tokens(vocabulary: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, vocabulary, shape)


def _text(vocabulary: int, *shape: int) -> dict:
    return {"input_ids": _tokens(vocabulary, *shape), "labels": _tokens(vocabulary, *shape)}


def _images(batch: int, classes: int = 1000, side: int = 224) -> dict:
    images = torch.randn(batch, 3, side, side)
    return {"pixel_values": images, "labels": _tokens(classes, batch)}


def _bert_base(dropout):
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)
    return BertForMaskedLM(config), _text(config.vocab_size, 4, 128)


def _gpt2_small(dropout):
    from transformers import GPT2Config, GPT2LMHeadModel

    rates = {"embd_pdrop": dropout, "attn_pdrop": dropout, "resid_pdrop": dropout}
    config = GPT2Config(use_cache=False, **rates)
    return GPT2LMHeadModel(config), _text(config.vocab_size, 1, 256)


def _llama_4l(dropout):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=512,
        intermediate_size=1376,
        num_hidden_layers=4,
        num_attention_heads=8,
        vocab_size=32000,
        use_cache=False,
        attention_dropout=dropout,
    )
    return LlamaForCausalLM(config), _text(config.vocab_size, 1, 128)


def _vit_base(dropout):
    from transformers import ViTConfig, ViTForImageClassification

    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    return ViTForImageClassification(ViTConfig(num_labels=1000, **rates)), _images(2)


def _resnet50(dropout):
    from transformers import ResNetConfig, ResNetForImageClassification

    return ResNetForImageClassification(ResNetConfig(num_labels=1000)), _images(4)


def _convnext_tiny(dropout):
    from transformers import ConvNextConfig, ConvNextForImageClassification

    config = ConvNextConfig(num_labels=1000, drop_path_rate=dropout)
    return ConvNextForImageClassification(config), _images(2)


def _t5_small(dropout):
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(num_layers=6, use_cache=False, dropout_rate=dropout, decoder_start_token_id=0)
    labels = _tokens(config.vocab_size, 2, 32)
    arguments = {"input_ids": _tokens(config.vocab_size, 2, 64), "labels": labels}
    return T5ForConditionalGeneration(config), arguments


def _mixtral_small(dropout):
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        num_local_experts=8,
        vocab_size=8000,
        use_cache=False,
        attention_dropout=dropout,
    )
    return MixtralForCausalLM(config), _text(config.vocab_size, 2, 128)


def _whisper_tiny(dropout):
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(use_cache=False, dropout=dropout, attention_dropout=dropout)
    features = torch.randn(1, config.num_mel_bins, 3000)
    labels = _tokens(config.vocab_size, 1, 64)
    return WhisperForConditionalGeneration(config), {"input_features": features, "labels": labels}


class LanguageModel(nn.Module):
    """Embedding, two recurrent layers, logits; the loss of the next tokens."""

    def __init__(self, vocabulary=8000, width=256, dropout=0.0):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.recurrent = nn.LSTM(width, width, num_layers=2, batch_first=True, dropout=dropout)
        self.dropout = nn.Dropout(dropout)
        self.logits = nn.Linear(width, vocabulary)

    def forward(self, input_ids, labels):
        states, _ = self.recurrent(self.dropout(self.embedding(input_ids)))
        logits = self.logits(self.dropout(states))
        return (nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()),)


def _lstm(dropout):
    return LanguageModel(dropout=dropout), _text(8000, 8, 64)


class Segmenter(nn.Module):
    """Three levels down and up again with skip connections; the loss by pixel."""

    def __init__(self, classes=8, width=32, dropout=0.0):
        super().__init__()

        def block(before, after):
            return nn.Sequential(
                nn.Conv2d(before, after, 3, padding=1),
                nn.GroupNorm(8, after),
                nn.SiLU(),
                nn.Dropout2d(dropout),
                nn.Conv2d(after, after, 3, padding=1),
                nn.BatchNorm2d(after),
                nn.ReLU(inplace=True),
            )

        self.down1, self.down2 = block(3, width), block(width, 2 * width)
        self.middle = block(2 * width, 4 * width)
        self.pool = nn.MaxPool2d(2)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.up1 = nn.Upsample(scale_factor=2)
        self.join2, self.join1 = block(4 * width, 2 * width), block(3 * width, width)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, pixel_values, labels):
        first = self.down1(pixel_values)
        second = self.down2(self.pool(first))
        x = self.up2(self.middle(self.pool(second)))
        x = self.join2(torch.cat([x, second], 1))
        x = self.join1(torch.cat([self.up1(x), first], 1))
        return (nn.functional.cross_entropy(self.head(x), labels),)


def _unet(dropout):
    images = torch.randn(2, 3, 96, 96)
    return Segmenter(dropout=dropout), {"pixel_values": images, "labels": _tokens(8, 2, 96, 96)}


TRAINED: dict[str, Trained] = {
    model.name: model
    for model in (
        Trained("bert_base", "BERT-base, 4x128 tokens", _bert_base),
        Trained("gpt2_small", "GPT-2 small, 1x256 tokens", _gpt2_small),
        Trained("vit_base", "ViT-base, 2x3x224x224", _vit_base),
        Trained("resnet50", "ResNet-50, 4x3x224x224", _resnet50),
        Trained("llama_4l", "Llama, 4 layers of 512, 1x128 tokens", _llama_4l),
        Trained("t5_small", "T5-small, 2x64 and 2x32 tokens", _t5_small),
        Trained("convnext_tiny", "ConvNeXt-tiny, 2x3x224x224", _convnext_tiny),
        Trained("mixtral_small", "Mixtral, 4 layers of 256, 8 experts, 2x128", _mixtral_small),
        Trained("whisper_tiny", "Whisper-tiny, 3000 frames and 64 tokens", _whisper_tiny),
        Trained("lstm", "LSTM, 2 layers of 256, 8x64 tokens", _lstm),
        Trained("unet", "U-Net, 3 levels, 2x3x96x96", _unet),
        *(
            Trained(made.name, made.title, functools.partial(made.make, small=False))
            for made in PROGRAMS.values()
        ),
    )
}
