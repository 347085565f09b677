"""Operators and losses over a size that varies, with their gradients: one compile for the first size
and one for all others."""

import braze
import pytest
import torch
import torch.nn.functional as F
from support import entries, reasons, same


def check(fn, call, lengths=range(5, 15), width=6, compiles=2):
    """`fn(y, x)` with y = x * w, of sizes [2, length, width] for each length: values and the gradients
    of w are eager's, under `compiles` entries."""
    torch.manual_seed(0)
    weight = torch.randn(width).requires_grad_()
    fast = braze.compile(lambda x: fn(x * weight, x))
    for length in lengths:
        x = torch.randn(2, length, width)
        results = []
        for run in (fast, lambda x: fn(x * weight, x)):
            y = run(x)
            tangent = torch.linspace(-1, 2, y.numel()).reshape(y.shape)
            (gradient,) = torch.autograd.grad(y, weight, tangent)
            results.append((y, gradient))
        same(*results, f"length {length}", rtol=1e-4, atol=1e-5)
    assert not reasons(fast)
    assert len(entries(fast)) == compiles


def rotate_half(y, x):
    return torch.cat([-y[..., 3:], y[..., :3]], -1)


def rows(y):
    return y.flatten(0, 1)


def assigned(y, x):
    z = torch.zeros_like(x)
    z[:, 1:] = y[:, :-1]
    return z


