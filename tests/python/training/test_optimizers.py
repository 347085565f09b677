"""`braze.compile(optimizer.step)`: eager's parameters, state and errors, in one entry, with learning
rates and counts of steps as numbers of the call."""

import copy

import braze
import pytest
import torch
from support import entries, reasons
from torch import nn, optim

SHAPES = [(3, 4), (7,), (5, 5), (1,), (16, 33), (64, 32), ()]

WHOLE = {
    "sgd": lambda p: optim.SGD(p, 0.1),
    "sgd with momentum": lambda p: optim.SGD(
        p, 0.1, momentum=0.9, weight_decay=0.01, nesterov=True
    ),
    "sgd by lists": lambda p: optim.SGD(p, 0.1, momentum=0.9, foreach=True),
    "adam": lambda p: optim.Adam(p, 1e-2),
    "adam, amsgrad": lambda p: optim.Adam(p, 1e-2, amsgrad=True, weight_decay=0.1),
    "adam, maximised": lambda p: optim.Adam(p, 1e-2, maximize=True),
    "adamw": lambda p: optim.AdamW(p, 1e-2),
    "adamw by lists": lambda p: optim.AdamW(p, 1e-2, foreach=True),
    "adamw fused": lambda p: optim.AdamW(p, 1e-2, fused=True),
    "radam": lambda p: optim.RAdam(p, 1e-2),
    "adamax": lambda p: optim.Adamax(p, 1e-2),
    "adagrad": lambda p: optim.Adagrad(p, 1e-2, lr_decay=0.1),
    "adadelta": lambda p: optim.Adadelta(p),
    "rprop": lambda p: optim.Rprop([q for q in p if q.dim() > 0]),
    "rmsprop": lambda p: optim.RMSprop(p, 1e-2, momentum=0.9, centered=True),
    "nadam": lambda p: optim.NAdam(p, 1e-2),
    "nadam by lists": lambda p: optim.NAdam(p, 1e-2, weight_decay=0.1, foreach=True),
    "nadam decoupled": lambda p: optim.NAdam(
        p, 1e-2, weight_decay=0.1, decoupled_weight_decay=True, maximize=True
    ),
    "asgd": lambda p: optim.ASGD(p),
    "asgd that averages": lambda p: optim.ASGD(p, t0=3.0, weight_decay=0.1),
    "asgd by lists": lambda p: optim.ASGD(p, t0=3.0, maximize=True, foreach=True),
    "adafactor": lambda p: optim.Adafactor(p),
    "adafactor, large rate": lambda p: optim.Adafactor(p, lr=0.5, weight_decay=0.1),
    "adafactor by lists": lambda p: optim.Adafactor(p, maximize=True, foreach=True),
    "muon": lambda p: optim.Muon([q for q in p if q.dim() == 2], 1e-2),
}
STEPS = 8


def parameters(dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [
        nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype))
        for shape in SHAPES
    ]


def gradients(ps, step):
    generator = torch.Generator().manual_seed(100 + step)
    for p in ps:
        p.grad = torch.randn(p.shape, generator=generator, dtype=torch.float64).to(p.dtype)


def train(make, compiled, dtype=torch.float32, schedule=lambda optimizer, step: None):
    ps = parameters(dtype)
    optimizer = make(ps)
    step = braze.compile(optimizer.step) if compiled else optimizer.step
    for i in range(STEPS):
        gradients(ps, i)
        schedule(optimizer, i)
        assert step() is None
    return ps, optimizer, step


def halved(optimizer, step):
    if step > 2:
        for group in optimizer.param_groups:
            group["lr"] *= 0.5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["sgd with momentum", "sgd by lists", "adamw", "adamw by lists"])
def test_halves_in_one_step(name, dtype):
    """Rates and counts vary from step to step; nothing is compiled for them."""
    results = []
    for compiled in (False, True):
        model = nn.Linear(24, 16, dtype=dtype)
        with torch.no_grad():
            for i, p in enumerate(model.parameters()):
                p.copy_(torch.linspace(-1, 1 + i, p.numel()).view_as(p))
        optimizer = WHOLE[name](list(model.parameters()))
        x = torch.linspace(-1, 1, 8 * 24).reshape(8, 24).to(dtype)

        def step():
            optimizer.zero_grad()
            loss = model(x).float().square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        step()
        call = braze.compile(step) if compiled else step
        losses = []
        for i in range(12):
            halved(optimizer, i)
            losses.append(call())
        results.append((losses, [p.detach() for p in model.parameters()]))
    assert len(entries(call)) <= 2
    for ours, eagers in zip(*results):
        torch.testing.assert_close(ours, eagers, rtol=2e-2, atol=1e-2)


