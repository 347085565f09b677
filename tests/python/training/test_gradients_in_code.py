"""Gradients in compiled code, of tensors from outside and of such that the code makes."""

import braze
import pytest
import torch
import torch.nn.functional as F
from comparing import assert_same, captured
from torch import autograd
from whole_steps import batches, compare, network


def both(function, make_args):
    """What eager and the compiled function give or raise, and the gradients that they leave."""
    answers = []
    for call in (function, braze.compile(function)):
        args = make_args()
        try:
            result = call(*args)
        except Exception as error:
            result = (type(error), str(error).splitlines()[0])
        answers.append((result, [a.grad for a in args if a is not None and a.is_leaf]))
    return answers


def check(function, make_args=None):
    wanted, got = both(function, make_args or ones)
    for a, b in zip(*map(torch.utils._pytree.tree_leaves, (got, wanted)), strict=True):
        if isinstance(b, torch.Tensor):
            assert (a.requires_grad, a.is_leaf) == (b.requires_grad, b.is_leaf)
            assert_same(a.detach(), b.detach())
        else:
            assert a == b


def ones():
    return torch.ones(3), torch.full((3,), 2.0, requires_grad=True)


def test_a_root_that_another_is_computed_from():
    def gradient(x, w):
        y = w * w
        return autograd.grad([y, y * 2], w, [x, x])

    def accumulated(x, w):
        y = w * w
        autograd.backward([y, y.sum()], [x, None])

    check(gradient)
    check(accumulated)


def test_of_a_tensor_and_of_what_it_was_computed_from():
    def outside(h, w):
        return autograd.grad((h * w).sum(), [h, w])

    def behind_a_break(x, w):
        h = w * x
        braze.graph_break()
        return autograd.grad((h * w).sum(), [h, w])

    def of_views(w, part):
        return autograd.grad((part * w[0]).sum(), [part, w])

    def computed():
        x, w = ones()
        return w * 2, w

    def viewed():
        w = torch.ones(2, 2, requires_grad=True)
        return w, w.view(4)

    check(outside, computed)
    check(behind_a_break)
    check(of_views, viewed)


def test_what_keeps_its_gradient():
    def step(h, w):
        return autograd.grad((h * h).sum(), h)

    kept = []
    for call in (step, braze.compile(step)):
        h = ones()[1] * 2
        h.retain_grad()
        call(h, None)
        kept.append(h.grad)
    assert_same(*kept)


def test_the_gradient_of_a_leaf_that_leaves():
    def returned(x, w):
        z = x.clone().requires_grad_()
        (z * z).sum().backward()
        return z

    def behind_a_break(x, w):
        z = x.clone().requires_grad_()
        (z * x).sum().backward()
        s = x.sum().item()
        (z * x).sum().backward()
        return z.grad * s

    def set_by_hand(x, w):
        z = x * 2
        z.grad = x * 3
        return z

    def with_its_gradient(x, w):
        z = x.clone().requires_grad_()
        (z * w).sum().backward()
        return z, z.grad

    for function in (returned, behind_a_break, with_its_gradient):
        check(function)
        result = braze.compile(function)(*ones())
        if function is returned:
            torch.testing.assert_close(result.grad, torch.full((3,), 2.0))
        if function is with_its_gradient:
            assert result[0].grad is result[1]
    torch.testing.assert_close(braze.compile(set_by_hand)(*ones()).grad, torch.full((3,), 3.0))


def test_projected_gradient_descent():
    """Madry et al. 2018, section 2.1, with a loss that is read in each step."""

    def make(module):
        def attack(x, y):
            losses, moved = [], x
            for _ in range(3):
                moved = moved.detach().clone().requires_grad_()
                loss = F.cross_entropy(module(moved), y)
                loss.backward()
                losses.append(loss.item())
                moved = (moved + 0.1 * moved.grad.sign()).clamp(x - 0.2, x + 0.2)
            return moved.detach(), losses

        return attack

    compare(make, network().eval(), whole=False)


