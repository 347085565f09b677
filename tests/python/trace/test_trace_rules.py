"""Metadata of the operators whose sizes stay symbols by a rule (`src/graph/infer/`), for random
layouts of numbers: those of eager."""

import pytest
import torch
from layouts import repeat, sizes, tensor

FLOATS = [torch.float32, torch.float32, torch.float64, torch.bfloat16]
aten = torch.ops.aten


def with_grad(op, rng, shape, *rest, of=None):
    """`op(grad, self, *rest)`, the gradient of sizes `of`."""
    dtype = rng.choice(FLOATS)
    return op, tensor(rng, of or shape, dtype), tensor(rng, shape, dtype), *rest


ACTIVATIONS = {
    "hardshrink": (aten.hardshrink_backward, 0.5),
    "softshrink": (aten.softshrink_backward, 0.5),
    "hardsigmoid": (aten.hardsigmoid_backward,),
    "leaky_relu": (aten.leaky_relu_backward, 0.1, False),
    "threshold": (aten.threshold_backward, 0.0),
    "softplus": (aten.softplus_backward, 1.0, 20.0),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name):
    op, *rest = ACTIVATIONS[name]
    repeat(150, lambda rng: with_grad(op, rng, sizes(rng), *rest))


def test_elu():
    repeat(
        150,
        lambda rng: with_grad(
            lambda grad, x: aten.elu_backward(grad, 1.0, 1.0, 1.0, False, x), rng, sizes(rng)
        ),
    )


@pytest.mark.parametrize("op", [aten._softmax_backward_data, aten._log_softmax_backward_data])
def test_softmax(op):
    def make(rng):
        shape, dtype = sizes(rng), rng.choice(FLOATS)
        grad, y = tensor(rng, shape, dtype), tensor(rng, shape, dtype)
        return op, grad, y, rng.randrange(max(len(shape), 1)), dtype

    repeat(200, make)


LOSSES = {
    "mse": (aten.mse_loss,),
    "smooth_l1": (aten.smooth_l1_loss,),
    "soft_margin": (aten.soft_margin_loss,),
    "soft_margin_backward": (aten.soft_margin_loss_backward,),
    "of_logits": (aten.binary_cross_entropy_with_logits, None, None),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name):
    op, *rest = LOSSES[name]

    def make(rng):
        shape, dtype, reduction = sizes(rng), rng.choice(FLOATS[:3]), rng.choice([0, 1, 2])
        x, target = tensor(rng, shape, dtype), tensor(rng, shape, dtype)
        grad = [tensor(rng, [] if reduction else shape, dtype)] if "backward" in name else []
        return op, *grad, x, target, *rest, reduction

    repeat(150, make)


def test_losses_that_broadcast():
    def make(rng):
        shape, dtype = sizes(rng, 3), rng.choice(FLOATS[:3])
        op = rng.choice([aten.mse_loss, aten.smooth_l1_loss])
        target = tensor(rng, shape[1:] if rng.random() < 0.5 else [1, *shape[1:]], dtype)
        return op, tensor(rng, shape, dtype), target, rng.choice([0, 1])

    repeat(100, make)


def test_weighted_losses_of_logits():
    def make(rng):
        shape, dtype = sizes(rng, 2), rng.choice(FLOATS[:3])
        x, target, weight = (tensor(rng, shape, dtype) for _ in range(3))
        weights = [rng.choice([None, weight]), rng.choice([None, tensor(rng, shape[1:], dtype)])]
        return aten.binary_cross_entropy_with_logits, x, target, *weights, rng.choice([0, 1])

    repeat(150, make)


def test_nll():
    def make(rng):
        shape, dtype, reduction = sizes(rng, rng.choice([1, 2])), rng.choice(FLOATS[:3]), 1
        x, target = tensor(rng, shape, dtype), torch.zeros(shape[:-1], dtype=torch.long)
        reduction = rng.randrange(3)
        grad = tensor(rng, [] if reduction else shape[:-1], dtype)
        weight = rng.choice([None, torch.ones(shape[-1], dtype=dtype)])
        total = torch.ones((), dtype=dtype)
        return aten.nll_loss_backward, grad, x, target, weight, reduction, -100, total

    repeat(150, make)


def viewed(rng, view, op):
    """`op(grad, sizes, *arguments)` for a gradient as of `view(x, *arguments)`."""
    shape = sizes(rng, rng.randrange(2, 5))
    dim = rng.randrange(len(shape))
    if view is torch.Tensor.diagonal:
        arguments = rng.randrange(-2, 3), dim, (dim + 1) % len(shape)
    elif view is torch.Tensor.unfold:
        arguments = dim, rng.randrange(1, shape[dim] + 1), rng.choice([1, 2])
    else:
        arguments = dim, rng.randrange(-4, 3), rng.choice([-1, 1, 2, 9]), rng.choice([1, 2])
    grad = tensor(rng, list(view(torch.empty(shape), *arguments).shape), rng.choice(FLOATS))
    return op, grad, shape, *arguments


