"""Modules trained compiled and in eager: losses, gradients, parameters and buffers."""

import copy

import braze
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from comparing import assert_same, captured, train

cross_entropy = F.cross_entropy


def mse(y, target):
    return F.mse_loss(y, target)


class Attention(nn.Module):
    def __init__(self, width=16, heads=4):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.heads = heads

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(b, n, w))


class Embedded(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 8)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.table.weight  # tied

    def forward(self, tokens):
        return self.head(torch.tanh(self.table(tokens))).flatten(0, 1)


class Unused(nn.Module):
    def __init__(self):
        super().__init__()
        self.used = nn.Linear(6, 6)
        self.unused = nn.Linear(6, 6)

    def forward(self, x):
        return self.used(x).relu()


def images(*shape):
    return torch.randn(*shape)


MODULES = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 5)),
        lambda: (torch.randn(4, 8), torch.randint(5, (4,))),
        cross_entropy,
    ),
    "convolution": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 4, 3), nn.GroupNorm(2, 4), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        ),
        lambda: (torch.randn(4, 3, 8, 8), torch.randint(4, (4,))),
        cross_entropy,
    ),
    "attention": (Attention, lambda: (torch.randn(2, 6, 16), torch.randn(2, 6, 16)), mse),
    "embedding": (
        Embedded,
        lambda: (torch.randint(11, (3, 4)), torch.randint(11, (12,))),
        cross_entropy,
    ),
    "unused": (Unused, lambda: (torch.randn(3, 6), torch.randn(3, 6)), mse),
    "dropout": (
        lambda: nn.Sequential(nn.Linear(8, 32), nn.Dropout(0.5), nn.ReLU(), nn.Linear(32, 3)),
        lambda: (torch.randn(5, 8), torch.randn(5, 3)),
        mse,
    ),
    "lstm": (
        lambda: nn.LSTM(4, 6, batch_first=True),
        lambda: (torch.randn(2, 5, 4), torch.randn(2, 5, 6)),
        lambda y, target: F.mse_loss(y[0], target),
    ),
}  # fmt: skip


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", MODULES)
def test_module(name, dynamic, capfd):
    make, batch, loss = MODULES[name]
    torch.manual_seed(1)
    train(make(), loss, [batch() for _ in range(2)], dynamic=dynamic)
    assert "internal error" not in capfd.readouterr().err


def test_a_module_and_its_loss_are_captured_as_a_whole():
    module = MODULES["mlp"][0]()
    x, target = MODULES["mlp"][1]()
    fast = braze.compile(lambda x, t: cross_entropy(module(x), t), fullgraph=True)
    loss = fast(x, target)
    assert loss.requires_grad and not loss.is_leaf and "Braze" in loss.grad_fn.name()
    loss.backward()
    wanted = torch.autograd.grad(cross_entropy(module(x), target), list(module.parameters()))
    for p, g in zip(module.parameters(), wanted):
        assert_same(p.grad, g)


def test_sizes_that_vary_are_one_more_compile():
    module = MODULES["mlp"][0]()
    batches = [(torch.randn(n, 8), torch.randint(5, (n,))) for n in (4, 7, 3, 9)]
    twin, fast = train(module, cross_entropy, batches, steps=8)
    assert captured(twin, batches[0][0])


def test_batch_norm_keeps_its_statistics_and_evaluates():
    module = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh())
    twin, fast = train(module, mse, [(torch.randn(8, 4), torch.randn(8, 6))])
    for model in (module, twin):
        model.eval()
    x = torch.randn(8, 4)
    assert_same(fast(x), module(x))
    fast(x).sum().backward()
    module(x).sum().backward()
    for p, q in zip(module.parameters(), twin.parameters()):
        assert_same(q.grad, p.grad, rtol=1e-4, atol=1e-5)


def test_halves_under_autocast():
    module = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    twin = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    twin.load_state_dict(module.state_dict())
    x, target = torch.randn(5, 8), torch.randn(5, 4)

    def loss(model, x, target):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = model(x)
        return F.mse_loss(y.float(), target)

    loss(module, x, target).backward()
    braze.compile(lambda x, t: loss(twin, x, t))(x, target).backward()
    for p, q in zip(module.parameters(), twin.parameters()):
        assert_same(q.grad, p.grad, rtol=2e-2, atol=2e-3)


LAYERS = {
    "two directions": dict(num_layers=2, bidirectional=True),
    "no bias": dict(bias=False, batch_first=True),
    "dropout": dict(num_layers=2, dropout=0.5),
}


@pytest.mark.parametrize("layer", LAYERS)
def test_lstm_is_captured_as_a_whole(layer):
    module = nn.LSTM(4, 6, **LAYERS[layer])
    twin = copy.deepcopy(module)
    fast = braze.compile(twin, fullgraph=True)
    for step in range(3):
        x = torch.randn(5, 3, 4)
        results = []
        for call in (module, fast):
            torch.manual_seed(step)
            leaf = x.clone().requires_grad_()
            outputs, (h, c) = call(leaf)
            # Not all of its results have a gradient in each step.
            (
                (outputs.square().sum() if step != 1 else 0) + h.sum() * (step > 0) + c.sum()
            ).backward()
            results.append((outputs.detach(), h.detach(), c.detach(), leaf.grad))
        for got, wanted in zip(results[1], results[0]):
            assert_same(got, wanted)
        for p, q in zip(module.parameters(), twin.parameters()):
            assert_same(q.grad, p.grad)


@pytest.mark.filterwarnings("error")  # those of PyTorch's tracing would be ours
def test_lstm_over_sequences_of_many_lengths():
    module = nn.LSTM(4, 6)
    twin = copy.deepcopy(module)
    fast = braze.compile(twin)
    for length in (3, 5, 2, 7, 3, 5):
        x = torch.randn(length, 3, 4)
        for call in (module, fast):
            call(x)[0].square().sum().backward()
    for p, q in zip(module.parameters(), twin.parameters()):
        assert_same(q.grad, p.grad, rtol=1e-4, atol=1e-5)
