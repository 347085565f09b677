"""Tensors of random layouts, and calls on them."""

import random

import torch
from tracing import check_layout


def tensor(rng, sizes, dtype=torch.float32):
    """A tensor of these sizes with random strides: permuted, sliced, expanded, channels last."""
    kind = rng.randrange(6)
    sizes = list(sizes)
    if kind == 0 and sizes:  # permuted
        order = list(range(len(sizes)))
        rng.shuffle(order)
        base = torch.rand([sizes[i] for i in order]).mul(4).to(dtype)
        return base.permute([order.index(i) for i in range(len(sizes))])
    if kind == 1 and sizes:  # a slice of something larger
        d = rng.randrange(len(sizes))
        larger = sizes.copy()
        larger[d] = larger[d] * 2 + 1
        start = rng.randrange(2)
        return torch.rand(larger).mul(4).to(dtype).narrow(d, start, sizes[d])
    if kind == 2 and sizes:  # every second element
        d = rng.randrange(len(sizes))
        larger = sizes.copy()
        larger[d] *= 2
        index = [slice(None)] * len(sizes)
        index[d] = slice(None, None, 2)
        return torch.rand(larger).mul(4).to(dtype)[tuple(index)]
    if kind == 3 and sizes:  # expanded
        d = rng.randrange(len(sizes))
        smaller = sizes.copy()
        smaller[d] = 1
        return torch.rand(smaller).mul(4).to(dtype).expand(sizes)
    if kind == 4 and len(sizes) == 4:
        return torch.rand(sizes).mul(4).to(dtype).to(memory_format=torch.channels_last)
    return torch.rand(sizes).mul(4).to(dtype)


def sizes(rng, rank=None, low=1):
    rank = rng.randrange(5) if rank is None else rank
    return [rng.choice([low, 1, 2, 3, 4]) for _ in range(rank)]


def repeat(count, make):
    """Runs `make(rng)` count times; at least a fifth must be calls that eager accepts."""
    rng = random.Random(7)
    done = sum(1 for _ in range(count) if check_layout(*make(rng)))
    assert done * 5 >= count
