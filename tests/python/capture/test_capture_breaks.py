"""What cannot be captured gives up with a reason; where the frame's state can be expressed, at the
breaking instruction, and CPython goes on from there."""

import contextlib
import copy
import os
import subprocess

import pytest
import torch
import torch.nn.functional as F
from capturing import capture, check, check_gives_up, same


class PythonStream:
    def write(self, text):
        pass


def raise_memory_error():
    raise MemoryError


REASONS = [
    ("Tensor.numpy(): reads the tensor's data", "DataDependent", lambda x: x.numpy()),
    ("Tensor.tolist()", "DataDependent", lambda x: x.tolist()),
    ("a tensor is formatted as text", "TensorAsText", lambda x: f"{x}"),
    ("a tensor is formatted as text", "TensorAsText", lambda x: str(x)),
    ("a tensor is formatted as text", "TensorAsText", lambda x: "{}".format(x)),
    ("nonzero", "DataDependentSize", lambda x: x.nonzero()),
    ("Tensor.data_ptr()", "TensorInternals", lambda x: x.data_ptr()),
    ("Tensor.grad_fn is read", "TensorInternals", lambda x: x.grad_fn),
    ("Tensor._version is read", "TensorInternals", lambda x: x._version),
    ("Tensor.set_()", "TensorInternals", lambda x: x.set_()),
    ("Tensor.is_set_to()", "TensorInternals", lambda x: x.is_set_to(x)),
    ("Tensor.untyped_storage()", "TensorInternals", lambda x: x.untyped_storage()),
    ("Tensor.grad is set", "TensorInternals", lambda x: setattr(x, "grad", x)),
    ("Tensor._foo is set", "TensorInternals", lambda x: setattr(x, "_foo", 1)),
    ("'Parameter' tensor is made", "UnsupportedTensor", lambda x: torch.nn.Parameter(x)),
    ("torch.random.manual_seed()", "UntraceableOp", lambda x: torch.manual_seed(0)),
    ("set_num_threads", "UntraceableOp", lambda x: torch.set_num_threads(1)),
    ("set_default_dtype", "UntraceableOp", lambda x: torch.set_default_dtype(torch.float64)),
    ("torch.serialization.save()", "UntraceableOp", lambda x: torch.save(x, "/nowhere/at/all")),
    ("print() to a stream", "Output", lambda x: print("text", file=PythonStream())),
    ("a tensor is formatted as text", "TensorAsText", lambda x: print(x)),
    ("MemoryError", "Exception", lambda x: raise_memory_error()),
    (
        "requires grad shares memory with a tensor from outside",
        "Autograd",
        lambda x: torch.enable_grad()(lambda: x.view(-1))(),
    ),
]


@pytest.mark.parametrize("match, kind, fn", REASONS, ids=lambda v: v if isinstance(v, str) else "")
def test_reason(match, kind, fn):
    x = torch.randn(3, 4)
    x.requires_grad_(kind == "Autograd")
    before = torch.get_default_dtype(), torch.get_num_threads(), torch.get_rng_state()
    check_gives_up(match, fn, x, kind=kind)
    assert before[:2] == (torch.get_default_dtype(), torch.get_num_threads())
    assert torch.equal(before[2], torch.get_rng_state())


@pytest.mark.parametrize(
    "fn, error",
    [
        (lambda x: torch.cat([x + 1, x[:, :2]]), RuntimeError),
        (lambda x: (x * 2) / (1 / 0), ZeroDivisionError),
        (lambda x: {}[(x - 1).dim()], KeyError),
    ],
    ids=["operation", "division", "key"],
)
def test_exceptions_end_what_is_captured(fn, error):
    captured = capture(fn, torch.randn(3, 4))
    assert captured["exit"] == "raise" and captured["traced"] and not captured["reason"]
    with pytest.raises(error):
        captured["run"]()


def test_the_reason_names_the_line():
    def helper(x):
        return x.numpy()  # the culprit

    def f(x):
        return helper(x)

    reason = check_gives_up("Tensor.numpy()", f, torch.randn(2))["reason"].splitlines()
    assert __file__ in reason[1] and reason[1].endswith("helper")
    assert reason[2].strip() == "return x.numpy()  # the culprit"
    assert reason[3].strip() == "^^^^^^^^^" and reason[3].index("^") == reason[2].index("x.numpy()")
    assert reason[4].endswith("f") and "called from" in reason[4]
    assert reason[5].strip() == "return helper(x)" and reason[6].strip() == "^^^^^^^^^"
    assert reason[7] == "  object: x, a tensor"
    assert any(line.startswith("  why: ") for line in reason)
    assert reason[-1].startswith("  way out: ")


