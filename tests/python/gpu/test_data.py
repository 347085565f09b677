"""Floats that vary, numbers read from data and control flow on data, of CUDA tensors."""

import braze
import pytest
import torch
from support import entries, reasons
from torch._higher_order_ops import while_loop


def check(fn, calls, eager=None, **settings):
    compiled = braze.compile(fn, **settings)
    for args in calls:
        expected, got = (eager or fn)(*args), compiled(*args)
        assert got.device == expected.device and got.stride() == expected.stride()
        torch.testing.assert_close(got, expected, equal_nan=True)
    assert not reasons(compiled)
    return compiled


def vector(size=1000):
    return torch.randn(size, device="cuda")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_floats_that_vary(dtype):
    def fn(x, s):
        return torch.relu(x * s + 1) / (s * 2 - 1.5)

    x = torch.randn(33, 100, device="cuda", dtype=dtype)
    compiled = check(fn, [(x, s) for s in (0.5, 0.7, 0.9, float("inf"), -0.0, 3.0)])
    assert len(entries(compiled)) == 2


def test_floats_beside_library_calls():
    def fn(x, w, s):
        return torch.mm(x * s, w) * s + torch.cumsum(x, 0) * s

    x, w = torch.randn(64, 64, device="cuda"), torch.randn(64, 64, device="cuda")
    check(fn, [(x, w, s) for s in (0.5, 0.25, 2.0)])


def test_a_float_on_a_side_stream():
    compiled = braze.compile(lambda x, s: x * s)
    x = vector()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        results = [(s, compiled(x, s)) for s in (0.5, 0.7, 0.9, 1.1)]
    stream.synchronize()
    for s, result in results:
        torch.testing.assert_close(result, x * s)


def test_numbers_read_from_data():
    def fn(x, n):
        return torch.relu(x) * n.item() + 1

    calls = [(vector(), torch.tensor(n, device="cuda")) for n in (3, 4, 5)]
    check(fn, calls, options={"capture_scalar_outputs": True})


def test_sizes_read_from_data():
    def fn(x):
        return torch.relu(x[x > 0] * 2) + 1

    calls = [(vector(size),) for size in (1000, 1000, 77)]
    check(fn, calls, options={"capture_dynamic_output_shape_ops": True})


def test_branches():
    def fn(x):
        return torch.cond(x.sum() > 0, lambda y: y.sin() + 1, lambda y: y.cos() * 2, (x,)) - 3

    def eager(x):
        return (x.sin() + 1 if x.sum() > 0 else x.cos() * 2) - 3

    x = vector().abs()
    check(fn, [(x,), (-x,), (x,)], eager)


def test_loops():
    def fn(x):
        def body(count, y):
            return count + 1, torch.relu(y * 1.5) + 0.1

        start = torch.zeros((), device="cuda")
        count, y = while_loop(lambda count, y: y.sum() < 1000, body, (start, x))
        return y + count

    def eager(x):
        count = 0
        while x.sum() < 1000:
            x = torch.relu(x * 1.5) + 0.1
            count += 1
        return x + count

    check(fn, [(vector(100).abs(),), (vector(100).abs() + 2,), (vector(100).abs() + 20,)], eager)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize(
    "function",
    [
        torch.view_as_complex,
        lambda x: x.detach(),
        lambda x: torch.inner(x[:, 0], x[:, 1]),
        lambda x: (x.t() @ x)[0],
        lambda x: x.clone().t_(),
        lambda x: x.view(-1)[2:],
    ],
    ids=["view_as_complex", "detach", "inner", "row of a product", "t_", "slice"],
)
def test_results_that_are_views(function, mode):
    """What is done with them later runs on the GPU."""
    x = torch.randn(5, 2, device="cuda")
    compiled = braze.compile(function)
    with mode():
        for _ in range(2):
            got, expected = compiled(x), function(x)
            assert got.device == expected.device and got.stride() == expected.stride()
            assert repr(got) == repr(expected)
            torch.testing.assert_close(got * 2, expected * 2)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_statistics_of_norms(dtype, training, capfd):
    """A GPU keeps them in float32; of batch norm also where it does not train."""

    def f(x, mean, var):
        results = torch.native_batch_norm(x, None, None, mean, var, training, 0.1, 1e-5)
        return results + torch.native_layer_norm(x, (4,), None, None, 1e-5)

    x = torch.randn(3, 2, 4, device="cuda", dtype=dtype)
    with torch.no_grad():
        got, expected = (
            g(
                x,
                torch.zeros(2, device="cuda", dtype=dtype),
                torch.ones(2, device="cuda", dtype=dtype),
            )
            for g in (braze.compile(f), f)
        )
    for a, b in zip(got, expected):
        assert a.shape == b.shape and a.dtype == b.dtype
        torch.testing.assert_close(a, b)
    assert "internal error" not in capfd.readouterr().err
