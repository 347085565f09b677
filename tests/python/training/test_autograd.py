"""What autograd and its users see of a compiled call, against eager."""

import copy
import gc
import threading

import braze
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from comparing import assert_same, assert_same_gradients, both, leaf


def raised(call):
    with pytest.raises(RuntimeError) as info:
        call()
    return str(info.value)


TANGENTS = {
    "expanded": torch.randn(()).expand(4, 6),
    "transposed": torch.randn(6, 4).t(),
    "with gaps": torch.randn(4, 12)[:, ::2],
    "of a row": torch.randn(1, 6).expand(4, 6),
}


@pytest.mark.parametrize("name", TANGENTS)
def test_tangents_in_any_layout(name):
    w = torch.randn(6, 6)
    assert_same_gradients(lambda x: (x @ w).sigmoid(), leaf(4, 6), tangent=TANGENTS[name])


def test_tangents_in_channels_last():
    x = leaf(2, 3, 4, 4)
    w = torch.randn(5, 3, 3, 3)
    tangent = torch.randn(2, 5, 2, 2).to(memory_format=torch.channels_last)
    assert_same_gradients(lambda x: F.conv2d(x, w).relu(), x, tangent=tangent)


def test_some_of_several_results_are_used():
    def f(x, w):
        return x.exp(), w.sin(), (x * w).sum()

    for used in ([0], [1], [2], [0, 1], [0, 2]):
        (wanted, xs), (got, ys) = both(f, leaf(3), leaf(3))
        for results in (wanted, got):
            sum(results[i].sum() for i in used).backward()
        for x, y in zip(xs, ys):
            assert_same(y.grad, x.grad)  # None, and no zeros, where nothing flows


def test_gradients_add_up_and_are_nobody_elses():
    w = leaf(4)
    f = braze.compile(lambda x: (x * w).sum())
    kept = []
    for i in range(4):
        f(torch.full((4,), float(i))).backward()
        kept.append(w.grad.clone())
    assert_same(w.grad, torch.full((4,), 6.0))
    w.grad.zero_()
    f(torch.ones(4)).backward()
    assert_same(kept[3], torch.full((4,), 6.0))


def test_a_gradient_shared_by_two_parameters_is_not_one_tensor():
    a, b = leaf(3), leaf(3)
    braze.compile(lambda: a + b)().backward(torch.ones(3))
    a.grad.mul_(2)
    assert_same(b.grad, torch.ones(3))


def test_backward_twice_and_retain_graph():
    def f(x):
        return (x.exp() * x).sum()

    (wanted, (x,)), (got, (y,)) = both(f, leaf(3))
    for result in (wanted, got):
        result.backward(retain_graph=True)
        result.backward()
    assert_same(y.grad, x.grad)
    assert raised(wanted.backward) == raised(got.backward)


def test_a_saved_tensor_that_was_changed():
    def f(x):
        y = x.exp()
        return y, y.sum()

    (wanted, _), (got, _) = both(f, leaf(3))
    messages = []
    for y, total in (wanted, got):
        with torch.no_grad():
            y.mul_(2)
        messages.append(raised(total.backward).split(":")[0])
    assert messages[0] == messages[1]

    def g(x, w):
        return (x * w).sum()

    (wanted, (_, w1)), (got, (_, w2)) = both(g, leaf(3), leaf(3))
    messages = []
    for total, w in ((wanted, w1), (got, w2)):
        with torch.no_grad():
            w.add_(1)
        messages.append(raised(total.backward).split(":")[0])
    assert messages[0] == messages[1]


def test_hooks_of_tensors_also_later_ones():
    def f(x, w):
        return (x * w).relu().sum()

    logs = []
    for call in (f, braze.compile(f)):
        x, w = torch.arange(3.0).requires_grad_(), torch.ones(3, requires_grad=True)
        log = []
        x.register_hook(lambda g: log.append(("x", g.clone())) or g * 2)
        call(x, w).backward()
        handle = w.register_hook(lambda g: log.append(("w", g.clone())))
        w.register_post_accumulate_grad_hook(lambda p: log.append(("after", p.grad.clone())))
        out = call(x, w)
        out.register_hook(lambda g: log.append(("out", g.clone())) or g * 3)
        out.backward()
        handle.remove()
        call(x, w).backward()
        logs.append((log, x.grad, w.grad))
    assert [name for name, _ in logs[0][0]] == [name for name, _ in logs[1][0]]
    for (_, a), (_, b) in zip(logs[0][0], logs[1][0]):
        assert_same(b, a)
    assert_same(logs[1][1], logs[0][1])
    assert_same(logs[1][2], logs[0][2])


