"""A model, its training by one process or as one of several, and the comparison of both."""

import contextlib

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

SYMBOLS, WIDTH, HEADS, ROWS, LENGTH = 11, 8, 2, 3, 5


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)
        )

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, w))
        return x + self.mlp(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(SYMBOLS, WIDTH)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.extra = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, SYMBOLS)

    def forward(self, tokens, with_extra=True):
        x = self.table(tokens)
        for block in self.blocks:
            x = block(x)
        if with_extra:
            x = x + self.extra(x)
        return self.head(x)


def device():
    """Where this process has its tensors."""
    return "cuda" if dist.get_backend() == "nccl" else "cpu"


def model():
    torch.manual_seed(0)
    return Model().to(device())


def batch(step, rank, world):
    """Tokens and what is wanted of them: the part of `rank`; of None the whole."""
    made = torch.Generator().manual_seed(step)
    whole = torch.randint(SYMBOLS, (2, world * ROWS, LENGTH), generator=made).to(device())
    return whole if rank is None else whole[:, rank * ROWS : (rank + 1) * ROWS]


def loss_of(module, tokens, wanted, *args):
    return F.cross_entropy(module(tokens, *args).flatten(0, 1), wanted.flatten())


def whole(parameter):
    parameter = parameter.detach()
    return parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter.clone()


def train(module, rank, world, steps=5, micro_batches=1, unused=()):
    """Losses of all ranks by step, and the parameters behind the steps.

    Args:
        rank: whose part of the batches is taken; None for the whole batches.
        unused: the steps that leave `Model.extra` alone.
    """
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    losses = torch.zeros(steps, device=device())
    for step in range(steps):
        optimizer.zero_grad()
        for micro in range(micro_batches):
            waits = rank is not None and micro < micro_batches - 1
            with module.no_sync() if waits else contextlib.nullcontext():
                data = batch(100 * step + micro, rank, world)
                loss = loss_of(module, *data, step not in unused) / micro_batches
                loss.backward()
            losses[step] += loss.detach()
        optimizer.step()
    if rank is not None:
        dist.all_reduce(losses)
        losses /= world
    return losses, [whole(p) for p in module.parameters()]


def assert_same(got, wanted):
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-6)


def assert_trains_as_one_process(module, rank, world, **settings):
    got = train(module, rank, world, **settings)
    assert_same(got, train(model(), None, world, **settings))
    for p in got[1]:
        first = p.clone()
        dist.broadcast(first, 0)
        assert torch.equal(p, first), "differs from that of rank 0"
