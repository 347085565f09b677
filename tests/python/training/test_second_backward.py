"""Gradients with a history (create_graph=True) of compiled code, taken outside of it: they are
compiled, with gradients of their own to any order, and what cannot be is as in eager all the
same."""

import copy
import gc
import threading
import weakref

import braze
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from comparing import assert_same, leaf


@pytest.fixture(autouse=True)
def _no_internal_error(capfd):
    yield
    assert "internal error" not in capfd.readouterr().err


@pytest.fixture
def log(monkeypatch, capfd):
    """Logs a component; gives what has been logged since it was last asked."""

    def switch_on(component):
        monkeypatch.setenv("BRAZE_LOG", component)
        braze._C.reload_options()
        return lambda: capfd.readouterr().err

    yield switch_on
    monkeypatch.undo()
    braze._C.reload_options()


def compiled(*gradients):
    return all(g.grad_fn is not None and "Braze" in g.grad_fn.name() for g in gradients)


def twins(tensors):
    """The same tensors for eager and for compiled code, in the same layout."""
    return tensors, [
        torch.empty_strided(t.shape, t.stride(), dtype=t.dtype)
        .copy_(t.detach())
        .requires_grad_(t.requires_grad)
        for t in tensors
    ]


def tangent_of(tensor, requires_grad=False):
    numbers = torch.arange(float(tensor.numel())).add(1).sin()
    return numbers.view(tensor.shape).to(tensor.dtype).requires_grad_(requires_grad)


def derivatives(call, inputs, order, tangents_too=False):
    """Of the first order, ..., of order `order`, each of the one before, with fixed tangents; then
    what is drawn next."""
    torch.manual_seed(0)
    results = call(*inputs)
    results = [results] if isinstance(results, torch.Tensor) else list(results)
    wanted = [t for t in inputs if t.requires_grad]
    tangents = [tangent_of(r, tangents_too) for r in results]
    found = []
    for _ in range(order):
        gradients = torch.autograd.grad(
            results, wanted, tangents, create_graph=True, allow_unused=True
        )
        found.append(gradients)
        if tangents_too and len(found) == 1:
            wanted = wanted + tangents
        results = [g for g in gradients if g is not None and g.requires_grad]
        tangents = [tangent_of(g) for g in results]
        if not results:
            break
    return found, torch.rand(())


def assert_same_derivatives(function, *inputs, order=3, tangents_too=False, is_compiled=True):
    fast = braze.compile(function)
    for _ in range(2):
        given, other = twins(inputs)
        wanted, drawn = derivatives(function, given, order, tangents_too)
        got, drawn_too = derivatives(fast, other, order, tangents_too)
        assert torch.equal(drawn, drawn_too)
        assert len(wanted) == len(got)
        for of_eager, of_fast in zip(wanted, got):
            for a, b in zip(of_eager, of_fast, strict=True):
                assert (a is not None and a.requires_grad) == (b is not None and b.requires_grad)
                assert_same(b, a, rtol=1e-3, atol=1e-4)
        with_history = [g for g in got[0] if g is not None and g.requires_grad]
        assert not is_compiled or compiled(*with_history)


FUNCTIONS = {
    "pointwise": (lambda x, y: x.sin() * y.exp(), lambda: (leaf(3, 4), leaf(4))),
    "layers": (
        lambda x, w, v: F.linear(F.softplus(F.linear(x, w)), v),
        lambda: (leaf(3, 4), leaf(5, 4), leaf(2, 5)),
    ),
    "convolution": (
        lambda x, w: F.max_pool2d(F.conv2d(x, w, padding=1).tanh(), 2),
        lambda: (leaf(2, 3, 8, 8), leaf(4, 3, 3, 3)),
    ),
    "attention": (
        lambda q, k, v: (q @ k.transpose(-1, -2)).softmax(-1) @ v,
        lambda: (leaf(2, 5, 8), leaf(2, 5, 8), leaf(2, 5, 8)),
    ),
    "layer norm": (
        lambda x, w, b: F.layer_norm(x, (4,), w, b).sin(),
        lambda: (leaf(3, 4), leaf(4), leaf(4)),
    ),
    "batch norm": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True).sin(),
        lambda: (leaf(6, 4), leaf(4), leaf(4)),
    ),
    "embedding": (
        lambda w, x: F.embedding(torch.tensor([1, 2, 1]), w) * x,
        lambda: (leaf(5, 4), leaf(3, 4)),
    ),
    "dropout": (
        lambda x, w: F.dropout(F.linear(x, w).tanh(), 0.5) * torch.rand(3, 5),
        lambda: (leaf(3, 4), leaf(5, 4)),
    ),
    "a sign": (lambda x, y: x.abs() ** y, lambda: (leaf(3, 4), leaf(3, 4))),
    "a cross entropy": (
        lambda x: F.cross_entropy(x, torch.tensor([1, 2, 0])),
        lambda: (leaf(3, 4),),
    ),
    "two results": (lambda x, y: (x.sin() * y, y.pow(3)), lambda: (leaf(3, 4), leaf(3, 4))),
    "a result of another": (
        lambda x, y: (lambda h: (h, (h * y).sum(1)))(x.sin() * y),
        lambda: (leaf(3, 4), leaf(3, 4)),
    ),
    "an input that is written to": (
        lambda x, y: x.clone().mul_(y).add_(1).sin_(),
        lambda: (leaf(3, 4), leaf(3, 4)),
    ),
    "another layout": (
        lambda x: x.sin() * x,
        lambda: (torch.randn(4, 3).t().requires_grad_(),),
    ),
    "an unused input": (lambda x, y: x.sin(), lambda: (leaf(3, 4), leaf(3, 4))),
    "a frozen input": (lambda x, y: x.sin() * y, lambda: (leaf(3, 4), torch.randn(3, 4))),
    "what is detached": (lambda x: x.sin() * x.detach().cos(), lambda: (leaf(3, 4),)),
    "in other precisions": (
        lambda x, y: x.double().pow(3).sum() * y.half().float().sum(),
        lambda: (leaf(3, 4), leaf(3, 4)),
    ),
    "no elements": (lambda x: x.sin() * x, lambda: (torch.randn(0, 3).requires_grad_(),)),
}


