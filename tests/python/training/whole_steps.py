"""Functions with a backward in them, in eager and compiled, side by side."""

import copy

import braze
import torch
import torch.nn as nn
import torch.nn.functional as F
from comparing import assert_same, assert_same_state, captured


def network(**options):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Dropout(0.2), nn.Linear(16, 4)
    ).to(**options)


def batches(count=4, rows=5):
    maker = torch.Generator().manual_seed(3)
    return [
        (torch.randn(rows, 8, generator=maker), torch.randint(0, 4, (rows,), generator=maker))
        for _ in range(count)
    ]


def compare(make_step, module=None, data=None, whole=True, **tolerance):
    """The same calls of `make_step(module)` in eager and compiled; the compiled function."""
    module = module or network()
    twin = copy.deepcopy(module)
    step, other = make_step(module), make_step(twin)
    fast = braze.compile(other)
    for number, batch in enumerate(data or batches()):
        answers = []
        for call in (step, fast):
            torch.manual_seed(number)
            answers.append(call(*batch))
        wanted, got = (torch.utils._pytree.tree_leaves(answer) for answer in answers)
        assert len(got) == len(wanted)
        for a, b in zip(got, wanted, strict=True):
            assert (a is None) == (b is None)
            if isinstance(b, torch.Tensor):
                assert (a.requires_grad, a.is_leaf) == (b.requires_grad, b.is_leaf)
                assert_same(a.detach(), b.detach(), **tolerance)
        assert_same_state(module, twin, **tolerance)
    if whole:
        torch.manual_seed(0)
        assert captured(other, *batches()[0])
    return fast


def loss_of(module, x, y):
    return F.cross_entropy(module(x), y)
