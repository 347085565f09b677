"""Training under mode="reduce-overhead": gradients, steps and random numbers as in eager."""

import copy

import pytest
import torch
from graphs import DEVICE, Net, counts, fast, recording, tensor

_recording = pytest.fixture(autouse=True)(recording)


def train(model, call, steps, accumulate=1, set_to_none=True, lr=0.01):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    losses = []
    for step in range(steps):
        for part in range(accumulate):
            x = tensor(8, 16, seed=step * 10 + part)
            loss = -call(x)[:, part].mean() / accumulate
            loss.backward()
            losses.append(loss.detach().clone())
        optimizer.step()
        optimizer.zero_grad(set_to_none=set_to_none)
    return torch.stack(losses)


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("accumulate", [1, 2, 4])
def test_gradients_accumulate(accumulate, set_to_none):
    torch.manual_seed(0)
    model = Net().to(DEVICE)
    twin = copy.deepcopy(model)
    call = fast(model)
    got = train(model, call, 10, accumulate, set_to_none)
    expected = train(twin, twin, 10, accumulate, set_to_none)
    torch.testing.assert_close(got, expected)
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a, b)
    assert counts(call)[1] > 0 and counts(call, "backward_cuda_graphs")[1] > 0


def test_a_gradient_of_one_is_one():
    # torch.compile with CUDA graphs has given 0.25 here.
    p = torch.ones(8, device=DEVICE, requires_grad=True)
    call = fast(lambda p: (p * 2).sin().cos().sum() * 0 + p.sum())
    for _ in range(6):
        p.grad = None
        for _ in range(4):
            (call(p) / 4).backward()
        torch.testing.assert_close(p.grad, torch.ones_like(p))


def test_forwards_before_their_backwards():
    torch.manual_seed(0)
    model = Net().to(DEVICE)
    twin = copy.deepcopy(model)
    call = fast(model)
    for step in range(6):
        xs = [tensor(8, 16, seed=step * 10 + i) for i in range(3)]
        got = [call(x).sum() for x in xs]
        expected = [twin(x).sum() for x in xs]
        for a, b in zip(reversed(got), reversed(expected), strict=True):
            a.backward()
            b.backward()
        for a, b in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad)


def test_backward_twice():
    torch.manual_seed(0)
    model = Net().to(DEVICE)
    twin = copy.deepcopy(model)
    call = fast(model)
    for step in range(6):
        x = tensor(8, 16, seed=step)
        for net, run in ((model, call), (twin, twin)):
            net.zero_grad()
            loss = run(x).sum()
            loss.backward(retain_graph=True)
            loss.backward()
        for a, b in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad)


def test_dropout_in_training():
    torch.manual_seed(0)
    model = Net(0.5).to(DEVICE)
    twin = copy.deepcopy(model)
    torch.manual_seed(1)
    got = train(model, fast(model), 10)
    torch.manual_seed(1)
    torch.testing.assert_close(got, train(twin, twin, 10))


def test_a_whole_step():
    def make():
        torch.manual_seed(0)
        model = Net().to(DEVICE)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))

        def step(x):
            loss = model(x)[:, 0].mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        return step, scheduler

    (step, scheduler), (twin, twin_scheduler) = make(), make()
    call = fast(step)
    for seed in range(12):
        x = tensor(8, 16, seed=seed)
        torch.testing.assert_close(call(x), twin(x))
        scheduler.step()
        twin_scheduler.step()


def test_what_one_graph_computes_with_is_no_result_of_another():
    torch.manual_seed(0)
    model = Net().to(DEVICE)
    twin = copy.deepcopy(model)
    call = fast(model)
    for step in range(8):
        for part in range(3):
            x = tensor(8, 16, seed=step * 10 + part)
            for run in (call, twin):
                (-run(x)[:, part].mean()).backward()
            for a, b in zip(model.parameters(), twin.parameters(), strict=True):
                torch.testing.assert_close(a.grad, b.grad)
        model.zero_grad()
        twin.zero_grad()


def test_gradients_of_convolutions_of_one_pixel():
    # Their weights have channels innermost and outermost alike: the gradient is a view.
    torch.manual_seed(0)
    dtype = torch.float16 if DEVICE == "cuda" else torch.float32
    model = torch.nn.Sequential(
        torch.nn.Conv2d(8, 32, 3, bias=False),
        torch.nn.ReLU(),
        torch.nn.Conv2d(32, 32, 1, bias=False),
        torch.nn.ReLU(),
        torch.nn.Conv2d(32, 8, 3),
    ).to(DEVICE, dtype)
    twin = copy.deepcopy(model)
    call = fast(model)
    x = tensor(4, 8, 16, 16).to(dtype)
    for _ in range(6):
        for net, run in ((model, call), (twin, twin)):
            net.zero_grad()
            run(x).float().square().mean().backward()
        for a, b in zip(model.parameters(), twin.parameters(), strict=True):
            assert a.grad.stride() == b.grad.stride()
            torch.testing.assert_close(a.grad, b.grad, rtol=2e-2, atol=2e-4)
    assert counts(call, "backward_cuda_graphs")[1] > 0, call
