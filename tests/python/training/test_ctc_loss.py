"""`F.ctc_loss`: what it keeps has a size that does not depend on data (src/trace/ctc_loss.h)."""

import braze
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from support import entries, reasons

STEPS, BATCH, CLASSES = 12, 3, 5


@pytest.fixture(autouse=True)
def enable_grad():
    torch.manual_seed(0)
    with torch.enable_grad():
        yield


def operands(targets="rows", lengths="tensors", dtype=torch.float32, steps=STEPS, first=3):
    x = torch.randn(steps, BATCH, CLASSES, dtype=dtype)
    of_targets = torch.tensor([first, 2, 4])
    of_inputs = torch.tensor([steps, steps - 2, steps - 1])
    rows = torch.randint(1, CLASSES, (BATCH, 4))
    if targets == "joined":
        rows = torch.cat([row[:n] for row, n in zip(rows, of_targets.tolist())])
    if lengths == "int32":
        return x, rows, of_inputs.int(), of_targets.int()
    if lengths in ("lists", "tuples"):
        kind = list if lengths == "lists" else tuple
        return x, rows, kind(of_inputs.tolist()), kind(of_targets.tolist())
    return x, rows, of_inputs, of_targets


def loss_and_gradient(call, x, *others):
    x = x.detach().clone().requires_grad_()
    loss = call(x, *others)
    loss.backward(torch.linspace(0.5, 2, loss.numel(), dtype=loss.dtype).reshape(loss.shape))
    return loss.detach(), x.grad


def assert_same(fast, function, *given, exact=False):
    """exact: to the bit; sums over the batch are in another order."""
    for got, wanted in zip(
        loss_and_gradient(fast, *given), loss_and_gradient(function, *given), strict=True
    ):
        assert (got.dtype, got.shape, got.stride()) == (wanted.dtype, wanted.shape, wanted.stride())
        tolerance = {"rtol": 0, "atol": 0} if exact else {}
        torch.testing.assert_close(got, wanted, **tolerance)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("targets", ["rows", "joined"])
@pytest.mark.parametrize("lengths", ["tensors", "int32", "lists", "tuples"])
def test_gradients(lengths, targets, dtype, reduction):
    def function(x, *others):
        return F.ctc_loss(x, *others, reduction=reduction)

    fast = braze.compile(function, fullgraph=True)
    for _ in range(2):
        given = operands(targets, lengths, dtype)
        assert_same(fast, function, *given, exact=reduction == "none")
    assert len(entries(fast)) == 1


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("zero_infinity", [True, False])
def test_targets_that_do_not_fit(zero_infinity, reduction):
    def function(x, *others):
        return F.ctc_loss(x, *others, reduction=reduction, zero_infinity=zero_infinity)

    fast = braze.compile(function, fullgraph=True)
    x, rows, of_inputs, of_targets = operands()
    of_inputs[1] = 1  # two targets in one step
    for got, wanted in zip(
        *(loss_and_gradient(call, x, rows, of_inputs, of_targets) for call in (fast, function))
    ):
        torch.testing.assert_close(got, wanted, equal_nan=True)


def test_no_targets():
    def function(x, *others):
        return F.ctc_loss(x, *others)

    fast = braze.compile(function, fullgraph=True)
    x, rows, of_inputs, of_targets = operands()
    of_targets[0] = 0  # whose mean is over one
    assert_same(fast, function, x, rows, of_inputs, of_targets)


@pytest.mark.parametrize("blank", [0, 2, CLASSES - 1])
def test_blanks(blank):
    loss = nn.CTCLoss(blank=blank)

    def function(x, rows, *lengths):
        return loss(x.log_softmax(-1), (rows + blank) % CLASSES, *lengths)

    x, rows, *lengths = operands()
    fast = braze.compile(function, fullgraph=True)
    got, wanted = (loss_and_gradient(call, x, rows, *lengths) for call in (fast, function))
    torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("numbers", [True, False])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_one_sequence(reduction, numbers):
    def function(x, *others):
        return F.ctc_loss(x, *others, reduction=reduction)

    x, rows, *_ = operands()
    lengths = [(STEPS,), (3,)] if numbers else [torch.tensor(STEPS), torch.tensor(3)]
    assert_same(braze.compile(function, fullgraph=True), function, x[:, 0], rows[0, :3], *lengths)


