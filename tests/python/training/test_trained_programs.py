"""Random programs that are trained, and what they have found."""

import gc
import weakref

import braze
import pytest
import torch
import trained_programs as programs
from comparing import assert_same, leaf


@pytest.mark.parametrize("seed", range(160))
def test_program(seed):
    found = programs.difference(programs.generate(seed))
    assert not found, programs.show(seed, found)


@pytest.mark.parametrize("seed", range(1000, 1012))
def test_program_with_kernels(seed):
    found = programs.difference(programs.generate(seed), backend="braze")
    assert not found, programs.show(seed, found)


@pytest.mark.parametrize("seed", [155, 20391, 24435])
def test_program_that_differed_once(seed):
    found = programs.difference(programs.generate(seed))
    assert not found, programs.show(seed, found)


def test_a_saved_tensor_from_outside_that_the_code_writes_to():
    def function(a, d):
        product = d * a
        a.zero_()
        return product.sum()

    for call in (function, braze.compile(function)):
        a, d = torch.ones(3), leaf(3)
        y = call(a, d)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()
        assert d.grad is None


def test_gradients_of_gradients_where_an_input_was_written_to():
    def function(x, scale):
        y = (x * scale).sin()
        scale.mul_(2)
        return y * scale.sum()

    x, scale = leaf(3), torch.ones(())
    y = braze.compile(function)(x, scale)
    with pytest.raises(RuntimeError, match="braze.disable|inplace"):
        torch.autograd.grad(y.sum(), x, create_graph=True)


def two_results(x):
    hidden = (x * 2).sin()
    return hidden, hidden.exp().sum()


def both(use, function=two_results):
    answers = []
    for call in (function, braze.compile(function, fullgraph=True)):
        torch.manual_seed(0)
        x = leaf(3, 4)
        found = use(x, *call(x))
        answers.append([x.grad, *found])
    for got, wanted in zip(answers[1], answers[0], strict=True):
        assert_same(got, wanted)


def test_a_result_that_another_is_computed_from_keeps_its_gradient():
    def use(x, hidden, loss):
        hidden.retain_grad()
        (loss + hidden.sum()).backward()
        return [hidden.grad]

    both(use)


def test_the_gradient_of_such_a_result_is_asked_for():
    def use(x, hidden, loss):
        of_both = torch.autograd.grad(loss + hidden.sum(), [hidden, x], retain_graph=True)
        return [*of_both, *torch.autograd.grad(loss, hidden)]

    both(use)


def test_such_results_are_freed_with_their_last_user():
    fast = braze.compile(two_results, fullgraph=True)
    for with_backward in (False, True):
        results = fast(leaf(3, 4))
        if with_backward:
            results[1].backward()
        known = [weakref.ref(result) for result in results]
        del results
        gc.collect()
        assert [result() for result in known] == [None, None]


def test_a_hook_on_such_a_result_changes_what_flows_on():
    def use(x, hidden, loss):
        hidden.register_hook(lambda g: g * 3)
        loss.backward()
        return []

    both(use)


def test_nobody_looks_at_such_a_result():
    def use(x, hidden, loss):
        (loss * 2 + (hidden * hidden).sum()).backward()
        return []

    both(use)


def test_a_chain_of_such_results_and_their_gradients_gradients():
    def chain(x):
        first = x.sin()
        second = (first * x).cos()
        return first, second, (second * first).sum()

    def use(x, first, second, loss):
        g = torch.autograd.grad(loss, [first, second, x], create_graph=True)
        sum(part.square().sum() for part in g).backward()
        return [part.detach() for part in g]

    both(use, chain)


def test_results_are_released_one_by_one():
    def function(x):
        return x.sin(), x.exp()

    def use(x, sine, power):
        sine.sum().backward()
        power.sum().backward()
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            sine.sum().backward()
        return []

    both(use, function)


def test_what_a_gradient_does_not_need_may_be_written_to():
    def function(x, y):
        return x.sin(), y.exp()

    for call in (function, braze.compile(function, fullgraph=True)):
        x, y = leaf(3), leaf(3)
        of_y = y * 1
        sine, power = call(x, of_y)
        power.detach().mul_(2)
        sine.sum().backward()
        assert_same(x.grad, x.detach().cos())
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            power.sum().backward()


def test_absent_tangents_cost_no_products():
    def function(x, w):
        hidden = x @ w
        return hidden, (hidden.sin() @ w).sum()

    x, w = leaf(4, 4), leaf(4, 4)
    both_of = braze.compile(function, fullgraph=True)
    both_of(x, w)[1].backward()
    wanted = [x.grad, w.grad]
    x.grad = w.grad = None
    function(x, w)[1].backward()
    assert_same(wanted[0], x.grad)
    assert_same(wanted[1], w.grad)


def test_gradients_of_gradients_through_a_function_of_the_users():
    class Cubed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x**2

    def function(x):
        return Cubed.apply(x).sin()

    @braze.disable
    def left_to_eager(x):
        return Cubed.apply(x)

    x = leaf(3)
    y = braze.compile(function)(x)
    with pytest.raises(RuntimeError, match="braze.disable"):
        torch.autograd.grad(y.sum(), x, create_graph=True)
    answers = []
    for call in (function, braze.compile(lambda x: left_to_eager(x).sin())):
        (g,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
        answers.append(torch.autograd.grad(g.sum(), x)[0])
    assert_same(answers[1], answers[0])
