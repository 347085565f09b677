"""The operators that gradients are made of, called as such: kernels, with eager's results."""

import braze
import pytest
import torch
import torch.nn.functional as F
from accuracy import assert_accurate
from support import outcome, same

aten = torch.ops.aten
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
# Where eager computes with functions of its own, to a few ulp of what is added up.
CLOSE = {torch.float32: 1e-6, torch.float64: 1e-13, torch.float16: 2e-3, torch.bfloat16: 1e-2}

ACTIVATIONS = {
    "threshold": lambda dy, x: aten.threshold_backward(dy, x, 0.25),
    "relu": lambda dy, x: aten.threshold_backward(dy, x.relu(), 0),
    "gelu": lambda dy, x: aten.gelu_backward(dy, x),
    "gelu by tanh": lambda dy, x: aten.gelu_backward(dy, x, approximate="tanh"),
    "tanh": lambda dy, x: aten.tanh_backward(dy, x.tanh()),
    "sigmoid": lambda dy, x: aten.sigmoid_backward(dy, x.sigmoid()),
    "silu": lambda dy, x: aten.silu_backward(dy, x),
    "leaky_relu": lambda dy, x: aten.leaky_relu_backward(dy, x, 0.1, False),
    "hardtanh": lambda dy, x: aten.hardtanh_backward(dy, x, -0.5, 1),
    "elu": lambda dy, x: aten.elu_backward(dy, 1.3, 1.1, 0.7, False, x),
    "elu of its result": lambda dy, x: aten.elu_backward(dy, 1.3, 1.1, 1, True, aten.elu(x, 1.3, 1.1)),
    "softplus": lambda dy, x: aten.softplus_backward(dy, x, 1.5, 2),
    "hardswish": lambda dy, x: aten.hardswish_backward(dy, x * 2),
    "hardsigmoid": lambda dy, x: aten.hardsigmoid_backward(dy, x * 2),
    "hardshrink": lambda dy, x: aten.hardshrink_backward(dy, x, 0.3),
    "softshrink": lambda dy, x: aten.softshrink_backward(dy, x, 0.5),
    "prelu": lambda dy, x: torch._prelu_kernel(x, dy.new_full((1,) * dy.dim(), 0.3)),
    "gradients of prelu": lambda dy, x: aten._prelu_kernel_backward(
        dy, x, dy.new_full((1,) * dy.dim(), 0.3)
    ),
    "dropout": lambda dy, x: aten.native_dropout_backward(dy, x > 0, 1.25),
}  # fmt: skip
EXACT = ("threshold", "relu", "leaky_relu", "hardtanh", "hardshrink", "softshrink", "dropout")


def calls_of(function, *args):
    """The library calls of the plan."""
    with torch.no_grad():
        plan = braze.explain(function)(*args).entries[0]["plan"]
    return [line for line in plan.splitlines() if "aten." in line]


