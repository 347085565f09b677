"""Images rearranged on a GPU: shuffles, windows as columns and their sums, in eager's order."""

import braze
import pytest
import torch
import torch.nn.functional as F


@pytest.fixture(autouse=True)
def enable_grad():
    torch.manual_seed(0)
    with torch.enable_grad():
        yield


def check(call, x):
    seen = []
    for each in (call, braze.compile(call, fullgraph=True)):
        given = x.detach().requires_grad_()
        y = each(given)
        dy = torch.empty_like(y).copy_(torch.arange(y.numel()).reshape(y.shape) % 7 - 3)
        seen.append((y.detach(), torch.autograd.grad(y, given, dy)[0]))
    for a, b in zip(*seen, strict=True):
        assert (a.shape, a.stride(), a.dtype) == (b.shape, b.stride(), b.dtype)
        assert torch.equal(a, b)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize(
    "call",
    [
        lambda x: F.pixel_shuffle(x, 2),
        lambda x: F.pixel_unshuffle(x, 2),
        lambda x: F.channel_shuffle(x, 4),
    ],
    ids=["pixel_shuffle", "pixel_unshuffle", "channel_shuffle"],
)
def test_shuffles(call, dtype, memory_format):
    x = torch.randn(3, 8, 6, 10, device="cuda").to(dtype)
    check(call, x.to(memory_format=memory_format))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "windows",
    [
        dict(kernel_size=3, padding=1),
        dict(kernel_size=2, stride=2),
        dict(kernel_size=(3, 2), padding=1, stride=(2, 3)),
        dict(kernel_size=3, dilation=2, padding=2, stride=2),
        dict(kernel_size=5, stride=4, padding=2),
    ],
    ids=str,
)
def test_windows(windows, dtype):
    x = torch.randn(2, 3, 17, 15, device="cuda").to(dtype)
    check(lambda x: F.unfold(x, **windows), x)
    check(lambda x: F.fold(x, (17, 15), **windows), F.unfold(x, **windows))
