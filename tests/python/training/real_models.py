"""Models as they are trained, in sizes of a test: each returns its loss; with dropout at will."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from bench import zoo


@dataclass(frozen=True)
class Example:
    """make(dropout): the module. batch(size): keyword arguments for it, for the loss of so many."""

    make: Callable[[float], nn.Module]
    batch: Callable[[int], dict[str, torch.Tensor]]
    has_dropout: bool = True


class Loss(nn.Module):
    """A model of transformers that returns its loss alone."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, **batch):
        return self.model(**batch).loss


def tokens(*shape):
    return torch.randint(3, zoo.VOCABULARY, shape)


def text(size):
    ids = tokens(size, 12)
    return {"input_ids": ids, "labels": ids}


def masked_text(size):
    """Padded on the right; the loss is that of every third token."""
    ids, mask = tokens(size, 12), torch.ones(size, 12, dtype=torch.long)
    mask[0, 8:] = 0
    labels = torch.where(torch.arange(12) % 3 == 0, ids, -100)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def images(size):
    return {"pixel_values": torch.randn(size, 3, 32, 32), "labels": torch.randint(5, (size,))}


def bert(dropout):
    from transformers import BertConfig, BertForMaskedLM

    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    return Loss(BertForMaskedLM(BertConfig(**zoo.TEXT, **rates)))


def gpt2(dropout):
    rates = {"embd_pdrop": dropout, "attn_pdrop": dropout, "resid_pdrop": dropout}
    return Loss(zoo.gpt2(use_cache=False, loss_type="ForCausalLM", **rates))


def vit(dropout):
    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    return Loss(zoo.vit(num_labels=5, **rates))


def resnet(dropout):
    return Loss(zoo.resnet(num_labels=5))


def llama(dropout):
    return Loss(zoo.llama(num_hidden_layers=2, attention_dropout=dropout, use_cache=False))


def t5(dropout):
    return Loss(zoo.t5(dropout_rate=dropout, use_cache=False, decoder_start_token_id=0))


def convnext(dropout):
    return Loss(zoo.convnext(num_labels=5, drop_path_rate=dropout))


def mixtral(dropout):
    return Loss(zoo.mixtral(attention_dropout=dropout, use_cache=False))


def whisper(dropout):
    return Loss(zoo.whisper(dropout=dropout, attention_dropout=dropout, use_cache=False))


class LanguageModel(nn.Module):
    """Embedding, two recurrent layers, logits; the loss of the next tokens."""

    def __init__(self, dropout, width=32):
        super().__init__()
        self.embedding = nn.Embedding(zoo.VOCABULARY, width)
        self.recurrent = nn.LSTM(width, width, num_layers=2, batch_first=True, dropout=dropout)
        self.dropout = nn.Dropout(dropout)
        self.logits = nn.Linear(width, zoo.VOCABULARY)

    def forward(self, input_ids, labels):
        states, _ = self.recurrent(self.dropout(self.embedding(input_ids)))
        logits = self.logits(self.dropout(states))[:, :-1]
        return F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())


class Network(nn.Module):
    """Two levels down and up again with skip connections; a vector is added in the middle."""

    def __init__(self, outputs, dropout, width=8, given=16):
        super().__init__()

        def block(before, after):
            return nn.Sequential(
                nn.Conv2d(before, after, 3, padding=1),
                nn.GroupNorm(4, after),
                nn.SiLU(),
                nn.Dropout2d(dropout),
                nn.Conv2d(after, after, 3, padding=1, bias=False),
                nn.BatchNorm2d(after),
                nn.ReLU(inplace=True),
            )

        self.down1, self.down2 = block(3, width), block(width, 2 * width)
        self.middle, self.added = block(2 * width, 4 * width), nn.Linear(given, 4 * width)
        self.pool = nn.MaxPool2d(2)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.up1 = nn.Upsample(scale_factor=2)
        self.join2, self.join1 = block(4 * width, 2 * width), block(3 * width, width)
        self.head = nn.Conv2d(width, outputs, 1)

    def forward(self, x, given):
        first = self.down1(x)
        second = self.down2(self.pool(first))
        x = self.middle(self.pool(second)) + self.added(given)[:, :, None, None]
        x = self.join2(torch.cat([self.up2(x), second], 1))
        return self.head(self.join1(torch.cat([self.up1(x), first], 1)))


class Segmenter(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.network = Network(5, dropout)
        self.given = nn.Parameter(torch.randn(1, 16))

    def forward(self, x, labels):
        return F.cross_entropy(self.network(x, self.given), labels)


def labelled_pixels(size):
    return {"x": torch.randn(size, 3, 16, 16), "labels": torch.randint(5, (size, 16, 16))}


class Diffusion(nn.Module):
    """The noise of a step of a schedule is to be found, given an embedding of the step."""

    def __init__(self, dropout, steps=50):
        super().__init__()
        self.network = Network(3, dropout)
        self.time = nn.Sequential(nn.Linear(16, 16), nn.SiLU(), nn.Linear(16, 16))
        kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, steps), 0)
        self.register_buffer("kept", kept)
        self.register_buffer("frequencies", torch.exp(-math.log(1e4) * torch.arange(8) / 8))

    def forward(self, x, noise, step):
        kept = self.kept[step][:, None, None, None]
        noisy = kept.sqrt() * x + (1 - kept).sqrt() * noise
        angles = step[:, None] * self.frequencies
        time = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        return F.mse_loss(self.network(noisy, time), noise)


