"""Dropout in kernels: eager's masks for eager's seed, and the generator where eager leaves it."""

import braze
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

HALVES = [torch.float16, torch.bfloat16]
SIZES = {
    "one pack": (8,),
    "few": (3, 40),
    "packs of four": (7, 12),
    "odd": (5, 77),
    "in one round": (64, 1024),
    "whole rounds": (2112, 1024),
    "many rounds": (4099, 1536),
}


def drawn(function, *arguments):
    """The result, and where the generator is."""
    torch.manual_seed(5)
    torch.rand(3, device="cuda")
    result = function(*arguments)
    return result, torch.cuda.default_generators[0].get_offset()


def expect_same(function, *arguments, exact=True):
    expected = drawn(function, *arguments)
    compiled = braze.compile(function)
    for _ in range(2):
        result = drawn(compiled, *arguments)
        assert result[1] == expected[1]
        tolerance = {"rtol": 0, "atol": 0} if exact else {}
        torch.testing.assert_close(result[0], expected[0], **tolerance)
    return compiled


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, *HALVES, torch.float64])
@pytest.mark.parametrize("size", SIZES)
def test_masks_are_those_of_eager(size, dtype, p):
    x = torch.randn(SIZES[size], device="cuda").to(dtype)
    expect_same(lambda x: F.dropout(x * 2, p), x)
    expect_same(lambda x: F.dropout(x, p), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("begin", range(1, 9))
def test_memory_that_begins_between_packs(begin, dtype):
    x = torch.randn(8192 + begin, device="cuda").to(dtype)[begin:]
    expect_same(lambda x: F.dropout(x, 0.3), x)
    expect_same(lambda x: (torch.rand(4, device="cuda"), F.dropout(x, 0.3)), x)
    whole = torch.randn(8192, device="cuda").to(dtype)
    function = expect_same(lambda x: F.dropout(x, 0.3), whole)
    expected = drawn(lambda x: F.dropout(x, 0.3), x)
    assert drawn(function, x)[1] == expected[1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_parts_of_what_the_code_makes(dtype):
    x = torch.randn(64, 96, device="cuda").to(dtype)

    def parts(x):
        y = x + 1
        rows = y[1:]
        return (
            F.dropout(rows, 0.2),
            F.dropout(y.view(-1)[3:], 0.2),
            F.dropout(y.t(), 0.2),
            F.dropout(y[:, 8:40], 0.2),
            F.dropout(x[4:8], 0.2),
            F.dropout(y.expand(2, 64, 96), 0.2),
        )

    expect_same(parts, x)


def test_written_in_place_beforehand():
    x = torch.randn(8193, device="cuda")[1:]

    def function(x):
        x.add_(1)
        return F.dropout(x, 0.3)

    torch.manual_seed(5)
    expected = function(x.clone())
    base = torch.randn(8193, device="cuda")
    for _ in range(2):
        base[1:].copy_(x)
        torch.manual_seed(5)
        expected = function(base[1:])
        base[1:].copy_(x)
        torch.manual_seed(5)
        result = braze.compile(function)(base[1:])
        torch.testing.assert_close(result, expected, rtol=0, atol=0)


def test_in_place_and_other_kinds_of_dropout():
    x = torch.randn(4, 8, 16, 16, device="cuda")
    expect_same(lambda x: F.dropout(x.clone(), 0.4, inplace=True), x)
    expect_same(lambda x: F.dropout2d(x, 0.4), x)
    expect_same(lambda x: F.alpha_dropout(x, 0.4, training=True), x, exact=False)
    expect_same(lambda x: F.dropout(x, 0.4, training=False), x)
    expect_same(lambda x: F.dropout(x, 0.0), x)
    expect_same(lambda x: F.dropout(x, 1.0), x)
    channels_last = x.to(memory_format=torch.channels_last)
    expect_same(lambda x: F.dropout(x * 1.5, 0.4), channels_last)


def test_between_other_draws():
    x = torch.randn(96, 256, device="cuda", dtype=torch.float16)

    def function(x):
        a = F.dropout(x, 0.1)
        b = F.dropout(a * 2, 0.2)
        noise = torch.randn_like(x)
        c = F.dropout(b + noise, 0.3)
        d = F.dropout(c.float(), 0.5)
        e = torch.bernoulli(torch.full_like(d, 0.25))
        return a, b, noise, c, d, e, F.dropout(d * e, 0.5), torch.randperm(9, device="cuda")

    expect_same(function, x)


def test_it_is_part_of_the_kernel():
    x = torch.randn(128, 512, device="cuda")
    text = braze.explain(lambda x: F.dropout(torch.tanh(x), 0.1) + x)(x).details
    assert "braze.philox_state" in text


class Block(nn.Module):
    def __init__(self, width=128, p=0.2):
        super().__init__()
        self.inner = nn.Linear(width, 2 * width)
        self.outer = nn.Linear(2 * width, width)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(p)

    def forward(self, x):
        y = self.dropout(F.gelu(self.inner(x)))
        return self.norm(x + self.dropout(self.outer(y)))


def trained(module, forward, x, steps=3):
    torch.manual_seed(11)
    found = []
    for _ in range(steps):
        module.zero_grad()
        leaf = x.clone().requires_grad_()
        loss = (forward(leaf).float() * torch.cos(x.float())).sum() / 100
        loss.backward()
        found += [loss.detach(), leaf.grad, *(p.grad.clone() for p in module.parameters())]
    return found, torch.cuda.default_generators[0].get_offset()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_training(mode, dtype):
    torch.manual_seed(0)
    module = nn.Sequential(Block(), Block(), Block()).cuda().to(dtype)
    x = torch.randn(16, 64, 128, device="cuda").to(dtype)
    with torch.enable_grad():
        expected, place = trained(module, module, x, steps=5)
        found, found_place = trained(module, braze.compile(module, mode=mode), x, steps=5)
    assert place == found_place
    tolerance = 1e-4 if dtype == torch.float32 else 3e-2
    for a, b in zip(found, expected, strict=True):
        scale = b.float().abs().max()
        assert ((a.float() - b.float()).abs().max() / scale).item() < tolerance


def test_less_is_kept_for_the_backward():
    x = torch.randn(64, 1 << 16, device="cuda", requires_grad=True)

    def peak(function):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        with torch.enable_grad():
            y = function(x)
            kept = torch.cuda.memory_allocated() - before
            y.backward(torch.ones_like(y))
        x.grad = None
        return kept

    def function(x):
        return F.dropout(x, 0.1)

    compiled = braze.compile(function)
    peak(compiled)
    mask = x.numel()
    assert peak(function) >= x.numel() * 4 + mask
    assert peak(compiled) < x.numel() * 4 + mask // 8


def test_checkpoint_draws_once():
    module = Block().cuda()
    x = torch.randn(8, 32, 128, device="cuda")

    def wrapped(x):
        return checkpoint(module, checkpoint(module, x, use_reentrant=False), use_reentrant=False)

    with torch.enable_grad():
        expected, place = trained(module, wrapped, x)
        found, found_place = trained(module, braze.compile(wrapped), x)
    assert place == found_place
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_second_derivatives_use_the_same_masks():
    w = torch.randn(64, 64, device="cuda")

    def function(x):
        return F.dropout(torch.tanh(x @ w), 0.3).square().sum()

    def penalty(function, x):
        torch.manual_seed(3)
        x = x.clone().requires_grad_()
        (first,) = torch.autograd.grad(function(x), x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x)
        return first.detach(), second

    with torch.enable_grad():
        x = torch.randn(32, 64, device="cuda")
        compiled = braze.compile(function)
        for _ in range(2):
            for a, b in zip(penalty(compiled, x), penalty(function, x), strict=True):
                torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_a_whole_step():
    def run(compiling):
        torch.manual_seed(0)
        module = nn.Sequential(Block(), Block()).cuda()
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)

        def step(x):
            optimizer.zero_grad()
            loss = module(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        if compiling:
            step = braze.compile(step)
        x = torch.randn(16, 32, 128, device="cuda")
        torch.manual_seed(1)
        with torch.enable_grad():
            losses = torch.stack([step(x) for _ in range(6)])
        return losses, torch.cuda.default_generators[0].get_offset()

    expected, place = run(False)
    found, found_place = run(True)
    assert place == found_place
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_sizes_that_vary():
    function = braze.compile(lambda x: F.dropout(x * 2, 0.3), dynamic=True)
    for rows in (3, 64, 65, 4000):
        x = torch.randn(rows, 256, device="cuda")
        expected = drawn(lambda x: F.dropout(x * 2, 0.3), x)
        found = drawn(function, x)
        assert found[1] == expected[1]
        torch.testing.assert_close(found[0], expected[0], rtol=0, atol=0)


def test_a_forked_generator_and_its_state():
    x = torch.randn(64, 256, device="cuda")
    function = braze.compile(lambda x: F.dropout(x, 0.3))
    state = torch.cuda.get_rng_state()
    first = function(x)
    torch.cuda.set_rng_state(state)
    assert torch.equal(first, function(x))
    with torch.random.fork_rng(devices=[0]):
        torch.manual_seed(9)
        inside = function(x)
    torch.manual_seed(9)
    assert torch.equal(inside, function(x))
    assert not torch.equal(first, inside)