def test_a_hook_that_raises():
    x = leaf(3)
    out = braze.compile(lambda x: x.exp().sum())(x)
    out.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        out.backward()
    braze.compile(lambda x: x.exp().sum())(x).backward()
    assert_same(x.grad, x.detach().exp())


def test_freezing_and_thawing():
    def f(a, b):
        return (a * b).sum()

    fast = braze.compile(f)
    a, b = leaf(3), leaf(3)
    for frozen in (False, True, False):
        a.requires_grad_(not frozen)
        a.grad = b.grad = None
        fast(a, b).backward()
        assert (a.grad is None) == frozen
        assert_same(b.grad, a.detach())


@pytest.mark.parametrize("dynamic", [None, True])
def test_islands_without_gradients(dynamic):
    def f(x):
        y = x * 2
        with torch.no_grad():
            z = y * 3
            with torch.enable_grad():
                u = x.sin()
        return (y * z + u).sum() + (x.detach() * x).sum()

    assert_same_gradients(f, leaf(4), dynamic=dynamic)
    assert not braze.compile(lambda x: x.detach() * 2)(leaf(2)).requires_grad


def test_writes_within_the_differentiated_part():
    def f(x, w):
        y = x * 2
        y[1:] = x[1:] * w[1:]
        y.add_(1)
        v = y.view(-1)
        v[0] *= 3
        z = torch.zeros(4)
        z[:2] = y[:2]
        return (y * y).sum() + z.exp().sum()

    assert_same_gradients(f, leaf(4), leaf(4))


def test_results_that_are_views():
    def f(x):
        return (x * 2).view(2, 6).transpose(0, 1)

    (wanted, (x,)), (got, (y,)) = both(f, leaf(3, 4))
    for result in (wanted, got):
        result.mul_(3)  # goes on in eager, behind the call
        (result**2).sum().backward()
    assert_same(y.grad, x.grad)


def test_results_that_share_memory_are_left_to_eager():
    def inside(x):
        y = x * 2
        return y, y.view(-1)

    def outside(x):
        return x.view(-1), (x * 2).sum()

    for f in (inside, outside):
        (wanted, (x,)), (got, (y,)) = both(f, leaf(2, 3))
        for a, b in (wanted, got):
            (a.sum() + (b * b).sum()).backward()
        assert_same(y.grad, x.grad)


def test_inputs_with_a_history():
    def f(x, w):
        return (x @ w).relu()

    fast = braze.compile(f)
    grads = []
    for call in (f, fast):
        torch.manual_seed(3)
        a, w = leaf(3, 3), leaf(3, 3)
        h = a.sin()
        for _ in range(3):
            h = call(h, w)
        h.sum().backward()
        grads.append((a.grad, w.grad))
    for a, b in zip(*grads):
        assert_same(b, a)


def test_graph_breaks_train():
    def f(x, w):
        y = (x * w).relu()
        print(float(y.sum()))
        for _ in range(2):
            y = (y * w).sin()
            y.sum().item()
        return (y + w).sum()

    assert_same_gradients(f, leaf(4), leaf(4))


def penalty_of(gradient):
    return (gradient.norm(2, dim=1) - 1).square().mean()


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_gradient_penalty(dropout):
    critic = nn.Sequential(
        nn.Linear(4, 8), nn.Softplus(), nn.Dropout(dropout), nn.Linear(8, 1), nn.Tanh()
    )
    twin = copy.deepcopy(critic)
    fast = braze.compile(twin)
    x = torch.randn(6, 4)
    for model, call in ((critic, critic), (twin, fast)):
        torch.manual_seed(0)
        given = x.clone().requires_grad_()
        y = call(given)
        (gradient,) = torch.autograd.grad(y.sum(), given, create_graph=True)
        (y.mean() + penalty_of(gradient)).backward()
    for p, q in zip(critic.parameters(), twin.parameters()):
        assert_same(q.grad, p.grad, layout=False, rtol=1e-4, atol=1e-6)


