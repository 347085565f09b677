"""Steps of training that are compiled as a whole: forward, backward, optimizer."""

import copy
import gc
import re
import weakref

import braze
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from comparing import assert_same, captured
from torch.utils.checkpoint import checkpoint
from whole_steps import batches, compare, loss_of, network

OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01),
    "Adam, not foreach": lambda p: torch.optim.Adam(p, lr=0.01, foreach=False),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_step(name):
    def make(module):
        optimizer = OPTIMIZERS[name](module.parameters())

        def step(x, y):
            optimizer.zero_grad()
            loss = loss_of(module, x, y)
            loss.backward()
            optimizer.step()
            return loss

        return step

    compare(make, rtol=1e-4, atol=1e-5)


def test_gradients_that_never_leave_the_step():
    def make(module):
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.01)

        def step(x, y):
            loss = loss_of(module, x, y)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(module.parameters(), 0.1)
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach(), norm

        return step

    compare(make, rtol=1e-4, atol=1e-5)


def test_zero_grad_between_forward_and_backward():
    def make(module):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)

        def step(x, y):
            logits = module(x)
            optimizer.zero_grad()
            loss = F.cross_entropy(logits, y)
            loss.backward()
            optimizer.step()
            return loss.detach(), logits

        return step

    compare(make)


@pytest.mark.parametrize("set_to_none", (True, False))
def test_zero_grad_of_a_module(set_to_none):
    def make(module):
        def step(x, y):
            module.zero_grad(set_to_none)
            loss_of(module, x, y).backward()

        return step

    compare(make, whole=set_to_none)


def test_gradients_are_accumulated_in_place():
    module = network()

    def step(x, y):
        loss_of(module, x, y).backward()

    twin = copy.deepcopy(module)
    fast = braze.compile(lambda x, y: loss_of(twin, x, y).backward())
    for number, batch in enumerate(batches()):
        torch.manual_seed(number)
        step(*batch)
        torch.manual_seed(number)
        before = [p.grad for p in twin.parameters()]
        fast(*batch)
        for p, q, grad in zip(module.parameters(), twin.parameters(), before, strict=True):
            assert q.grad is grad or grad is None
            assert q.grad._version == p.grad._version
            assert_same(q.grad, p.grad)


def test_micro_batches_in_a_loop():
    def make(module):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)

        def step(x, y):
            optimizer.zero_grad(set_to_none=True)
            total = 0
            for part, labels in zip(x.chunk(5), y.chunk(5)):
                loss = loss_of(module, part, labels) / 5
                loss.backward()
                total = total + loss.detach()
            optimizer.step()
            return total

        return step

    compare(make, rtol=1e-4, atol=1e-5)


def test_two_models_and_two_optimizers():
    """A step of a generative adversarial network (Goodfellow et al. 2014, algorithm 1)."""

    def make(module):
        maker, judge = module
        of_maker = torch.optim.Adam(maker.parameters(), lr=1e-3, betas=(0.5, 0.999))
        of_judge = torch.optim.Adam(judge.parameters(), lr=1e-3, betas=(0.5, 0.999))
        ones, zeros = torch.ones(6, 1), torch.zeros(6, 1)

        def step(real, noise):
            of_judge.zero_grad()
            made = maker(noise)
            loss = F.binary_cross_entropy_with_logits(judge(real), ones)
            loss = loss + F.binary_cross_entropy_with_logits(judge(made.detach()), zeros)
            loss.backward()
            of_judge.step()
            of_maker.zero_grad()
            deceit = F.binary_cross_entropy_with_logits(judge(made), ones)
            deceit.backward()
            of_maker.step()
            return loss.detach(), deceit.detach()

        return step

    def layers(before, after):
        return nn.Sequential(nn.Linear(before, 16), nn.LeakyReLU(0.2), nn.Linear(16, after))

    torch.manual_seed(0)
    module = nn.ModuleList([layers(4, 8), layers(8, 1)])
    data = [(torch.randn(6, 8), torch.randn(6, 4)) for _ in range(4)]
    compare(make, module, data, whole=False, rtol=1e-3, atol=1e-5)
    step = make(copy.deepcopy(module))
    step(*data[0])  # makes the optimizers' state
    assert captured(step, *data[1])