def noisy_images(size):
    x, noise = torch.randn(2, size, 3, 16, 16)
    return {"x": x, "noise": noise, "step": torch.randint(50, (size,))}


class Graphs(nn.Module):
    """Messages along edges, their sum, mean and maximum at each node; a number for each graph."""

    def __init__(self, dropout, width=32):
        super().__init__()
        self.first = nn.Linear(6, width)
        self.message = nn.Sequential(
            nn.Linear(2 * width + 4, width), nn.SiLU(), nn.Dropout(dropout), nn.Linear(width, width)
        )
        self.update = nn.GRUCell(3 * width, width)
        self.gate, self.head = nn.Linear(width, 1), nn.Linear(width, 1)

    def forward(self, nodes, edges, features, graph, target):
        h, (source, goal) = self.first(nodes), edges
        for _ in range(2):
            messages = self.message(torch.cat([h[source], h[goal], features], -1))
            place = goal[:, None].expand_as(messages)
            total = torch.zeros_like(h).index_add(0, goal, messages)
            count = torch.zeros_like(h).scatter_add_(0, place, torch.ones_like(messages))
            most = torch.full_like(h, -9.0).scatter_reduce(0, place, messages, "amax")
            h = self.update(torch.cat([total, total / count.clamp(min=1), most], -1), h)
        pooled = h.new_zeros(target.shape[0], h.shape[1])
        pooled.index_add_(0, graph, torch.sigmoid(self.gate(h)) * h)
        return F.huber_loss(self.head(pooled).squeeze(-1), target)


def graphs(size):
    nodes, edges = 7 * size, 30 * size
    return {
        "nodes": torch.randn(nodes, 6),
        "edges": torch.randint(nodes, (2, edges)),
        "features": torch.randn(edges, 4),
        "graph": torch.arange(size).repeat_interleave(7),
        "target": torch.randn(size),
    }


class Molecules(nn.Module):
    """An energy of distances in pairs; forces are its gradient. The loss is of both."""

    def __init__(self, dropout, width=32):
        super().__init__()
        self.species = nn.Embedding(4, 8)
        self.register_buffer("centers", torch.linspace(0, 4, 16))
        self.pair = nn.Sequential(
            nn.Linear(32, width),
            nn.SiLU(),
            nn.Dropout(dropout),
            nn.Linear(width, width),
            nn.Softplus(),
            nn.Linear(width, 1),
        )

    def energy(self, species, positions):
        i, j = torch.triu_indices(positions.shape[1], positions.shape[1], 1)
        distance = (positions[:, i] - positions[:, j]).norm(dim=-1)
        radial = torch.exp(-2 * (distance[..., None] - self.centers) ** 2)
        kinds = self.species(species)
        features = [radial, kinds[:, i] + kinds[:, j], kinds[:, i] * kinds[:, j]]
        cutoff = 0.5 * (torch.cos(math.pi * distance.clamp(max=4) / 4) + 1)
        return (self.pair(torch.cat(features, -1)).squeeze(-1) * cutoff).sum(-1)

    def forward(self, species, positions, energy, forces):
        positions = positions.detach().requires_grad_()
        found = self.energy(species, positions)
        (slope,) = torch.autograd.grad(found.sum(), positions, create_graph=True)
        return F.mse_loss(found, energy) + F.mse_loss(-slope, forces)


def molecules(size):
    positions, forces = torch.randn(2, size, 6, 3)
    species = torch.randint(4, (size, 6))
    energy = torch.randn(size)
    return {"species": species, "positions": 2 * positions, "energy": energy, "forces": forces}


EXAMPLES = {
    "bert": Example(bert, masked_text),
    "gpt2": Example(gpt2, text),
    "vit": Example(vit, images),
    "resnet": Example(resnet, images, has_dropout=False),
    "llama": Example(llama, text),
    "t5": Example(t5, lambda size: {"input_ids": tokens(size, 12), "labels": tokens(size, 7)}),
    "convnext": Example(convnext, images),
    "mixtral": Example(mixtral, text),
    "whisper": Example(
        whisper,
        lambda size: {"input_features": torch.randn(size, 8, 32), "labels": tokens(size, 6)},
    ),
    "lstm": Example(LanguageModel, text),
    "unet": Example(Segmenter, labelled_pixels),
    "diffusion": Example(Diffusion, noisy_images),
    "graph": Example(Graphs, graphs),
    "molecules": Example(Molecules, molecules),
}