@pytest.mark.parametrize("tangents_too", (False, True), ids=("", "of tangents too"))
@pytest.mark.parametrize("name", FUNCTIONS)
def test_three_orders(name, tangents_too):
    function, make = FUNCTIONS[name]
    assert_same_derivatives(function, *make(), tangents_too=tangents_too)


@pytest.mark.parametrize(
    "function",
    (
        lambda x, y: x + y,  # the tangent, twice
        lambda x, y: x.t() + y.t(),  # a view of it
        lambda x, y: torch.cat([x, y]),  # parts of it
        lambda x, y: (x * x).sum() + y.sum(),  # an expanded one
        lambda x, y: x.sum(0) + y.sum(1, keepdim=True).expand(3, 4),
    ),
    ids=("itself", "transposed", "parts", "expanded", "expanded in part"),
)
def test_gradients_that_are_the_tangent(function):
    assert_same_derivatives(function, leaf(3, 4), leaf(3, 4), tangents_too=True, is_compiled=False)
    given, other = twins([leaf(3, 4), leaf(3, 4)])
    tangent = tangent_of(function(*given), requires_grad=True)
    for call, inputs in ((function, given), (braze.compile(function), other)):
        gradients = torch.autograd.grad(call(*inputs), inputs, tangent, create_graph=True)
        scales = [tangent_of(g) for g in gradients]
        (back,) = torch.autograd.grad(gradients, tangent, scales)
        wanted = back if call is function else wanted  # noqa: F821
    assert_same(back, wanted, layout=False)


def test_which_tangents_there_are():
    def f(x, y):
        h = x.sin() * y
        return h, h.exp().sum(1), (y * y).sum()

    fast = braze.compile(f)
    for which in ((0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2), (0,)):
        answers = []
        for call, inputs in zip((f, fast), twins([leaf(3, 4), leaf(3, 4)])):
            results = [call(*inputs)[i] for i in which]
            first = torch.autograd.grad(
                results,
                inputs,
                [tangent_of(r) for r in results],
                create_graph=True,
                allow_unused=True,
            )
            of = [g for g in first if g is not None and g.requires_grad]
            second = torch.autograd.grad(of, inputs, list(map(tangent_of, of)), allow_unused=True)
            answers.append((*first, *second))
        for a, b in zip(*answers):
            assert_same(b, a)


def test_hooks_into_results_that_others_are_computed_from():
    def f(x, y):
        h = x.sin() * y
        return h, h.exp().sum()

    answers = []
    for call, (x, y) in zip((f, braze.compile(f)), twins([leaf(3, 4), leaf(3, 4)])):
        seen = []
        h, total = call(x, y)
        h.register_hook(lambda g, seen=seen: seen.append(g))
        x.register_hook(lambda g, seen=seen: seen.append(g))
        of_h, of_x = torch.autograd.grad(total, (h, x), create_graph=True)
        (second,) = torch.autograd.grad(of_x.square().sum() + of_h.sum(), y)
        answers.append((of_h, of_x, second, *seen))
    assert len(answers[0]) == len(answers[1])
    for a, b in zip(*answers):
        assert_same(b.detach(), a.detach())