def distance(a, b):
    return max(((x.double() - y.double()).abs().max().item() for x, y in zip(a, b)), default=0)


@pytest.mark.parametrize("schedule", [lambda optimizer, step: None, halved], ids=["", "scheduled"])
@pytest.mark.parametrize("name", WHOLE)
def test_parameters_and_state(name, schedule):
    expected, by_eager, _ = train(WHOLE[name], False, schedule=schedule)
    actual, by_braze, _ = train(WHOLE[name], True, schedule=schedule)
    exact, _, _ = train(WHOLE[name], False, torch.float64, schedule=schedule)
    if name != "muon":  # computes in bfloat16
        assert distance(actual, exact) <= 2 * distance(expected, exact) + 1e-6
    assert distance(actual, expected) <= (1e-2 if name == "muon" else 1e-5)
    ours, theirs = by_braze.state_dict(), by_eager.state_dict()
    assert ours["param_groups"] == theirs["param_groups"]
    assert ours["state"].keys() == theirs["state"].keys()
    for number, state in theirs["state"].items():
        assert ours["state"][number].keys() == state.keys()
        for key, value in state.items():
            mine = ours["state"][number][key]
            if not isinstance(value, torch.Tensor):
                assert mine == value
                continue
            assert (mine.dtype, mine.shape, mine.stride()) == (
                value.dtype,
                value.shape,
                value.stride(),
            )
            if key == "step":
                assert torch.equal(mine, value)
            else:
                torch.testing.assert_close(mine, value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", WHOLE)
def test_one_entry_for_all_steps_and_learning_rates(name):
    ps = parameters()
    optimizer = WHOLE[name](ps)
    step = braze.compile(optimizer.step)
    for i in range(8):  # the first makes the state, RAdam changes its formula behind the fifth
        gradients(ps, i)
        step()
    before = len(entries(step))
    # PyTorch's fused kernels on the CPU take a learning rate as a number only.
    for i in range(0 if name == "adamw fused" else 20):
        gradients(ps, i)
        for group in optimizer.param_groups:
            group["lr"] *= 0.9
        step()
    assert len(entries(step)) == before
    explained = braze.explain(optimizer.step)()
    assert explained.breaks == []
    assert len(explained.entries) == 1


@pytest.mark.parametrize("name", WHOLE)
def test_the_first_step_is_one_entry(name):
    ps = parameters()
    gradients(ps, 0)
    explained = braze.explain(WHOLE[name](ps).step)()
    assert explained.breaks == []
    assert len(explained.entries) == 1


@pytest.mark.parametrize("name", ["sgd with momentum", "adamw", "rprop", "radam"])
def test_state_that_one_entry_makes_for_several(name):
    """Each optimizer has tensors of its own, and each parameter."""
    step = braze.compile(lambda optimizer: optimizer.step())
    made = []
    for seed in range(3):
        ps, qs = parameters(seed=seed)[:6], parameters(seed=seed)[:6]
        ours, theirs = WHOLE[name](ps), WHOLE[name](qs)
        for i in range(3):
            gradients(ps, i), gradients(qs, i)
            step(ours), theirs.step()
            assert distance(ps, qs) < 1e-5
        assert [list(s) for s in ours.state.values()] == [list(s) for s in theirs.state.values()]
        assert all(a is b for a, b in zip(ours.state, ps, strict=True))
        made += [t for s in ours.state.values() for t in s.values() if isinstance(t, torch.Tensor)]
    assert len({t.data_ptr() for t in made}) == len(made)
    assert not any(t.requires_grad for t in made)


def test_parameters_that_join_later():
    """Some have a state when others get theirs."""
    results = []
    for compiled in (False, True):
        ps = parameters()
        optimizer = optim.Adam(ps, 1e-2)
        step = braze.compile(optimizer.step) if compiled else optimizer.step
        for i in range(4):
            gradients(ps, i)
            for p in ps[2 + i :]:
                p.grad = None
            step()
        results.append((ps, optimizer.state_dict()["state"]))
        order = [next(i for i, p in enumerate(ps) if p is q) for q in optimizer.state]
        assert order == sorted(order)
    torch.testing.assert_close(results[1][1], results[0][1], rtol=1e-4, atol=1e-5)
    assert distance(results[1][0], results[0][0]) < 1e-5
    assert not reasons(step)


def test_what_torch_compile_does_to_them():
    """It puts disabled functions in the place of some of theirs."""
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1))
    test_one_entry_for_all_steps_and_learning_rates("adamw")


