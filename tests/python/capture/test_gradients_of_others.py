"""Gradients that compiled code reads of tensors from outside, and sets on tensors that it makes."""

import gc
import weakref

import braze
import pytest
import torch


def closure(model, optimizer):
    return lambda: optimizer.step()


def clipping(model, optimizer):
    return lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)


def reading(model, optimizer):
    return lambda: model.weight.grad * 2


@pytest.mark.parametrize("made", [closure, clipping, reading])
def test_a_gradient_is_freed_with_its_last_owner(made):
    """Eager keeps none behind `zero_grad`, and a training loop has no room for a second set."""
    torch.manual_seed(0)
    with torch.enable_grad():
        model = torch.nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        compiled = braze.compile(made(model, optimizer))
        for _ in range(4):
            model(torch.ones(4)).sum().backward()
            compiled()
            gradient = weakref.ref(model.weight.grad)
            optimizer.zero_grad(set_to_none=True)
            gc.collect()
            assert gradient() is None


def test_results_stay_right_while_gradients_come_and_go():
    torch.manual_seed(0)
    with torch.enable_grad():
        model = torch.nn.Linear(4, 4)
        compiled = braze.compile(reading(model, None))
        for factor in range(1, 6):
            (model(torch.ones(4)) * factor).sum().backward()
            assert torch.equal(compiled(), model.weight.grad * 2)
            model.weight.grad = None


def changed_in_place(x):
    y = torch.zeros(2)
    y.grad = x * 3
    y.grad.add_(1)
    return y


def dropped_again(x):
    y = torch.zeros(2)
    y.grad = x * 3
    y.grad = None
    return y, y.grad


def read_back(x):
    y = x.clone()
    y.grad = x * 3
    return y.grad, y.detach().grad, (y + 1).grad


def never_set(x):
    return (x * 2).grad


@pytest.mark.parametrize("body", [changed_in_place, dropped_again, read_back, never_set])
def test_gradients_set_on_what_the_call_makes(body):
    def seen(results):
        results = results if isinstance(results, tuple) else (results,)
        return [(x, x.grad) if isinstance(x, torch.Tensor) else (None, None) for x in results]

    x = torch.arange(2.0)
    for got, want in zip(
        sum(seen(braze.compile(body, fullgraph=True)(x)), ()), sum(seen(body(x)), ()), strict=True
    ):
        assert (got is None) == (want is None)
        assert want is None or torch.equal(got, want)
