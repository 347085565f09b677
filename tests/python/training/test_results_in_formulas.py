"""A double backward through an operator whose formula uses its own result: what flows there flows to
the result that the user has, whose hooks see it, as in eager."""

import functools

import braze
import pytest
import torch
from comparing import assert_same
from test_second_backward import _no_internal_error, log  # noqa: F401

CODE = {
    "norm": lambda x: x.norm(),
    "exp": lambda x: x.exp(),
    "tanh": lambda x: x.tanh(),
    "std": lambda x: x.std(),
    "sqrt": lambda x: (x * x + 1).sqrt(),
    "softmax": lambda x: (x * 2).softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "sigmoid of a product": lambda x: (x @ x).sigmoid(),
    "linear": lambda x: x @ x,
    "several": lambda x: (x.exp(), (x * 3).tanh()),
    "chain": lambda x: (y := x.exp(), (y * x).tanh()),
    "long chain": lambda x: (
        a := x.exp(),
        b := (a * x).tanh(),
        c := (a + b).sigmoid(),
        (c * b).sin(),
    ),
    "beside each other": lambda x: (
        a := x.exp(),
        b := x.tanh(),
        c := x.sigmoid(),
        d := (x * 2).tanh(),
        (a * b * c * d).exp(),
    ),
    "views": lambda x: (y := (x * x).exp().view(-1), (y * 2).tanh()),
    "a view of a result": lambda x: (y := x.exp(), y.t()[1:].tanh()),
    "two of one operator": lambda x: torch.std_mean(x * x, dim=1),
    "detached": lambda x: (y := x.exp(), (y.detach() * x).tanh()),
    "complex": lambda x: (y := x.exp(), torch.fft.rfft(y).abs().sum()),
}


def results_of(call, x):
    results = call(x)
    return results if isinstance(results, tuple) else (results,)


def with_hooks(call, x0, use=None, retain=False, late=False):
    """All that a double backward gives, with a hook on each result. `use`: results that the loss is
    made of."""
    x = x0.clone().requires_grad_()
    results = results_of(call, x)
    seen = []

    def hook(i, g):
        if g is None:  # another result of the same node has a gradient
            return None
        seen.append((i, g.detach().clone()))
        return g * (i + 2)

    def hook_in():
        for i, result in enumerate(results):
            result.register_hook(functools.partial(hook, i))
            if retain:
                result.retain_grad()

    if not late:
        hook_in()
    used = results if use is None else [results[i] for i in use]
    (g,) = torch.autograd.grad(sum(r.pow(2).sum() for r in used), x, create_graph=True)
    if late:
        hook_in()
    g.pow(2).sum().backward()
    seen.sort(key=lambda pair: pair[0])
    return [x.grad, g, *(s for _, s in seen), *(r.grad for r in results if retain)]


def assert_all_same(got, wanted):
    for ours, theirs in zip(got, wanted, strict=True):
        assert_same(ours, theirs, layout=False, rtol=1e-6, atol=1e-8)


def same_twice(code, check, x):
    fast = braze.compile(code)
    for _ in range(2):
        assert_all_same(check(fast, x), check(code, x))
    return fast


@pytest.mark.parametrize("name", CODE)
@pytest.mark.parametrize("late", [False, True], ids=["hooks", "hooks later"])
def test_hooks_of_results_see_what_comes_through_the_formula(name, late):
    x = torch.randn(4, 4, dtype=torch.double, generator=torch.Generator().manual_seed(1))
    code = CODE[name]
    same_twice(code, lambda call, x: with_hooks(call, x, late=late), x)
    for use in range(len(results_of(code, x))):
        same_twice(code, lambda call, x, use=use: with_hooks(call, x, [use], late=late), x)


@pytest.mark.parametrize("name", CODE)
def test_results_retain_the_gradient_that_comes_through_the_formula(name):
    x = torch.randn(4, 4, dtype=torch.double, generator=torch.Generator().manual_seed(2))
    same_twice(CODE[name], lambda call, x: with_hooks(call, x, retain=True), x)