def compare(function, *args, rtol=0.0, atol=0.0):
    with torch.no_grad():
        compiled = braze.compile(function)
        same(compiled(*args), function(*args), rtol=rtol, atol=atol)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(name, dtype):
    function = ACTIVATIONS[name]
    torch.manual_seed(0)
    bound = 0 if name in EXACT else CLOSE[dtype]
    for shape in ((), (1,), (67,), (4, 33), (2, 3, 16)):
        dy, x = torch.randn(shape).to(dtype), (torch.randn(shape) * 2).to(dtype)
        compare(function, dy, x, rtol=4 * bound, atol=bound)
    assert not calls_of(function, dy, x)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_of_other_strides(name):
    torch.manual_seed(1)
    dy, x = torch.randn(6, 8, 10), torch.randn(6, 8, 10)
    for a, b in (
        (dy.transpose(0, 2), x.transpose(0, 2)),
        (dy[::2, :, 1::3], x[::2, :, 1::3]),
        (dy[:, :1].expand(6, 8, 10), x),
        (dy, x.transpose(0, 1).contiguous().transpose(0, 1)),
    ):
        compare(ACTIVATIONS[name], a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_glu(dtype):
    torch.manual_seed(0)
    for shape, dim in (((6, 8), -1), ((4, 10, 3), 1), ((2, 66), 1), ((34,), 0)):
        x = (torch.randn(shape) * 2).to(dtype)
        dy = torch.randn_like(torch.nn.functional.glu(x, dim))
        for function in (
            lambda dy, x, d=dim: torch.nn.functional.glu(x, d),
            lambda dy, x, d=dim: aten.glu_backward(dy, x, d),
        ):
            bound = CLOSE[dtype]
            compare(function, dy, x, rtol=8 * bound, atol=4 * bound)
            assert not calls_of(function, dy, x)


def test_special_values():
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([nan, inf, -inf, 0.0, -0.0, 0.25, -0.5, 1.0]).repeat(8)
    for name in EXACT + ("elu", "tanh", "sigmoid"):
        for dy in (torch.ones_like(x), torch.full_like(x, inf), torch.full_like(x, nan)):
            compare(ACTIVATIONS[name], dy, x, rtol=1e-5)


def test_integers_and_mixed_dtypes():
    n = torch.arange(-5, 6)
    compare(lambda dy, x: aten.threshold_backward(dy, x, 2), n * 3, n)
    dy, x = torch.randn(5), torch.randn(5, dtype=torch.float64)
    compare(lambda dy, x: aten.tanh_backward(dy, x), dy, x, rtol=1e-12)
    with torch.no_grad():
        for function in (
            lambda: aten.leaky_relu_backward(n, n, 1, False),
            lambda: aten.gelu_backward(torch.ones(3), torch.ones(2)),
        ):
            same(outcome(braze.compile(function), (), {})[:2], outcome(function, (), {})[:2])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("log", [False, True])
def test_softmax(log, dtype):
    torch.manual_seed(2)
    for shape in ((7,), (5, 33), (3, 4, 129), (2, 0, 3)):
        for dim in range(len(shape)):
            x = torch.randn(shape).to(dtype)
            y = x.log_softmax(dim) if log else x.softmax(dim)
            dy = torch.randn(shape).to(dtype)
            operator = aten._log_softmax_backward_data if log else aten._softmax_backward_data

            def function(dy, y, dim=dim, operator=operator):
                return operator(dy, y, dim, dtype) * 2

            bound = 20 * CLOSE[dtype]
            compare(function, dy, y, rtol=bound, atol=bound)
            compare(function, dy.transpose(0, -1), y.transpose(0, -1), rtol=bound, atol=bound)
            if 0 not in shape:
                assert not calls_of(function, dy, y)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("normalized", [1, 2, 3])
def test_layer_norm(normalized, dtype):
    torch.manual_seed(3)
    for shape, weighted in (((4, 5, 32), True), ((4, 5, 32), False), ((70, 2, 17), True)):
        if weighted or dtype == torch.float32:
            size = shape[3 - normalized :]
            x, dy = torch.randn(shape).to(dtype), torch.randn(shape).to(dtype)
            weight = torch.randn(size).to(dtype) if weighted else None
            bias = torch.randn(size).to(dtype) if weighted else None
            _, mean, rstd = aten.native_layer_norm(x, size, weight, bias, 1e-5)
            for mask in ([True] * 3, [True, False, False], [False, True, True])[
                : 3 if weighted else 1
            ]:
                mask = [mask[0]] + [m and weighted for m in mask[1:]]

                def function(dy, x, mean, rstd, weight, bias, size=size, mask=mask):
                    results = aten.native_layer_norm_backward(
                        dy, x, size, mean, rstd, weight, bias, mask
                    )
                    return [r for r, m in zip(results, mask) if m]

                args = (dy, x, mean, rstd, weight, bias)
                bound = 20 * CLOSE[dtype]
                compare(function, *args, rtol=bound, atol=bound)
                if any(mask):
                    assert not calls_of(function, *args)


def test_layer_norm_of_strides_and_mixed_dtypes():
    torch.manual_seed(4)
    x, dy, weight = torch.randn(8, 6, 16), torch.randn(8, 6, 16), torch.randn(16)

    def function(dy, x, weight):
        _, mean, rstd = aten.native_layer_norm(x, [16], weight, weight, 1e-5)
        return aten.native_layer_norm_backward(
            dy, x, [16], mean, rstd, weight, weight, [True, True, True]
        )

    compare(function, dy.transpose(0, 1), x.transpose(0, 1), weight, rtol=1e-5, atol=1e-5)
    compare(function, dy[:, :1].expand(8, 6, 16), x, weight, rtol=1e-5, atol=1e-5)
    # Eager sums the parameters' gradients in bfloat16, in as many parts as there are threads.
    half = (dy.bfloat16(), x.bfloat16(), weight)
    with torch.no_grad():
        exact = function(*(t.double() for t in half))
        assert_accurate(braze.compile(function)(*half), function(*half), exact)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_nll_loss(reduction, dtype):
    torch.manual_seed(5)

    def forward(x, target, weight):
        return aten.nll_loss_forward(x, target, weight, reduction, -100)

    def backward(dy, x, target, weight, total):
        return aten.nll_loss_backward(dy, x, target, weight, reduction, -100, total)

    bound = 4 * CLOSE[dtype]
    for rows, classes in ((1, 3), (9, 5), (300, 40), (0, 4)):
        x, weight = torch.randn(rows, classes).log_softmax(1).to(dtype), torch.rand(classes)
        for weight in (None, weight.to(dtype)):
            for ignored in (False, True):
                target = torch.randint(0, classes, (rows,))
                if ignored:
                    target[::3] = -100
                compare(forward, x, target, weight, rtol=bound)
                _, total = forward(x, target, weight)
                dy = torch.randn((rows,) if reduction == 0 else ()).to(dtype)
                compare(backward, dy, x, target, weight, total)
    if dtype in (torch.float32, torch.float64):
        x, target, dy = x.new_ones(4, 3), torch.tensor([0, 1, 2, -100]), dy.new_ones(())
        assert not calls_of(forward, x, target, None)
        if reduction:
            assert not calls_of(backward, dy, x, target, None, dy)


def test_targets_out_of_range():
    x, dy = torch.randn(3, 4), torch.ones(())
    with torch.no_grad():
        for target in (torch.tensor([0, 4, 1]), torch.tensor([-1, 0, 0])):
            for function in (
                lambda t: aten.nll_loss_forward(x, t, None, 1, -100),
                lambda t: aten.nll_loss_backward(dy, x, t, None, 1, -100, dy),
            ):
                got = outcome(braze.compile(function), (target,), {})
                same(got[:2], outcome(function, (target,), {})[:2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64], ids=str)
def test_slices(dtype):
    dy = torch.arange(24).reshape(2, 3, 4).to(dtype)
    for function in (
        lambda dy: aten.slice_backward(dy, [2, 9, 4], 1, 2, 9, 3),
        lambda dy: aten.slice_backward(dy, [2, 3, 6], -1, -5, -1, 1),
        lambda dy: aten.slice_backward(dy * 2, [5, 3, 4], 0, 1, 3, 1) + 1,
        lambda dy: aten.select_backward(dy, [2, 3, 5, 4], 2, 3),
        lambda dy: aten.select_backward(dy, [2, 3, 4, 2], -1, -2),
    ):
        compare(function, dy)
        compare(function, dy.transpose(0, 2).contiguous().transpose(0, 2))
        assert not calls_of(function, dy)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_embedding(dtype):
    torch.manual_seed(6)
    for indices in (torch.randint(0, 9, (40,)), torch.randint(0, 9, (3, 8), dtype=torch.int32)):
        grad = torch.randn(*indices.shape, 17).to(dtype)
        for padding in (-1, 3):
            for scale in (False, True):

                def function(grad, indices, padding=padding, scale=scale):
                    return aten.embedding_dense_backward(grad, indices, 9, padding, scale)

                compare(function, grad, indices)
                compare(function, grad.transpose(0, -1).contiguous().transpose(0, -1), indices)
    outside = torch.tensor([0, 12, -1, 3, 8])
    compare(lambda g, i: aten.embedding_dense_backward(g, i, 9, 3, False), grad[:, 0][:1].expand(5, 17), outside)  # fmt: skip
    empty = torch.zeros(0, dtype=torch.int64)
    compare(lambda g, i: aten.embedding_dense_backward(g, i, 9, 3, False), torch.zeros(0, 5).to(dtype), empty)  # fmt: skip


def test_gradients_of_indexing():
    torch.manual_seed(7)
    i = torch.randint(0, 6, (20,))
    grad = torch.randn(20, 5)
    for function in (
        lambda g, i: torch.ops.aten.index_put(g.new_zeros(6, 5), [i], g, True),
        lambda g, i: aten._index_put_impl_(g.new_zeros(6, 5), [i], g, True, True),
        lambda g, i: g.new_zeros(6, 5).index_add(0, i, g),
        lambda g, i: g[:, 0].new_zeros(6).scatter_add(0, i, g[:, 0].contiguous()),
        lambda g, i: aten._index_put_impl_(g.new_zeros(6, 5), [i], g * 2, False, False),
    ):
        compare(function, grad, i)
        assert not calls_of(function, grad, i)


def test_sizes_that_vary():
    def function(dy, x, target):
        y = x.log_softmax(1)
        loss, total = aten.nll_loss_forward(y, target, None, 1, -100)
        grad = aten.nll_loss_backward(loss, y, target, None, 1, -100, total)
        grad = aten._log_softmax_backward_data(grad, y, 1, torch.float32)
        _, mean, rstd = aten.native_layer_norm(x, x.shape[1:], None, None, 1e-5)
        norm = aten.native_layer_norm_backward(
            dy, x, x.shape[1:], mean, rstd, None, None, [True, False, False]
        )
        return loss, grad, norm[0], aten.gelu_backward(dy, x), aten.slice_backward(dy, [x.shape[0] * 2, x.shape[1]], 0, 0, x.shape[0], 1)  # fmt: skip

    compiled = braze.compile(function, dynamic=True)
    with torch.no_grad():
        for rows, classes in ((4, 5), (7, 64), (33, 100), (2, 2)):
            args = torch.randn(rows, classes), torch.randn(rows, classes)
            args += (torch.randint(0, classes, (rows,)),)
            same(compiled(*args), function(*args), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("bound", [0.1, 0.3, 0.7, 0.2])
def test_halves_on_a_bound_that_they_do_not_have(bound, dtype):
    """The forward compares in single precision, gradients of both shrinks with a rounded bound."""
    x = torch.tensor([bound, -bound, 2 * bound, 0.99 * bound] * 8, dtype=dtype)
    dy = torch.ones_like(x)
    for name in ("hardshrink", "softshrink", "threshold"):
        function = getattr(aten, name + "_backward")
        compare(lambda dy, x, function=function: function(dy, x, bound), dy, x)
    for function in (F.hardshrink, F.softshrink):
        compare(lambda x, function=function: function(x, bound), x)
    compare(lambda x: F.threshold(x, bound, 2.0), x)
