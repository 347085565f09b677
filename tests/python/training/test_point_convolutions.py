"""Convolutions with windows of one point, which are products where that is faster."""

import braze
import pytest
import torch
import torch.nn.functional as F

SIZES = {1: (70,), 2: (9, 11), 3: (3, 5, 7)}
CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def made(dims, batch=3, channels=24, outputs=40, last=False, dtype=torch.float32):
    generator = torch.Generator().manual_seed(dims)

    def draw(*sizes):
        return torch.randn(*sizes, generator=generator, dtype=dtype)

    x = draw(batch, channels, *SIZES[dims])
    weight, bias = draw(outputs, channels, *[1] * dims), draw(outputs)
    if last:
        x = x.to(memory_format=torch.channels_last)
        weight = weight.to(memory_format=torch.channels_last)
    return [tensor.requires_grad_() for tensor in (x, weight, bias)]


def checked(function, tensors, tangent=None):
    """Results and gradients as eager's, within what eager itself is off."""
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    results = []
    for call, inputs in (
        (braze.compile(function), tensors),
        (function, tensors),
        (function, exact),
    ):
        y = call(*inputs)
        seed = torch.linspace(-1, 1, y.numel()).view(y.shape) if tangent is None else tangent
        results.append([y, *torch.autograd.grad(y, inputs, seed.to(y.dtype), allow_unused=True)])
    for got, wanted, right in zip(*results, strict=True):
        assert (got is None) == (wanted is None)
        if got is None:
            continue
        assert (got.shape, got.stride(), got.dtype) == (wanted.shape, wanted.stride(), wanted.dtype)
        scale = right.abs().max()
        assert (got - right).abs().max() <= 3 * (wanted - right).abs().max() + 2e-6 * scale


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_forward_and_gradients(dims, with_bias, stride):
    x, weight, bias = made(dims)
    convolution = CONVOLUTIONS[dims]

    def run(x, weight, bias):
        return convolution(x, weight, bias if with_bias else None, stride)

    checked(run, [x, weight, bias])


@pytest.mark.parametrize("stride", [1, 2, (1, 2)])
def test_channels_last(stride):
    checked(lambda x, w, b: F.conv2d(x, w, b, stride).relu(), made(2, last=True))


@pytest.mark.parametrize("weight_last", [False, True])
def test_layouts_that_differ(weight_last):
    x, weight, bias = made(2)
    last = torch.channels_last
    with torch.no_grad():
        if weight_last:
            weight = weight.to(memory_format=last).requires_grad_()
        else:
            x = x.to(memory_format=last).requires_grad_()
    checked(lambda x, w, b: F.conv2d(x, w, b).relu(), [x, weight, bias])


@pytest.mark.parametrize("turn", ["last", "transposed", "expanded"])
def test_tangents_in_other_layouts(turn):
    tensors = made(2)
    tangent = torch.randn(3, 40, 9, 11, generator=torch.Generator().manual_seed(9))
    if turn == "last":
        tangent = tangent.contiguous(memory_format=torch.channels_last)
    elif turn == "transposed":
        tangent = tangent.transpose(2, 3).contiguous().transpose(2, 3)
    else:
        tangent = tangent[:1, :, :1].expand(3, 40, 9, 11)
    checked(F.conv2d, tensors, tangent)


@pytest.mark.parametrize(
    "sizes",
    [(1, 16, 16, 64), (2, 16, 130, 49), (1, 130, 16, 200), (5, 48, 49, 65), (2, 300, 20, 64)],
)
def test_sizes_around_tiles(sizes):
    batch, channels, outputs, points = sizes
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(batch, channels, points, generator=generator).requires_grad_()
    weight = torch.randn(outputs, channels, 1, generator=generator).requires_grad_()
    checked(F.conv1d, [x, weight])


@pytest.mark.parametrize("wanted", ["x", "weight", "bias"])
def test_one_gradient_alone(wanted):
    tensors = dict(zip(("x", "weight", "bias"), made(2), strict=True))
    for name, tensor in tensors.items():
        tensor.requires_grad_(name == wanted)
    fast = braze.compile(F.conv2d)
    for _ in range(2):
        found = [
            torch.autograd.grad(call(*tensors.values()).square().sum(), tensors[wanted])[0]
            for call in (fast, F.conv2d)
        ]
        torch.testing.assert_close(*found, rtol=2e-5, atol=1e-4)


