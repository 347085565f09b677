"""A convolution's bias, which kernels of Braze's add and sum the gradient of."""

import braze
import pytest
import torch
import torch.nn as nn


@pytest.fixture(autouse=True)
def enable_grad():
    torch.manual_seed(0)
    with torch.enable_grad():
        yield


LAYERS = {
    "1d": (lambda: nn.Conv1d(8, 16, 3, padding=1), (3, 8, 33)),
    "2d": (lambda: nn.Conv2d(8, 16, 3, stride=2), (3, 8, 17, 13)),
    "3d": (lambda: nn.Conv3d(8, 6, 3, padding=1), (2, 8, 5, 7, 6)),
    "one point": (lambda: nn.Conv2d(8, 16, 1), (3, 8, 9, 9)),
    "one pixel": (lambda: nn.Conv2d(8, 16, 3), (3, 8, 3, 3)),
    "groups": (lambda: nn.Conv2d(8, 16, 3, groups=4), (3, 8, 9, 9)),
    "depthwise": (lambda: nn.Conv2d(8, 8, 3, groups=8), (3, 8, 9, 9)),
    "dilated": (lambda: nn.Conv2d(8, 16, 3, dilation=2), (3, 8, 12, 9)),
    "transposed 1d": (lambda: nn.ConvTranspose1d(8, 16, 2, stride=2), (3, 8, 15)),
    "transposed 2d": (lambda: nn.ConvTranspose2d(8, 16, 3, groups=2), (3, 8, 7, 9)),
    "transposed 3d": (lambda: nn.ConvTranspose3d(8, 4, 2, stride=2), (2, 8, 3, 4, 5)),
}


def innermost(x):
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return x.to(memory_format=formats[x.dim()]) if x.dim() in formats else x


def results(call, layer, x):
    layer.zero_grad()
    x = x.clone().requires_grad_(x.requires_grad)
    y = call(x)
    y.float().pow(2).mean().backward()
    grads = [x.grad, layer.weight.grad, layer.bias.grad]
    return [y.detach()] + [None if g is None else g.clone() for g in grads]


def expect_same(eager, fast):
    for a, b in zip(eager, fast, strict=True):
        assert (a is None) == (b is None)
        if a is None:
            continue
        assert (a.shape, a.stride(), a.dtype) == (b.shape, b.stride(), b.dtype)
        bound = 2e-3 if a.dtype == torch.float32 else 1e-2
        torch.testing.assert_close(a, b, rtol=bound, atol=bound * a.abs().max().item())


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_forward_and_backward(name, dtype, channels_last):
    make, sizes = LAYERS[name]
    layer = make().cuda().to(dtype)
    x = torch.randn(sizes, device="cuda", dtype=dtype)
    if channels_last:
        x = innermost(x)
        layer.weight.data = innermost(layer.weight.data)
    x.requires_grad_()

    def call(x):
        return torch.relu(layer(x) * 1.5)

    expect_same(results(call, layer, x), results(braze.compile(call, fullgraph=True), layer, x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("of_input, of_weight", [(False, False), (True, False), (False, True)])
def test_gradients_that_are_wanted(dtype, of_input, of_weight):
    layer = nn.Conv2d(8, 16, 3, padding=1).cuda().to(dtype)
    layer.weight.requires_grad_(of_weight)
    x = torch.randn(4, 8, 16, 16, device="cuda", dtype=dtype, requires_grad=of_input)

    def call(x):
        return nn.functional.silu(layer(x))

    expect_same(results(call, layer, x), results(braze.compile(call, fullgraph=True), layer, x))


def test_batches_that_vary():
    layer = nn.Conv2d(8, 16, 3, padding=1).cuda()
    call = braze.compile(lambda x: torch.relu(layer(x)), fullgraph=True, dynamic=True)
    for batch in (2, 5, 3):
        x = torch.randn(batch, 8, 9, 9, device="cuda", requires_grad=True)
        expect_same(results(lambda x: torch.relu(layer(x)), layer, x), results(call, layer, x))


def test_halves_are_rounded_before_the_bias_is_added():
    layer = nn.Conv2d(4, 4, 1).cuda().half()
    with torch.no_grad():
        layer.weight.copy_(torch.eye(4).reshape(4, 4, 1, 1) * 1.0009765625)
        layer.bias.fill_(-1)
    x = torch.full((2, 4, 8, 8), 1.0009765625, device="cuda", dtype=torch.float16)
    call = braze.compile(lambda x: layer(x) * 1024, fullgraph=True)
    assert torch.equal(call(x), layer(x) * 1024)


def test_a_result_that_is_returned_and_read():
    layer = nn.Conv2d(8, 16, 3).cuda()
    x = torch.randn(2, 8, 9, 9, device="cuda")

    def call(x):
        y = layer(x)
        return y, y.relu()

    for a, b in zip(call(x), braze.compile(call, fullgraph=True)(x), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)