OPERATORS = {
    "slice_same": lambda y, x: y[:, 1:] * 2,
    "slice_first": lambda y, x: y[:, :3] * 2,
    "slice_last": lambda y, x: y[:, :-1] * 2,
    "slice_from_end": lambda y, x: y[:, -3:] * 2,
    "slice_steps": lambda y, x: y[:, ::2] * 2,
    "slice_other": lambda y, x: y[..., :3] * 2,
    "rotate_half": rotate_half,
    "softmax": lambda y, x: y.softmax(-1),
    "softmax_varying": lambda y, x: y.softmax(1),
    "log_softmax": lambda y, x: y.log_softmax(-1),
    "attention_by_hand": lambda y, x: (y @ y.mT).softmax(-1) @ x,
    "sdpa": lambda y, x: F.scaled_dot_product_attention(y, x, x),
    "sdpa_causal": lambda y, x: F.scaled_dot_product_attention(y, x, x, is_causal=True),
    "sdpa_causal_heads": lambda y, x: F.scaled_dot_product_attention(
        *(t.unflatten(-1, (2, 3)).transpose(1, 2) for t in (y, y, x)), is_causal=True
    ),
    "rms_norm": lambda y, x: F.rms_norm(y, (6,)),
    "rms_norm_weight": lambda y, x: F.rms_norm(y, (6,), x[0, 0]),
    "var": lambda y, x: y.var(1),
    "var_all": lambda y, x: y.var(),
    "var_last": lambda y, x: y.var(-1),
    "std": lambda y, x: y.std(1, keepdim=True),
    "var_population": lambda y, x: y.var(1, correction=0),
    "var_mean": lambda y, x: torch.var_mean(y, 1)[0],
    "softplus": lambda y, x: F.softplus(y),
    "celu": lambda y, x: F.celu(y),
    "elu": lambda y, x: F.elu(y),
    "selu": lambda y, x: F.selu(y),
    "hardsigmoid": lambda y, x: F.hardsigmoid(y),
    "leaky_relu": lambda y, x: F.leaky_relu(y),
    "hardshrink": lambda y, x: F.hardshrink(y),
    "softshrink": lambda y, x: F.softshrink(y),
    "mish": lambda y, x: F.mish(y),
    "gelu": lambda y, x: F.gelu(y),
    "logsigmoid": lambda y, x: F.logsigmoid(y),
    "prelu": lambda y, x: F.prelu(y, torch.full((1,), 0.3)),
    "avg_pool1d": lambda y, x: F.avg_pool1d(y.mT, 2),
    "avg_pool2d": lambda y, x: F.avg_pool2d(y[:, None], 2),
    "max_pool1d": lambda y, x: F.max_pool1d(y.mT, 2),
    "max_pool2d": lambda y, x: F.max_pool2d(y[:, None], 2),
    "adaptive_avg_pool1d": lambda y, x: F.adaptive_avg_pool1d(y.mT, 2),
    "interpolate": lambda y, x: F.interpolate(y.mT, scale_factor=2),
    "interpolate_linear": lambda y, x: F.interpolate(y.mT, scale_factor=2, mode="linear"),
    "interpolate_size": lambda y, x: F.interpolate(y.mT, size=7),
    "interpolate_bilinear": lambda y, x: F.interpolate(y[:, None], scale_factor=2, mode="bilinear"),
    "interpolate_bicubic": lambda y, x: F.interpolate(y[:, None], scale_factor=2, mode="bicubic"),
    "pad_reflect": lambda y, x: F.pad(y.mT, (2, 1), mode="reflect"),
    "pad_replicate": lambda y, x: F.pad(y.mT, (2, 1), mode="replicate"),
    "batch_norm": lambda y, x: F.batch_norm(y.mT.contiguous(), None, None, training=True),
    "layer_norm": lambda y, x: F.layer_norm(y, (6,)),
    "unfold": lambda y, x: y.unfold(1, 3, 1),
    "diagonal": lambda y, x: (y @ x.mT).diagonal(1, 1, 2),
    "split": lambda y, x: y.split(3, 2)[1],
    "split_varying": lambda y, x: y.split([2, y.size(1) - 2], 1)[1],
    "index_reversed": lambda y, x: y[:, torch.arange(y.size(1) - 1, -1, -1)],
    "take_along_dim": lambda y, x: y.take_along_dim(x.argsort(1), 1),
    "sort": lambda y, x: y.sort(1)[0],
    "topk": lambda y, x: y.topk(2, 1)[0],
    "cumsum": lambda y, x: y.cumsum(1),
    "logsumexp": lambda y, x: y.logsumexp(1),
    "norm": lambda y, x: y.norm(dim=1),
    "normalize": lambda y, x: F.normalize(y, dim=-1),
    "cosine": lambda y, x: F.cosine_similarity(y, x, dim=-1),
    "pairwise_distance": lambda y, x: F.pairwise_distance(y, x),
    "masked_fill": lambda y, x: y.masked_fill(x > 0, -1),
    "relu_between_layouts": lambda y, x: F.lp_pool1d(y.mT, 2, 2),
    "attention_mask": lambda y, x: F.scaled_dot_product_attention(
        y, x, x, attn_mask=torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril()
    ),
    "assigned": assigned,
    "embedding": lambda y, x: F.embedding(x.argmax(-1), y[0, :4].T),
    "conv1d": lambda y, x: F.conv1d(y.mT, torch.ones(4, 6, 3)),
    "scatter": lambda y, x: torch.zeros_like(x).scatter(1, x.argsort(1), y),
    "median": lambda y, x: y.median(1)[0],
    "columns": lambda y, x: F.unfold(y[:, None], 2),
    "where": lambda y, x: torch.where(x > 0, y, 0),
    "repeat_interleave": lambda y, x: y.repeat_interleave(2, 1),
    "roll": lambda y, x: y.roll(1, 1),
    "flip": lambda y, x: y.flip(1),
    "tril": lambda y, x: (y @ x.mT).tril(),
    "stack": lambda y, x: torch.stack([y, x], 1),
    "max": lambda y, x: y.max(1)[0],
    "amax": lambda y, x: y.amax(1),
    "mean": lambda y, x: y.mean(1),
    "prod": lambda y, x: y.prod(1),
    "cdist": lambda y, x: torch.cdist(y, x + 1),
    "einsum": lambda y, x: torch.einsum("bnd,bmd->bnm", y, x),
}