def test_sizes_that_vary():
    layers = torch.nn.Sequential(
        torch.nn.Conv2d(24, 64, 1, stride=2), torch.nn.ReLU(), torch.nn.Conv2d(64, 32, 1)
    )
    fast = braze.compile(layers)
    for batch, high, wide in ((2, 20, 20), (3, 20, 20), (3, 24, 22), (5, 17, 31), (1, 33, 16)):
        x = torch.randn(batch, 24, high, wide).requires_grad_()
        got, expected = fast(x), layers(x)
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
        weights = [x, *layers.parameters()]
        torch.testing.assert_close(
            torch.autograd.grad(got.square().sum(), weights),
            torch.autograd.grad(expected.square().sum(), weights),
            rtol=2e-5,
            atol=1e-3,
        )
        assert got.stride() == expected.stride()


def test_gradients_of_gradients():
    x, weight, bias = (tensor.detach().double().requires_grad_() for tensor in made(2))
    single = [tensor.detach().float().requires_grad_() for tensor in (x, weight, bias)]

    def penalty(call, x, weight, bias):
        y = call(x, weight, bias)
        (slope,) = torch.autograd.grad(y.tanh().sum(), x, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), [x, weight, bias])

    exact = penalty(F.conv2d, x, weight, bias)
    for got, right in zip(penalty(braze.compile(F.conv2d), *single), exact, strict=True):
        assert (got - right).abs().max() <= 1e-5 * right.abs().max() + 1e-6


def operands(batch, rows, inner, columns):
    generator = torch.Generator().manual_seed(batch + rows)
    return (
        torch.randn(batch, rows, inner, generator=generator),
        torch.randn(batch, inner, columns, generator=generator),
    )


def turned(batch):
    """The same values, columns side by side."""
    return batch.transpose(1, 2).contiguous().transpose(1, 2)


@pytest.mark.parametrize("right_turned", [False, True])
@pytest.mark.parametrize("left", ["plain", "turned", "expanded", "turned and expanded"])
@pytest.mark.parametrize(
    "sizes",
    [
        (1, 1, 1, 1),
        (9, 3, 5, 7),
        (2, 50, 40, 70),
        (3, 64, 1, 64),
        (40, 7, 17, 65),
        (2, 97, 1100, 130),
    ],
)
def test_products_of_batches(sizes, left, right_turned):
    a, b = operands(*sizes)
    if "expanded" in left:
        a = a[:1]
    if "turned" in left:
        a = turned(a)
    if "expanded" in left:
        a = a.expand(sizes[0], -1, -1)
    if right_turned:
        b = turned(b)
    exact = a.double() @ b.double()
    bound = 1e-6 * (a.double().abs() @ b.double().abs() + 1)
    got = torch.ops.braze.bmm(a, b)
    assert ((got - exact).abs() <= bound).all()
    summed = torch.ops.braze.bmm_sum(a, b)
    assert ((summed - exact.sum(0)).abs() <= bound.sum(0)).all()
    wide = torch.full((sizes[0], sizes[1], sizes[3] + 3), 7.0)
    torch.ops.braze.bmm.out(a, b, out=wide[:, :, : sizes[3]])
    assert torch.equal(wide[:, :, : sizes[3]], got)
    assert (wide[:, :, sizes[3] :] == 7).all()


@pytest.mark.parametrize("sizes", [(0, 2, 3, 4), (2, 0, 3, 4), (2, 3, 0, 4), (2, 3, 4, 0)])
def test_empty_batches(sizes):
    a, b = operands(*sizes)
    assert torch.equal(torch.ops.braze.bmm(a, b), a @ b)
    assert torch.equal(torch.ops.braze.bmm_sum(a, b), (a @ b).sum(0))


def test_what_is_no_batch():
    a, b = operands(2, 3, 4, 5)
    for wrong in ((a, b.double()), (a, a), (a[0], b[0]), (a[:1], b)):
        with pytest.raises(RuntimeError, match="bmm: "):
            torch.ops.braze.bmm(*wrong)
        with pytest.raises(RuntimeError, match="bmm: "):
            torch.ops.braze.bmm_sum(*wrong)
    with pytest.raises(RuntimeError, match="bmm: .* into"):
        torch.ops.braze.bmm.out(a, b, out=torch.empty(2, 3, 6))


def test_threads_change_no_bit():
    a, b = operands(3, 130, 200, 150)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            results.append((torch.ops.braze.bmm(a, b), torch.ops.braze.bmm_sum(a, b)))
    finally:
        torch.set_num_threads(before)
    for others in results[1:]:
        assert all(torch.equal(x, y) for x, y in zip(results[0], others, strict=True))