def test_without_gradients():
    def function(x, *others):
        return F.ctc_loss(x, *others)

    given = operands()
    assert torch.equal(braze.compile(function, fullgraph=True)(*given), function(*given))


def test_sizes_and_lengths_that_vary():
    """One graph for all lengths, and one for all numbers of steps."""

    def function(x, *others):
        return F.ctc_loss(x.log_softmax(-1), *others)

    fast = braze.compile(function, fullgraph=True)
    for steps, first in ((12, 3), (12, 1), (15, 2), (20, 4), (17, 3)):
        given = operands(steps=steps, first=first)
        got, wanted = (loss_and_gradient(call, *given) for call in (fast, function))
        torch.testing.assert_close(got, wanted)
    assert len(entries(fast)) == 2


def test_training():
    def make():
        torch.manual_seed(1)
        return nn.Linear(7, CLASSES)

    def step(model, optimizer, x, *others):
        optimizer.zero_grad()
        loss = F.ctc_loss(model(x).log_softmax(-1), *others)
        loss.backward()
        optimizer.step()
        return loss.detach()

    _, *others = operands()
    x = torch.randn(STEPS, BATCH, 7)
    told = []
    for wrap in (lambda f: f, lambda f: braze.compile(f, fullgraph=True)):
        model = make()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        run = wrap(step)
        losses = [run(model, optimizer, x, *others) for _ in range(4)]
        told.append((torch.stack(losses), model.weight.detach()))
    torch.testing.assert_close(told[1], told[0])
    assert told[0][0][-1] < told[0][0][0]


def cpu_autocast(x, *others):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return F.ctc_loss(x.log_softmax(-1), *others)


def test_autocast():
    fast = braze.compile(cpu_autocast)
    for dtype in (torch.float32, torch.bfloat16):
        x, *others = operands()
        got, wanted = (loss_and_gradient(f, x.to(dtype), *others) for f in (fast, cpu_autocast))
        torch.testing.assert_close(got, wanted)


REFUSED = {
    "inputs too long": lambda x, t, i, n: (x, t, i + 1, n),
    "targets too long": lambda x, t, i, n: (x, t, i, n + 1),
    "too few lengths": lambda x, t, i, n: (x, t, i[:2], n),
    "floats": lambda x, t, i, n: (x, t, i.float(), n),
    "halves": lambda x, t, i, n: (x.half(), t, i, n),
    "no dimension": lambda x, t, i, n: (x[0, 0], t, i, n),
    "too few lengths in a list": lambda x, t, i, n: (x, t, i.tolist()[:2], n.tolist()),
    "targets too long, in a list": lambda x, t, i, n: (x, t, i.tolist(), (n + 1).tolist()),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_eager_refuses(name):
    def function(x, *others):
        return F.ctc_loss(x, *others)

    x, *others = operands()
    given = REFUSED[name](x.requires_grad_(), *others)
    told = []
    fast = braze.compile(function)
    for call in (function, fast, fast):
        with pytest.raises((RuntimeError, IndexError)) as raised:
            call(*given)
        told.append((type(raised.value), str(raised.value)))
    assert told[0] == told[1] == told[2]


def test_its_gradient_has_none():
    def function(x, *others):
        return F.ctc_loss(x, *others)

    told = []
    for call in (function, braze.compile(function, fullgraph=True)):
        x, *others = operands()
        x.requires_grad_()
        (gradient,) = torch.autograd.grad(call(x, *others), x, create_graph=True)
        assert gradient.requires_grad
        with pytest.raises(RuntimeError) as raised:
            gradient.square().sum().backward()
        told.append((gradient.detach(), str(raised.value)))
    torch.manual_seed(0)
    assert "_ctc_loss_backward is not implemented" in told[1][1]
    assert told[0][1] == told[1][1]


def test_no_break():
    def function(x, *others):
        return F.ctc_loss(x.log_softmax(-1), *others) * 2

    fast = braze.compile(function)
    x, *others = operands()
    loss_and_gradient(fast, x, *others)
    assert reasons(fast) == []