def test_forces_and_their_loss():
    class Energy(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(1, 8), nn.SiLU(), nn.Linear(8, 1))

        def forward(self, positions):
            apart = positions[:, None] - positions[None]
            distances = (apart.square().sum(-1) + 1e-3).sqrt()
            return self.net(distances[..., None]).sum()

    model = Energy()
    twin = copy.deepcopy(model)
    fast = braze.compile(twin)
    target = torch.randn(5, 3)
    for m, call in ((model, model), (twin, fast)):
        positions = torch.arange(15.0).view(5, 3).sin().requires_grad_()
        energy = call(positions)
        (forces,) = torch.autograd.grad(-energy, positions, create_graph=True)
        (F.mse_loss(forces, target) + 0.1 * energy).backward()
    for p, q in zip(model.parameters(), twin.parameters()):
        assert_same(q.grad, p.grad, layout=False, rtol=1e-4, atol=1e-5)


def test_products_with_the_hessian_and_third_derivatives():
    def f(x, w):
        return (x.sin() * w).pow(3).sum()

    for order in (2, 3):
        answers = []
        for call in (f, braze.compile(f)):
            torch.manual_seed(4)
            x, w = leaf(4), leaf(4)
            hooks = []
            x.register_hook(lambda g: hooks.append(1))
            value = call(x, w)
            for _ in range(order):
                (g,) = torch.autograd.grad(value, x, create_graph=True)
                value = (g * torch.arange(4.0)).sum()
            answers.append((value.detach(), *torch.autograd.grad(value, (x, w)), len(hooks)))
        for a, b in zip(*[answer[:3] for answer in answers]):
            assert_same(b, a, rtol=1e-4, atol=1e-5)


def test_double_backward_knows_what_has_no_gradient():
    def f(x):
        with torch.no_grad():
            scale = x * 3
        return (x.pow(3) * scale * x.detach()).sum()

    answers = []
    for call in (f, braze.compile(f)):
        x = torch.arange(1.0, 5.0).requires_grad_()
        (g,) = torch.autograd.grad(call(x), x, create_graph=True)
        answers.append((g.detach(), *torch.autograd.grad(g.sum(), x)))
    for a, b in zip(*answers):
        assert_same(b, a)


def test_no_backward_is_compiled_without_gradients():
    fast = braze.compile(lambda x: (x * 2).sum())
    with torch.no_grad():
        assert not fast(leaf(3)).requires_grad
    assert fast(leaf(3)).requires_grad
    assert not fast(torch.randn(3)).requires_grad


def test_autograd_grad_of_a_part():
    def f(x, w):
        return (x * w).exp().sum()

    (wanted, (x1, w1)), (got, (x2, w2)) = both(f, leaf(3), leaf(3))
    assert_same(torch.autograd.grad(got, w2)[0], torch.autograd.grad(wanted, w1)[0])
    (wanted, (x1, w1)), (got, (x2, w2)) = both(f, leaf(3), leaf(3))
    wanted.backward(inputs=[x1])
    got.backward(inputs=[x2])
    assert w2.grad is None
    assert_same(x2.grad, x1.grad)


def test_errors_are_eagers():
    (wanted, _), (got, _) = both(lambda x: x * 2, leaf(3))
    assert raised(wanted.backward) == raised(got.backward)  # no scalar
    message = [raised(lambda r=r: r.backward(torch.ones(4))) for r in (wanted, got)]
    assert message[0] == message[1]


def test_not_a_number_flows():
    assert_same_gradients(lambda x: (x.sqrt() * 0).sum(), torch.zeros(3).sub(1).requires_grad_())


def test_saved_tensor_hooks_of_the_call():
    packed = []

    def pack(t):
        packed.append(t.shape)
        return t.double()

    def unpack(t):
        return t.float()

    fast = braze.compile(lambda x: x.exp().sum())
    x = leaf(3)
    fast(x).backward()
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        out = fast(x)
    x.grad = None
    out.backward()
    assert packed and x.grad is not None
    assert_same(x.grad, x.detach().exp())


def test_threads_train_models_of_their_own():
    torch.manual_seed(0)
    models = [nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 2)) for _ in range(4)]
    twins = copy.deepcopy(models)
    x = torch.randn(5, 6)
    errors = []

    def work(model, twin):
        try:
            fast = braze.compile(twin)
            for _ in range(20):
                for m in (model, twin):
                    for p in m.parameters():
                        p.grad = None
                model(x).square().sum().backward()
                fast(x).square().sum().backward()
                for p, q in zip(model.parameters(), twin.parameters()):
                    assert_same(q.grad, p.grad, rtol=1e-4, atol=1e-5)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(models, twins)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


def test_nothing_is_left_behind():
    fast = braze.compile(lambda x: x.exp().sin().sum())

    def step():
        x = leaf(64)
        fast(x).backward()

    step()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(200):
        step()
    gc.collect()
    assert len(gc.get_objects()) - before < 50
