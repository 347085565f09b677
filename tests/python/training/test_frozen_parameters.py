"""`requires_grad` of parameters, changed within a compiled step, and `detach_()`."""

import braze
import pytest
import torch
import torch.nn.functional as F
from comparing import assert_same, assert_same_state, captured
from whole_steps import batches, compare, loss_of, network


def by_method(parameters, value):
    for p in parameters:
        assert p.requires_grad_(value) is p


def by_attribute(parameters, value):
    for p in parameters:
        p.requires_grad = value
        assert p.requires_grad == value


@pytest.mark.parametrize("switch", (by_method, by_attribute))
def test_frozen_for_a_step(switch):
    def make(module):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)

        def step(x, y):
            switch(module[0].parameters(), False)
            optimizer.zero_grad()
            loss = loss_of(module, x, y)
            loss.backward()
            optimizer.step()
            switch(module[0].parameters(), True)
            return loss.detach()

        return step

    compare(make)


def test_frozen_for_good_and_thawed():
    """Each call leaves what the next one finds."""

    def make(module):
        def step(x, y):
            module.zero_grad()
            loss_of(module, x, y).backward()
            module[4].requires_grad_(not module[4].bias.requires_grad)

        return step

    module, twin = network().eval(), network().eval()
    step, fast = make(module), braze.compile(make(twin))
    for batch in batches(5):
        step(*batch)
        fast(*batch)
        flags = [p.requires_grad for p in module.parameters()]
        assert [p.requires_grad for p in twin.parameters()] == flags
        assert_same_state(module, twin)
    assert captured(make(twin), *batches()[0])


def test_thawed_for_a_step():
    def make(module):
        module[0].requires_grad_(False)

        def step(x, y):
            module.zero_grad()
            module[0].requires_grad_(True)
            loss_of(module, x, y).backward()
            module[0].requires_grad_(False)

        return step

    compare(make)


def test_frozen_between_forward_and_backward():
    """Such a parameter gets no gradient, though the loss has been computed from it."""

    def make(module):
        def step(x, y):
            module.zero_grad()
            loss = loss_of(module, x, y)
            module[0].weight.requires_grad_(False)
            loss.backward()
            module[0].weight.requires_grad_(True)
            assert module[0].weight.grad is None

        return step

    compare(make)


def test_a_generator_learns_while_its_judge_is_frozen():
    def make(module):
        def step(x, y):
            module[4].requires_grad_(False)
            loss = loss_of(module, x, y)
            loss.backward()
            module[4].requires_grad_(True)
            module.zero_grad(set_to_none=True)
            other = loss_of(module, x.neg(), y)
            other.backward()
            return loss.detach(), other.detach()

        return step

    compare(make)


def test_results_that_require_grad():
    """Their history is made as in eager, behind a break or without the compiler."""
    module = network().eval()

    def f(x):
        module[0].requires_grad_(False)
        hidden = module[0](x)
        module[0].requires_grad_(True)
        return module[4](module[2](F.gelu(hidden))), module[0](x * 2)

    x = batches()[0][0]
    kept = []
    for call in (f, braze.compile(f)):
        for _ in range(2):
            module.zero_grad()
            first, second = call(x)
            (first.sum() + second.square().sum()).backward()
        kept.append([first.detach(), *(p.grad for p in module.parameters())])
    for a, b in zip(*kept, strict=True):
        assert_same(b, a)


def test_what_eager_refuses():
    def of_no_leaf(x):
        y = x * 2
        y.requires_grad_(False)

    def of_integers(x):
        torch.arange(3).requires_grad_()

    def of_outside_integers(x):
        integers.requires_grad = True

    def written(x):
        plain.requires_grad_()
        plain.add_(1)

    integers, plain = torch.arange(3), torch.ones(2)
    x = torch.ones(3, requires_grad=True)
    for f in (of_no_leaf, of_integers, of_outside_integers, written):
        errors = []
        for call in (f, braze.compile(f)):
            plain = torch.ones(2)
            with pytest.raises(RuntimeError) as caught:
                call(x)
            errors.append(str(caught.value))
        assert errors[0] == errors[1]
        assert not integers.requires_grad and plain.requires_grad == (f is written)


def test_an_exception_behind_a_change():
    module = network()

    def f(x):
        module[0].requires_grad_(False)
        if x.shape[0] > 3:
            raise ValueError("many")
        module[0].requires_grad_(True)
        return module(x).detach()

    fast = braze.compile(f)
    with pytest.raises(ValueError, match="many"):
        fast(torch.randn(5, 8))
    assert not module[0].weight.requires_grad
    fast(torch.randn(2, 8))
    assert module[0].weight.requires_grad


def test_detached_in_place():
    def make(module):
        def step(x, y):
            module.zero_grad()
            hidden = module[0](x)
            assert hidden.detach_() is hidden and hidden.is_leaf and not hidden.requires_grad
            loss = F.cross_entropy(module[4](F.gelu(hidden)), y)
            loss.backward()
            return loss.detach_(), hidden

        return step

    compare(make)


def test_a_detached_part_of_results_that_require_grad():
    module = network().eval()

    def f(x):
        hidden = module[0](x)
        hidden.detach_()
        return module[4](F.gelu(hidden))

    x = batches()[0][0]
    kept = []
    for call in (f, braze.compile(f)):
        module.zero_grad()
        result = call(x)
        result.square().sum().backward()
        kept.append([result.detach(), *(p.grad for p in module.parameters())])
    for a, b in zip(*kept, strict=True):
        assert_same(b, a)


def test_parameters_that_are_detached():
    module = network()

    def f(x):
        module[0].weight.detach_()
        return module[0](x).detach()

    fast = braze.compile(f)
    version = module[0].weight._version
    for _ in range(2):
        fast(batches()[0][0])
        assert not module[0].weight.requires_grad
        module[0].weight.requires_grad_(True)
    assert module[0].weight._version == version