LOSSES = {
    "mse": lambda y, x: F.mse_loss(y, x),
    "mse_none": lambda y, x: F.mse_loss(y, x, reduction="none"),
    "l1": lambda y, x: F.l1_loss(y, x),
    "huber": lambda y, x: F.huber_loss(y, x),
    "smooth_l1": lambda y, x: F.smooth_l1_loss(y, x),
    "bce_with_logits": lambda y, x: F.binary_cross_entropy_with_logits(y, x.sigmoid()),
    "bce": lambda y, x: F.binary_cross_entropy(y.sigmoid(), x.sigmoid()),
    "kl": lambda y, x: F.kl_div(y, x.softmax(-1), reduction="batchmean"),
    "kl_mean": lambda y, x: F.kl_div(y, x.softmax(-1), reduction="mean"),
    "cross_entropy": lambda y, x: F.cross_entropy(rows(y), rows(x).argmax(1)),
    "cross_entropy_ignore": lambda y, x: F.cross_entropy(
        rows(y), rows(x).argmax(1), ignore_index=2
    ),
    "cross_entropy_smooth": lambda y, x: F.cross_entropy(
        rows(y), rows(x).argmax(1), label_smoothing=0.1
    ),
    "cross_entropy_probabilities": lambda y, x: F.cross_entropy(rows(y), rows(x).softmax(1)),
    "cross_entropy_sum": lambda y, x: F.cross_entropy(rows(y), rows(x).argmax(1), reduction="sum"),
    "cross_entropy_sequence": lambda y, x: F.cross_entropy(y.mT, x.argmax(2)),
    "nll_none": lambda y, x: F.nll_loss(rows(y), rows(x).argmax(1), reduction="none"),
    "poisson": lambda y, x: F.poisson_nll_loss(y, x.exp()),
    "soft_margin": lambda y, x: F.soft_margin_loss(y, x.sign()),
    "cosine_embedding": lambda y, x: F.cosine_embedding_loss(
        rows(y), rows(x), rows(x)[:, 0].sign()
    ),
    "hinge": lambda y, x: F.hinge_embedding_loss(y, x.sign()),
    "multilabel": lambda y, x: F.multilabel_soft_margin_loss(rows(y), (rows(x) > 0).float()),
    "triplet": lambda y, x: F.triplet_margin_loss(rows(y), rows(x), -rows(x)),
}


# PyTorch's functions for these make numbers of sizes before 2.13.
OF_LATER_VERSIONS = ("leaky_relu", "sdpa", "sdpa_causal", "attention_mask")
OF_LATER_VERSIONS += ("cross_entropy_probabilities",)
IS_EARLY = torch.__version__ < "2.13"


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name):
    is_early = IS_EARLY and name in OF_LATER_VERSIONS
    check(OPERATORS[name], name, compiles=8 if is_early else 2)


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name):
    is_early = IS_EARLY and name in OF_LATER_VERSIONS
    check(LOSSES[name], name, compiles=8 if is_early else 2)


def test_layers_of_transformers():
    """Every parameter's gradient, also where attention gives its weights."""
    layer = torch.nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True)
    attention = torch.nn.MultiheadAttention(6, 2, batch_first=True)
    parameters = [*layer.parameters(), *attention.parameters()]

    def step(x):
        y = layer(x)
        y, weights = attention(y, y, y)
        return F.cross_entropy(y[:, :-1].flatten(0, 1), x[:, 1:].argmax(-1).flatten()) + (
            weights[..., 1:].square().mean()
        )

    fast = braze.compile(step)
    for length in range(5, 15):
        x = torch.randn(2, length, 6)
        results = [(y := run(x), torch.autograd.grad(y, parameters)) for run in (fast, step)]
        same(*results, f"length {length}", rtol=1e-4, atol=1e-5)
    assert not reasons(fast)
    assert len(entries(fast)) == 2


def interleaved(x, w):
    x = w * x
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack([even - odd, odd + even], -1).flatten(-2)


