"""options={"activation_memory": bytes}: less is kept for a backward, and made again."""

import braze
import pytest
import torch
from torch import nn

MIB = 2**20


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(256)
        self.up = nn.Linear(256, 1024)
        self.down = nn.Linear(1024, 256)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def blocks():
    torch.manual_seed(0)
    return nn.Sequential(*(Block() for _ in range(8)))


def peak_of_a_step(model, x, budget):
    """Of tensors, in bytes: the call and its backward, with the gradients that it makes."""
    compiled = braze.compile(model, options={"activation_memory": budget})

    def step():
        compiled(x).square().mean().backward()

    step()
    model.zero_grad()
    _, peak, _ = braze._C.measure_memory(step)
    model.zero_grad()
    return peak


def test_peaks_fall_with_the_budget():
    model, x = blocks(), torch.randn(2048, 256)
    peaks = [peak_of_a_step(model, x, budget * MIB) for budget in range(130, 19, -11)]
    assert len(peaks) == 11
    for higher, lower in zip(peaks, peaks[1:], strict=False):
        assert lower <= 1.02 * higher, peaks
    assert peaks[-1] < 0.8 * peaks[0], peaks


def gradients(model, call, x):
    model.zero_grad()
    loss = call(x).square().mean()
    loss.backward()
    return [loss.detach(), *(p.grad for p in model.parameters())]


@pytest.mark.parametrize("budget", [0, 4 * MIB, 10 * MIB, 2**62])
def test_gradients_are_the_same(budget):
    model, x = blocks(), torch.randn(64, 256)
    expected = gradients(model, model, x)
    compiled = braze.compile(model, fullgraph=True, options={"activation_memory": budget})
    for _ in range(2):
        torch.testing.assert_close(gradients(model, compiled, x), expected)


@pytest.mark.parametrize("budget", [0, MIB])
def test_whole_steps(budget):
    model, x = blocks(), torch.randn(64, 256)
    expected = gradients(model, model, x)

    def step(x):
        return gradients(model, model, x)

    compiled = braze.compile(step, fullgraph=True, options={"activation_memory": budget})
    torch.testing.assert_close(compiled(x), expected)


def test_dropout_draws_once():
    model = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5), nn.Tanh(), nn.Linear(64, 64))
    x = torch.randn(32, 64)
    compiled = braze.compile(model, fullgraph=True, options={"activation_memory": 0})
    torch.manual_seed(3)
    expected = gradients(model, model, x)
    state = torch.get_rng_state()
    torch.manual_seed(3)
    torch.testing.assert_close(gradients(model, compiled, x), expected)
    assert torch.equal(torch.get_rng_state(), state)


def test_statistics_are_updated_once():
    def build():
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8)
        )

    x = torch.randn(4, 3, 16, 16)
    eager, model = build(), build()
    compiled = braze.compile(model, fullgraph=True, options={"activation_memory": 0})
    for _ in range(2):
        torch.testing.assert_close(gradients(model, compiled, x), gradients(eager, eager, x))
    torch.testing.assert_close(dict(model.named_buffers()), dict(eager.named_buffers()))


def test_results_of_the_user_are_not_made_again():
    w = torch.randn(64, 64, requires_grad=True)

    def model(x):
        hidden = torch.tanh(x @ w)
        return hidden, hidden @ w

    x = torch.randn(32, 64)
    hidden, out = braze.compile(model, options={"activation_memory": 0})(x)
    with torch.no_grad():
        hidden.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_sizes_that_vary():
    model = blocks()
    compiled = braze.compile(model, dynamic=True, options={"activation_memory": MIB})
    for rows in (64, 32, 48):
        x = torch.randn(rows, 256)
        expected = gradients(model, model, x)
        torch.testing.assert_close(gradients(model, compiled, x), expected)


def test_checkpoints_stay_made_again():
    block = blocks()

    def model(x):
        return torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)

    x = torch.randn(64, 256)
    expected = gradients(block, model, x)
    compiled = braze.compile(model, options={"activation_memory": MIB})
    torch.testing.assert_close(gradients(block, compiled, x), expected)


def test_second_gradients():
    w = torch.randn(16, 16, dtype=torch.float64, requires_grad=True)

    def model(x):
        return torch.tanh(torch.tanh(x @ w) @ w).square().sum()

    def penalty(call):
        x = torch.linspace(-1, 1, 64, dtype=torch.float64).view(4, 16).requires_grad_()
        (slope,) = torch.autograd.grad(call(x), x, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), [x, w])

    compiled = braze.compile(model, options={"activation_memory": 0})
    torch.testing.assert_close(penalty(compiled), penalty(model))


@pytest.mark.parametrize("budget", [-1, 0.5, True, "2GB"])
def test_what_is_no_number_of_bytes(budget):
    with pytest.raises(ValueError, match="activation_memory must be a number of bytes"):
        braze.compile(blocks(), options={"activation_memory": budget})


def test_the_same_function_with_and_without():
    model, x = blocks(), torch.randn(64, 256)
    plain = braze.compile(model)
    small = braze.compile(model, options={"activation_memory": 0})
    expected = gradients(model, plain, x)
    torch.testing.assert_close(gradients(model, small, x), expected)
    torch.testing.assert_close(gradients(model, plain, x), expected)
