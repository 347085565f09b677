"""Inputs that are parts of tensors whose sizes vary: strides that are no product of sizes become
symbols, too."""

import braze
import pytest
import torch
from sizes import check, count
from support import same

SIZES = (5, 6, 7, 8, 9, 10, 11, 12, 6)


def parts(take, sizes=SIZES, rank=2, dtype=torch.float32):
    for size in sizes:
        torch.manual_seed(size)
        shape = (3, size, 4)[: rank if rank != 2 else 2]
        yield (take(torch.randn(shape).mul(8).to(dtype)),)


TAKEN = {
    "without_last": lambda x: x[:, :-1],
    "without_first": lambda x: x[:, 1:],
    "every_second": lambda x: x[:, ::2],
    "turned": lambda x: x[:, :-1].T,
    "rows": lambda x: x[::2],
    "corner": lambda x: x[1:, 1:],
}
FUNCTIONS = {
    "points": lambda x: x * 2 + 1,
    "rows": lambda x: x.sum(-1) + x.amax(-1),
    "columns": lambda x: x.sum(0),
    "softmax": lambda x: x.softmax(-1),
    "product": lambda x: x @ x.T,
    "copy": lambda x: x.contiguous() * 2,
    "turned": lambda x: (x.T + 1).T,
    "view": lambda x: x.unsqueeze(1).expand(-1, 2, -1) * 3,
    "flat": lambda x: x.reshape(-1) * 2,
    "same": lambda x: (x, x[:, 1:]),
    "more": lambda x: torch.cat([x, x[:, :2]], 1),
    "layer": lambda x: torch.nn.functional.layer_norm(x, x.shape[1:]),
}


@pytest.mark.parametrize("taken", TAKEN)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_as_eager(function, taken):
    compiled = braze.compile(FUNCTIONS[function])
    for (x,) in parts(TAKEN[taken]):
        same(compiled(x), FUNCTIONS[function](x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("taken", ["without_last", "without_first", "turned", "corner"])
@pytest.mark.parametrize("function", ["points", "rows", "columns", "softmax"])
def test_two_compiles(function, taken):
    check(FUNCTIONS[function], list(parts(TAKEN[taken])), compiles=2)


def test_tokens_of_a_language_model():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Embedding(11, 8), torch.nn.Linear(8, 11))

    def loss(tokens, targets):
        logits = model(tokens)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.reshape(-1))

    compiled = braze.compile(loss)
    with torch.enable_grad():
        for size in SIZES:
            tokens = torch.randint(0, 11, (2, size))
            gradients = []
            for function in (loss, compiled):
                model.zero_grad()
                function(tokens[:, :-1], tokens[:, 1:]).backward()
                gradients.append([parameter.grad for parameter in model.parameters()])
            torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-6)
    assert count(compiled) <= 2


def test_what_is_written_to():
    def write(x):
        x.mul_(2)
        return x.sum()

    compiled = braze.compile(write)
    for size in SIZES:
        found = []
        for function in (write, compiled):
            whole = torch.arange(3.0 * size).view(3, size)
            found.append((function(whole[:, :-1]), whole))
        same(found[1], found[0])


def test_results_in_the_memory_of_an_input():
    def halves(x):
        return x[:, :2], x + 1

    compiled = braze.compile(halves)
    for (x,) in parts(TAKEN["without_last"]):
        first, second = compiled(x)
        assert first.data_ptr() == x.data_ptr() and first.stride() == x.stride()
        same(second, x + 1)


def test_sizes_that_stay_and_strides_that_vary():
    """No size is a symbol: a compile for each stride, up to the limit."""
    for (x,) in parts(lambda x: x[:, :4]):
        same(braze.compile(FUNCTIONS["points"])(x), FUNCTIONS["points"](x))


def test_fewer_dimensions_than_before():
    compiled = braze.compile(FUNCTIONS["points"])
    for size in SIZES:
        x = torch.randn(2, 3, size)[..., :-1]
        same(compiled(x), x * 2 + 1)
    for size in SIZES:
        x = torch.randn(size)
        same(compiled(x), x * 2 + 1)
