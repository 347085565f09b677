"""The gradients of PyTorch's own operator database, compiled against eager: what the results'
gradients look like in memory too, and which of them there are.

Each twelfth operator; with OPERATORS_EVERY=1 (`make test-public`) all."""

import itertools
import os

import braze
import pytest
import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

pytest.importorskip("expecttest", reason="the database is made with it")
from torch.testing._internal.common_methods_invocations import op_db

EVERY = int(os.environ.get("OPERATORS_EVERY", "12"))
SAMPLES = int(os.environ.get("OPERATORS_SAMPLES", "6"))
# Uninitialised, or right up to a sign, a phase or an order.
LEFT_OUT = ("empty", "svd", "eig", "qr", "lstsq", "low_rank", "jiterator", "to_sparse", "sparse")
# By differences of values, eager is wrong where one of the gradients of mean and rstd is missing.
NEEDS_ALL_TANGENTS = ("native_group_norm",)
OPERATORS = [
    op
    for op in op_db[::EVERY]
    if op.supports_autograd and not any(word in op.name for word in LEFT_OUT)
]
CLOSE = {
    torch.float64: {"rtol": 1e-7, "atol": 1e-9},
    torch.float32: {"rtol": 2e-3, "atol": 2e-4},
}


def samples(op, dtype):
    if not op.supports_dtype(dtype, "cpu"):
        return
    torch.manual_seed(0)
    yield from itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=True), SAMPLES)


def differentiable(tree):
    return [
        t
        for t in tree_flatten(tree)[0]
        if isinstance(t, torch.Tensor) and t.requires_grad and t.layout == torch.strided
    ]


def tangents_for(results, form):
    """Gradients of the results: dense, repeated, in another order of dimensions, not of all."""
    made = []
    generator = torch.Generator().manual_seed(1)
    for i, result in enumerate(results):
        t = torch.randn(result.shape, dtype=result.dtype, generator=generator)
        if form == "repeated":
            t = torch.randn((), dtype=result.dtype, generator=generator).expand(result.shape)
        elif form == "permuted" and t.dim() > 1:
            order = list(range(t.dim()))[::-1]
            t = t.permute(order).contiguous().permute(order)
        made.append(None if form == "some" and i % 2 else t)
    return made


def outcome(function, sample, form):
    """Results, which of them require grad, and gradients; or the type of what was raised."""
    leaves, spec = tree_flatten((sample.input, tuple(sample.args), sample.kwargs))
    leaves = [
        t.detach().clone().requires_grad_(t.requires_grad) if isinstance(t, torch.Tensor) else t
        for t in leaves
    ]
    given, args, kwargs = tree_unflatten(leaves, spec)
    inputs = differentiable(leaves)
    torch.manual_seed(0)
    try:
        result = function(given, args, kwargs)
    except Exception as error:
        return type(error)
    flat = [t for t in tree_flatten(result)[0] if isinstance(t, torch.Tensor)]
    roots = [t for t in flat if t.requires_grad and t.grad_fn is not None]
    told = [(t.requires_grad, t.is_leaf, t.shape, t.dtype, t.stride()) for t in flat]
    tangents = tangents_for(roots, form)
    used = [(r, t) for r, t in zip(roots, tangents) if t is not None]
    if not used:
        return told, flat, []
    try:
        gradients = torch.autograd.grad(
            [r for r, _ in used], inputs, [t for _, t in used], allow_unused=True
        )
    except Exception as error:
        return type(error)
    return told, [t.detach() for t in flat], list(gradients)


def compare(op, sample, dtype, form, **settings):
    def function(x, args, kwargs):
        return op.op(x, *args, **kwargs)

    wanted = outcome(function, sample, form)
    got = outcome(braze.compile(function, **settings), sample, form)
    if isinstance(wanted, type) or isinstance(got, type):
        assert got == wanted
        return
    assert got[0] == wanted[0]
    for a, b in zip(got[1] + got[2], wanted[1] + wanted[2], strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert a.dtype == b.dtype and a.shape == b.shape
            tolerance = CLOSE.get(a.dtype, CLOSE[dtype])
            torch.testing.assert_close(a, b, equal_nan=True, **tolerance)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.full_name)
def test_gradients(op, capfd):
    forms = ("dense", "repeated", "permuted", "some")
    for dtype in (torch.float64, torch.float32):
        for number, sample in enumerate(samples(op, dtype)):
            if not isinstance(sample.input, torch.Tensor | list | tuple):
                continue
            dynamic = True if dtype == torch.float32 else None
            form = forms[number % len(forms)]
            if form == "some" and op.name in NEEDS_ALL_TANGENTS:
                form = "dense"
            compare(op, sample, dtype, form, dynamic=dynamic)
    assert "internal error" not in capfd.readouterr().err
