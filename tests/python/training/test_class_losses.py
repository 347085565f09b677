"""Cross-entropies: gradients, and what their backward keeps of the logits."""

import itertools

import braze
import pytest
import torch
import torch.nn.functional as F

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
ROWS, CLASSES = 24, 700


def mean(x, t):
    return F.cross_entropy(x.float(), t)


def summed_with_weights(x, t):
    weight = torch.arange(1, CLASSES + 1, device=x.device) / CLASSES
    return F.cross_entropy(x.float(), t, weight=weight, reduction="sum")


def each(x, t):
    return F.cross_entropy(x.float(), t, reduction="none").square().sum()


def smoothed(x, t):
    return F.cross_entropy(x.float(), t, label_smoothing=0.1)


def with_z_loss(x, t):
    x = x.float()
    return F.cross_entropy(x, t) + 1e-4 * torch.logsumexp(x, -1).square().mean()


def of_logarithms(x, t):
    return F.nll_loss(torch.log_softmax(x.float(), -1), t)


LOSSES = [mean, summed_with_weights, each, smoothed, with_z_loss, of_logarithms]


def classes(device):
    target = torch.randint(CLASSES, (ROWS,), device=device)
    target[3] = -100
    return target


@pytest.fixture(autouse=True)
def _gradients():
    torch.manual_seed(0)
    with torch.enable_grad():
        yield


def fp64(loss, x, t):
    wide = x.detach().double().requires_grad_()
    to_float = torch.Tensor.float
    try:
        torch.Tensor.float = lambda self: self
        value = loss(wide, t) if loss is not summed_with_weights else None
    finally:
        torch.Tensor.float = to_float
    if value is None:
        weight = torch.arange(1, CLASSES + 1, device=x.device).double() / CLASSES
        value = F.cross_entropy(wide, t, weight=weight, reduction="sum")
    return value, torch.autograd.grad(value, wide)[0]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("loss", LOSSES)
def test_gradients(loss, dtype, dynamic, device):
    x = (3 * torch.randn(ROWS, CLASSES, device=device)).to(dtype).requires_grad_()
    t = classes(device)
    value, gradient = fp64(loss, x, t)

    def error(run):
        own = run(x, t)
        (found,) = torch.autograd.grad(own, x)
        assert found.dtype == dtype and found.stride() == x.stride()
        return (own.double() - value).abs().item(), (found.double() - gradient).abs().max().item()

    ours, eager = error(braze.compile(loss, dynamic=dynamic)), error(loss)
    assert ours[0] <= 2 * eager[0] + 1e-5 * value.abs().item()
    assert ours[1] <= 2 * eager[1] + 1e-6 * gradient.abs().max().item()


# With a z-loss in single precision eager keeps the logits themselves, and raises.
KEPT_BY_EAGER = [(with_z_loss, torch.float32)]


@pytest.mark.parametrize(
    "loss, dtype",
    [
        case
        for case in itertools.product(LOSSES, [torch.float32, torch.bfloat16])
        if case not in KEPT_BY_EAGER
    ],
)
def test_logits_that_change_before_the_backward(loss, dtype):
    """Eager keeps the logarithms, so that it does not mind."""
    x = torch.randn(ROWS, CLASSES, dtype=dtype, requires_grad=True)
    t = classes("cpu")

    def run(function):
        logits = x.clone()
        value = function(logits, t)
        with torch.no_grad():
            logits.fill_(7)
        return torch.autograd.grad(value, x)[0]

    torch.testing.assert_close(run(braze.compile(loss)), run(loss), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("loss", [mean, each, with_z_loss, of_logarithms])
def test_halves_are_kept(loss):
    """Half of what eager keeps of the logits, or less."""
    x = torch.randn(ROWS, CLASSES, dtype=torch.bfloat16, requires_grad=True)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda y: kept.append(y.nbytes) or y, lambda y: y
    ):
        loss(x, classes("cpu"))
    told = braze.explain(loss)(x, classes("cpu"))
    (entry,) = told.entries
    bytes_kept = sum(saved["bytes"] for saved in entry["kept"])
    assert bytes_kept <= x.nbytes + 16 * ROWS + 64
    assert bytes_kept <= max(kept) * 0.6


@pytest.mark.parametrize("loss, dtype", KEPT_BY_EAGER)
def test_logits_that_eager_keeps(loss, dtype):
    x = torch.randn(ROWS, CLASSES, dtype=dtype, requires_grad=True)
    for function in (loss, braze.compile(loss)):
        logits = x.clone()
        value = function(logits, classes("cpu"))
        with torch.no_grad():
            logits.fill_(7)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            value.backward()
