"""How convolutions and their gradients lie in memory on a GPU, which a trace has to know."""

import time

import braze
import pytest
import torch
import torch.nn as nn


@pytest.fixture(autouse=True)
def _gradients():
    torch.manual_seed(0)
    with torch.enable_grad():
        yield


LAYERS = {
    "depthwise": lambda: nn.Conv2d(32, 32, 7, padding=3, groups=32),
    "depthwise strided": lambda: nn.Conv2d(32, 32, 3, padding=1, groups=32, stride=2),
    "grouped": lambda: nn.Conv2d(32, 64, 3, groups=4),
    "one point": lambda: nn.Conv2d(32, 16, 1),
    "one channel": lambda: nn.Conv2d(32, 1, 3),
    "to one point": lambda: nn.Conv2d(32, 8, 14),
    "transposed": lambda: nn.ConvTranspose2d(32, 16, 2, stride=2),
}


@pytest.mark.parametrize("size", [14, 1])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_layouts_are_eagers(name, dtype, memory_format, size):
    layer = LAYERS[name]().cuda().to(dtype)
    if size == 1 and name in ("grouped", "one channel", "to one point"):
        layer.padding = tuple((k - 1) // 2 + 1 for k in layer.kernel_size)
    x = torch.randn(4, 32, size, size, device="cuda", dtype=dtype)
    x = x.to(memory_format=memory_format)
    layer = layer.to(memory_format=memory_format)
    fast = braze.compile(layer, fullgraph=True)
    seen = []
    for call in (layer, fast):
        layer.zero_grad()
        given = x.clone().requires_grad_()
        y = call(given)
        y.float().pow(2).sum().backward()
        seen.append([y.detach(), given.grad, layer.weight.grad, layer.bias.grad])
    for a, b in zip(*seen, strict=True):
        assert (a.shape, a.stride(), a.dtype) == (b.shape, b.stride(), b.dtype)
        torch.testing.assert_close(a, b, rtol=2e-2, atol=2e-2 * a.abs().max().item())


def test_no_kernel_of_the_cpu_runs_in_a_trace():
    # A depthwise gradient in halves took oneDNN seconds, for its layout alone.
    layer = nn.Conv2d(384, 384, 7, padding=3, groups=384).cuda().half()
    x = torch.randn(32, 384, 14, 14, device="cuda", dtype=torch.float16)
    x = x.to(memory_format=torch.channels_last).requires_grad_()
    call = braze.compile(lambda x: layer(x).float().sum(), fullgraph=True)
    layer(x).float().sum().backward()
    start = time.perf_counter()
    call(x)
    entry = braze._api.compiled_function_of(call)._entries()[0]
    assert entry["seconds"]["capture"] + entry["seconds"]["trace"] < 0.2
    assert time.perf_counter() - start < 30