def test_hessians_and_products_with_them():
    def f(x):
        return (x.sin() @ x.outer(x).tanh() * x).sum()

    fast = braze.compile(f)
    x, v = torch.randn(5), torch.randn(5)
    functional = torch.autograd.functional
    for vectorize in (False, True):
        assert_same(
            functional.hessian(fast, x, vectorize=vectorize),
            functional.hessian(f, x, vectorize=vectorize),
            rtol=1e-4,
            atol=1e-5,
        )
    for product in (functional.hvp, functional.vhp, functional.jvp):
        for a, b in zip(product(f, x, v), product(fast, x, v)):
            assert_same(b, a, rtol=1e-4, atol=1e-5)


def test_batches_of_gradients():
    def f(x):
        return x.sin() * x.sum()

    answers = []
    for call, (x,) in zip((f, braze.compile(f)), twins([leaf(4)])):
        (rows,) = torch.autograd.grad(
            call(x), x, torch.eye(4), is_grads_batched=True, create_graph=True
        )
        answers.append((rows.detach(), *torch.autograd.grad(rows.square().sum(), x)))
    for a, b in zip(*answers):
        assert_same(b, a)


def test_dropout_has_the_mask_of_the_forward():
    fast = braze.compile(lambda x: (F.dropout(x, 0.5) * x).sum())
    for seed in range(4):
        torch.manual_seed(seed)
        x = torch.ones(64).requires_grad_()
        total = fast(x)
        state = torch.get_rng_state()
        (first,) = torch.autograd.grad(total, x, create_graph=True)
        assert compiled(first)
        assert first.sum().item() == 2 * total.item()  # of x * mask * x
        (second,) = torch.autograd.grad(first.sum(), x)
        assert torch.equal(second, first.detach())
        assert torch.equal(torch.get_rng_state(), state)


def test_a_counters_random_numbers():
    fast = braze.compile(lambda x: (F.dropout(x, 0.5) * x).sum(), options={"rng": "counter"})
    x = torch.ones(64).requires_grad_()
    masks = set()
    for _ in range(3):
        total = fast(x)
        (first,) = torch.autograd.grad(total, x, create_graph=True)
        assert compiled(first)
        assert first.sum().item() == 2 * total.item()
        assert torch.equal(torch.autograd.grad(first.sum(), x)[0], first.detach())
        masks.add(tuple(first.tolist()))
    assert len(masks) == 3


def test_changed_inputs_are_eagers_error():
    def f(x, w):
        return (x * w).sin().sum()

    messages = []
    for call in (f, braze.compile(f)):
        x, w = leaf(3), leaf(3)
        total = call(x, w)
        w.detach().add_(1)
        with pytest.raises(RuntimeError) as first:
            torch.autograd.grad(total, x, create_graph=True)
        (g,) = torch.autograd.grad(call(x, w), x, create_graph=True)
        w.detach().add_(1)
        with pytest.raises(RuntimeError) as second:
            torch.autograd.grad(g.sum(), x)
        messages.append([str(error.value).split(":")[0] for error in (first, second)])
    assert messages[0] == messages[1]


def test_a_graph_is_used_once():
    def f(x):
        return (x.sin() * x).sum()

    for call in (f, braze.compile(f)):
        x = leaf(3)
        (g,) = torch.autograd.grad(call(x), x, create_graph=True)
        total = g.square().sum()
        (kept,) = torch.autograd.grad(total, x, retain_graph=True)
        (again,) = torch.autograd.grad(total, x)
        assert torch.equal(kept, again)
        with pytest.raises(RuntimeError, match="second time"):
            torch.autograd.grad(total, x)


def test_a_leaf_is_frozen_between_calls():
    module = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))
    twin = copy.deepcopy(module)
    fast = braze.compile(twin)
    for step in range(4):
        grads = []
        for model, call in ((module, module), (twin, fast)):
            model[0].requires_grad_(step % 2 == 0)
            model.zero_grad()
            x = torch.arange(12.0).view(3, 4).requires_grad_()
            (g,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
            g.square().sum().backward()
            grads.append([p.grad for p in model.parameters()])
        for a, b in zip(*grads):
            assert_same(b, a)


def penalty(call, x):
    (slope,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
    return (slope.flatten(1).norm(2, 1) - 1).square().mean()


def test_nothing_is_compiled_after_the_first_call(log):
    fast = braze.compile(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1)))
    lines = log("timing")
    penalty(fast, leaf(3, 4)).backward()
    assert lines().count("gradients of") == 1
    for _ in range(5):
        penalty(fast, leaf(3, 4)).backward()
    assert "gradients of" not in lines()


def test_many_sizes_are_right():
    module = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))
    fast = braze.compile(module)
    for size in (*range(2, 14), 3, 13):
        x = leaf(size, 4)
        values = []
        for call in (module, fast):
            module.zero_grad()
            value = penalty(call, x)
            value.backward()
            values.append((value.detach(), module[0].weight.grad.clone()))
        for a, b in zip(*values):
            assert_same(b, a)


