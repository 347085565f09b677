"""`backward()` and `torch.autograd.grad()` in compiled code: what eager does, and what it refuses."""

import copy

import braze
import pytest
import torch
import torch.nn.functional as F
from comparing import assert_same
from whole_steps import batches, compare, loss_of, network


def test_a_result_whose_backward_has_been():
    module = network()

    @braze.compile
    def step(x, y):
        loss = loss_of(module, x, y)
        loss.backward()
        return loss, (module[0].weight.sum() * 3)

    loss, other = step(*batches()[0])
    assert loss.requires_grad and not loss.is_leaf and loss.grad_fn is not None
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        loss.backward()
    before = module[0].weight.grad.clone()
    other.backward()
    torch.testing.assert_close(module[0].weight.grad, before + 3)


def test_a_graph_that_is_retained():
    def make(module):
        def step(x, y):
            module.zero_grad()
            loss = loss_of(module, x, y)
            loss.backward(retain_graph=True)
            (loss * 2).backward(retain_graph=True)
            return loss

        return step

    compare(make)
    module = network().eval()
    step = braze.compile(make(module))
    x, y = batches()[0]
    step(x, y).backward()
    found = [p.grad for p in module.parameters()]
    module.zero_grad()
    loss_of(module, x, y).backward()
    for grad, p in zip(found, module.parameters(), strict=True):
        torch.testing.assert_close(grad, 4 * p.grad)


def test_backward_through_the_graph_twice_in_the_code():
    module = network()

    @braze.compile
    def step(x, y):
        loss = loss_of(module, x, y)
        loss.backward()
        loss.backward()

    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        step(*batches()[0])


@pytest.mark.parametrize(
    "ask, message",
    (
        (lambda x, w: (x * w).backward(), "grad can be implicitly created only for scalar"),
        (lambda x, w: x.sum().backward(), "does not require grad"),
        (lambda x, w: (x * w).sum().backward(torch.ones(2)), "Mismatch in shape"),
        (lambda x, w: torch.autograd.grad((x * w).sum(), x), "does not require grad"),
        (
            lambda x, w: torch.autograd.grad((x * w).sum(), torch.ones(3, requires_grad=True)),
            "appears to not have been used",
        ),
        (lambda x, w: (x * w).sum().backward(inputs=[]), "cannot be empty"),
    ),
)
def test_what_eager_refuses(ask, message):
    x, w = torch.randn(3), torch.randn(3, requires_grad=True)
    for call in (ask, braze.compile(ask)):
        with pytest.raises(RuntimeError, match=message):
            call(x, w)
        assert w.grad is None


def test_gradients_that_are_asked_for():
    def make(module):
        weight, bias = module[4].weight, module[4].bias

        def step(x, y):
            hidden = module[:4](x)
            loss = F.cross_entropy(module[4](hidden), y)
            of_weight, of_hidden = torch.autograd.grad(loss, [weight, hidden], retain_graph=True)
            nothing, of_bias = torch.autograd.grad(
                loss, (torch.ones(2, requires_grad=True), bias), allow_unused=True
            )
            zeros = torch.autograd.grad(weight.sum(), [weight, bias], materialize_grads=True)
            return of_weight, of_hidden, nothing, of_bias, zeros

        return step

    compare(make)


def test_leaves_that_lead_nowhere():
    """Nobody else holds their nodes of autograd."""
    x, w = torch.randn(3), torch.randn(3, requires_grad=True)
    others = [torch.randn(2, requires_grad=True) for _ in range(3)]

    @braze.compile
    def step(x):
        return torch.autograd.grad((x * w).sum(), [*others, w], allow_unused=True)

    for _ in range(2):
        *nothing, of_w = step(x)
        assert nothing == [None] * 3
        torch.testing.assert_close(of_w, x)


def test_backward_of_some_inputs():
    def make(module):
        def step(x, y):
            module.zero_grad()
            loss_of(module, x, y).backward(inputs=[module[0].bias, module[4].weight])

        return step

    compare(make)


def test_weights_of_results():
    def make(module):
        def step(x, y):
            module.zero_grad()
            hidden = module[:3](x)
            torch.autograd.backward([hidden, hidden.sin().sum()], [hidden.detach().mT.mT, None])

        return step

    compare(make, rtol=1e-5, atol=1e-5)


