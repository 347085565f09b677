"""A step of training in eager and compiled, side by side."""

import copy

import braze
import torch


def gradients_of(module):
    return {name: p.grad for name, p in module.named_parameters()}


def assert_same(got, wanted, layout=True, **tolerance):
    assert (got is None) == (wanted is None)
    if got is None:
        return
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    assert not layout or got.stride() == wanted.stride()
    torch.testing.assert_close(
        got, wanted, equal_nan=True, **(tolerance or dict(rtol=1e-5, atol=1e-6))
    )


def assert_same_state(module, twin, **tolerance):
    for (name, p), (_, q) in zip(module.named_parameters(), twin.named_parameters(), strict=True):
        assert_same(q.grad, p.grad, **tolerance)
        assert_same(q.detach(), p.detach(), **tolerance)
    for (name, b), (_, c) in zip(module.named_buffers(), twin.named_buffers(), strict=True):
        assert_same(c, b, **tolerance)


def train(module, loss, batches, steps=3, lr=0.1, **settings):
    """`steps` steps of SGD on each; losses, gradients, parameters and buffers must be the same.
    Returns the compiled twin and its compiled function, for what else is to be looked at."""
    twin = copy.deepcopy(module)
    fast = braze.compile(twin, **settings)
    for step in range(steps):
        batch = batches[step % len(batches)]
        losses = []
        for seed_of_step, (model, call) in enumerate(((module, module), (twin, fast))):
            torch.manual_seed(step)
            for p in model.parameters():
                p.grad = None
            value = loss(call(*batch[:-1]), batch[-1])
            value.backward()
            losses.append(value.detach())
        assert_same(losses[1], losses[0], rtol=1e-5, atol=1e-6)
        assert_same_state(module, twin, rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            for model in (module, twin):
                for p in model.parameters():
                    if p.grad is not None:
                        p -= lr * p.grad
    return twin, fast


def captured(fast, *args):
    """Whether one segment without a break serves the call."""
    report = braze.explain(fast)(*args)
    return "captured as a whole" in str(report)


def leaf(*shape, **options):
    return torch.randn(*shape, **options).requires_grad_()


def both(function, *tensors, **settings):
    """(eager's results and leaves, the compiled ones): twins of `tensors` for each."""
    answers = []
    for call in (function, braze.compile(function, **settings)):
        twins = [t.detach().clone().requires_grad_(t.requires_grad) for t in tensors]
        answers.append((call(*twins), twins))
    return answers


def assert_same_gradients(function, *tensors, tangent=None, **settings):
    (wanted, xs), (got, ys) = both(function, *tensors, **settings)
    assert_same(got.detach(), wanted.detach())
    for result in (wanted, got):
        result.backward(torch.ones_like(result) if tangent is None else tangent)
    for x, y in zip(xs, ys):
        assert_same(y.grad, x.grad)