def test_too_many_ways_are_told(log):
    fast = braze.compile(lambda x: x.sin() * x)
    lines = log("breaks")
    x = leaf(3, 4)
    ways = []
    for step in range(1, 13):  # of the tangent, in memory
        tangent = tangent_of(torch.ones(3, 4 * step))[:, ::step]
        (g,) = torch.autograd.grad(fast(x), x, tangent, create_graph=True)
        assert_same(g.detach(), (tangent * (x.cos() * x + x.sin())).detach(), layout=False)
        ways.append(compiled(g))
    assert ways == [True] * 8 + [False] * 4
    assert lines().count("in too many ways") == 1


def test_the_forward_is_not_computed_again():
    fast = braze.compile(
        lambda x, w: F.conv2d(F.dropout(F.conv2d(x, w).tanh(), 0.5), w).tanh().sum()
    )
    inputs = leaf(2, 3, 12, 12), leaf(3, 3, 3, 3)
    for _ in range(2):
        total = fast(*inputs)
        with torch.profiler.profile() as profile:
            gradients = torch.autograd.grad(total, inputs, create_graph=True)
    assert compiled(*gradients)
    names = [event.name for event in profile.events()]
    assert names.count("aten::convolution_backward") == 2
    of_forward = {"aten::convolution", "aten::_convolution", "aten::tanh", "aten::bernoulli_"}
    assert not of_forward & set(names)


def test_nothing_is_left_behind():
    module = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))
    fast = braze.compile(module)

    def step():
        x = leaf(3, 4)
        held = weakref.ref(x)
        penalty(fast, x).backward()
        return held

    step()
    gc.collect()
    before = len(gc.get_objects())
    assert all(step()() is None for _ in range(100))
    gc.collect()
    assert len(gc.get_objects()) - before < 50


def test_what_runs_through_pytorchs_operators_says_why(log):
    def f(x):
        return torch.linalg.det(x) * x.sum()

    lines = log("breaks")
    x = torch.randn(3, 3).requires_grad_()
    (g,) = torch.autograd.grad(braze.compile(f)(x), x, create_graph=True)
    assert "create_graph=True" in lines()
    (wanted,) = torch.autograd.grad(f(x), x, create_graph=True)
    assert_same(g.detach(), wanted.detach())
    assert_same(torch.autograd.grad(g.sum(), x)[0], torch.autograd.grad(wanted.sum(), x)[0])


@pytest.mark.parametrize("how", ("autocast", "anomaly", "saved tensors"))
def test_modes_are_eagers(how):
    def f(x, w):
        return (x @ w).tanh().sum()

    def in_mode():
        if how == "autocast":
            return torch.autocast("cpu", dtype=torch.bfloat16)
        if how == "anomaly":
            return torch.autograd.detect_anomaly(check_nan=False)
        return torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t)

    answers = []
    for call, (x, w) in zip((f, braze.compile(f)), twins([leaf(3, 4), leaf(4, 5)])):
        total = call(x, w)
        with in_mode():
            (g,) = torch.autograd.grad(total, x, create_graph=True)
        answers.append((g.detach(), *torch.autograd.grad(g.square().sum(), (x, w))))
    tolerance = 3e-2 if how == "autocast" else 1e-5
    for a, b in zip(*answers):
        assert_same(b, a, rtol=tolerance, atol=tolerance)


def test_eight_threads():
    module = nn.Sequential(nn.Linear(4, 5), nn.Softplus(), nn.Linear(5, 1))
    fast = braze.compile(module)
    inputs = [torch.randn(6, 4) for _ in range(8)]
    wanted = []
    for x in inputs:
        value = penalty(module, x.clone().requires_grad_())
        wanted.append(torch.autograd.grad(value, module[0].weight)[0])
    errors, start = [], threading.Barrier(len(inputs))

    def work(x, expected):
        try:
            with torch.enable_grad():
                start.wait()
                for _ in range(20):
                    value = penalty(fast, x.clone().requires_grad_())
                    assert_same(torch.autograd.grad(value, module[0].weight)[0], expected)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(inputs, wanted)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


# Eager's formulas of softplus and GELU are single operators, whose parts are none here.
@pytest.mark.parametrize("activation, peak", [(nn.SiLU, 1.0), (nn.Softplus, 1.25), (nn.GELU, 1.45)])
def test_memory_beside_eagers(activation, peak):
    module = nn.Sequential(*(nn.Sequential(nn.Linear(128, 128), activation()) for _ in range(4)))
    fast = braze.compile(module)
    x = leaf(512, 128)

    def step(call):
        module.zero_grad()
        penalty(call, x).backward()

    step(fast)
    step(module)
    (_, eager, _), (_, found, _) = (
        braze._C.measure_memory(lambda call=call: step(call)) for call in (module, fast)
    )
    assert found <= peak * eager