@pytest.mark.parametrize("name", CODE)
def test_gradients_with_respect_to_results(name):
    """Without any hook: the gradients depend on the results themselves."""

    def check(call, x0, use):
        x = x0.clone().requires_grad_()
        results = results_of(call, x)
        used = [results[i] for i in use]
        (g,) = torch.autograd.grad(sum(r.pow(3).sum() for r in used), x, create_graph=True)
        found = torch.autograd.grad(
            g.pow(2).sum(), [x, *results], create_graph=True, allow_unused=True
        )
        if not found[0].requires_grad:
            return [g, *found]
        # Of the third order, PyTorch's operators go by the forward that has been run again.
        of = [x] if name == "complex" else [x, *results]
        third = torch.autograd.grad(found[0].sum(), of, retain_graph=True, allow_unused=True)
        return [g, *found, *third]

    code = CODE[name]
    x = torch.randn(4, 4, dtype=torch.double, generator=torch.Generator().manual_seed(3))
    count = len(results_of(code, x))
    for use in [range(count), *([i] for i in range(count))]:
        same_twice(code, lambda call, x, use=use: check(call, x, use), x)


def test_results_that_are_gone():
    def check(call, x0):
        x = x0.clone().requires_grad_()
        (g,) = torch.autograd.grad(call(x).sin().sum(), x, create_graph=True)
        return torch.autograd.grad(g.sin().sum(), x)

    for name in ("exp", "linear", "softmax"):
        same_twice(CODE[name], check, torch.randn(4, 4, dtype=torch.double))


def test_batches_of_gradients_with_a_history():
    def check(call, x0):
        x = x0.clone().requires_grad_()
        y = call(x)
        y.register_hook(lambda g: g * 3)
        tangents = torch.stack([torch.ones_like(y), torch.arange(16.0).view(4, 4).double()])
        (g,) = torch.autograd.grad(y, x, tangents, create_graph=True, is_grads_batched=True)
        return [g, *torch.autograd.grad(g.pow(2).sum(), [x, y])]

    for name in ("exp", "tanh", "softmax"):
        same_twice(CODE[name], check, torch.randn(4, 4, dtype=torch.double))


def test_a_result_that_is_written_to_later():
    """The formula of exp needs it, that of a product does not."""

    def check(call, x0):
        x = x0.clone().requires_grad_()
        y = call(x)
        loss = y.sum()
        with torch.no_grad():
            y.mul_(2)
        (g,) = torch.autograd.grad(loss, x, create_graph=True)
        return torch.autograd.grad(g.pow(2).sum(), x)

    x = torch.randn(4, 4, dtype=torch.double)
    same_twice(CODE["linear"], check, x)
    for call in (CODE["exp"], braze.compile(CODE["exp"])):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            check(call, x)


def test_sizes_that_vary():
    code = CODE["long chain"]
    fast = braze.compile(code)
    for size in (4, 5, 6, 4):
        x = torch.randn(size, size, dtype=torch.double)
        assert_all_same(with_hooks(fast, x), with_hooks(code, x))


def test_they_are_compiled(log):  # noqa: F811
    told = log("breaks")
    for name in set(CODE) - {"complex"}:
        fast = braze.compile(CODE[name])
        with_hooks(fast, torch.randn(4, 4, dtype=torch.double))
        assert "PyTorch's operators" not in told(), name


def test_a_graph_that_is_freed():
    """The second backward has used the result's node, and frees what it keeps."""

    def check(call, frees):
        x = torch.randn(3, requires_grad=True)
        y = call(x)
        loss = y.sum()
        (g,) = torch.autograd.grad(loss, x, create_graph=True)
        g.sum().backward(retain_graph=not frees)
        loss.backward()

    for call in (torch.exp, braze.compile(lambda x: x.exp())):
        check(call, frees=False)
        with pytest.raises(RuntimeError, match="a second time"):
            check(call, frees=True)