LAYOUTS = {
    "stack": (lambda x, w: torch.stack([w * x, x], 1), lambda b: torch.randn(b, b + 3, 6)),
    "stack_slices": (
        lambda x, w: torch.stack([(w * x)[..., ::2], (w * x)[..., 1::2]], -1),
        lambda b: torch.randn(b, b + 3, 6),
    ),
    "stack_slices_flat": (interleaved, lambda b: torch.randn(b, b + 3, 6)),
    "stack_heads": (
        lambda x, w: torch.stack([(w * x)[..., ::2], x[..., 1::2]], -1),
        lambda b: torch.randn(b, 2, b + 3, 6),
    ),
    "stack_channels_last": (
        lambda x, w: torch.stack([w.view(6, 1, 1) * x, x], 1),
        lambda b: torch.randn(b, 6, b + 3, b + 5).to(memory_format=torch.channels_last),
    ),
    "pad_of_crop": (
        lambda x, w: F.pad((w.view(6, 1, 1) * x)[..., :-1, :], (0, 0, 0, 1)),
        lambda b: torch.randn(b, 6, b + 3, b + 5),
    ),
    "pad_of_transposed": (
        lambda x, w: F.pad((w * x).mT, (0, 1)),
        lambda b: torch.randn(b, b + 3, 6),
    ),
    "pad_of_channels_last": (
        lambda x, w: F.pad((w.view(6, 1, 1) * x)[..., 1:, :], (0, 0, 1, 0)),
        lambda b: torch.randn(b, 6, b + 3, b + 5).to(memory_format=torch.channels_last),
    ),
    "crop_by_pad": (
        lambda x, w: F.pad((w * x).mT, (-1, 0, 0, -1)),
        lambda b: torch.randn(b, b + 3, 6),
    ),
}


def same_at_all_sizes(fn, make, parameters, sizes=(4, 5, 6, 3, 7, 2, 8, 9)):
    """Values, strides and gradients are eager's at each size, under two entries."""
    fast = braze.compile(fn)
    for size in sizes:
        x = make(size)
        results = []
        for run in (fast, fn):
            y = run(x)
            tangent = torch.linspace(-1, 2, y.numel(), dtype=y.dtype).reshape(y.shape)
            gradients = torch.autograd.grad(y, parameters, tangent)
            results.append((y, gradients, y.stride(), [each.stride() for each in gradients]))
        same(*results, f"size {size}", rtol=1e-4, atol=1e-4)
    assert not reasons(fast)
    assert len(entries(fast)) == 2, [entry["guards"] for entry in entries(fast)]


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_of_what_is_joined_and_padded(name):
    fn, make = LAYOUTS[name]
    torch.manual_seed(0)
    weight = torch.randn(6).requires_grad_()
    same_at_all_sizes(lambda x: fn(x, weight), make, [weight])


