"""Sizes of inputs that require grad, as hidden states between compiled blocks, become symbols."""

import braze
import pytest
import torch
from sizes import count
from torch import nn

WEIGHT = torch.randn(6, dtype=torch.double, requires_grad=True)
LAYER = nn.Linear(6, 6).double()
SIZES = (5, 6, 7, 8, 9, 6)


@pytest.fixture(autouse=True)
def enable_grad():
    with torch.enable_grad():
        yield


def given(size, is_leaf):
    """An input, and the leaf that it is or comes from."""
    generator = torch.Generator().manual_seed(size)
    leaf = torch.randn(size, 6, dtype=torch.double, generator=generator).requires_grad_()
    return (leaf if is_leaf else leaf * 1.5), leaf


def weights():
    return [WEIGHT, *LAYER.parameters()]


def run(function, size, is_leaf, differentiates=True):
    """All that a user sees of a call and the backward behind it, or the exception."""
    x, leaf = given(size, is_leaf)
    for weight in weights():
        weight.grad = None
    try:
        made = function(x)
        results = made if isinstance(made, tuple) else (made,)
        learning = [result for result in results if result.requires_grad]
        if learning and differentiates:
            places = (torch.arange(result.numel()).view(result.shape) for result in learning)
            sum((result * place).sum() for result, place in zip(learning, places)).backward()
    except RuntimeError as error:
        return str(error)
    return {
        "results": [result.detach() for result in results],
        "requires_grad": [result.requires_grad for result in results],
        "is_leaf": [result.is_leaf for result in results],
        "is_input": [result is x for result in results],
        "input": x.detach(),
        "version": x._version,
        "gradient": leaf.grad,
        "gradients": [weight.grad for weight in weights()],
    }


def check(function, is_leaf, compiles=None, **options):
    compiled = braze.compile(function)
    for size in SIZES:
        expected = run(function, size, is_leaf, **options)
        found = run(compiled, size, is_leaf, **options)
        if isinstance(expected, str):
            assert found == expected
        else:
            torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    if compiles is not None:
        assert count(compiled) <= compiles


def two_results(x):
    return x.sin(), (x * WEIGHT).sum()


def detached(x):
    return x.detach() * WEIGHT + x


def attention(x):
    return (x @ x.mT) @ x


def under_no_grad(x):
    with torch.no_grad():
        scale = x.abs().sum()
    return x * scale


@pytest.mark.parametrize("is_leaf", [True, False])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sin() * 2,
        lambda x: x * WEIGHT,
        lambda x: LAYER(x).tanh(),
        two_results,
        detached,
        attention,
        under_no_grad,
        lambda x: x.relu().sum(0),
        lambda x: x.unsqueeze(0) + x[:1],
    ],
)
def test_two_compiles(function, is_leaf):
    check(function, is_leaf, compiles=2)


@pytest.mark.parametrize("is_leaf", [True, False])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x,
        lambda x: x[0],
        lambda x: x.view(-1, 3).relu(),
        lambda x: x.data * WEIGHT,
        lambda x: x * 2 if x.is_leaf else x * 3,
        lambda x: x * 2 if x.grad_fn is None else x * 3,
        lambda x: x * 2 if x.requires_grad else x * 3,
        lambda x: x.detach().requires_grad_() * x,
        lambda x: torch.autograd.grad((x * x * WEIGHT).sum(), x, create_graph=True)[0],
        # Written to: of a leaf, eager's error.
        lambda x: x.mul_(2) + 1,
        lambda x: x.add_(WEIGHT).sum(),
    ],
)
def test_as_eager(function, is_leaf):
    check(function, is_leaf)


def step(x):
    (LAYER(x).tanh() * x).sum().backward()
    return x * 2


def step_that_drops(x):
    x.grad = None
    (x * x * WEIGHT).sum().backward()
    return x.grad * 2


def two_backwards(x):
    y = x.sin()
    y.sum().backward(retain_graph=True)
    return y * 2


def test_backwards_in_the_code():
    check(step, True, compiles=2, differentiates=False)
    check(step_that_drops, True, differentiates=False)
    for is_leaf in (True, False):
        check(step, is_leaf, differentiates=False)
        check(two_backwards, is_leaf)


def forces(x):
    energy = LAYER(x).tanh().sum() * x.pow(2).sum()
    (gradient,) = torch.autograd.grad(energy, x, create_graph=True)
    return energy, gradient


def test_forces():
    check(forces, True, compiles=2)
    check(forces, False)


def test_blocks_that_are_compiled_apart():
    torch.manual_seed(1)
    blocks = [nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True) for _ in range(3)]
    embedding = nn.Embedding(11, 8)
    compiled = [braze.compile(lambda hidden, block=block: block(hidden)) for block in blocks]
    parameters = [*embedding.parameters(), *(p for block in blocks for p in block.parameters())]
    for length in (5, 6, 7, 8, 9, 10, 11, 12, 13, 6):
        tokens = torch.randint(0, 11, (2, length))
        found = []
        for layers in (blocks, compiled):
            hidden = embedding(tokens)
            for layer in layers:
                hidden = layer(hidden)
            found.append(torch.autograd.grad(hidden.square().mean(), parameters))
        torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)
    for block in compiled:
        assert count(block) <= 2
