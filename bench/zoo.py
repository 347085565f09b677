"""Small configurations of the models that users compile: two layers, random weights, eval mode.

The tests of tracing, capture and the whole compiler share them. Nothing is downloaded.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

VOCABULARY = 96
WIDTH = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
TEXT = dict(**WIDTH, vocab_size=VOCABULARY)
TEXT_SIZES = ((2, 16), (1, 7), (3, 24))
IMAGE_SIZES = ((2, 32), (1, 32), (3, 64))


@dataclass(frozen=True)
class ZooModel:
    """make(): the module. inputs(batch, length): its keyword arguments."""

    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[int, int], dict[str, Any]]
    sizes: tuple[tuple[int, int], ...] = TEXT_SIZES
    options: dict[str, Any] = field(default_factory=dict)  # more keyword arguments

    def build(self, seed: int = 0) -> nn.Module:
        torch.manual_seed(seed)
        return self.make().eval()

    def arguments(self, size: tuple[int, int], seed: int = 1) -> dict[str, Any]:
        torch.manual_seed(seed)
        return {**self.inputs(*size), **self.options}


def _tokens(batch: int, length: int) -> dict[str, Any]:
    return {"input_ids": torch.randint(3, VOCABULARY, (batch, length))}


def _padded_tokens(batch: int, length: int) -> dict[str, Any]:
    """The first sequence is shorter: padded on the right."""
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[0, length - length // 3 :] = 0
    return {**_tokens(batch, length), "attention_mask": mask}


def _encoder_decoder_tokens(batch: int, length: int) -> dict[str, Any]:
    decoder = torch.randint(3, VOCABULARY, (batch, length // 2 + 1))
    return {**_tokens(batch, length), "decoder_input_ids": decoder}


def _images(batch: int, side: int) -> dict[str, Any]:
    return {"pixel_values": torch.randn(batch, 3, side, side)}


def _input(name: str, *last: int):
    """batch x length x last, of normal numbers."""
    return lambda batch, length: {name: torch.randn(batch, length, *last)}


def bert(**config) -> nn.Module:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(**{**TEXT, **config}))


def distilbert(**config) -> nn.Module:
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    small = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "vocab_size": VOCABULARY}
    return DistilBertForSequenceClassification(DistilBertConfig(**{**small, **config}))


def gpt2(**config) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    small = dict(n_embd=32, n_layer=2, n_head=4, vocab_size=VOCABULARY, **_SPECIAL_TOKENS)
    return GPT2LMHeadModel(GPT2Config(**{**small, **config}))


_SPECIAL_TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def t5(**config) -> nn.Module:
    from transformers import T5Config, T5ForConditionalGeneration

    small = {
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 64,
        "num_layers": 2,
        "num_heads": 4,
        "vocab_size": VOCABULARY,
    }
    return T5ForConditionalGeneration(T5Config(**{**small, **config}))


def llama(**config) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    small = {**TEXT, "num_hidden_layers": 4, "num_key_value_heads": 2, **_SPECIAL_TOKENS}
    return LlamaForCausalLM(LlamaConfig(**{**small, **config}))


def vit(**config) -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    small = dict(**WIDTH, image_size=32, patch_size=8)
    return ViTForImageClassification(ViTConfig(**{**small, **config}))


def resnet(**config) -> nn.Module:
    from transformers import ResNetConfig, ResNetForImageClassification

    small = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [2, 2]}
    return ResNetForImageClassification(ResNetConfig(**{**small, **config}))


def convnext(**config) -> nn.Module:
    from transformers import ConvNextConfig, ConvNextForImageClassification

    small = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1]}
    return ConvNextForImageClassification(ConvNextConfig(**{**small, **config}))


def mobilenet_v2(**config) -> nn.Module:
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    small = {"image_size": 32, "depth_multiplier": 0.25, "depth_divisible_by": 4, "min_depth": 4}
    return MobileNetV2ForImageClassification(MobileNetV2Config(**{**small, **config}))


def whisper(**config) -> nn.Module:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    small = dict(
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        num_mel_bins=8,
        max_source_positions=16,
        max_target_positions=32,
        vocab_size=VOCABULARY,
        decoder_start_token_id=1,
        **_SPECIAL_TOKENS,
    )
    return WhisperForConditionalGeneration(WhisperConfig(**{**small, **config}))


def _audio(batch: int, length: int) -> dict[str, Any]:
    tokens = torch.randint(3, VOCABULARY, (batch, length))
    return {"input_features": torch.randn(batch, 8, 32), "decoder_input_ids": tokens}


def gpt_neox(**config) -> nn.Module:
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    return GPTNeoXForCausalLM(GPTNeoXConfig(**{**TEXT, **config}))


def phi3(**config) -> nn.Module:
    from transformers import Phi3Config, Phi3ForCausalLM

    return Phi3ForCausalLM(Phi3Config(**{**TEXT, **_SPECIAL_TOKENS, **config}))


def deberta_v2(**config) -> nn.Module:
    from transformers import DebertaV2Config, DebertaV2Model

    disentangled = {
        "relative_attention": True,
        "position_buckets": 8,
        "norm_rel_ebd": "layer_norm",
        "share_att_key": True,
        "pos_att_type": ["p2c", "c2p"],
        "position_biased_input": False,
    }
    return DebertaV2Model(DebertaV2Config(**{**TEXT, **disentangled, **config}))


def mixtral(**config) -> nn.Module:
    from transformers import MixtralConfig, MixtralForCausalLM

    small = {"num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2}
    return MixtralForCausalLM(MixtralConfig(**{**TEXT, **small, **config}))


def bloom(**config) -> nn.Module:
    from transformers import BloomConfig, BloomForCausalLM

    small = {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": VOCABULARY}
    return BloomForCausalLM(BloomConfig(**{**small, **config}))


def mamba(**config) -> nn.Module:
    from transformers import MambaConfig, MambaForCausalLM

    small = {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "vocab_size": VOCABULARY}
    return MambaForCausalLM(MambaConfig(**{**small, **config}))


def segformer(**config) -> nn.Module:
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    small = {
        "depths": [1, 1, 1, 1],
        "hidden_sizes": [8, 16, 24, 32],
        "num_attention_heads": [1, 2, 2, 4],
        "decoder_hidden_size": 16,
        "num_labels": 5,
    }
    return SegformerForSemanticSegmentation(SegformerConfig(**{**small, **config}))


class RecurrentClassifier(nn.Module):
    """Embedding, a recurrent network in both directions, the mean of its outputs, a classifier."""

    def __init__(self, recurrent=nn.LSTM):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 16)
        self.recurrent = recurrent(16, 24, num_layers=2, batch_first=True, bidirectional=True)
        self.classifier = nn.Linear(48, 4)

    def forward(self, input_ids):
        outputs, state = self.recurrent(self.embedding(input_ids))
        return self.classifier(outputs.mean(1)), state


class CellLoop(nn.Module):
    """A recurrent cell stepped by a Python loop that keeps the best score."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(16, 24)
        self.score = nn.Linear(24, 1)

    def forward(self, steps):
        state = steps.new_zeros(steps.shape[0], 24)
        best, states = None, []
        for step in steps.unbind(1):
            state = self.cell(step, state)
            score = self.score(state)
            best = score if best is None else torch.maximum(best, score)
            states.append(state)
        return torch.stack(states, 1), best


