"""Images rearranged: shuffles of pixels and channels, windows as columns and back."""

import braze
import pytest
import torch
import torch.nn.functional as F

SHUFFLES = {
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), (2, 8, 3, 5)),
    "pixel_shuffle by 1": (lambda x: F.pixel_shuffle(x, 1), (2, 3, 4, 5)),
    "pixel_shuffle of an image": (lambda x: F.pixel_shuffle(x, 3), (9, 3, 5)),
    "pixel_shuffle of batches": (lambda x: F.pixel_shuffle(x, 2), (2, 3, 4, 3, 5)),
    "pixel_shuffle to one channel": (lambda x: F.pixel_shuffle(x, 2), (3, 4, 3, 5)),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), (2, 3, 4, 6)),
    "pixel_unshuffle to one pixel": (lambda x: F.pixel_unshuffle(x, 3), (2, 2, 3, 3)),
    "pixel_unshuffle of an image": (lambda x: F.pixel_unshuffle(x, 2), (3, 4, 6)),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 2), (2, 6, 3, 5)),
    "channel_shuffle by 1": (lambda x: F.channel_shuffle(x, 1), (2, 6, 3, 5)),
    "channel_shuffle in 1d": (lambda x: F.channel_shuffle(x, 3), (2, 6, 5)),
    "channel_shuffle in 3d": (lambda x: F.channel_shuffle(x, 3), (2, 6, 2, 3, 4)),
}
WINDOWS = {
    "whole": dict(kernel_size=2, stride=2),
    "dense": dict(kernel_size=3, padding=1),
    "wide": dict(kernel_size=(1, 5), padding=(0, 2)),
    "dilated": dict(kernel_size=(2, 3), dilation=(2, 1), padding=(1, 2)),
    "strided": dict(kernel_size=(3, 2), padding=1, stride=(2, 3)),
    "one point": dict(kernel_size=1),
    "of holes": dict(kernel_size=2, stride=3),
    "far": dict(kernel_size=2, dilation=3, padding=2, stride=2),
}


@pytest.fixture(autouse=True)
def enable_grad():
    torch.manual_seed(0)
    with torch.enable_grad():
        yield


def layouts(x):
    yield x
    yield x.transpose(-1, -2).contiguous().transpose(-1, -2)
    yield torch.stack([x, x], -1)[..., 0]
    if x.dim() == 4:
        yield x.to(memory_format=torch.channels_last)


def same(a, b):
    assert (a.shape, a.stride(), a.dtype) == (b.shape, b.stride(), b.dtype)
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    return torch.equal(a.contiguous().view(bits), b.contiguous().view(bits))


def check(call, x):
    fast = braze.compile(call, fullgraph=True)
    seen = []
    for each in (call, fast):
        given = x.detach().requires_grad_()
        y = each(given)
        assert y.data_ptr() != given.data_ptr()
        dy = torch.empty_like(y).copy_(torch.arange(y.numel()).reshape(y.shape) % 7 - 3)
        seen.append((y.detach(), torch.autograd.grad(y, given, dy)[0]))
    for a, b in zip(*seen, strict=True):
        assert same(a, b)


@pytest.mark.parametrize("name", SHUFFLES)
def test_shuffles(name):
    call, sizes = SHUFFLES[name]
    for x in layouts(torch.randn(sizes)):
        check(call, x)


def test_channels_that_are_innermost_in_3d():
    call, sizes = SHUFFLES["channel_shuffle in 3d"]
    check(call, torch.randn(sizes).to(memory_format=torch.channels_last_3d))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["pixel_shuffle", "pixel_unshuffle", "channel_shuffle"])
def test_shuffles_in_other_dtypes(name, dtype):
    call, sizes = SHUFFLES[name]
    check(call, torch.randn(sizes, dtype=dtype))


@pytest.mark.parametrize("name", ["pixel_shuffle", "pixel_unshuffle", "channel_shuffle"])
def test_shuffles_of_integers(name):
    call, sizes = SHUFFLES[name]
    x = torch.randint(-100, 100, sizes)
    assert torch.equal(braze.compile(call, fullgraph=True)(x), call(x))


def test_what_comes_behind_a_shuffle():
    def call(x):
        return F.pixel_shuffle(x * 2, 2).relu().sum(1)

    check(call, torch.randn(2, 8, 3, 5))


def test_a_result_is_no_view_of_its_operand():
    def call(x):
        y = F.pixel_shuffle(x, 1)
        y.add_(1)
        return y

    x = torch.zeros(2, 3, 4, 5)
    assert torch.equal(braze.compile(call, fullgraph=True)(x), torch.ones(2, 3, 4, 5))
    assert torch.equal(x, torch.zeros(2, 3, 4, 5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
@pytest.mark.parametrize("name", WINDOWS)
def test_windows_as_columns(name, dtype):
    for sizes in ((2, 3, 7, 9), (3, 7, 9), (1, 1, 8, 8)):
        for x in layouts(torch.randn(sizes).to(dtype)):
            check(lambda x: F.unfold(x, **WINDOWS[name]), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
@pytest.mark.parametrize("name", WINDOWS)
def test_columns_as_windows(name, dtype):
    for sizes in ((2, 3, 7, 9), (3, 7, 9)):
        columns = F.unfold(torch.randn(sizes), **WINDOWS[name]).to(dtype)
        for x in layouts(columns):
            check(lambda x: F.fold(x, (7, 9), **WINDOWS[name]), x)


def test_zeros_infinities_and_nan_in_windows():
    x = torch.randn(2, 3, 7, 9)
    x[0, 0, 2, 3], x[0, 1, 3, 3], x[1, 2, 0, 0] = float("nan"), float("inf"), -0.0
    columns = F.unfold(x, 3, padding=1)
    assert same(braze.compile(lambda x: F.unfold(x, 3, padding=1), fullgraph=True)(x), columns)
    fold = braze.compile(lambda x: F.fold(x, (7, 9), 3, padding=1), fullgraph=True)
    expected = F.fold(columns, (7, 9), 3, padding=1)
    torch.testing.assert_close(fold(columns), expected, rtol=0, atol=0, equal_nan=True)
    zeros = torch.full((1, 9, 63), -0.0)
    assert same(fold(zeros), F.fold(zeros, (7, 9), 3, padding=1))


@pytest.mark.parametrize("name", ["pixel_shuffle", "pixel_unshuffle", "channel_shuffle"])
def test_sizes_that_vary(name):
    call, sizes = SHUFFLES[name]
    fast = braze.compile(call, fullgraph=True, dynamic=True)
    for batch, height in ((2, 4), (5, 6), (3, 8)):
        x = torch.randn(batch, sizes[1], height, 6)
        assert same(fast(x), call(x))


def test_windows_of_batches_that_vary():
    fast = braze.compile(lambda x: F.unfold(x, 3, padding=1), fullgraph=True, dynamic=True)
    for batch, height in ((2, 4), (5, 6), (3, 8)):
        x = torch.randn(batch, 3, height, 6)
        assert same(fast(x), F.unfold(x, 3, padding=1))