def test_weights_and_state_are_written_in_place():
    """After all that may refuse its data, such as a label out of range."""
    module = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16))
    optimizer = torch.optim.AdamW(module.parameters())

    @braze.compile
    def step(x, y):
        optimizer.zero_grad()
        loss = loss_of(module, x, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    x, y = torch.randn(8, 32), torch.randint(0, 16, (8,))
    step(x, y)
    (entry,) = braze.explain(step)(x, y).entries
    inputs = re.search(r"function\((.*)\) arena", entry["plan"]).group(1)
    copied = re.findall(r"copy (s\d+) <-", entry["plan"])
    large = [slot for slot in copied if re.search(rf"\b{slot}: f32\[\d+, \d+\]", inputs)]
    assert "f32[64, 32]" in inputs and large == [], entry["plan"]

    before = copy.deepcopy((module.state_dict(), optimizer.state_dict()))
    with pytest.raises(IndexError):
        step(x, torch.full_like(y, 16))
    after = module.state_dict(), optimizer.state_dict()
    torch.testing.assert_close(after, before, rtol=0, atol=0)


def test_checkpoints_in_a_step():
    def make(module):
        first, last = module[:3], module[4]

        def step(x, y):
            module.zero_grad()
            loss = F.cross_entropy(last(checkpoint(first, x, use_reentrant=False)), y)
            loss.backward()
            return loss.detach()

        return step

    compare(make)


def penalty(module):
    """A gradient penalty (Gulrajani et al. 2017, section 4)."""

    def step(x, y):
        module.zero_grad()
        x = x.detach().clone().requires_grad_()
        (slope,) = torch.autograd.grad(module[4](module[:3](x)).sum(), x, create_graph=True)
        loss = (slope.norm(2, 1) - 1).square().mean()
        loss.backward()
        return loss, slope.detach(), x.grad

    return step


def meta_learning(module):
    """One inner step (Finn et al. 2017, algorithm 1)."""

    def step(x, y):
        module.zero_grad()
        weights = dict(module.named_parameters())

        def run(weights):
            hidden = F.gelu(F.linear(x, weights["0.weight"], weights["0.bias"]))
            hidden = F.layer_norm(hidden, (16,), weights["2.weight"], weights["2.bias"])
            return F.cross_entropy(F.linear(hidden, weights["4.weight"], weights["4.bias"]), y)

        given = torch.autograd.grad(run(weights), list(weights.values()), create_graph=True)
        moved = {name: w - 0.1 * g for (name, w), g in zip(weights.items(), given)}
        loss = run(moved)
        loss.backward()
        return loss.detach()

    return step


def hessian_vector_product(module):
    def step(x, y):
        parameters = [p for p in module.parameters()]
        loss = F.cross_entropy(module[4](module[:3](x)), y)
        first = torch.autograd.grad(loss, parameters, create_graph=True)
        along = sum((g * torch.ones_like(g)).sum() for g in first)
        return torch.autograd.grad(along, parameters)

    return step


def forces(module):
    """Energies and forces, both with a loss."""

    def step(x, y):
        module.zero_grad()
        places = x.clone().requires_grad_()
        energy = module[4](module[:3](places)).square().sum(1)
        pull = -torch.autograd.grad(energy.sum(), places, create_graph=True)[0]
        loss = (energy - y).square().mean() + pull.square().mean()
        loss.backward()
        return loss.detach(), pull.detach()

    return step


@pytest.mark.parametrize("make", (penalty, meta_learning, hessian_vector_product, forces))
def test_gradients_of_gradients(make):
    compare(make, rtol=1e-4, atol=1e-5)


def test_gradients_of_the_step_before_go_before_those_of_the_next_come():
    module = network().eval()

    def step(x, y):
        module.zero_grad()
        loss_of(module, x, y).backward()

    fast = braze.compile(step)
    for batch in batches(2):
        fast(*batch)
    old = [weakref.ref(p.grad) for p in module.parameters()]
    fast(*batches()[0])
    gc.collect()
    assert all(ref() is None for ref in old)
    held = module[0].weight.grad
    copied = held.clone()
    fast(*batches(3)[2])
    assert module[0].weight.grad is not held
    torch.testing.assert_close(held, copied, rtol=0, atol=0)


@pytest.mark.parametrize("zero_first", (True, False))
def test_a_label_out_of_range_leaves_what_eager_leaves(zero_first):
    def make(module):
        def step(x, y):
            if zero_first:
                module.zero_grad()
            logits = module(x)
            if not zero_first:
                loss = F.cross_entropy(logits, y)
                module.zero_grad()
            else:
                loss = F.cross_entropy(logits, y)
            loss.backward()

        return step

    seen = []
    for wrap in (lambda f: f, braze.compile):
        module = network().eval()
        call = wrap(make(module))
        call(*batches()[0])
        x, y = batches()[1]
        with pytest.raises(IndexError):
            call(x, torch.full_like(y, 7))
        seen.append([p.grad for p in module.parameters()])
        call(x, y)
        seen[-1] += [p.grad for p in module.parameters()]
    for a, b in zip(*seen, strict=True):
        assert_same(a, b)


def test_autocast():
    def make(module):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)

        def step(x, y):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = loss_of(module, x, y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    compare(make, rtol=2e-2, atol=2e-2)


def test_what_follows_a_break_goes_on():
    def make(module):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        history = []

        def step(x, y):
            optimizer.zero_grad()
            loss = loss_of(module, x, y)
            loss.backward()
            optimizer.step()
            history.append(loss.item())
            return history[-1]

        return step

    compare(make, whole=False)


def test_sizes_that_vary():
    def make(module):
        def step(x, y):
            module.zero_grad()
            loss = loss_of(module.eval(), x, y)
            loss.backward()
            return loss.detach()

        return step

    data = [batches(1, rows)[0] for rows in (5, 6, 7, 3, 8)]
    compare(make, data=data, whole=False)