class Attention(nn.Module):
    """Self-attention, then attention to a memory, with the weights."""

    def __init__(self):
        super().__init__()
        self.own = nn.MultiheadAttention(32, 4, batch_first=True)
        self.cross = nn.MultiheadAttention(32, 4, batch_first=True, kdim=16, vdim=16)

    def forward(self, x, memory):
        causal = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        x = x + self.own(x, x, x, need_weights=False, attn_mask=causal, is_causal=True)[0]
        return self.cross(x, memory, memory)


def _attention_inputs(batch: int, length: int) -> dict[str, Any]:
    return {"x": torch.randn(batch, length, 32), "memory": torch.randn(batch, length + 3, 16)}


def transformer_encoder(norm_first=False) -> nn.Module:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=norm_first)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def transformer() -> nn.Module:
    return nn.Transformer(32, 4, 2, 2, 64, batch_first=True)


def _transformer_inputs(batch: int, length: int) -> dict[str, Any]:
    return {
        "src": torch.randn(batch, length, 32),
        "tgt": torch.randn(batch, length // 2 + 1, 32),
        "tgt_mask": nn.Transformer.generate_square_subsequent_mask(length // 2 + 1),
    }


class UNet(nn.Module):
    """Two levels down and up again, with skip connections."""

    def __init__(self):
        super().__init__()

        def block(before, after):
            return nn.Sequential(
                nn.Conv2d(before, after, 3, padding=1),
                nn.GroupNorm(4, after),
                nn.SiLU(),
                nn.Conv2d(after, after, 3, padding=1),
                nn.BatchNorm2d(after),
                nn.ReLU(inplace=True),
            )

        self.down1, self.down2, self.middle = block(3, 8), block(8, 16), block(16, 32)
        self.pool = nn.MaxPool2d(2)
        self.up2, self.up1 = nn.ConvTranspose2d(32, 16, 2, stride=2), nn.Upsample(scale_factor=2)
        self.join2, self.join1 = block(32, 16), block(24, 8)
        self.head = nn.Conv2d(8, 5, 1)

    def forward(self, pixel_values):
        first = self.down1(pixel_values)
        second = self.down2(self.pool(first))
        x = self.middle(self.pool(second))
        x = self.join2(torch.cat([self.up2(x), second], 1))
        x = self.join1(torch.cat([self.up1(x), first], 1))
        logits = self.head(x)
        return logits, logits.argmax(1)


_NO_CACHE = {"use_cache": False}
_EAGER_ATTENTION = {"attn_implementation": "eager"}

ZOO: dict[str, ZooModel] = {
    model.name: model
    for model in (
        ZooModel("bert", bert, _tokens),
        ZooModel("bert_masked", bert, _padded_tokens),
        ZooModel("bert_eager", lambda: bert(**_EAGER_ATTENTION), _padded_tokens),
        ZooModel("distilbert", distilbert, _tokens),
        ZooModel("distilbert_masked", distilbert, _padded_tokens),
        ZooModel("gpt2", gpt2, _tokens, options=_NO_CACHE),
        ZooModel("gpt2_cache", gpt2, _tokens),
        ZooModel("gpt2_masked", gpt2, _padded_tokens, options=_NO_CACHE),
        ZooModel("gpt2_eager", lambda: gpt2(**_EAGER_ATTENTION), _tokens, options=_NO_CACHE),
        ZooModel("t5", t5, _encoder_decoder_tokens, options=_NO_CACHE),
        ZooModel("t5_cache", t5, _encoder_decoder_tokens),
        ZooModel("llama", llama, _tokens, options=_NO_CACHE),
        ZooModel("llama_cache", llama, _tokens),
        ZooModel("llama_masked", llama, _padded_tokens, options=_NO_CACHE),
        ZooModel("llama_eager", lambda: llama(**_EAGER_ATTENTION), _tokens, options=_NO_CACHE),
        ZooModel("vit", vit, _images, ((2, 32), (1, 32), (3, 32))),
        ZooModel("resnet", resnet, _images, IMAGE_SIZES),
        ZooModel("convnext", convnext, _images, IMAGE_SIZES),
        ZooModel("mobilenet_v2", mobilenet_v2, _images, IMAGE_SIZES),
        ZooModel("whisper", whisper, _audio, ((2, 8), (1, 5), (3, 12)), options=_NO_CACHE),
        ZooModel("whisper_cache", whisper, _audio, ((2, 8), (1, 5), (3, 12))),
        ZooModel("gpt_neox", gpt_neox, _tokens, options=_NO_CACHE),
        ZooModel("phi3", phi3, _tokens, options=_NO_CACHE),
        ZooModel("deberta_v2", deberta_v2, _tokens),
        ZooModel("deberta_v2_masked", deberta_v2, _padded_tokens),
        ZooModel("mixtral", mixtral, _tokens, options=_NO_CACHE),
        ZooModel("bloom", bloom, _tokens, options=_NO_CACHE),
        ZooModel("bloom_masked", bloom, _padded_tokens, options=_NO_CACHE),
        ZooModel("mamba", mamba, _tokens, options=_NO_CACHE),
        ZooModel("lstm", RecurrentClassifier, _tokens),
        ZooModel("gru", lambda: RecurrentClassifier(nn.GRU), _tokens),
        ZooModel("cell_loop", CellLoop, _input("steps", 16), ((2, 6), (1, 3), (3, 9))),
        ZooModel("attention", Attention, _attention_inputs),
        ZooModel("encoder", transformer_encoder, _input("src", 32)),
        ZooModel("encoder_norm_first", lambda: transformer_encoder(True), _input("src", 32)),
        ZooModel("transformer", transformer, _transformer_inputs),
        ZooModel("segformer", segformer, _images, ((2, 32), (1, 64), (3, 32))),
        ZooModel("unet", UNet, _images, IMAGE_SIZES),
    )
}
