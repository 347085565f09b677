"""torch.utils.checkpoint within compiled code: what it wraps is made again in the backward."""

import functools
import re

import braze
import pytest
import torch
import torch.nn.functional as F
from support import same
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential


class Block(nn.Module):
    def __init__(self, width=16, dropout=0.0):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, scale=1.0):
        return x + scale * self.dropout(self.narrow(F.gelu(self.wide(self.norm(x)))))


class Stack(nn.Module):
    def __init__(self, blocks=3, dropout=0.0, checkpointed=True):
        super().__init__()
        self.blocks = nn.ModuleList(Block(dropout=dropout) for _ in range(blocks))
        self.head = nn.Linear(16, 5)
        self.checkpointed = checkpointed

    def forward(self, x):
        for block in self.blocks:
            if self.checkpointed:
                x = checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        return self.head(x)


def trained(module, forward, x, steps=3):
    """Losses, gradients and the generator's state of some steps."""
    torch.manual_seed(1)
    found = []
    for _ in range(steps):
        module.zero_grad()
        loss = forward(x).square().mean()
        loss.backward()
        found += [
            loss.detach(),
            *(p.grad.clone() for p in module.parameters() if p.grad is not None),
        ]
    return [*found, torch.rand(3)]


def compare(make, x, **options):
    torch.manual_seed(0)
    module = make()
    expected = trained(module, module, x)
    for a, b in zip(trained(module, braze.compile(module, **options), x), expected, strict=True):
        same(a, b, rtol=1e-4, atol=1e-6)


def saved_bytes(module, x):
    """What the compiled forward keeps for the backward."""
    (entry,) = (e for e in braze.explain(module)(x).entries if e["plan"])
    roles = re.search(r"^outputs (.*)$", entry["plan"], re.M)[1].split(", ")
    outputs = re.search(r"^  return (.*)$", entry["plan"], re.M)[1].split(", ")
    types = dict(
        re.findall(r"^  (s\d+): \w+(?:[\[(][^\])]*[\])])* ?\w+\[([\d, ]*)\]", entry["plan"], re.M)
    )
    total = 0
    for role, slot in zip(roles, outputs, strict=True):
        if role == "saved":
            total += 4 * torch.Size(int(n) for n in types[slot].split(", ") if n).numel()
    return total


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("dynamic", [None, True])
def test_blocks(dropout, dynamic):
    compare(lambda: Stack(dropout=dropout), torch.randn(6, 16), dynamic=dynamic, fullgraph=True)


def test_less_is_kept():
    torch.manual_seed(0)
    x = torch.randn(64, 16)
    kept = {c: saved_bytes(Stack(checkpointed=c), x) for c in (True, False)}
    block = x.numel() * 4
    assert kept[False] > 3 * 5 * block
    # The input of each block but the first, and that of the head.
    assert kept[True] <= 3 * block


def nested(block, x):
    def inner(x):
        return checkpoint(block, x, use_reentrant=False).sin()

    return checkpoint(inner, x, use_reentrant=False) * 2


def with_keywords(block, x):
    return checkpoint(block, x, scale=0.5, use_reentrant=False, preserve_rng_state=True)


def with_other_numbers(block, x):
    return checkpoint(block, x, use_reentrant=False, preserve_rng_state=False)


def of_a_partial(block, x):
    return checkpoint(functools.partial(block, scale=2.0), x, use_reentrant=False)


def of_a_lambda(block, x):
    w = block.wide.weight
    return checkpoint(lambda a, b: (a @ w.t() + b).tanh().sum(), x, x[0, 0], use_reentrant=False)


def of_several_results(block, x):
    a, b = checkpoint(lambda y: (block(y), y.exp()), x, use_reentrant=False)
    return a * b


def of_a_view(block, x):
    return checkpoint(lambda y: block(y).t(), x, use_reentrant=False).sin() @ x


def twice(block, x):
    for _ in range(2):
        x = checkpoint(block, x, use_reentrant=False)
    return x


def in_sequence(block, x):
    return checkpoint_sequential([block, block.norm, block], 2, x, use_reentrant=False)


def reentrant(block, x):
    return checkpoint(block, x, use_reentrant=True)


