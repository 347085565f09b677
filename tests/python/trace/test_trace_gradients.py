"""Metadata of the operators of backwards, for random layouts: those of eager, without running them.

Where a rule leaves a layout to an experiment (the kernel on zeros), that is right too; what is common
must have a rule, which `most_probes` says.
"""

import random

import pytest
import torch
import torch.nn.functional as F
from layouts import sizes, tensor
from tracing import check_layout

FLOATS = [torch.float32, torch.float32, torch.float64, torch.bfloat16]
aten = torch.ops.aten


def parts(op):
    """The tensors of its result: what an output mask leaves out is none."""

    def call(*args):
        result = op(*args)
        results = result if isinstance(result, (tuple, list)) else (result,)
        return [part for part in results if part is not None]

    return call


def repeat(count, make, most_probes=0.0, seed=7):
    """Runs `make(rng)` count times. `most_probes`: the part of the calls that may be tried."""
    rng = random.Random(seed)
    results = [check_layout(*make(rng)) for _ in range(count)]
    results = [result for result in results if result]
    assert len(results) * 5 >= count
    probes = sum(result["probes"] for result in results)
    assert probes <= most_probes * len(results), f"{probes} of {len(results)}"


def plain(rng, shape, dtype=torch.float32):
    """Dense, row-major or channels-last."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    result = torch.rand(shape).to(dtype)
    if len(shape) in formats and rng.random() < 0.5:
        return result.to(memory_format=formats[len(shape)])
    return result


def mask(rng):
    return [rng.random() < 0.8 for _ in range(3)]


def convolution(rng, rank, layout):
    groups = rng.choice([1, 1, 1, 2, 3])
    batch, channels, out = (
        rng.choice([1, 1, 2, 3]),
        groups * rng.choice([1, 2, 4, 8]),
        groups * rng.choice([1, 2, 4]),
    )
    space = [rng.choice([1, 3, 5, 8]) for _ in range(rank)]
    kernel = [rng.choice([1, 2, 3, 3]) for _ in range(rank)]
    # In eager some of three dimensions read memory that is not theirs, but not of doubles.
    dtype = rng.choice(FLOATS) if rank < 3 else torch.float64
    transposed = rng.random() < 0.3
    weight = [channels, out // groups] if transposed else [out, channels // groups]
    stride, padding, dilation = rng.choice([1, 2]), rng.choice([0, 1]), rng.choice([1, 1, 2])
    output_padding = rng.choice([0, 1]) if transposed and stride == 2 else 0
    window = [[stride] * rank, [padding] * rank, [dilation] * rank, transposed,
              [output_padding] * rank, groups]  # fmt: skip
    x, w = layout(rng, [batch, channels, *space], dtype), layout(rng, weight + kernel, dtype)
    try:
        size = torch.convolution(x.to("meta"), w.to("meta"), None, *window).shape
    except RuntimeError:
        return convolution(rng, rank, layout)
    if 0 in size:
        return convolution(rng, rank, layout)
    asked_for = mask(rng)
    if asked_for[2]:
        asked_for[1] = True  # eager reads memory that is not there for some of the others
    grad = layout(rng, list(size), dtype)
    return (
        parts(aten.convolution_backward),
        grad,
        x,
        w,
        rng.choice([None, [out]]),
        *window,
        asked_for,
    )


# What may be an experiment: channels-last weights of one channel or one place, whose gradients some
# kernels lay out otherwise.
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolution_of_plain_layouts(rank):
    repeat(500, lambda rng: convolution(rng, rank, plain), most_probes=0.15)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolution(rank):
    repeat(500, lambda rng: convolution(rng, rank, tensor), most_probes=0.1)


@pytest.mark.parametrize("rank", [2, 3])
def test_convolution_of_onednn(rank):
    """It gives the weight's gradient with the bias's, asked for or not."""

    def make(rng):
        dtype = rng.choice([torch.float32, torch.bfloat16])
        x, w = plain(rng, [2, 16, *[6] * rank], dtype), plain(rng, [16, 16, *[3] * rank], dtype)
        grad = plain(rng, [2, 16, *[4] * rank], dtype)
        window = [[1] * rank, [0] * rank, [1] * rank, False, [0] * rank, 1]
        return parts(aten.convolution_backward), grad, x, w, [16], *window, [True, rng.random() < 0.5, True]  # fmt: skip

    repeat(40, make)


def parameters(rng, size, dtype, count=1):
    dtype = rng.choice([dtype, torch.float32]) if dtype == torch.bfloat16 else dtype
    if rng.random() < 0.2:
        return [None] * count
    return [torch.rand(size, dtype=dtype) for _ in range(count)]


def asked_for_with(rng, weight):
    return [rng.random() < 0.8, *(weight is not None and rng.random() < 0.8 for _ in range(2))]


def test_layer_norm():
    def make(rng):
        shape = sizes(rng, rng.randrange(1, 5))
        dtype = rng.choice(FLOATS)
        x, grad = tensor(rng, shape, dtype), tensor(rng, shape, dtype)
        normalized = shape[rng.randrange(len(shape)) :]
        weight, bias = parameters(rng, normalized, dtype, 2)
        _, mean, rstd = torch.native_layer_norm(x, normalized, weight, bias, 1e-5)
        return (parts(aten.native_layer_norm_backward), grad, x, normalized, mean, rstd, weight,
                bias, asked_for_with(rng, weight))  # fmt: skip

    repeat(400, make)


def test_batch_norm():
    def make(rng):
        shape = sizes(rng, rng.choice([2, 3, 4, 4, 5]))
        dtype = rng.choice(FLOATS)
        x, grad = tensor(rng, shape, dtype), tensor(rng, shape, dtype)
        weight, mean, var = parameters(rng, shape[1], dtype, 3)
        if mean is None:
            mean, var = torch.rand(shape[1], dtype=dtype), torch.rand(shape[1], dtype=dtype)
        training = rng.random() < 0.5
        _, *saved = torch.native_batch_norm(x, weight, weight, mean, var, training, 0.1, 1e-5)
        return (parts(aten.native_batch_norm_backward), grad, x, weight, mean, var, *saved, training,
                1e-5, asked_for_with(rng, weight))  # fmt: skip

    repeat(500, make, most_probes=0.1)


def test_group_norm():
    def make(rng):
        shape = sizes(rng, rng.choice([2, 3, 4, 4]))
        shape[1] = rng.choice([2, 4])
        dtype, groups = rng.choice(FLOATS), rng.choice([1, 2])
        x = plain(rng, shape, dtype)
        grad = torch.empty_like(x)
        weight = parameters(rng, shape[1], dtype)[0]
        counts = [shape[0], shape[1], x[0, 0].numel(), groups]
        _, mean, rstd = torch.native_group_norm(x, weight, weight, *counts, 1e-5)
        asked_for = [True, weight is not None, weight is not None]
        return (parts(aten.native_group_norm_backward), grad, x, mean, rstd, weight, *counts,
                asked_for)  # fmt: skip

    repeat(300, make, most_probes=0.05)


def test_flash_attention():
    def make(rng):
        batch, heads, depth = rng.choice([1, 2]), rng.choice([1, 3]), rng.choice([4, 8])
        queries, keys = rng.choice([1, 5]), rng.choice([1, 6])
        dtype = rng.choice(FLOATS)
        q = tensor(rng, [batch, heads, queries, depth], dtype)
        k, v = (tensor(rng, [batch, heads, keys, depth], dtype) for _ in range(2))
        causal = rng.random() < 0.5
        out, sums = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal)
        grad = tensor(rng, list(out.shape), dtype)
        backward = aten._scaled_dot_product_flash_attention_for_cpu_backward
        return parts(backward), grad, q, k, v, out, sums, 0.0, causal

    repeat(200, make)


def test_embedding():
    def make(rng):
        index = torch.randint(0, 3, sizes(rng, rng.randrange(3)))
        grad = tensor(rng, [*index.shape, rng.choice([1, 3])], rng.choice(FLOATS))
        rows = torch.randint(0, 3, (4,))
        if rng.random() < 0.5:
            bags = torch.tensor([0, 2])
            weight = torch.rand(5, 3)
            mode = rng.choice([0, 1, 2])
            out, *rest = torch._embedding_bag(weight, rows, bags, False, mode)
            grad = tensor(rng, list(out.shape))
            return (parts(aten._embedding_bag_backward), grad, rows, bags, *rest, 5, False, mode,
                    False, None)  # fmt: skip
        return parts(aten.embedding_dense_backward), grad, index, 5, -1, rng.random() < 0.5

    repeat(200, make)


def with_grad(op, rng, shape, *rest, dtype=None, of=None):
    """A call on a gradient of the sizes `of`, by default those of the input, and an input."""
    dtype = dtype or rng.choice(FLOATS)
    return parts(op), tensor(rng, of or shape, dtype), tensor(rng, shape, dtype), *rest


def image(rng, rank=2):
    shape = [rng.choice([1, 2]), rng.choice([1, 4]), *(rng.choice([2, 4, 6]) for _ in range(rank))]
    return shape[rng.choice([0, 0, 1]) :]


def grown(shape, rank):
    return [*shape[:-rank], *(size + 2 for size in shape[-rank:])]


def doubled(rng):
    shape = sizes(rng, rng.randrange(1, 5))
    dim = rng.randrange(len(shape))
    of = list(shape)
    shape[dim] *= 2
    return shape, dim, of


def glu(rng):
    shape, dim, of = doubled(rng)
    return with_grad(aten.glu_backward, rng, shape, dim, of=of)


def prelu(rng):
    shape, dtype = sizes(rng, rng.randrange(2, 5)), rng.choice(FLOATS)
    weight = tensor(rng, [1, shape[1], *[1] * (len(shape) - 2)], dtype)
    if rng.random() < 0.5:
        return parts(aten._prelu_kernel), tensor(rng, shape, dtype), weight
    return with_grad(aten._prelu_kernel_backward, rng, shape, weight, dtype=dtype)


def log_sigmoid(rng):
    dtype = rng.choice(FLOATS)
    x = tensor(rng, sizes(rng), dtype)
    if rng.random() < 0.5:
        return parts(aten.log_sigmoid_forward), x
    grad = tensor(rng, list(x.shape), dtype)
    return parts(aten.log_sigmoid_backward), grad, x, aten.log_sigmoid_forward(x)[1]


ACTIVATIONS = {
    "hardtanh": lambda rng: (F.hardtanh, tensor(rng, sizes(rng), rng.choice(FLOATS))),
    "hardtanh_backward": lambda rng: with_grad(aten.hardtanh_backward, rng, sizes(rng), -1, 1),
    "hardswish": lambda rng: (F.hardswish, tensor(rng, sizes(rng), rng.choice(FLOATS))),
    "hardswish_backward": lambda rng: with_grad(aten.hardswish_backward, rng, sizes(rng)),
    "glu_backward": glu,
    "prelu": prelu,
    "log_sigmoid": log_sigmoid,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name):
    repeat(150, ACTIVATIONS[name])


def losses(rng, op, weighted, *rest):
    shape, dtype, reduction = sizes(rng), rng.choice(FLOATS[:3]), rng.choice([0, 1, 2])
    x, target = (tensor(rng, shape, dtype) / 4 for _ in range(2))
    weight = [None] if weighted else []
    grad = [tensor(rng, [] if reduction else shape, dtype)] if "backward" in str(op) else []
    return parts(op), *grad, x, target, *weight, reduction, *rest


LOSSES = {
    "mse_backward": (aten.mse_loss_backward, False),
    "smooth_l1_backward": (aten.smooth_l1_loss_backward, False, 1.0),
    "huber": (aten.huber_loss, False, 1.0),
    "huber_backward": (aten.huber_loss_backward, False, 1.0),
    "binary_cross_entropy": (aten.binary_cross_entropy, True),
    "binary_cross_entropy_backward": (aten.binary_cross_entropy_backward, True),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name):
    repeat(150, lambda rng: losses(rng, *LOSSES[name]))


def test_nll_of_images():
    def make(rng):
        shape, dtype, reduction = [2, *image(rng)[-3:]], rng.choice(FLOATS[:3]), rng.randrange(3)
        x, target = tensor(rng, shape, dtype), torch.zeros([2, *shape[2:]], dtype=torch.long)
        rest = [rng.choice([None, torch.ones(shape[1], dtype=dtype)]), reduction, -100]
        if rng.random() < 0.5:
            return parts(aten.nll_loss2d_forward), x, target, *rest
        grad = tensor(rng, [] if reduction else list(target.shape), dtype)
        total = torch.ones((), dtype=dtype)
        return parts(aten.nll_loss2d_backward), grad, x, target, *rest, total

    repeat(200, make)


def padding(op, rank):
    def make(rng):
        shape, pad = image(rng, rank), [1] * (2 * rank)
        if "backward" in str(op):
            return with_grad(op, rng, shape, pad, of=grown(shape, rank))
        return parts(op), tensor(rng, shape, rng.choice(FLOATS)), pad

    return make


def adaptive(op, output):
    def make(rng):
        shape = image(rng, len(output))
        if "backward" in str(op):
            return with_grad(op, rng, shape, of=[*shape[: -len(output)], *output])
        return parts(op), tensor(rng, shape, rng.choice(FLOATS)), output

    return make


def max_pool3d(rng):
    dtype = rng.choice(FLOATS)
    shape = image(rng, 3)
    x = plain(rng, shape, dtype) if len(shape) == 5 else torch.rand(shape).to(dtype)
    if rng.random() < 0.5:
        return parts(aten.max_pool3d_with_indices), x, [2, 2, 2]
    _, index = aten.max_pool3d_with_indices(x, [2, 2, 2])
    window = [[2, 2, 2], [2, 2, 2], [0, 0, 0], [1, 1, 1], False]
    grad = tensor(rng, list(index.shape), dtype)
    return parts(aten.max_pool3d_with_indices_backward), grad, x, *window, index


def grid_sample(rank):
    def make(rng):
        dtype, batch = rng.choice([torch.float32, torch.float64]), rng.choice([1, 2])
        x = tensor(rng, [batch, rng.choice([1, 3]), *[4] * rank], dtype)
        places = [rng.choice([1, 3]) for _ in range(rank)]
        grid = tensor(rng, [batch, *places, rank], dtype)
        forward = aten.grid_sampler_2d if rank == 2 else aten.grid_sampler_3d
        backward = aten.grid_sampler_2d_backward if rank == 2 else aten.grid_sampler_3d_backward
        if rng.random() < 0.5:
            return parts(forward), x, grid, 0, 0, False
        grad = tensor(rng, [batch, x.shape[1], *places], dtype)
        return parts(backward), grad, x, grid, 0, 0, False, [rng.random() < 0.7, True]

    return make


def on_image(op, *rest):
    return lambda rng: (parts(op), tensor(rng, image(rng), rng.choice(FLOATS)), *rest)


def columns(rng):
    shape = [2, 8, 9][rng.choice([0, 1]) :]
    window = [[4, 4], [2, 2], [1, 1], [0, 0], [1, 1]]
    return parts(aten.col2im), tensor(rng, shape, rng.choice(FLOATS)), *window


IMAGES = {
    **{
        f"{name}{rank}d{end}": padding(getattr(aten, f"{name}{rank}d{end}"), rank)
        for name in ("reflection_pad", "replication_pad")
        for rank in (2, 3)
        for end in ("", "_backward")
    },
    "replication_pad1d": padding(aten.replication_pad1d, 1),
    "adaptive_avg_pool2d": adaptive(aten._adaptive_avg_pool2d_backward, [2, 3]),
    "adaptive_avg_pool2d_1": adaptive(aten._adaptive_avg_pool2d_backward, [1, 1]),
    "adaptive_avg_pool3d": adaptive(aten._adaptive_avg_pool3d, [2, 3, 1]),
    "adaptive_avg_pool3d_backward": adaptive(aten._adaptive_avg_pool3d_backward, [2, 3, 1]),
    "max_pool3d": max_pool3d,
    "grid_sampler_2d": grid_sample(2),
    "grid_sampler_3d": grid_sample(3),
    "im2col": on_image(aten.im2col, [2, 2], [1, 1], [1, 0], [1, 2]),
    "col2im": columns,
    "pixel_shuffle": on_image(F.pixel_shuffle, 2),
    "pixel_unshuffle": on_image(F.pixel_unshuffle, 2),
    "channel_shuffle": on_image(F.channel_shuffle, 2),
}


@pytest.mark.parametrize("name", IMAGES)
def test_images(name):
    # Of one channel, which is in more than one format, max_pool3d asks its kernel.
    repeat(150, IMAGES[name], most_probes=0.3 if name == "max_pool3d" else 0)


def test_distances():
    def make(rng):
        dtype = rng.choice([torch.float32, torch.float64])
        batch = sizes(rng, rng.randrange(3))
        x, y = tensor(rng, [*batch, 3, 4], dtype), tensor(rng, [*batch, 5, 4], dtype)
        if rng.random() < 0.5:
            return parts(aten._cdist_forward), x, y, 2.0, None
        grad = tensor(rng, [*batch, 3, 5], dtype)
        return parts(aten._cdist_backward), grad, x, y, 2.0, aten._cdist_forward(x, y, 2.0, None)

    repeat(200, make)


def test_repeat():
    def make(rng):
        x = tensor(rng, sizes(rng), rng.choice(FLOATS))
        return (
            parts(aten.repeat),
            x,
            [rng.choice([0, 1, 2]) for _ in range(x.dim() + rng.randrange(2))],
        )

    repeat(200, make)


def test_where_into():
    def call(condition, zero, x, other):
        out = x * 2
        torch.where(condition, zero, other, out=out)
        return out

    def make(rng):
        shape = sizes(rng)
        operands = tensor(rng, shape) > 1, torch.tensor(0.0), tensor(rng, shape)
        return call, *operands, tensor(rng, shape)

    repeat(100, make)
