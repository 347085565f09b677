"""Small programs: what users write around tensors."""

import collections
import contextlib
import dataclasses
import functools
import itertools
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from running import case


class Attention(nn.Module):
    def __init__(self, width=8, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, mask=None):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(c // self.heads)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
        self.attention = Attention(width)
        self.mlp = nn.Sequential(
            collections.OrderedDict(
                up=nn.Linear(width, 16), act=nn.GELU(), down=nn.Linear(16, width)
            )
        )

    def forward(self, x):
        x = x + self.attention(self.norms[0](x), torch.tril(torch.ones(x.shape[1], x.shape[1])))
        return x + self.mlp(self.norms[1](x))


block = Block()
conv = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
lstm_cell = nn.LSTMCell(4, 4)
embedding = nn.Embedding(10, 4)


def sequence(k):
    return (torch.randn(1 + k % 2, 3, 8),)


@case(make=sequence)
def transformer_block(x):
    return block(x)


@case(make=sequence)
def stack_with_hidden_states(x):
    states = ()
    for _ in range(2):
        states += (x,)
        x = block(x)
    return {"last": x, "states": states}


@case(make=lambda k: (torch.randn(1, 1, 4, 4 + 2 * (k % 2)),))
def convolution(x):
    return conv(x), conv[0](x).shape


@case(make=lambda k: (torch.randn(2, 3, 4),))
def recurrence(x):
    h, c = torch.zeros(2, 4), torch.zeros(2, 4)
    outputs = []
    for step in x.unbind(1):
        h, c = lstm_cell(step, (h, c))
        outputs.append(h)
    return torch.stack(outputs, 1), (h, c)


@case
def embedding_lookup(i):
    return embedding(i), embedding.weight[i[0:2]]


@dataclasses.dataclass
class Output:
    logits: torch.Tensor
    loss: torch.Tensor | None = None
    hidden: tuple = ()

    def to_tuple(self):
        return tuple(v for v in (self.logits, self.loss) if v is not None)


@case
def output_dataclass(m, flag):
    loss = F.cross_entropy(m, torch.tensor([0, 1, 2])) if flag else None
    out = Output(m * 2, loss, hidden=(m,))
    return out, out.to_tuple()


class Cache:
    def __init__(self):
        self.keys = {}
        self.length = 0

    def update(self, layer, k):
        old = self.keys.get(layer)
        self.keys[layer] = k if old is None else torch.cat([old, k], 0)
        self.length = self.keys[layer].shape[0]
        return self.keys[layer]


cache = Cache()


@case(make=lambda k: (torch.randn(1, 4),))
def growing_cache(x):
    keys = cache.update(0, x)
    return (x @ keys.t()).softmax(-1), cache.length


class Averages:
    def __init__(self, decay=0.9):
        self.decay, self.values, self.steps = decay, {}, 0

    @torch.no_grad()
    def update(self, named):
        self.steps += 1
        for name, value in named:
            mean = self.values.setdefault(name, torch.zeros_like(value))
            mean.mul_(self.decay).add_(value, alpha=1 - self.decay)


averages = Averages()


@case
def moving_averages(m):
    averages.update([("m", m), ("t", m.t())])
    return {k: v.clone() for k, v in averages.values.items()}


@contextlib.contextmanager
def training(module, mode):
    before = module.training
    module.train(mode)
    try:
        yield module
    finally:
        module.train(before)


@case(make=sequence)
def mode_in_a_context(x):
    with training(block, False) as b:
        y = b(x)
    return y, block.training


@case
def registry_of_functions(x):
    table = {"relu": F.relu, "tanh": torch.tanh, "twice": lambda v: v * 2}
    return {name: f(x) for name, f in table.items()}


@case
def composed_functions(x):
    def compose(*functions):
        return functools.reduce(lambda f, g: lambda v: g(f(v)), functions)

    return compose(torch.sin, torch.cos, lambda v: v + 1)(x)


@case
def tree_map(x, d):
    def walk(f, tree):
        if isinstance(tree, dict):
            return {k: walk(f, v) for k, v in tree.items()}
        if isinstance(tree, (list, tuple)):
            return type(tree)(walk(f, v) for v in tree)
        return f(tree)

    return walk(lambda t: t * 2, {"a": [x, (x + 1,)], "d": d})


@case
def padded_batch(tensors):
    longest = max(len(t) for t in tensors) + 1
    return torch.stack([F.pad(t, (0, longest - len(t))) for t in tensors])


@case
def sliding_windows(m):
    return [m[k : k + 2].mean(0) for k in range(len(m) - 1)]


@case
def positions(n):
    p = torch.arange(n).unsqueeze(1) * torch.exp(torch.arange(0, 4, 2) * (-math.log(1e4) / 4))
    return torch.stack([p.sin(), p.cos()], -1).flatten(1)


@case
def rotary(m):
    a, b = m[..., :1], m[..., 1:2]
    return torch.cat([-b, a, m[..., 2:]], dim=-1)


@case
def mask_building(n):
    mask = torch.full((n, n), float("-inf")).triu(1)
    return mask, (mask == 0).sum(-1), mask.isinf().any()


@case
def metrics(m):
    predicted, target = m.argmax(-1), torch.tensor([0, 1, 2])
    correct = (predicted == target).float()
    return {"accuracy": correct.mean(), "errors": (1 - correct).sum(), "n": len(target)}


@case
def grid(n):
    ys, xs = torch.meshgrid(torch.arange(n), torch.arange(2), indexing="ij")
    return torch.stack([ys, xs], -1).view(-1, 2)


@case
def pairwise_distances(m):
    return torch.stack([(a - b).pow(2).sum().sqrt() for a, b in itertools.combinations(m, 2)])


@case
def iterated_in_place(m):
    for row, scale in zip(m, (1, 2, 3)):
        row *= scale
    m[m.shape[0] - 1] += m[0]
    return m.sum(0)


@case
def power_iteration(m):
    v = torch.ones(3)
    for _ in range(3):
        v = m @ v
        v = v / (v.norm() + 1)
    return v


@case
def polynomial(x):
    return functools.reduce(lambda acc, c: acc * x + c, (1.0, -2.0, 3.0))


@case
def clamp_by_dtype(x):
    limits = torch.finfo(x.dtype)
    return x.clamp(limits.min, limits.max), limits.eps, torch.iinfo(torch.int8).max


@case
def default_arguments_by_keyword(x):
    def layer(v, *, scale=2.0, bias=None, activation=F.relu):
        v = v * scale
        return activation(v if bias is None else v + bias)

    return layer(x), layer(x, bias=x), layer(x, activation=torch.sigmoid, scale=-1)


@case
def early_return_by_shape(x):
    if x.dim() > 1:
        return x.flatten()
    for size in x.shape:
        if size == 4:
            return x.view(2, 2)
    return None


@case
def lists_of_results(x, n):
    results = collections.defaultdict(list)
    for k in range(n):
        results["even" if k % 2 == 0 else "odd"].append(x * k)
    return {name: torch.stack(v) for name, v in results.items()}


@case
def optional_and_chained(x, d):
    scale = d.get("scale") or d.get("a", 1)
    shift = d["b"] if "b" in d and d["b"] is not None else 0
    return (x.sum() * scale + shift).relu().neg().exp()


@case
def exceptions_as_control(x, n):
    class Stop(Exception):
        pass

    try:
        for k in range(10):
            x = x * 0.5
            if k == n:
                raise Stop(k)
    except Stop as stop:
        return x, stop.args