def test_nothing_is_copied():
    ps = parameters()
    optimizer = optim.AdamW(ps, 1e-2)
    gradients(ps, 0)
    optimizer.step()
    plan = braze.explain(optimizer.step)().entries[0]["plan"]
    # But where lanes would do elements twice: a parameter and its two moments each.
    assert plan.count("copy ") == 3 * sum(p.dim() > 0 and p.numel() % 16 != 0 for p in ps)


def test_tensors_stay_what_they_are():
    ps = parameters()
    optimizer = optim.AdamW(ps, 1e-2)
    step = braze.compile(optimizer.step)
    gradients(ps, 0)
    step()
    objects = [(p, p.data_ptr(), *optimizer.state[p].values()) for p in ps]
    versions = [p._version for p in ps]
    gradients(ps, 1)
    step()
    for p, address, *state in objects:
        assert p.data_ptr() == address and p.is_leaf and p.requires_grad
        assert all(a is b for a, b in zip(state, optimizer.state[p].values()))
    assert all(p._version > version for p, version in zip(ps, versions))


def test_closures_groups_and_absent_gradients():
    def run(compiled):
        ps = parameters()
        optimizer = optim.Adam([{"params": ps[:3]}, {"params": ps[3:], "lr": 0.5}], 1e-2)
        step = braze.compile(optimizer.step) if compiled else optimizer.step
        losses = []

        def closure():
            optimizer.zero_grad()
            loss = sum((p**2).sum() for p in ps[::2])
            loss.backward()
            return loss

        for _ in range(4):
            losses.append(step(closure).item())
        extra = nn.Parameter(torch.ones(4))
        optimizer.add_param_group({"params": [extra], "lr": 0.25})
        extra.grad = torch.ones(4)
        step()
        return [*ps, extra], losses

    (actual, ours), (expected, theirs) = run(True), run(False)
    assert distance(actual, expected) < 1e-5
    assert ours == pytest.approx(theirs)


def test_hooks_run():
    ps = parameters()
    optimizer = optim.SGD(ps, 0.1)
    seen = []
    optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append("before"))
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("after"))
    step = braze.compile(optimizer.step)
    for i in range(3):
        gradients(ps, i)
        step()
    assert seen == ["before", "after"] * 3


def test_a_scheduler_drives_it():
    def run(compiled):
        ps = parameters()
        optimizer = optim.AdamW(ps, 1e-2)
        scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
        step = braze.compile(optimizer.step) if compiled else optimizer.step
        for i in range(10):
            gradients(ps, i)
            step()
            scheduler.step()
        return ps, scheduler.get_last_lr(), step

    (actual, rate, step), (expected, rate_of_eager, _) = run(True), run(False)
    assert distance(actual, expected) < 1e-5 and rate == rate_of_eager
    assert len(entries(step)) < 30


def test_state_is_loaded():
    ps, by_eager, _ = train(WHOLE["adam"], False)
    qs = [nn.Parameter(p.detach().clone()) for p in ps]
    other = optim.Adam(qs, 1e-2)
    step = braze.compile(other.step)
    other.load_state_dict(copy.deepcopy(by_eager.state_dict()))
    for i in range(2):
        gradients(ps, i), gradients(qs, i)
        by_eager.step(), step()
    assert distance(qs, ps) < 1e-5


def test_what_an_optimizer_refuses():
    ps = parameters()
    gradients(ps, 0)
    step = braze.compile(optim.SparseAdam(ps).step)
    with pytest.raises(RuntimeError, match="does not support dense gradients"):
        step()
    with pytest.raises(TypeError, match="closure"):
        braze.compile(optim.LBFGS(ps).step)()