def test_gradients_of_views():
    def sliced(x, *arguments):
        return aten.slice(x, *arguments)

    views = {
        aten.slice_backward: sliced,
        aten.diagonal_backward: torch.Tensor.diagonal,
        aten.unfold_backward: torch.Tensor.unfold,
    }
    for op, view in views.items():
        repeat(150, lambda rng, op=op, view=view: viewed(rng, view, op))


def test_views():
    def make(rng):
        x, offset = tensor(rng, sizes(rng, rng.randrange(2, 5))), rng.randrange(-2, 3)
        if rng.random() < 0.5:
            return torch.diagonal, x, offset, rng.randrange(-1, 2), rng.randrange(-2, 2)
        return aten.unfold, x, rng.randrange(-2, 2), rng.randrange(4), rng.choice([1, 2])

    repeat(200, make)


def image(rng, rank, even=True):
    shape = [rng.choice([1, 2]), rng.choice([1, 4]), *(rng.choice([2, 4, 6]) for _ in range(rank))]
    return shape[rng.choice([0, 0, 1]) :]


def pool(rng):
    shape, dtype = image(rng, 2), rng.choice(FLOATS)
    x = tensor(rng, shape, dtype)
    window = [2, 2], [2, 2], [0, 0]
    grad = tensor(rng, [*shape[:-2], shape[-2] // 2, shape[-1] // 2], dtype)
    if rng.random() < 0.5:
        return aten.avg_pool2d_backward, grad, x, *window, False, True, None
    _, places = aten.max_pool2d_with_indices(x.contiguous(), *window)
    return aten.max_pool2d_with_indices_backward, grad, x, *window, [1, 1], False, places


def test_pools():
    repeat(200, pool)


UPSAMPLE = {
    f"{name}{rank}d": (getattr(aten, f"{name}{rank}d_backward"), rank, "nearest" in name)
    for name, ranks in {
        "upsample_nearest": (1, 2, 3),
        "_upsample_nearest_exact": (1, 2, 3),
        "upsample_linear": (1,),
        "upsample_bilinear": (2,),
        "upsample_bicubic": (2,),
        "upsample_trilinear": (3,),
    }.items()
    for rank in ranks
}


@pytest.mark.parametrize("name", UPSAMPLE)
def test_upsampling(name):
    op, rank, is_nearest = UPSAMPLE[name]

    def make(rng):
        shape = [
            rng.choice([1, 2]),
            rng.choice([1, 3]),
            *(rng.choice([1, 2, 4]) for _ in range(rank)),
        ]
        output = [size * 2 for size in shape[2:]]
        dtype = rng.choice([torch.float32, torch.float64])
        grad = tensor(rng, [*shape[:2], *output], dtype)
        return op, grad, output, shape, *([] if is_nearest else [False]), *[None] * rank

    repeat(150, make)


@pytest.mark.parametrize("mode", ["reflection_pad1d", "replication_pad1d"])
def test_padding(mode):
    def make(rng):
        shape, pad = image(rng, 1), [1, 1]
        if rng.random() < 0.5:
            return getattr(aten, mode), tensor(rng, shape, rng.choice(FLOATS)), pad
        of = [*shape[:-1], shape[-1] + 2]
        return with_grad(getattr(aten, f"{mode}_backward"), rng, shape, pad, of=of)

    repeat(150, make)


def test_norms():
    def make(rng):
        x = tensor(rng, sizes(rng, rng.randrange(1, 4)), rng.choice(FLOATS))
        p = rng.choice([2, 1.0, 3, None])
        return aten.norm.ScalarOpt_dim, x, p, [rng.randrange(-1, 1)], rng.random() < 0.5

    repeat(150, make)


def test_stacks():
    def make(rng):
        shape, dtype = sizes(rng), rng.choice(FLOATS)
        tensors = [tensor(rng, shape, dtype) for _ in range(rng.randrange(1, 4))]
        dim = rng.randrange(-len(shape) - 1, len(shape) + 1)
        return lambda *each: torch.stack(each[:-1], each[-1]), *tensors, dim

    repeat(300, make)


def test_constant_padding():
    def make(rng):
        shape = sizes(rng, rng.randrange(1, 6))
        low = rng.choice([-1, 0])
        pad = [
            rng.randrange(low, rng.choice([1, 3])) for _ in range(2 * rng.randint(1, len(shape)))
        ]
        return aten.constant_pad_nd, tensor(rng, shape, rng.choice(FLOATS)), pad, 0.5

    repeat(300, make)
