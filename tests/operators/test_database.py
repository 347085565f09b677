"""PyTorch's own operator database: each operator on tensors that are not row-major, out of place
between kernels and in place, against eager; and what is traced against the rules for metadata.

Each twenty-fourth operator; with OPERATORS_EVERY=1 (`make test-public`) all."""

import itertools
import os

import braze
import pytest
import torch
from support import same
from tracing import TraceBreak, trace

pytest.importorskip("expecttest", reason="the database is made with it")
from torch.testing._internal.common_methods_invocations import op_db

EVERY = int(os.environ.get("OPERATORS_EVERY", "24"))
# Not determined by their arguments: random, uninitialised, or up to a sign or an order.
LEFT_OUT = (
    "empty", "rand", "normal", "dropout", "bernoulli", "multinomial", "exponential", "cauchy",
    "geometric", "uniform", "rrelu", "svd", "eig", "qr", "lu", "lstsq", "matrix_rank", "pinv",
    "attention", "to_sparse", "low_rank", "jiterator",
)  # fmt: skip
OPERATORS = [op for op in op_db[::EVERY] if not any(word in op.name for word in LEFT_OUT)]


def permuted(t):
    """The same values, the first dimension innermost in memory."""
    if t.layout != torch.strided or t.dim() < 2:
        return t.clone()
    order = list(range(t.dim()))[::-1]
    return t.permute(order).contiguous().permute(order)


def samples(op, dtype, count):
    if not op.supports_dtype(dtype, "cpu"):
        return
    torch.manual_seed(0)
    found = op.sample_inputs("cpu", dtype, requires_grad=False)
    dense = (s for s in itertools.islice(found, 12) if isinstance(s.input, torch.Tensor))
    yield from itertools.islice((s for s in dense if s.input.numel() > 1), count)


def outcome(function, *args):
    torch.manual_seed(0)
    try:
        return function(*args), None
    except Exception as error:
        return None, type(error)


def compare(function, x, *args, **settings):
    """Results, the kind of an exception, and what became of `x`."""
    given, expected = permuted(x), permuted(x)
    wanted, error = outcome(function, expected, *args)
    got, raised = outcome(braze.compile(function, **settings), given, *args)
    assert raised == error
    if error is None:
        same(got, wanted, rtol=1e-3, atol=1e-4)
        same(given, expected, rtol=1e-3, atol=1e-4)


def after(result):
    """What reads a result in another order than it is in."""
    if isinstance(result, torch.Tensor):
        plain = result.layout == torch.strided and result.is_floating_point() and result.dim()
        return [result, result.transpose(0, -1) * 2] if plain else [result]
    if isinstance(result, (tuple, list)):
        return [y for x in result for y in after(x)]
    return [result]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.full_name)
def test_between_kernels(op, capfd):
    operator = op.op

    def function(x, args, kwargs):
        return after(operator(x * 1.5, *args, **kwargs)), x * 3 + 1

    with torch.no_grad():
        for sample in samples(op, torch.float32, 2):
            compare(function, sample.input, sample.args, sample.kwargs)
    assert "internal error" not in capfd.readouterr().err


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "op", [op for op in OPERATORS if op.inplace_variant], ids=lambda op: op.full_name
)
def test_in_place(op, capfd):
    operator = op.inplace_variant

    def function(x, args, kwargs):
        return operator(x, *args, **kwargs), x.clone()

    with torch.no_grad():
        for dtype in (torch.float32, torch.int64, torch.float16):
            for sample in samples(op, dtype, 3):
                if sample.broadcasts_input:
                    continue
                for backend in ("aten", "braze") if dtype == torch.float32 else ("aten",):
                    compare(function, sample.input, sample.args, sample.kwargs, backend=backend)
    assert "internal error" not in capfd.readouterr().err


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.full_name)
def test_rules_give_what_is_traced(op):
    for dtype in (torch.float32, torch.float16, torch.int64, torch.bool, torch.complex64):
        for sample in samples(op, dtype, 3):
            for x in (sample.input, permuted(sample.input)):
                try:
                    with torch.no_grad():
                        traced = trace(lambda x, s=sample: op.op(x, *s.args, **s.kwargs), x)
                except (TraceBreak, RuntimeError, ValueError, TypeError, IndexError):
                    continue  # a break, or refused by eager
                assert not traced["rules"], traced["rules"]
