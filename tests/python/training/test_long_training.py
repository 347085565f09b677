"""Training for long: neither memory nor objects grow, and the last step is as right as the first.

BRAZE_TRAINING_STEPS=100000 trains as long as a real run (minutes).
"""

import gc
import os
import threading

import braze
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

STEPS = int(os.environ.get("BRAZE_TRAINING_STEPS", 3000))
WARM = 900  # steps, behind which nothing is compiled any more
# What a warm program may still grow by, whatever it computes: fragments of malloc's.
MOST_GROWN_MB = 1


def resident_mb():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20


class Net(nn.Module):
    def __init__(self, checkpointed=False):
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 4)
        self.norm, self.checkpointed = nn.LayerNorm(32), checkpointed

    def inner(self, x):
        return F.gelu(self.norm(self.first(x)))

    def forward(self, x):
        inner = checkpoint(self.inner, x, use_reentrant=False) if self.checkpointed else None
        return self.second(self.inner(x) if inner is None else inner)


def batch(size, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, 16, generator=generator)
    return x, torch.randn(size, 4, generator=generator)


def learn(loss, optimizer):
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


@torch.no_grad()
def descend(module):
    for parameter in module.parameters():
        parameter -= 1e-3 * parameter.grad
        parameter.grad = None


def of_module(compile_with, **settings):
    module = Net(**settings)
    call = compile_with(module)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)

    def step(i):
        x, wanted = batch(8)
        return learn(F.mse_loss(call(x), wanted), optimizer)

    return module, step


def of_whole_step(compile_with):
    module = Net()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)

    @compile_with
    def train(x, wanted):
        loss = F.mse_loss(module(x), wanted)
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return module, lambda i: train(*batch(8))


def of_sizes_that_vary(compile_with):
    module = Net()
    call = compile_with(module)
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)

    def step(i):
        x, wanted = batch(2 + i % 13)
        return learn(F.mse_loss(call(x), wanted), optimizer)

    return module, step


def of_second_order(compile_with):
    module = Net()
    call = compile_with(module)
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)

    def step(i):
        x, wanted = batch(8)
        x.requires_grad_()
        result = call(x)
        (slope,) = torch.autograd.grad(result.sum(), x, create_graph=True)
        loss = F.mse_loss(result, wanted) + slope.square().mean()
        return learn(loss, optimizer)

    return module, step


def of_hooks(compile_with):
    module = Net()
    call = compile_with(module)
    seen = []
    module.first.weight.register_hook(lambda gradient: gradient * 0.5)
    module.second.register_full_backward_hook(lambda *given: seen.append(1) or seen.clear())

    def step(i):
        x, wanted = batch(8)
        handle = call.register_forward_hook(lambda *given: None) if i % 100 == 0 else None
        loss = F.mse_loss(call(x), wanted)
        loss.backward()
        if handle:
            handle.remove()
        descend(module)
        return loss

    return module, step


def of_forwards(compile_with):
    """Results that are dropped: nobody asks for most gradients."""
    module = Net()
    call = compile_with(module)

    def step(i):
        x, wanted = batch(8)
        result = call(x)
        loss = F.mse_loss(result, wanted)
        if i % 10 == 0:
            loss.backward()
            descend(module)
        return loss

    return module, step


PROGRAMS = {
    "module": of_module,
    "checkpointed": lambda compile_with: of_module(compile_with, checkpointed=True),
    "whole step": of_whole_step,
    "sizes that vary": of_sizes_that_vary,
    "second order": of_second_order,
    "hooks": of_hooks,
    "forwards": of_forwards,
}


def trained(make, compile_with, steps):
    torch.manual_seed(0)
    module, step = make(compile_with)
    for i in range(steps):
        loss = step(i)
    return module, step, loss.detach()


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_grows(name):
    make = PROGRAMS[name]
    module, step, _ = trained(make, braze.compile, WARM)
    before, objects = resident_mb(), len(gc.get_objects())
    for i in range(WARM, STEPS):
        loss = step(i)
    grown, more = resident_mb() - before, len(gc.get_objects()) - objects
    assert grown < MOST_GROWN_MB and more < 500, (grown, more)
    assert torch.isfinite(loss)


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name):
    make = PROGRAMS[name]
    module, _, loss = trained(make, braze.compile, 200)
    twin, _, wanted = trained(make, lambda call: call, 200)
    torch.testing.assert_close(loss, wanted, rtol=1e-3, atol=1e-4)
    for p, q in zip(module.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-2, atol=1e-3)


def test_eight_threads_train_eight_models():
    names = [*PROGRAMS, "module"]
    wanted = [trained(PROGRAMS[name], lambda call: call, 100)[2] for name in names]
    made, found, raised = [None] * 8, [None] * 8, []
    for i, name in enumerate(names):
        torch.manual_seed(0)
        made[i] = PROGRAMS[name](braze.compile)
    start = threading.Barrier(8)

    def work(i):
        try:
            start.wait()
            for at in range(100):
                found[i] = made[i][1](at).detach()
        except BaseException as error:  # told below, in the thread of the test
            raised.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not raised, raised
    for i in range(8):
        torch.testing.assert_close(found[i], wanted[i], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: (x * 1.0001 + 0.1, y),
        lambda x, y: ((x * x).sqrt(), y),
        lambda x, y: (x + y, (x * y).sigmoid()),
    ],
    ids=["nothing kept", "kept", "several results"],
)
def test_a_long_history_goes_without_a_deep_stack(f):
    fast = braze.compile(f)
    leaf = torch.ones(3, requires_grad=True)

    def work():
        x = y = leaf
        for _ in range(8000):
            x, y = fast(x, y)
        del x, y

    before = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=work)
        fast(leaf, leaf)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