def with_a_break(block, x):
    def broken(y):
        y = block(y)
        braze.graph_break()
        return y.sin()

    return checkpoint(broken, x, use_reentrant=False) * 2


def with_contexts(block, x):
    contexts = lambda: (torch.autocast("cpu", enabled=False), torch.autocast("cpu", enabled=False))
    return checkpoint(block, x, use_reentrant=False, context_fn=contexts)


def without_gradients(block, x):
    with torch.no_grad():
        y = checkpoint(block, x, use_reentrant=False)
    return block(y + x)


def written_in_place(block, x):
    def f(y):
        z = block(y)
        z.mul_(2)
        return z.relu_()

    return checkpoint(f, x, use_reentrant=False)


WHOLE = [
    nested,
    with_keywords,
    of_a_partial,
    of_a_lambda,
    of_several_results,
    of_a_view,
    twice,
    in_sequence,
    without_gradients,
    written_in_place,
]


class Calling(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.block = Block(dropout=0.2)
        self.function = function

    def forward(self, x):
        return self.function(self.block, x)


@pytest.mark.parametrize(
    "function",
    [*WHOLE, with_other_numbers, reentrant, with_a_break, with_contexts],
    ids=lambda f: f.__name__,
)
def test_ways_to_call_it(function):
    x = torch.randn(16, 16).requires_grad_()
    compare(lambda: Calling(function), x, fullgraph=function in WHOLE)


def test_what_requires_grad_may_be_asked_to():
    """Hooks of transformers' `enable_input_require_grads` do so."""

    def f(w, x):
        return ((x @ w).requires_grad_(True).sin() + (x * w[0]).requires_grad_()).sum()

    w, x = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4)
    (expected,) = torch.autograd.grad(f(w, x), w)
    (found,) = torch.autograd.grad(braze.compile(f, fullgraph=True)(w, x), w)
    same(found, expected, rtol=1e-4, atol=1e-6)


def test_double_backward():
    torch.manual_seed(0)
    module = Stack(blocks=2)
    fast = braze.compile(module, fullgraph=True)
    x = torch.randn(4, 16).requires_grad_()
    found = []
    for forward in (module, fast):
        (slope,) = torch.autograd.grad(forward(x).sum(), x, create_graph=True)
        found.append(torch.autograd.grad(slope.square().sum(), module.blocks[0].wide.weight)[0])
    same(found[1], found[0], rtol=1e-4, atol=1e-6)


class Writing(nn.Module):
    """What it writes to is written twice in eager."""

    def __init__(self, how):
        super().__init__()
        self.how = how
        self.linear = nn.Linear(16, 16)
        self.norm = nn.BatchNorm1d(16)
        self.register_buffer("seen", torch.zeros(()))
        self.calls, self.shapes = 0, []

    def inner(self, x):
        if self.how == "norm":
            return self.norm(self.linear(x))
        if self.how == "buffer":
            with torch.no_grad():
                self.seen += 1
        if self.how == "attribute":
            self.calls += 1
        if self.how == "list":
            self.shapes.append(x.shape)
        return self.linear(x).relu()

    def forward(self, x):
        return checkpoint(self.inner, x * 2, use_reentrant=False).sin()


@pytest.mark.parametrize("how", ["norm", "buffer", "attribute", "list"])
@pytest.mark.parametrize("trained", [True, False])
def test_what_a_checkpointed_function_writes_to(how, trained):
    found = []
    for wrap in (lambda m: m, braze.compile):
        torch.manual_seed(0)
        module = Writing(how)
        call = wrap(module)
        for _ in range(3):
            with torch.set_grad_enabled(trained):
                loss = call(torch.randn(4, 16)).sum()
            if trained:
                loss.backward()
        buffers = {name: b.clone() for name, b in module.named_buffers()}
        found.append((buffers, module.calls, module.shapes, loss.detach()))
    (buffers, *rest, loss), (got, *other, got_loss) = found
    assert rest == other
    same(got_loss, loss, rtol=1e-4, atol=1e-5)
    for name, buffer in buffers.items():
        same(got[name], buffer, rtol=1e-4, atol=1e-6)
