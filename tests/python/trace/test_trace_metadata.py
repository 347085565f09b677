"""Sizes, strides, offset and dtype of fakes against those of real results, for random layouts."""

import random

import pytest
import torch
import torch.nn.functional as F
from layouts import repeat, sizes, tensor
from tracing import check_layout

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
ANY = [*FLOATS, torch.int64, torch.int32, torch.uint8, torch.bool]


def broadcastable(rng, full):
    kept = full[rng.randrange(len(full) + 1) :] if full else []
    return [1 if rng.random() < 0.3 else s for s in kept]


def number(rng):
    return rng.choice([2, 3, 2.5, True, 0.5])


BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum,
    "floor_divide": torch.floor_divide, "remainder": torch.remainder, "pow": torch.pow,
    "eq": torch.eq, "lt": torch.lt, "atan2": torch.atan2, "bitwise_and": torch.bitwise_and,
    "logical_or": torch.logical_or, "fmod": torch.fmod,
}  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    op = BINARY[name]

    def make(rng):
        full = sizes(rng)
        a, b = full, broadcastable(rng, full)
        if rng.random() < 0.5:
            a, b = b, a
        if rng.random() < 0.3:
            return op, tensor(rng, a, rng.choice(ANY)), number(rng)
        return op, tensor(rng, a, rng.choice(ANY)), tensor(rng, b, rng.choice(ANY))

    repeat(60, make)


@pytest.mark.parametrize(
    "fn",
    [lambda x, n=n: f(x, n) for n in (2, 2.5, True) for f in (
        lambda x, n: x + n, lambda x, n: n - x, lambda x, n: x * n, lambda x, n: n / x,
        lambda x, n: x // n, lambda x, n: n // x, lambda x, n: x % n, lambda x, n: x**n,
        lambda x, n: n**x, lambda x, n: x > n, lambda x, n: n == x,
    )],
)  # fmt: skip
def test_python_numbers(fn):
    repeat(12, lambda rng: (fn, tensor(rng, sizes(rng), rng.choice(ANY))))


