"""Backwards in stages on a GPU (see training/test_gradient_stages.py)."""

import copy

import braze
import pytest
import torch

WIDTH, MIB = 1024, 1 << 20


@pytest.fixture(autouse=True)
def with_gradients():
    with torch.enable_grad():
        yield


class Layers(torch.nn.Module):
    def __init__(self, count=8):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(count))

    def forward(self, x):
        for layer in self.layers:
            x = torch.nn.functional.gelu(layer(x)) + x
        return x


def pair():
    torch.manual_seed(0)
    model = Layers().cuda()
    return model, copy.deepcopy(model)


def batch(seed, rows=64):
    made = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(rows, WIDTH, generator=made, device="cuda")


def assert_same_parameters(model, twin):
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(q.detach(), p.detach(), rtol=1e-4, atol=1e-5)
        assert (p.grad is None) == (q.grad is None)
        if p.grad is not None:
            torch.testing.assert_close(q.grad, p.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("momentum", [0, 0.9])
def test_an_optimizer_in_hooks_on_a_gpu(mode, momentum):
    models = pair()
    options = {"gradient_stage_bytes": 4 * MIB, "cuda_graphs": mode == "reduce-overhead"}
    calls = [models[0], braze.compile(models[1], options=options)]
    for module in models:
        optimizers = {
            p: torch.optim.SGD([p], lr=0.1, momentum=momentum) for p in module.parameters()
        }

        def step(p, optimizers=optimizers):
            optimizers[p].step()
            optimizers[p].zero_grad()

        for p in module.parameters():
            p.register_post_accumulate_grad_hook(step)
    for seed in range(6):
        losses = []
        for call in calls:
            loss = call(batch(seed)).square().mean()
            loss.backward()
            losses.append(loss.detach())
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-4, atol=1e-5)
        assert_same_parameters(*models)


def test_gradients_that_add_up_with_cuda_graphs():
    models = pair()
    options = {"gradient_stage_bytes": 4 * MIB, "cuda_graphs": True}
    calls = [models[0], braze.compile(models[1], options=options)]
    for module in models:
        for p in module.parameters():
            p.register_post_accumulate_grad_hook(lambda p: None)
    for seed in range(6):
        for call in calls:
            call(batch(seed)).square().mean().backward()
        assert_same_parameters(*models)


def test_a_stream_of_the_users():
    models = pair()
    calls = [models[0], braze.compile(models[1], options={"gradient_stage_bytes": 4 * MIB})]
    for module in models:
        for p in module.parameters():
            p.register_post_accumulate_grad_hook(lambda p: None)
    for seed in range(4):
        for call in calls:
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                call(batch(seed)).square().mean().backward()
            torch.cuda.current_stream().wait_stream(stream)
        assert_same_parameters(*models)


def test_the_peak_of_an_optimizer_in_hooks():
    """The parameters have 32 MiB, and so have all gradients together."""

    def peak(call, module):
        def step(p):
            p.data.sub_(p.grad, alpha=1e-3)
            p.grad = None

        for p in module.parameters():
            p.register_post_accumulate_grad_hook(step)
        for seed in range(3):
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            call(batch(seed)).square().mean().backward()
            torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before

    model, twin = pair()
    whole = copy.deepcopy(model)
    in_eager = peak(model, model)
    at_once = peak(braze.compile(whole, options={"gradient_stage_bytes": 0}), whole)
    in_stages = peak(braze.compile(twin, options={"gradient_stage_bytes": 4 * MIB}), twin)
    assert at_once > 32 * MIB
    assert in_stages < at_once / 2 and in_stages < 2 * in_eager
