"""What is kept for a backward goes while it runs, where nobody else needs it."""

import subprocess
import sys
import textwrap

import braze
import pytest
import torch
from comparing import assert_same, leaf

PEAK = textwrap.dedent("""
    import sys, torch, braze
    torch.manual_seed(0)
    weights = [torch.nn.Parameter(torch.randn(2048, 2048)) for _ in range(10)]
    x = torch.randn(2048, 2048)

    def model(x):
        for w in weights:
            x = torch.tanh(x * w) + x
        return x

    def field(name):
        lines = open("/proc/self/status").read().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith(name)))

    call = braze.compile(model) if sys.argv[1] == "compiled" else model
    before = field("VmRSS")
    for _ in range(3):
        for w in weights:
            w.grad = None
        call(x).square().mean().backward()
    print(field("VmHWM") - before)
""")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status; Linux lifts it")
def test_the_peak_is_below_eagers():
    def peak(how):
        run = subprocess.run(
            [sys.executable, "-c", PEAK, how], capture_output=True, text=True, check=True
        )
        return int(run.stdout)

    assert peak("compiled") < 0.9 * peak("eager")


def layers(x, *weights):
    for w in weights:
        x = torch.tanh(x @ w) + x.sin()
    return x


def given(rows=600):
    """Large enough for memory of its own."""
    torch.manual_seed(1)
    shapes = [(rows, 600)] + 3 * [(600, 600)]
    return tuple((torch.randn(shape) / 25).requires_grad_() for shape in shapes)


def both(run):
    """What `run` gives for the function in eager and compiled."""
    return run(layers), run(braze.compile(layers))


def test_gradients_and_tangents_of_the_user():
    tangent = torch.randn(600, 600)
    kept = tangent.clone()

    def run(function):
        leaves = given()
        function(*leaves).backward(tangent)
        assert torch.equal(tangent, kept)
        return [leaf.grad for leaf in leaves]

    for got, wanted in zip(*reversed(both(run)), strict=True):
        assert_same(got, wanted, rtol=1e-4, atol=1e-4)
        assert not got._is_view()


def test_a_graph_that_is_kept_is_there_again():
    def run(function):
        leaves = given()
        loss = function(*leaves).square().sum()
        once = torch.autograd.grad(loss, leaves, retain_graph=True)
        again = torch.autograd.grad(loss, leaves)
        assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))
        with pytest.raises(RuntimeError, match="second time") as error:
            torch.autograd.grad(loss, leaves)
        return *once, str(error.value)

    wanted, got = both(run)
    assert got[-1] == wanted[-1]
    for a, b in zip(got[:-1], wanted[:-1], strict=True):
        assert_same(a, b, rtol=1e-4, atol=1e-4)


def test_what_the_user_holds_stays():
    def hidden(x, w, v):
        h = torch.tanh(x @ w)
        return h, (h @ v).sin()

    fast = braze.compile(hidden)
    x, w, v, _ = given()
    h, y = fast(x, w, v)
    before = h.detach().clone()
    y.sum().backward()
    assert torch.equal(h, before)
    assert torch.equal(w, given()[1])
    (again,) = torch.autograd.grad(fast(x, w, v)[0].sum(), w)
    (wanted,) = torch.autograd.grad(hidden(x, w, v)[0].sum(), w)
    assert_same(again, wanted, rtol=1e-4, atol=1e-4)


def test_several_results_asked_for_one_after_the_other():
    def heads(x, w, v):
        h = torch.tanh(x)
        return (h @ w).sin(), (h @ v).cos()

    def run(function):
        leaves = given()[:3]
        a, b = function(*leaves)
        first = torch.autograd.grad(a.sum(), leaves[:2], retain_graph=True)
        b.sum().backward()
        return *first, *(leaf.grad for leaf in leaves)

    for got, wanted in zip(run(braze.compile(heads)), run(heads), strict=True):
        assert_same(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("fails_at", [0, 1])
def test_a_hook_that_raises(fails_at):
    def run(function):
        leaves = given()

        def hook(gradient):
            raise ValueError("mine")

        handle = leaves[fails_at].register_hook(hook)
        with pytest.raises(ValueError, match="mine"):
            function(*leaves).sum().backward()
        handle.remove()
        for tensor in leaves:
            tensor.grad = None
        function(*leaves).sum().backward()
        return [tensor.grad for tensor in leaves]

    wanted, got = both(run)
    for a, b in zip(got, wanted, strict=True):
        assert_same(a, b, rtol=1e-4, atol=1e-4)


class Checked(torch.autograd.Function):
    """Its backward looks an element up, which may not be there."""

    @staticmethod
    def forward(ctx, x, index):
        ctx.save_for_backward(x, index)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        x, index = ctx.saved_tensors
        return gradient * x.index_select(0, index), None


def test_a_backward_that_fails_on_its_data_raises_as_eagers():
    def run(function):
        x = leaf(600, 600)
        y = function(x, torch.full((600,), 600))
        with pytest.raises((IndexError, RuntimeError)) as error:
            y.sum().backward()
        return type(error.value), str(error.value)

    assert run(braze.compile(Checked.apply)) == run(Checked.apply)