UNARY = {
    name: getattr(torch, name)
    for name in "relu abs neg exp log sqrt rsqrt sin tanh sigmoid erf floor ceil round sign "
    "reciprocal logical_not isnan square clone zeros_like empty_like rand_like".split()
} | {
    "gelu": F.gelu, "silu": F.silu, "hardtanh": F.hardtanh, "leaky_relu": F.leaky_relu, "elu": F.elu,
    "softplus": F.softplus, "hardswish": F.hardswish, "mish": F.mish, "contiguous": torch.Tensor.contiguous,
    "clamp": lambda x: x.clamp(0, 1), "clamp_float": lambda x: x.clamp(0.5), "double": torch.Tensor.double,
    "nan_to_num": torch.nan_to_num, "relu_": lambda x: torch.relu_(x.clone()),
    "masked_fill": lambda x: x.masked_fill(x > 1, 2), "dropout": F.dropout, "relu6": F.relu6,
    "logsigmoid": F.logsigmoid, "celu": F.celu, "selu": F.selu, "to_half": torch.Tensor.half,
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    repeat(40, lambda rng: (UNARY[name], tensor(rng, sizes(rng), rng.choice(ANY))))


def test_where():
    def make(rng):
        full = sizes(rng)
        parts = [full, broadcastable(rng, full), broadcastable(rng, full)]
        rng.shuffle(parts)
        condition = tensor(rng, parts[0], torch.bool)
        a = tensor(rng, parts[1], rng.choice(ANY)) if rng.random() < 0.7 else number(rng)
        b = tensor(rng, parts[2], rng.choice(ANY)) if rng.random() < 0.7 else number(rng)
        return torch.where, condition, a, b

    repeat(300, make)


def test_layer_norm():
    def make(rng):
        shape = sizes(rng, rng.randrange(1, 5))
        dtype = rng.choice(FLOATS)
        normalized = shape[rng.randrange(len(shape)) :]
        param_dtype = rng.choice([dtype, torch.float32])
        weight = rng.choice([None, torch.rand(normalized, dtype=param_dtype)])
        return torch.native_layer_norm, tensor(rng, shape, dtype), normalized, weight, None, 1e-5

    repeat(120, make)


def test_batch_norm():
    def make(rng):
        shape = sizes(rng, rng.choice([2, 3, 4, 5]))
        dtype = rng.choice(FLOATS)
        param_dtype = rng.choice([dtype, torch.float32])
        params = [torch.rand(shape[1], dtype=param_dtype) for _ in range(4)]
        if rng.random() < 0.3:
            params[:2] = None, None
        training = rng.random() < 0.5
        if training and rng.random() < 0.5:
            params[2:] = None, None
        return torch.native_batch_norm, tensor(rng, shape, dtype), *params, training, 0.1, 1e-5

    repeat(200, make)


def test_group_norm():
    def make(rng):
        shape = sizes(rng, rng.choice([2, 3, 4, 5]))
        shape[1] = 4
        weight = rng.choice([None, torch.rand(4)])
        return F.group_norm, tensor(rng, shape, rng.choice(FLOATS)), rng.choice([1, 2, 4]), weight

    repeat(120, make)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolution(rank):
    def make(rng):
        groups = rng.choice([1, 1, 2])
        batch, channels, out = (
            rng.choice([1, 2]),
            groups * rng.choice([1, 2]),
            groups * rng.choice([1, 3]),
        )
        space = [rng.choice([5, 6, 1]) for _ in range(rank)]
        kernel = [rng.choice([1, 3]) for _ in range(rank)]
        dtype = rng.choice([torch.float32, torch.float32, torch.float64, torch.bfloat16])
        x = tensor(rng, [batch, channels, *space], dtype)
        transposed = rng.random() < 0.3
        weight = (
            [channels, out // groups, *kernel] if transposed else [out, channels // groups, *kernel]
        )
        bias = rng.choice([None, torch.rand(out, dtype=dtype)])
        stride, padding, dilation = rng.choice([1, 2]), rng.choice([0, 1]), rng.choice([1, 2])
        output_padding = rng.choice([0, 1]) if transposed and stride == 2 else 0
        return (torch.convolution, x, tensor(rng, weight, dtype), bias, [stride] * rank,
                [padding] * rank, [dilation] * rank, transposed, [output_padding] * rank, groups)  # fmt: skip

    repeat(150, make)


def test_flash_attention():
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu

    def make(rng):
        batch, heads, depth = rng.choice([1, 2]), rng.choice([1, 3]), rng.choice([4, 8])
        queries, keys = rng.choice([1, 5]), rng.choice([1, 6])
        dtype = rng.choice([torch.float32, torch.float64, torch.bfloat16])
        q = tensor(rng, [batch, heads, queries, depth], dtype)
        k, v = (tensor(rng, [batch, heads, keys, depth], dtype) for _ in range(2))
        if rng.random() < 0.3:
            q = torch.cat([q, q], -1)[..., :depth]
        return flash, q, k, v, 0.0, rng.random() < 0.5

    repeat(150, make)


def test_attention():
    def make(rng):
        shape = [2, rng.choice([1, 4]), rng.choice([1, 5]), 8]
        q, k, v = (tensor(rng, shape) for _ in range(3))
        mask = rng.choice(
            [None, torch.rand(shape[2], shape[2]), torch.ones(shape[2], shape[2]).bool()]
        )
        return F.scaled_dot_product_attention, q, k, v, mask

    repeat(80, make)


def test_embedding_and_index():
    def make(rng):
        table = tensor(rng, [5, 3], rng.choice(ANY))
        index = torch.randint(0, 3, sizes(rng), dtype=rng.choice([torch.int64, torch.int32]))
        which = rng.randrange(4)
        if which == 0:
            return F.embedding, index, table
        if which == 1:
            return torch.index_select, table, rng.randrange(2), index.flatten()
        if which == 2:
            return (lambda t, i: t[:, i]), table, index.long().reshape(-1, 1)
        return (lambda t, i: t[i]), tensor(rng, [5, 3, 2]), index.long().reshape(-1)

    repeat(150, make)


REDUCTIONS = {
    "sum": lambda x, d, k: x.sum(d, k), "mean": lambda x, d, k: x.mean(d, k),
    "amax": lambda x, d, k: x.amax(d, k), "max": lambda x, d, k: x.max(d, k),
    "argmax": lambda x, d, k: x.argmax(d, k), "var": lambda x, d, k: x.var(d, keepdim=k),
    "std": lambda x, d, k: x.std(d, keepdim=k),
    "var_mean": lambda x, d, k: torch.var_mean(x, d, keepdim=k), "prod": lambda x, d, k: x.prod(d, k),
    "all": lambda x, d, k: x.all(d, k), "any": lambda x, d, k: x.any(d, k),
    "logsumexp": lambda x, d, k: x.logsumexp(d, k), "norm": lambda x, d, k: x.norm(dim=d, keepdim=k),
    "softmax": lambda x, d, k: x.softmax(d), "log_softmax": lambda x, d, k: x.log_softmax(d),
    "cumsum": lambda x, d, k: x.cumsum(d), "sort": lambda x, d, k: x.sort(d),
    "topk": lambda x, d, k: x.topk(1, d), "median": lambda x, d, k: x.median(d, k),
    "flip": lambda x, d, k: x.flip(d), "roll": lambda x, d, k: x.roll(1, d),
    "cat": lambda x, d, k: torch.cat([x, x], d), "stack": lambda x, d, k: torch.stack([x, x], d),
    "unsqueeze": lambda x, d, k: x.unsqueeze(d), "squeeze": lambda x, d, k: x.squeeze(d),
    "split": lambda x, d, k: x.split(1, d), "unbind": lambda x, d, k: x.unbind(d),
    "select": lambda x, d, k: x.select(d, 0), "narrow": lambda x, d, k: x.narrow(d, 0, 1),
    "repeat_interleave": lambda x, d, k: x.repeat_interleave(2, d),
    "gather": lambda x, d, k: x.gather(d, torch.zeros(x.shape, dtype=torch.long)),
    "unfold": lambda x, d, k: x.unfold(d, 1, 1), "renorm": lambda x, d, k: x.renorm(2, d, 1.0),
    "logcumsumexp": lambda x, d, k: x.logcumsumexp(d), "kthvalue": lambda x, d, k: x.kthvalue(1, d, k),
}  # fmt: skip


@pytest.mark.parametrize("name", REDUCTIONS)
def test_along_a_dim(name):
    def make(rng):
        shape = sizes(rng, rng.randrange(1, 5))
        dim = rng.randrange(-len(shape), len(shape))
        return REDUCTIONS[name], tensor(rng, shape, rng.choice(ANY)), dim, rng.random() < 0.5

    rng = random.Random(7)
    assert sum(1 for _ in range(40) if check_layout(*make(rng))) >= 8


WHOLE = {
    "sum": torch.sum, "mean": torch.mean, "max": torch.max, "min": torch.min, "var": torch.var,
    "std": torch.std, "argmax": torch.argmax, "prod": torch.prod, "all": torch.all, "norm": torch.norm,
    "tril": torch.tril, "reshape": lambda x: x.reshape(-1), "flatten": torch.flatten,
    "t": lambda x: x.transpose(0, -1), "repeat": lambda x: x.repeat(2, *[1] * x.dim()),
    "expand": lambda x: x.expand(2, *x.shape), "view_as": lambda x: x.clone().view(-1),
    "pad": lambda x: F.pad(x, (1, 2)), "rot90": torch.rot90, "to_float": torch.Tensor.float,
    "matmul": lambda x: x @ x.transpose(-1, -2), "outer": lambda x: torch.outer(x.flatten(), x.flatten()),
    "einsum": lambda x: torch.einsum("...i,...j->...ij", x, x), "fft": lambda x: torch.fft.rfft(x).abs(),
    "cdist": lambda x: torch.cdist(x, x), "bucketize": lambda x: torch.bucketize(x, torch.arange(3.0)),
    "histc": lambda x: torch.histc(x, 3), "diff": torch.diff, "trace": torch.trace,
    "index_put": lambda x: x.index_put((torch.tensor([0]),), torch.ones((), dtype=x.dtype)),
    "qr": torch.linalg.qr, "svdvals": torch.linalg.svdvals, "as_strided": lambda x: x.clone().as_strided((2,), (1,)),
    "full_like": lambda x: torch.full_like(x, 3), "new_zeros": lambda x: x.new_zeros(x.shape),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_whole(name):
    rng = random.Random(7)
    done = [check_layout(WHOLE[name], tensor(rng, sizes(rng), rng.choice(ANY))) for _ in range(40)]
    assert sum(1 for d in done if d) >= 5


IMAGES = {
    "max_pool2d": lambda x: F.max_pool2d(x, 2), "avg_pool2d": lambda x: F.avg_pool2d(x, 2),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, (2, 3)),
    "adaptive_avg_pool2d_1": lambda x: F.adaptive_avg_pool2d(x, 1),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, 2),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "bicubic": lambda x: F.interpolate(x, size=(3, 3), mode="bicubic"),
    "reflection_pad2d": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    "replication_pad2d": lambda x: F.pad(x, (1, 1, 1, 1), mode="replicate"),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2), "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "unfold": lambda x: F.unfold(x, 2), "channel_shuffle": lambda x: F.channel_shuffle(x, 2),
    "instance_norm": F.instance_norm, "local_response_norm": lambda x: F.local_response_norm(x, 2),
    "grid_sample": lambda x: F.grid_sample(x, torch.zeros(x.shape[0], 3, 3, 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", IMAGES)
def test_images(name):
    def make(rng):
        shape = [rng.choice([1, 2]), 4, rng.choice([4, 6]), rng.choice([4, 6])]
        return IMAGES[name], tensor(rng, shape)

    repeat(30, make)


def test_sequences():
    lstm = torch.nn.LSTM(4, 3, num_layers=2, bidirectional=True).eval()
    gru = torch.nn.GRU(4, 3, batch_first=True).eval()
    mha = torch.nn.MultiheadAttention(4, 2).eval()
    layer = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()

    def make(rng):
        x = tensor(rng, [5, 2, 4])
        which = rng.randrange(4)
        if which == 0:
            return (lambda x: (lambda y, state: (y, *state))(*lstm(x))), x
        if which == 1:
            return gru, x
        if which == 2:
            return (lambda x: mha(x, x, x)), x
        return layer, x

    repeat(40, make)
