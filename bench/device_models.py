"""Sixteen models in the sizes and dtypes that a GPU runs them in: published configurations, random
weights. Of libraries, transformers and timm, which nothing is downloaded by."""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import bfloat16, float16, float32

from bench import models


@dataclass(frozen=True)
class DeviceModel:
    """make(): the module and its keyword arguments, of single precision on the CPU."""

    name: str
    title: str
    dtype: torch.dtype
    make: Callable[[], tuple[torch.nn.Module, dict]]
    train: bool = False
    has_dropout: bool = False  # where it is trained


@dataclass
class Built:
    module: torch.nn.Module
    arguments: dict
    train: bool

    def step(self, forward: Callable) -> list[torch.Tensor]:
        """What `forward` gives; in training the loss, with fresh gradients of all parameters."""
        if not self.train:
            with torch.no_grad():
                return models.tensors(forward(**self.arguments))
        with torch.enable_grad():
            for parameter in self.module.parameters():
                parameter.grad = None
            first = models.tensors(forward(**self.arguments))[0]
            loss = first.float().square().mean()
            loss.backward()
        return [loss.detach()]

    def results(self, forward: Callable) -> list[torch.Tensor]:
        """What is compared: the step's, and in training the gradients."""
        found = [tensor.detach().clone() for tensor in self.step(forward)]
        if self.train:
            parameters = self.module.parameters()
            found += [p.grad.detach().clone() for p in parameters if p.grad is not None]
        return found

    def without_dropout(self) -> "Built":
        twin = copy.deepcopy(self.module)
        for parameter in twin.parameters():
            parameter.grad = None
        return Built(twin.eval(), self.arguments, self.train)

    def in_double(self) -> "Built":
        twin = copy.deepcopy(self.module).double()
        arguments = {
            name: value.double() if value.is_floating_point() else value
            for name, value in self.arguments.items()
        }
        return Built(twin, arguments, self.train)


def build(model: DeviceModel, device: str, seed: int = 0) -> Built:
    torch.manual_seed(seed)
    module, arguments = model.make()
    placed = {
        name: value.to(device, model.dtype) if value.is_floating_point() else value.to(device)
        for name, value in arguments.items()
    }
    return Built(module.to(device, model.dtype).train(model.train), placed, model.train)


def _tokens(batch: int, length: int) -> torch.Tensor:
    return torch.randint(0, 30000, (batch, length))


def _bert():
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig()), {"input_ids": _tokens(16, 128)}


def _gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(use_cache=False)), {"input_ids": _tokens(4, 512)}


def _distilbert():
    from transformers import DistilBertConfig, DistilBertModel

    return DistilBertModel(DistilBertConfig()), {"input_ids": _tokens(16, 128)}


def _t5():
    from transformers import T5Config, T5Model

    tokens = {"input_ids": _tokens(8, 128), "decoder_input_ids": _tokens(8, 128)}
    return T5Model(T5Config(use_cache=False, d_model=512)), tokens


def _llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=12,
        num_attention_heads=16,
        num_key_value_heads=4,
        use_cache=False,
    )
    return LlamaForCausalLM(config), {"input_ids": _tokens(4, 512)}


def _vit():
    from transformers import ViTConfig, ViTModel

    return ViTModel(ViTConfig()), {"pixel_values": torch.randn(16, 3, 224, 224)}


def _timm(name: str):
    def make():
        import timm

        return timm.create_model(name, pretrained=False), {"x": torch.randn(32, 3, 224, 224)}

    return make


DEVICE_MODELS: dict[str, DeviceModel] = {
    model.name: model
    for model in (
        DeviceModel("bert_infer", "BERT, 16x128, fp16", float16, _bert),
        DeviceModel("resnet50_infer", "ResNet-50, 32, fp16", float16, _timm("resnet50")),
        DeviceModel("convnext_infer", "ConvNeXt-tiny, 32, fp16", float16, _timm("convnext_tiny")),
        DeviceModel("gpt2_train", "GPT-2, 4x512, fp16, training", float16, _gpt2, True, True),
        DeviceModel("llama_infer", "Llama, 12 layers, 4x512, bf16", bfloat16, _llama),
        DeviceModel("llama_train", "Llama, 12 layers, 4x512, bf16, training", bfloat16, _llama,
                    True),
        DeviceModel("mobilenet_infer", "MobileNetV3, 32, fp32", float32,
                    _timm("mobilenetv3_large_100")),
        DeviceModel("resnet50_train", "ResNet-50, 32, fp16, training", float16,
                    _timm("resnet50"), True),
        DeviceModel("bert_train", "BERT, 16x128, fp16, training", float16, _bert, True, True),
        DeviceModel("distilbert_train", "DistilBERT, 16x128, fp32, training", float32,
                    _distilbert, True, True),
        DeviceModel("vit_infer", "ViT-B (transformers), 16, fp32", float32, _vit),
        DeviceModel("efficientnet_infer", "EfficientNet-B0, 32, fp16", float16,
                    _timm("efficientnet_b0")),
        DeviceModel("t5_infer", "T5, 8x128 and 8x128, fp32", float32, _t5),
        DeviceModel("mixer_infer", "Mixer-B16, 32, fp16", float16, _timm("mixer_b16_224")),
        DeviceModel("vit_timm_infer", "ViT-B (timm), 32, fp16", float16,
                    _timm("vit_base_patch16_224")),
        DeviceModel("convnext_train", "ConvNeXt-tiny, 32, fp16, training", float16,
                    _timm("convnext_tiny"), True),
    )
}  # fmt: skip