def test_a_label_that_a_break_lies_in():
    def function(x):
        with torch.autograd.profiler.record_function("part"):
            y = x + 1
            braze.graph_break()
            y = y * 2
        return y

    compiled = braze.compile(function)
    x = torch.randn(3)
    for _ in range(3):
        assert torch.equal(compiled(x), function(x))

    def fails(x):
        with torch.autograd.profiler.record_function("part"):
            raise ValueError(x.shape[0])

    with pytest.raises(ValueError, match="3"):
        braze.compile(fails)(x)


def test_labels_are_no_breaks():
    def function(x):
        with torch.autograd.profiler.record_function("part"), torch.profiler.record_function("b"):
            return x * 2

    compiled = braze.compile(function, fullgraph=True)
    x = torch.randn(3)
    assert torch.equal(compiled(x), function(x))


def test_gradients_are_read():
    def function(x, y):
        return None if x.grad is None else x.grad * 2 + y

    compiled = braze.compile(function)
    x, y = torch.randn(4, requires_grad=True), torch.randn(4)
    assert compiled(x, y) is None
    for _ in range(2):
        (x * y).sum().backward()
        assert torch.equal(compiled(x, y), function(x, y))
    x.grad = None
    assert compiled(x, y) is None
    assert not reasons(compiled)


def test_gradients_of_what_has_a_history():
    compiled = braze.compile(lambda x: x.grad is None)
    leaf = torch.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="not a leaf"):
        assert compiled(leaf * 2)
    kept = leaf * 3
    kept.retain_grad()
    kept.sum().backward()
    assert not compiled(kept)
    assert not braze.compile(lambda x: x.grad is None)(kept)


@torch.no_grad()
def test_lists_and_a_float_that_varies():
    def function(xs, ys, whole, s):
        torch._foreach_add_(xs, ys, alpha=s)
        torch._foreach_mul_(xs, scalar=s)
        torch._foreach_lerp_(xs, ys, weight=s)
        torch._foreach_addcmul_(xs, ys, ys, value=s)
        return (
            torch._foreach_mul(whole, s),
            torch._foreach_div(xs, [s, 2 * s]),
            torch._foreach_clamp_min(xs, scalars=[s, -s]),
        )

    compiled = braze.compile(function, fullgraph=True)
    for s in (0.5, 0.25, 0.75, 0.125, 0.3):
        arguments = [torch.randn(4), torch.randn(5)], [torch.randn(4), torch.randn(5)]
        whole = [torch.arange(3), torch.arange(4)]
        copies = copy.deepcopy(arguments)
        actual, expected = compiled(*arguments, whole, s), function(*copies, whole, s)
        for ours, theirs in zip((*actual, arguments[0]), (*expected, copies[0]), strict=True):
            for a, e in zip(ours, theirs, strict=True):
                torch.testing.assert_close(a, e)
    assert len(entries(compiled)) == 2


@torch.no_grad()
def test_counters():
    def function(x, count):
        count += 1
        before = count.item()
        count.add_(2.5)
        return x * 0.5**before + count.item()

    compiled = braze.compile(function)
    x, ours, theirs = torch.randn(4), torch.tensor(3.0), torch.tensor(3.0)
    for _ in range(6):
        assert torch.equal(compiled(x, ours), function(x, theirs))
        assert torch.equal(ours, theirs)
    assert len(entries(compiled)) == 1 and not reasons(compiled)


@torch.no_grad()
def test_what_is_no_counter():
    def scaled(x, count):
        count *= 2
        return x * count.item()

    def through_a_view(x, count):
        count += 1
        count.view(1).mul_(3)
        return x * count.item()

    def decides(x, count):
        count += 1
        return x + 1 if count.item() > 5 else x - 1

    def as_text(x, count):
        count += 1
        return x + len(str(count.item()))

    for function in (scaled, through_a_view, decides, as_text):
        compiled = braze.compile(function)
        x, ours, theirs = torch.randn(4), torch.tensor(3.0), torch.tensor(3.0)
        for _ in range(5):
            assert torch.equal(compiled(x, ours), function(x, theirs))
            assert torch.equal(ours, theirs)