def test_disabled():
    def inner(x):
        return x + 1

    inner._braze_disable = True
    check_gives_up(
        "inner() is marked with braze.disable",
        lambda x: inner(x * 2),
        torch.ones(2),
        kind="Disabled",
    )


def test_autocast_that_stays_on():
    def f(x):
        torch.autocast("cpu", dtype=torch.bfloat16).__enter__()
        return x * 2

    check_gives_up("torch's thread state", f, torch.ones(2), kind="TorchState")
    assert not torch.is_autocast_enabled("cpu")


def test_grad_mode_that_stays_changed():
    def f(x):
        y = x * 2
        torch.set_grad_enabled(True)
        return y, torch.is_grad_enabled()

    captured = check(f, torch.ones(2))
    assert torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    captured["run"]()
    assert torch.is_grad_enabled()
    torch.set_grad_enabled(False)


def test_grad_mode_and_autocast_inside():
    def f(x):
        with torch.enable_grad():
            a = torch.is_grad_enabled()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = F.linear(x, x)
        with torch.inference_mode():
            b = torch.is_inference_mode_enabled()
        return a, b, y

    check(f, torch.randn(3, 3))


def test_interrupt_passes_through():
    def f():
        while True:
            max(range(500))  # many instructions would be another reason to stop

    user = subprocess.Popen(["sh", "-c", f"sleep 0.2; kill -INT {os.getpid()}"])
    with pytest.raises(KeyboardInterrupt):
        capture(f)
    user.wait()


def test_interrupt_raised_by_the_program():
    class Interrupting:
        def __len__(self):
            raise KeyboardInterrupt

    check_gives_up("KeyboardInterrupt is raised", lambda o: len(o), Interrupting())


def test_endless_loop_ends():
    def f(x):
        while True:
            pass

    check_gives_up("in one trace", f, torch.ones(1))


def test_deep_recursion():
    def f(n):
        return f(n + 1)

    check_gives_up("too many nested calls", f, 0)


# --- Going on in the middle -----------------------------------------------------------------------


def inner(x, acc):
    acc.append(x.sum())
    y = x * 2
    if y.mean() > -100:
        y = y + 1
    return y


def in_a_callee_in_a_loop(x):
    acc = []
    d = {"k": x}
    for i in range(3):
        x = x.relu()
        d[i] = acc
        if i == 1:
            x = inner(x, acc)
    return x, acc, d


def at_a_print(x):
    y = x + 1
    print(end=str(y.sum().item())[:0])
    return y * 2


def with_an_iterator_alive(x):
    y = x + 1
    result = [y]
    for k, v in enumerate([1, 2, 3]):
        result.append(x * v)
        if k == 1:
            result.append(float(x.sum()))
    return result


def with_closures(x):
    k = 2

    def g(a, b=1):
        return a * k + b

    y = g(x)
    z = y.max().item()
    return g(x, b=z)


def in_try_and_with(x):
    y = x + 1
    try:
        y.tolist()
        raise ValueError
    except ValueError:
        y = y * 2
    with contextlib.suppress(KeyError):
        y = y + 1
        y.numpy()
        raise KeyError
    return y


class Plain:
    def __init__(self):
        self.n = 1


def after_side_effects(x, o, items):
    o.n = o.n + 1
    items.append(x + 1)
    if x.sum() > -100:
        o.m = 5
        items.append(3)
    return items[0] * o.n


def with_keywords(x):
    y = x + 1
    return torch.full((2,), fill_value=y.sum().item(), dtype=torch.float64), y


@pytest.mark.parametrize(
    "fn, make",
    [
        (in_a_callee_in_a_loop, lambda: ()),
        (at_a_print, lambda: ()),
        (with_an_iterator_alive, lambda: ()),
        (with_closures, lambda: ()),
        (in_try_and_with, lambda: ()),
        (after_side_effects, lambda: (Plain(), [])),
        (with_keywords, lambda: ()),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_goes_on_in_the_middle(fn, make):
    x, rest, reference = torch.randn(4), make(), make()
    before = copy.deepcopy(rest)
    captured = capture(fn, x, *rest)
    assert captured["exit"] == "break" and captured["traced"], captured["reason"]
    assert captured["nodes"] > 0
    assert same(rest, before)
    assert same(captured["run"](), fn(x, *reference))
    assert same(rest, reference)
