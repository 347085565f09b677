"""Hooks of modules in a backward: called as often, in the same order, with the same gradients."""

import copy

import braze
import pytest
import torch
import torch.nn.functional as F
from comparing import assert_same, assert_same_state
from torch import nn
from torch.nn.modules.module import register_module_full_backward_hook


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 6)

    def forward(self, x):
        return x + self.second(F.gelu(self.first(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x).tanh()


def log_of(seen, name, kind):
    def hook(module, *gradients):
        seen.append(
            (name, kind, [[g if g is None else g.clone() for g in one] for one in gradients])
        )

    return hook


def observe(net, seen):
    for name, module in net.named_modules():
        if isinstance(module, (Block, nn.Linear)):
            module.register_full_backward_hook(log_of(seen, name, "backward"))
            module.register_full_backward_pre_hook(log_of(seen, name, "before"))


def halve(net, seen):
    net.blocks[0].register_full_backward_hook(lambda module, into, out: (into[0] * 0.5,))
    net.blocks[1].first.register_full_backward_pre_hook(lambda module, out: (out[0] * 3,))
    observe(net, seen)


def of_whole(net, seen):
    net.register_full_backward_hook(log_of(seen, "net", "backward"))


def step(net, call, x):
    for parameter in net.parameters():
        parameter.grad = None
    x = x.clone().requires_grad_()
    result = call(x)
    result.square().sum().backward()
    return result.detach(), x.grad


def check_step(net, twin, fast, seen, seen_by_twin, x):
    seen.clear()
    seen_by_twin.clear()
    for got, wanted in zip(step(twin, fast, x), step(net, net, x), strict=True):
        assert_same(got, wanted)
    assert_same_state(net, twin)
    assert [each[:2] for each in seen_by_twin] == [each[:2] for each in seen]
    for (*_, found), (*_, wanted) in zip(seen_by_twin, seen, strict=True):
        for one, other in zip(found, wanted, strict=True):
            for got, gradient in zip(one, other, strict=True):
                assert_same(got, gradient)
    return len(seen)


@pytest.mark.parametrize("hooks", [observe, halve, of_whole], ids=lambda hooks: hooks.__name__)
@pytest.mark.parametrize("when", ["before", "later"])
def test_hooks(hooks, when):
    torch.manual_seed(0)
    net, seen, seen_by_twin = Net(), [], []
    twin = copy.deepcopy(net)
    fast = braze.compile(twin)
    x = torch.randn(4, 6)
    if when == "later":
        assert check_step(net, twin, fast, seen, seen_by_twin, x) == 0
    hooks(net, seen)
    hooks(twin, seen_by_twin)
    for size in (4, 4, 3, 5):
        assert check_step(net, twin, fast, seen, seen_by_twin, torch.randn(size, 6)) > 0


def test_hooks_that_are_removed():
    torch.manual_seed(0)
    net, seen, seen_by_twin = Net(), [], []
    twin = copy.deepcopy(net)
    fast = braze.compile(twin)
    for _ in range(3):
        handles = [
            model.blocks[0].register_full_backward_hook(log_of(log, "block", "backward"))
            for model, log in ((net, seen), (twin, seen_by_twin))
        ]
        x = torch.randn(4, 6)
        assert check_step(net, twin, fast, seen, seen_by_twin, x) == 1
        for handle in handles:
            handle.remove()
        assert check_step(net, twin, fast, seen, seen_by_twin, x) == 0


def test_hooks_of_all_modules():
    torch.manual_seed(0)
    net, seen = Net(), []
    twin = copy.deepcopy(net)
    fast = braze.compile(twin)
    x = torch.randn(4, 6)
    step(twin, fast, x)
    names = {module: name for model in (net, twin) for name, module in model.named_modules()}
    handle = register_module_full_backward_hook(
        lambda module, into, out: seen.append((names[module], out[0].clone()))
    )
    try:
        step(net, net, x)
        wanted = list(seen)
        seen.clear()
        step(twin, fast, x)
    finally:
        handle.remove()
    assert [name for name, _ in seen] == [name for name, _ in wanted]
    for (_, got), (_, gradient) in zip(seen, wanted, strict=True):
        assert_same(got, gradient)


def test_a_hook_that_raises():
    torch.manual_seed(0)
    net = Net()
    fast = braze.compile(net)

    def refuse(module, into, out):
        raise ValueError("not this gradient")

    x = torch.randn(4, 6)
    handle = net.blocks[1].register_full_backward_hook(refuse)
    for call in (net, fast):
        with pytest.raises(ValueError, match="not this gradient"):
            step(net, call, x)
    handle.remove()
    got, wanted = step(net, fast, x), step(net, net, x)
    assert_same(got[0], wanted[0])
    assert_same(got[1], wanted[1])


def test_what_hooks_cost_is_few_breaks():
    net = Net()
    net.blocks[1].register_full_backward_hook(lambda module, into, out: None)
    fast = braze.compile(net)
    step(net, fast, torch.randn(4, 6))
    report = str(braze.explain(fast)(torch.randn(4, 6)))
    assert "BackwardHook.setup_input_hook" in report
    assert report.count("B201") <= 6, report


@pytest.mark.parametrize("of", ["parameter", "result", "input"])
def test_hooks_that_differentiate(of):
    """A hook may ask for gradients itself, of the same call or of another, to the second order."""

    def run(compile_with):
        torch.manual_seed(0)
        net = Net()
        call = compile_with(net)
        x = torch.randn(4, 6, requires_grad=True)
        result, found = call(x), []

        @torch.enable_grad()
        def hook(gradient):
            if found:  # what it computes leads here again
                return None
            found.append(gradient.clone())
            found.extend(torch.autograd.grad(result.sum(), x, retain_graph=True))
            (slope,) = torch.autograd.grad(call(x * 2).square().sum(), x, create_graph=True)
            found.extend(torch.autograd.grad(slope.square().sum(), net.blocks[0].first.weight))
            return gradient * 2

        {"parameter": net.head.weight, "result": result, "input": x}[of].register_hook(hook)
        result.square().sum().backward(retain_graph=True)
        return net, found, x.grad

    (net, wanted, of_x), (twin, found, of_twins) = run(lambda call: call), run(braze.compile)
    assert len(found) == len(wanted) == 3
    for got, gradient in zip(found, wanted, strict=True):
        assert_same(got, gradient, rtol=1e-4, atol=1e-5)
    assert_same(of_twins, of_x)
    assert_same_state(net, twin)