@pytest.mark.parametrize(
    "again",
    (
        lambda loss, w: autograd.grad(loss, w),
        lambda loss, w: autograd.grad(loss, w, allow_unused=True),
        lambda loss, w: autograd.grad(loss * 2, w, materialize_grads=True),
        lambda loss, w: loss.backward(inputs=[w]),
    ),
)
def test_a_second_time(again):
    def step(x, w):
        loss = (w * w * x).sum()
        loss.backward()
        return again(loss, w)

    check(step)

    def first(x, w):
        loss = (w * w * x).sum()
        loss.backward()
        return loss

    x, w = ones()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        again(braze.compile(first)(x, w), w)


class Squared(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


def test_a_function_of_the_users_that_is_used_up():
    def step(x, w):
        loss = Squared.apply(w * x).sum()
        loss.backward()
        return loss

    check(step)
    assert captured(step, *ones())
    loss = braze.compile(step)(*ones())
    with pytest.raises(RuntimeError, match="a second time"):
        loss.backward()


def test_batches_of_gradients():
    def inside(x, w):
        return autograd.grad(w * w * x, w, torch.eye(3), is_grads_batched=True)[0]

    check(inside)

    def square(x):
        return x * x.sin() + x.sum()

    x = torch.randn(3, dtype=torch.double, requires_grad=True)
    fast = braze.compile(square)
    wanted = autograd.functional.jacobian(square, x)
    torch.testing.assert_close(autograd.functional.jacobian(fast, x, vectorize=True), wanted)
    assert autograd.gradcheck(fast, x, check_batched_grad=True)
    y = fast(x)
    rows = torch.func.vmap(lambda v: autograd.grad(y, x, v, retain_graph=True)[0])(
        torch.eye(3, dtype=torch.double)
    )
    assert not rows.requires_grad
    torch.testing.assert_close(rows, wanted)


def test_a_function_that_was_replaced(monkeypatch):
    calls, backward = [], torch.autograd.backward

    def counting(*args, **kwargs):
        calls.append(1)
        return backward(*args, **kwargs)

    monkeypatch.setattr(torch.autograd, "backward", counting)
    x, w = ones()
    braze.compile(lambda x, w: (w * x).sum().backward())(x, w)
    assert calls == [1]
    torch.testing.assert_close(w.grad, x)


def test_a_gradient_that_cannot_be_added_to(capfd):
    def step(x, w):
        (w * x).sum().backward()

    def expanded():
        x, w = ones()
        w.grad = torch.ones(1).expand(3)
        return x, w

    check(step, expanded)
    assert "internal error" not in capfd.readouterr().err


@pytest.mark.parametrize("of_module", (True, False))
def test_gradients_are_set_to_zero(of_module):
    def make(module):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)

        def step(x, y):
            (module if of_module else optimizer).zero_grad(set_to_none=False)
            F.cross_entropy(module(x), y).backward()
            optimizer.step()

        return step

    module = network()
    compare(make, module, rtol=1e-4, atol=1e-5)
    held = module[0].weight.grad
    fast = braze.compile(make(module))
    fast(*batches()[0])
    fast(*batches()[1])
    assert module[0].weight.grad is held


SCHEDULERS = {
    "step": lambda o: torch.optim.lr_scheduler.StepLR(o, 2, 0.5),
    "one cycle": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=10),
    "warm-up": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda n: min(1, (n + 1) / 4)),
    "cosine": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 5),
}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_schedulers(name):
    rates = []

    def make(module):
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.01)
        scheduler = SCHEDULERS[name](optimizer)
        seen = []
        rates.append(seen)

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(module(x), y)
            loss.backward()
            optimizer.step()
            scheduler.step()
            seen.append((scheduler.get_last_lr(), scheduler.last_epoch))
            return loss.detach()

        return step

    compare(make, network(), whole=False, rtol=1e-3, atol=1e-5)
    assert rates[0] == rates[1] and len(rates[0]) == 4


def test_a_scheduler_leaves_the_step_whole():
    module = network()
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)

    def step(x, y):
        optimizer.zero_grad()
        F.cross_entropy(module(x), y).backward()
        optimizer.step()

    x, y = batches()[0]
    step(x, y)
    scheduler.step()
    assert captured(step, x, y)


def test_writes_to_parts_of_a_tensor_leave_nothing_behind(capfd):
    """The history of such a tensor holds the tensor itself."""

    def step(x, w):
        t = w * 0.5
        t[:, :4].mul_(t[:, 4:])
        return t

    check(step, lambda: (None, torch.ones(3, 8, requires_grad=True)))
    assert "internal error" not in capfd.readouterr().err
