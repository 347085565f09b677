"""What the code writes to, and what of the history of a tensor a write leaves as it was."""

import gc
import weakref

import braze
import pytest
import torch
import torch.nn.functional as F
from comparing import assert_same, leaf


def under_no_grad(x, w):
    h = x * w
    with torch.no_grad():
        h.mul_(2)
    return (h * h).sin()


def detached(x, w):
    h = x * w
    h.detach().mul_(2)
    return (h * h).sin()


def of_data(x, w):
    h = (x * w)[1:]
    h.data[0] = 3
    return h.exp() * w


def filled(x, w):
    h = x * w
    h.fill_(1.5)
    return h * w.sin()


def partly_filled(x, w):
    h = x * w
    h[0] = 0
    return (h * w).sin()


def of_a_leaf(x, w):
    w.detach().mul_(2)
    return F.softplus(x * w)


def a_buffer(x, w):
    scale = torch.ones(3)
    with torch.no_grad():
        scale.mul_(0.5).add_(x[0])
    return (x * scale).exp() * w


def copied_over(x, w):
    h = x * w
    h.view_as(h).copy_(torch.ones(3))
    return h * w.sin()


def strided(x, w):
    h = x * w
    h.fill_diagonal_(1.5)
    h.as_strided((2,), (1,), 1).mul_(2)
    return (h * w).sin()


FUNCTIONS = (
    strided,
    copied_over,
    under_no_grad,
    detached,
    of_data,
    filled,
    partly_filled,
    of_a_leaf,
    a_buffer,
)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("backend", ["aten", "braze"])
def test_gradients_of_gradients(function, backend):
    found = []
    for call in (function, braze.compile(function, backend=backend)):
        torch.manual_seed(0)
        x, w = leaf(2, 3), leaf(3)
        y = call(x, w)
        first = torch.autograd.grad(y.sum(), (x, w), create_graph=True, allow_unused=True)
        loss = sum((g * g * (i + 1)).sum() for i, g in enumerate(first) if g is not None)
        second = torch.autograd.grad(loss, (x, w), allow_unused=True)
        found.append([y.detach(), *first, *second])
    for got, wanted in zip(*reversed(found), strict=True):
        assert (got is None) == (wanted is None)
        if wanted is not None:
            assert_same(got.detach(), wanted.detach(), rtol=1e-5, atol=1e-6)


def test_a_gradient_of_a_gradient_needs_no_more_than_its_result():
    def function(x, index, table):
        largest = table.topk(1).values
        table[index] = 2
        return (x * x).sin(), largest

    for call in (function, braze.compile(function)):
        x, table = leaf(3), torch.arange(4.0)
        y, _ = call(x, torch.tensor([1]), table)
        table.zero_()
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        g.sum().backward()
        assert x.grad is not None


def test_a_gradient_of_a_gradient_needs_no_values_that_no_formula_reads():
    def function(x, y):
        return torch.lerp(x, y, 0.3).flip(0) - y

    for call in (function, braze.compile(function)):
        torch.manual_seed(0)
        x, y = leaf(3), leaf(3)
        inside = x * 1
        result = call(inside, y)
        inside.detach().zero_()
        (g,) = torch.autograd.grad(result.square().sum(), y, create_graph=True)
        g.square().sum().backward()
        assert x.grad is not None and y.grad is not None


# Hooks of leaves that only an unused result depends on.


def two_results(a, b):
    return a.sin(), (b * 2).cos()


def with_a_hidden_one(a, b):
    hidden = a.sin()
    return hidden, hidden.exp(), (b * hidden).cos()


def with_a_break(a, b):
    hidden = b.sin()
    print(end="")
    return a * 2, hidden


@pytest.mark.parametrize("function", [two_results, with_a_hidden_one, with_a_break])
@pytest.mark.parametrize("used", [[0], [1], [0, 1], [-1]])
@pytest.mark.parametrize("how", ["backward", "grad", "retained", "create_graph", "hooked"])
def test_hooks_of_what_is_not_reached(function, used, how):
    found = []
    for call in (function, braze.compile(function)):
        torch.manual_seed(0)
        a, b = leaf(3), leaf(3)
        seen = []
        a.register_hook(lambda g, seen=seen: seen.append(("a", g.detach().clone())))
        b.register_hook(lambda g, seen=seen: seen.append(("b", g.detach().clone())))
        results = call(a, b)
        if how == "hooked":
            results[0].register_hook(lambda g: g * 3)
        loss = sum(results[i].square().sum() for i in used)
        if how == "grad":
            seen.append(("grad", torch.autograd.grad(loss, (a, b), allow_unused=True)))
        elif how == "create_graph":
            gradients = torch.autograd.grad(loss, (a, b), create_graph=True, allow_unused=True)
            sum(g.square().sum() for g in gradients if g is not None).backward()
        else:
            loss.backward(retain_graph=how == "retained")
        if how == "retained":
            loss.backward()
        seen += [("gradient", a.grad), ("gradient", b.grad)]
        found.append(seen)
    assert [name for name, _ in found[0]] == [name for name, _ in found[1]]
    for (_, wanted), (_, got) in zip(*found, strict=True):
        wanted, got = (x if isinstance(x, tuple) else (x,) for x in (wanted, got))
        for x, y in zip(got, wanted, strict=True):
            assert (x is None) == (y is None)
            if y is not None:
                assert_same(x, y, rtol=1e-5, atol=1e-6)


def test_results_are_released_one_by_one():
    for call in (two_results, braze.compile(two_results)):
        a, b = leaf(3), leaf(3)
        x, y = call(a, b)
        x.sum().backward()
        with pytest.raises(RuntimeError, match="second time"):
            x.sum().backward()
        y.sum().backward()
        assert a.grad is not None and b.grad is not None


@pytest.mark.parametrize("function", [two_results, with_a_hidden_one])
@pytest.mark.parametrize("used", [[], [0], [1], [0, 1], [-1]])
@pytest.mark.parametrize("how", ["backward", "grad", "retained", "create_graph"])
def test_nothing_is_kept_when_the_results_are_gone(function, used, how):
    fast = braze.compile(function)
    a, b = leaf(3), leaf(3)
    gone = [weakref.ref(a), weakref.ref(b)]
    results = fast(a, b)
    if used:
        loss = sum(results[i].square().sum() for i in used)
        if how == "backward":
            loss.backward()
        elif how == "retained":
            loss.backward(retain_graph=True)
        else:
            torch.autograd.grad(loss, (a, b), create_graph=how == "create_graph", allow_unused=True)
        del loss
    del a, b, results
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


# Versions.


def reshaped(x):
    view = x[0]
    view.unsqueeze_(0)
    return view * 2


def reshaped_and_not_used(x, y):
    x.detach().t_()
    return y * 2


def detached_before_a_break(x, y):
    alias = x.detach()
    print(end="")
    alias.zero_()
    return y * 2


@pytest.mark.parametrize("function", [reshaped, reshaped_and_not_used, detached_before_a_break])
@pytest.mark.parametrize("trained", [False, True])
def test_versions(function, trained):
    versions = []
    for call in (function, braze.compile(function)):
        given = [torch.ones(3, 3, requires_grad=trained) * 1 for _ in range(2)]
        call(*given[: function.__code__.co_argcount])
        versions.append([t._version for t in given])
    assert versions[0] == versions[1]


def test_what_was_written_and_saved_may_not_be_written_again():
    def function(x, buffer):
        buffer.mul_(2)
        return torch.atan2(x, buffer)

    for call in (function, braze.compile(function)):
        x, buffer = leaf(3), torch.ones(3)
        y = call(x, buffer)
        buffer.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