CONVOLUTIONS = {
    "conv2d": (lambda: torch.nn.Conv2d(6, 6, 3, padding=1), (20, 20), torch.float32),
    "strided": (lambda: torch.nn.Conv2d(6, 4, 3, stride=2), (20, 20), torch.float32),
    "grouped": (lambda: torch.nn.Conv2d(6, 6, 3, groups=6), (20, 20), torch.float32),
    "without_bias": (lambda: torch.nn.Conv2d(6, 4, 3, bias=False), (20, 20), torch.float32),
    "doubles": (lambda: torch.nn.Conv2d(6, 4, 3), (20, 20), torch.float64),
    "conv1d": (lambda: torch.nn.Conv1d(6, 4, 3), (20,), torch.float32),
    "conv3d": (lambda: torch.nn.Conv3d(6, 4, 3), (14, 14, 14), torch.float32),
    "transposed": (lambda: torch.nn.ConvTranspose2d(6, 4, 3, stride=2), (20, 20), torch.float32),
    "channels_last_weight": (
        lambda: torch.nn.Conv2d(6, 4, 3).to(memory_format=torch.channels_last),
        (20, 20),
        torch.float32,
    ),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution_of_a_crop(name):
    """The strides of a crop are known, and no memory format has them."""
    make, space, dtype = CONVOLUTIONS[name]
    torch.manual_seed(0)
    layer = make().to(dtype)
    crop = (..., *[slice(1, 9)] * len(space))
    same_at_all_sizes(
        layer, lambda b: torch.randn(b, 6, *space, dtype=dtype)[crop], [*layer.parameters()]
    )


def test_convolution_of_a_crop_that_requires_grad():
    """The input's gradient is row-major, as in eager."""
    layer = torch.nn.Conv2d(6, 4, 3)
    scale = torch.ones(1, requires_grad=True)

    def step(x):
        return layer((x * scale)[..., 1:9, 1:9])

    same_at_all_sizes(step, lambda b: torch.randn(b, 6, 12, b + 12), [*layer.parameters(), scale])


def test_sizes_of_another_input():
    """Only a result, and so its tangent, has the sizes of `x`, which is no input of the graph."""
    weight = torch.randn(6, 6, requires_grad=True)

    def step(x, y):
        return (y.reshape(-1, 6) @ weight).view(x.size(0), x.size(1), 6)

    fast = braze.compile(step, dynamic=True)
    for rows, columns in [(6, 6), (5, 9), (4, 7), (9, 2), (3, 3)]:
        args = torch.randn(rows, columns), torch.randn(rows, columns, 6)
        results = [(y := run(*args), torch.autograd.grad(y.sum(), weight)) for run in (fast, step)]
        same(*results, f"{rows} by {columns}", rtol=1e-4, atol=1e-5)
    assert not reasons(fast)
    assert len(entries(fast)) <= 3


def test_output_size_of_a_transposed_convolution():
    """Sizes of results that come from numbers."""
    layer = torch.nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1)
    x = torch.randn(2, 3, 6, 6)

    def step(x, height, width):
        return layer(x, output_size=(height, width))

    fast = braze.compile(step)
    for height in (11, 12):
        for width in (11, 12):
            results = []
            for run in (fast, step):
                y = run(x, height, width)
                results.append((y, torch.autograd.grad(y.square().sum(), [*layer.parameters()])))
            same(*results, f"{height} by {width}", rtol=1e-4, atol=1e-4)
    assert not reasons(fast)


def test_output_size_of_a_skip():
    layer = torch.nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1)

    def step(x, skip):
        return layer(x, output_size=skip.size()) + skip

    fast = braze.compile(step)
    for size in (6, 7, 8, 9):
        for less in (0, 1):
            args = torch.randn(2, 3, size, size), torch.randn(2, 4, 2 * size - less, 2 * size - 1)
            results = []
            for run in (fast, step):
                y = run(*args)
                results.append((y, torch.autograd.grad(y.square().sum(), [*layer.parameters()])))
            same(*results, f"{size}, {less} less", rtol=1e-4, atol=1e-4)
    assert not reasons(fast)


@pytest.mark.parametrize("make", [torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad])
@pytest.mark.parametrize("name", ["sort", "max", "median"])
def test_whole_steps_whose_gradients_are_made_by_size(name, make, capfd):
    """Numbers of steps are worked out while tracing, beside zeros whose size is not known yet."""

    def trained(compile_with):
        torch.manual_seed(0)
        layer = torch.nn.Linear(6, 6)
        optimizer = make(layer.parameters(), foreach=True)

        @compile_with
        def step(x):
            optimizer.zero_grad()
            loss = getattr(layer(x), name)(1)[0].square().sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        losses = [step(torch.randn(n, n + 1, 6)) for n in (3, 4, 5, 6, 7)]
        return losses, list(layer.parameters())

    (losses, parameters), (wanted, of_eager) = trained(braze.compile), trained(lambda step: step)
    torch.testing.assert_close(losses, wanted)
    torch.testing.assert_close(parameters, of_eager, rtol=1e-4, atol=1e-5)
    assert "internal error" not in capfd.readouterr().err
