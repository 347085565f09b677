"""`torch.func.functional_call` in compiled code: with a backward there, behind it or none at all."""

import copy

import braze
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from comparing import assert_same, assert_same_gradients, captured
from torch.func import functional_call, stack_module_state
from whole_steps import batches, compare, network


def learn_to_learn(inner_steps, first_order=False):
    """Finn et al. 2017, algorithm 1: a few steps on copies of the weights, whose loss trains them."""

    def make(module):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)

        def step(x, y):
            optimizer.zero_grad()
            weights = dict(module.named_parameters())
            for _ in range(inner_steps):
                loss = F.cross_entropy(functional_call(module, weights, (x,)), y)
                given = torch.autograd.grad(
                    loss, list(weights.values()), create_graph=not first_order
                )
                weights = {
                    name: weight - 0.1 * gradient
                    for (name, weight), gradient in zip(weights.items(), given, strict=True)
                }
            loss = F.cross_entropy(functional_call(module, weights, (x,)), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    return make


@pytest.mark.parametrize("inner_steps", (1, 2))
@pytest.mark.parametrize("first_order", (False, True))
def test_inner_loops(inner_steps, first_order):
    compare(learn_to_learn(inner_steps, first_order), rtol=1e-3, atol=1e-5)


def test_parameters_are_those_of_the_module_afterwards():
    module = network().eval()
    own = dict(module.named_parameters())

    def f(x):
        moved = {name: p * 2 for name, p in module.named_parameters()}
        return functional_call(module, moved, (x,))

    x = torch.randn(5, 8)
    wanted, got = f(x), braze.compile(f)(x)
    assert_same(got.detach(), wanted.detach())
    for result in (wanted, got):
        module.zero_grad()
        result.sum().backward()
        result.gradients = [p.grad for p in module.parameters()]
    for a, b in zip(got.gradients, wanted.gradients, strict=True):
        assert_same(a, b)
    assert all(own[name] is p for name, p in module.named_parameters())
    assert captured(f, x)


def test_given_weights_alone_get_gradients():
    module = nn.Linear(4, 3)

    def f(x, weight):
        return functional_call(module, {"weight": weight}, x).square()

    assert_same_gradients(f, torch.randn(2, 4), torch.randn(3, 4, requires_grad=True))
    assert captured(f, torch.randn(2, 4), torch.randn(3, 4, requires_grad=True))


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(2))
        self.norm = nn.BatchNorm1d(2)

    def forward(self, x):
        self.count = self.count + 1
        return self.norm(x) + self.count


def test_buffers():
    """What a module replaces is in the dict that it was given; what it writes to is written."""
    x = torch.randn(6, 2)
    states = []
    for wrap in (lambda f: f, braze.compile):
        torch.manual_seed(0)
        module = Counter()

        def call(x, given):
            return functional_call(module, given, (x,))

        fast = wrap(call)
        answers = []
        for _ in range(3):
            given = {name: b.clone() for name, b in module.named_buffers()}
            held = given["norm.running_mean"]
            answers.append(fast(x, given).detach())
            assert given["norm.running_mean"] is held
            answers.append(dict(given))
            answers.append(fast(x, {}).detach())
        states.append((answers, dict(module.named_buffers())))
    torch.testing.assert_close(states[1], states[0])


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


@pytest.mark.parametrize("tie_weights", (True, False))
def test_tied_weights(tie_weights):
    module = Tied()

    def f(x, weight):
        return functional_call(module, {"first.weight": weight}, (x,), tie_weights=tie_weights)

    tensors = torch.randn(2, 3), torch.randn(3, 3, requires_grad=True)
    assert_same_gradients(f, *tensors)
    assert module.second.weight is module.first.weight


def test_errors_are_those_of_eager():
    module = Tied()
    x, a, b = torch.randn(2, 3), torch.randn(3, 3), torch.randn(3, 3)
    own = module.first.weight

    def several(x):
        return functional_call(module, {"first.weight": a, "second.weight": b}, (x,))

    def incomplete(x):
        return functional_call(module, {"first.weight": a}, (x,), strict=True)

    def missing(x):
        return functional_call(module, {"first.weight": a, "third.weight": b}, (x,))

    def wrong_size(x):
        return functional_call(module, {"first.weight": a[:, :2]}, (x,))

    for f in (several, incomplete, missing, wrong_size):
        errors = []
        for call in (f, braze.compile(f)):
            with pytest.raises(Exception) as caught:
                call(x)
            errors.append((type(caught.value), str(caught.value)))
            assert module.first.weight is own and module.second.weight is own
        assert errors[0] == errors[1]


class Talking(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.seen = []

    def forward(self, x):
        y = self.inner(x)
        self.seen.append(y.sum().item())
        return self.inner(y * 2)


def test_a_break_within():
    module = Talking()
    own = module.inner.weight

    def f(x, weight):
        return functional_call(module, {"inner.weight": weight * 2}, (x,)) + 1

    fast = braze.compile(f)
    for _ in range(3):
        x, weight = torch.randn(2, 3), torch.randn(3, 3)
        wanted, got = f(x, weight), fast(x, weight)
        assert_same(got.detach(), wanted.detach())
        assert abs(module.seen[-1] - module.seen[-2]) < 1e-4
        assert module.inner.weight is own


def test_modules_that_are_stacked():
    modules = [nn.Linear(3, 2) for _ in range(3)]

    def f(x):
        parameters, buffers = stack_module_state(modules)
        outputs = [
            functional_call(modules[0], ({k: p[i] for k, p in parameters.items()}, buffers), (x,))
            for i in range(3)
        ]
        total = torch.stack(outputs).sum()
        return torch.autograd.grad(total, list(parameters.values()))

    x = torch.randn(4, 3)
    for a, b in zip(braze.compile(f)(x), f(x), strict=True):
        assert_same(a, b)
    assert captured(f, x)


def test_the_name_before():
    module = network().eval()
    weights = {name: p.detach() * 2 for name, p in module.named_parameters()}

    def f(x):
        return nn.utils.stateless.functional_call(module, weights, (x,))

    x = batches(1)[0][0]
    with pytest.warns(FutureWarning):
        wanted = f(x)
    with pytest.warns(FutureWarning):
        got = braze.compile(f)(x)
    assert_same(got.detach(), wanted.detach())


def test_parametrized_weights():
    """Of a value in the place of the weight that the parametrization gives, or of its original."""
    module = nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))
    twin = copy.deepcopy(module)
    names = [name for name, _ in module.named_parameters()]

    def make(module):
        def f(x):
            moved = {name: p * 1.5 for name, p in module.named_parameters()}
            loss = functional_call(module, moved, (x,)).square().mean()
            loss.backward()
            return loss.detach()

        return f

    x = torch.randn(4, 3)
    assert_same(braze.compile(make(twin))(x), make(module)(x))
    for p, q in zip(module.parameters(), twin.parameters(), strict=True):
        assert_same(q.grad, p.grad)
    assert [name for name, _ in twin.named_parameters()] == names