def test_a_leaf_that_the_code_makes():
    def make(module):
        def step(x, y):
            leaf = torch.zeros(5, 8).requires_grad_()
            assert leaf.grad is None
            module[0](x + leaf).sum().backward()
            leaf = leaf.detach() - leaf.grad
            module.zero_grad()
            return leaf

        return step

    compare(make)

    def make_and_return(x):
        leaf = (x * 2).detach().clone().requires_grad_()
        return leaf, (leaf * 3).sum()

    leaf, result = braze.compile(make_and_return)(torch.ones(3))
    assert leaf.is_leaf and leaf.requires_grad
    result.backward()
    torch.testing.assert_close(leaf.grad, torch.full((3,), 3.0))

    leaf = braze.compile(lambda x: (x * 2).requires_grad_())(torch.ones(3))
    assert leaf.is_leaf and leaf.requires_grad
    leaf.sum().backward()
    torch.testing.assert_close(leaf.grad, torch.ones(3))


def test_hooks_that_come_and_go():
    module, calls = network().eval(), []
    twin = copy.deepcopy(module)

    def steps(module, call):
        seen = []
        for number, batch in enumerate(batches(6)):
            if number == 2:
                handle = module[0].weight.register_hook(lambda g: g * 2)
            if number == 3:
                handle.remove()
                after = module[0].bias.register_post_accumulate_grad_hook(
                    lambda p: calls.append(p.grad.clone())
                )
            if number == 5:
                after.remove()
            module.zero_grad()
            call(*batch)
            seen += [p.grad.clone() for p in module.parameters()]
        return seen, [calls.pop() for _ in range(len(calls))]

    wanted = steps(module, lambda x, y: loss_of(module, x, y).backward())
    got = steps(twin, braze.compile(lambda x, y: loss_of(twin, x, y).backward()))
    for a, b in zip(got[0] + got[1], wanted[0] + wanted[1], strict=True):
        assert_same(a, b)
    assert len(wanted[1]) == 2


def test_a_gradient_is_none_or_what_the_code_makes():
    def make(module):
        weight = module[0].weight

        def step(x, y):
            weight.grad = None
            loss_of(module, x, y).backward()
            weight.grad = weight.grad * 2
            before, module[0].bias.grad = module[0].bias.grad, None
            return before

        return step

    compare(make)


def test_a_history_from_outside_is_eagers():
    def step(h, w):
        (h * w).sum().backward()

    answers = []
    for call in (step, braze.compile(step)):
        x, w = torch.ones(3, requires_grad=True), torch.full((3,), 2.0, requires_grad=True)
        call(x * 5, w)
        answers.append((x.grad, w.grad))
    for a, b in zip(*answers):
        assert_same(a, b)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 + x


def test_functions_of_the_users():
    def make(module):
        def step(x, y):
            module.zero_grad()
            loss = F.cross_entropy(Doubled.apply(module(x)), y)
            loss.backward()
            return loss.detach()

        return step

    compare(make)


def test_gradients_that_are_deleted():
    """As if None were set."""

    def make(module):
        def step(x, y):
            for p in module.parameters():
                del p.grad
            assert module[0].weight.grad is None
            loss_of(module, x, y).backward()
            del module[0].bias.grad

        return step

    compare(make)


INPUTS = {
    "values of a dict": lambda module, named: named.values(),
    "parameters": lambda module, named: module.parameters(),
    "a generator": lambda module, named: (tensor for tensor in named.values()),
    "map": lambda module, named: map(lambda tensor: tensor, named.values()),
}


@pytest.mark.parametrize("name", INPUTS)
def test_inputs_that_are_gone_through_once(name):
    module = torch.nn.Linear(3, 1)
    x, y = torch.randn(4, 3), torch.randn(4, 1)

    def gradients():
        loss = (module(x) - y).square().mean()
        named = dict(module.named_parameters())
        found = torch.autograd.grad(loss, INPUTS[name](module, named), create_graph=True)
        return [gradient * 2 for gradient in found]

    with torch.enable_grad():
        expected, got = gradients(), braze.compile(gradients, fullgraph=True)()
    for a, b in zip(expected, got, strict=True):
        torch.testing.assert_close(a, b)
