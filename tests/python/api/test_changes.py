"""Ways to change a model between two calls: each is noticed on the next call, or costs nothing where
it changes nothing that the compiled code relied on."""

import types

import braze
import pytest
import torch
from support import entries
from support import same as compare_values


class Block(torch.nn.Module):
    factor = 1.5

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.norm = torch.nn.LayerNorm(4)
        self.drop = torch.nn.Dropout(0.5)
        self.register_buffer("shift", torch.ones(4))
        self.scale = 2.0
        self.options = {"bias": True, "sizes": [1, 2]}
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(2)])

    def helper(self, x):
        return x * self.factor

    def forward(self, x, k=1.0, *, flag=False):
        x = self.helper(self.linear(x)) * self.scale + self.shift * k
        for layer in self.layers:
            x = layer(x)
        if self.options["bias"]:
            x = x + len(self.options["sizes"])
        x = self.drop(self.norm(x))
        return x * GLOBAL_FACTOR if not flag else x


GLOBAL_FACTOR = 3.0
X = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))


def same(a, b, path="result", **tolerance):
    # A norm over four numbers that lie close together multiplies rounding errors.
    compare_values(a, b, path, **{"rtol": 1e-4, "atol": 1e-5, **tolerance})


def set_global(model):
    globals()["GLOBAL_FACTOR"] = 4.0


def restore_global():
    globals()["GLOBAL_FACTOR"] = 3.0


def change_default(model):
    Block.forward.__defaults__ = (2.0,)


def restore_default():
    Block.forward.__defaults__ = (1.0,)
    Block.forward.__kwdefaults__ = {"flag": False}


def patch_method(model):
    Block.helper = lambda self, x: x - 1


ORIGINAL_HELPER = Block.helper
ORIGINAL_CODE = Block.helper.__code__


def restore_class():
    Block.helper = ORIGINAL_HELPER
    Block.helper.__code__ = ORIGINAL_CODE
    Block.factor = 1.5


def swap_code(model):
    Block.helper.__code__ = (lambda self, x: x + 5).__code__


def add_hook(model):
    model.linear.register_forward_hook(lambda m, a, out: out + 1)


def shadow_method(model):
    model.helper = lambda x: x * 7


def replace_child_class(model):
    class Negative(torch.nn.LayerNorm):
        def forward(self, x):
            return -super().forward(x)

    model.norm.__class__ = Negative


CHANGES = {
    "attribute": lambda m: setattr(m, "scale", 3.0),
    "attribute of another type": lambda m: setattr(m, "scale", 3),
    "class attribute": lambda m: setattr(Block, "factor", 2.5),
    "attribute over class attribute": lambda m: setattr(m, "factor", 0.5),
    "swapped submodule": lambda m: setattr(m, "norm", torch.nn.Identity()),
    "submodule of another kind": lambda m: setattr(m, "linear", torch.nn.Linear(4, 4, bias=False)),
    "layer popped": lambda m: m.layers.pop(0),
    "layer appended": lambda m: m.layers.append(torch.nn.Linear(4, 4)),
    "method monkeypatched on the class": patch_method,
    "method shadowed on the instance": shadow_method,
    "code of a method swapped": swap_code,
    "class of a submodule": replace_child_class,
    "global": set_global,
    "default argument": change_default,
    "keyword default": lambda m: Block.forward.__kwdefaults__.update(flag=True),
    "train()": lambda m: m.train(),
    "to another dtype": lambda m: m.double(),
    "requires_grad_": lambda m: [p.requires_grad_(True) for p in m.parameters()],
    "dict item": lambda m: m.options.update(bias=False),
    "list grows": lambda m: m.options["sizes"].append(3),
    "forward hook": add_hook,
    "global hook": None,
    "parameter replaced by another shape": lambda m: setattr(
        m.norm, "weight", torch.nn.Parameter(torch.ones(1, 4)[0] * 2)
    ),
    "buffer replaced": lambda m: setattr(m, "shift", torch.zeros(4)),
    "buffer of another shape": lambda m: setattr(m, "shift", torch.zeros(2, 4)),
    "parameter data replaced by strided": lambda m: setattr(
        m.linear.weight, "data", torch.randn(4, 8)[:, ::2]
    ),
    "parameter deleted": lambda m: m.linear.register_parameter("bias", None),
    "instance dict replaced": lambda m: setattr(m, "__dict__", {**m.__dict__, "scale": 9.0}),
    "eval after train": None,
}
UNCHANGED = {
    "optimizer step": lambda m: _step(m),
    "data copied": lambda m: m.linear.weight.data.copy_(torch.randn(4, 4)),
    "data replaced by the same kind": lambda m: setattr(m.linear.weight, "data", torch.randn(4, 4)),
    "state dict loaded": lambda m: m.load_state_dict(Block().state_dict()),
    "unread attribute": lambda m: setattr(m, "note", "x"),
    "buffer changed in place": lambda m: m.shift.add_(1),
}


def _step(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()


@pytest.fixture
def model():
    torch.manual_seed(1)
    yield Block().eval()
    restore_global()
    restore_default()
    restore_class()


def run(target, x):
    torch.manual_seed(5)
    return target(x)


@pytest.mark.parametrize("change", [name for name in CHANGES if CHANGES[name]])
def test_noticed(model, change):
    fast = braze.compile(model)
    same(run(fast, X), run(model, X))
    same(run(fast, X), run(model, X))
    assert entries(fast)[0]["kind"] == "plan", entries(fast)[0]["reason"]
    CHANGES[change](model)
    x = X.double() if "dtype" in change else X
    same(run(fast, x), run(model, x), change, atol=1e-5)
    same(run(fast, x), run(model, x), change, atol=1e-5)


@pytest.mark.parametrize("change", UNCHANGED)
def test_costs_no_recompile(model, change):
    fast = braze.compile(model)
    run(fast, X)
    UNCHANGED[change](model)
    same(run(fast, X), run(model, X), change)
    assert len(entries(fast)) == 1


def test_global_hook(model):
    fast = braze.compile(model)
    same(run(fast, X), run(model, X))
    handle = torch.nn.modules.module.register_module_forward_hook(
        lambda m, a, out: out + 1 if isinstance(m, torch.nn.LayerNorm) else None
    )
    try:
        same(run(fast, X), run(model, X))
    finally:
        handle.remove()
    same(run(fast, X), run(model, X))


def test_train_and_eval_again_reuse_entries(model):
    fast = braze.compile(model)
    for _ in range(3):
        for mode in (True, False):
            model.train(mode)
            same(run(fast, X), run(model, X))
    assert len(entries(fast)) <= 2


def test_closure_cell():
    k = 2.0

    def set_k(v):
        nonlocal k
        k = v

    def f(x):
        return x * k

    fast = braze.compile(f)
    same(fast(X), f(X))
    set_k(5.0)
    same(fast(X), f(X))


def test_builtin_shadowed():
    namespace = types.ModuleType("user")
    exec("def f(x):\n    return x * len(x.shape)", vars(namespace))
    fast = braze.compile(namespace.f)
    same(fast(X), X * 2)
    namespace.len = lambda s: 10
    same(fast(X), X * 10)


def test_global_of_another_module():
    other = types.ModuleType("other")
    other.factor = 2.0

    def f(x):
        return x * other.factor

    fast = braze.compile(f)
    same(fast(X), f(X))
    other.factor = 7.0
    same(fast(X), f(X))


def test_global_state():
    def f(x, y):
        return x @ y

    fast = braze.compile(f)
    x, y = torch.randn(3, 3), torch.randn(3, 3)
    same(fast(x, y), f(x, y))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        same(fast(x, y), f(x, y))
    with torch.inference_mode():
        result = fast(x, y)
        assert result.is_inference() == f(x, y).is_inference()
    same(fast(x, y), f(x, y))


def test_default_dtype():
    def f(x):
        return x + torch.ones(3)

    fast = braze.compile(f)
    x = torch.randn(3, dtype=torch.float32)
    same(fast(x), f(x))
    torch.set_default_dtype(torch.float64)
    try:
        same(fast(x), f(x))
    finally:
        torch.set_default_dtype(torch.float32)


def test_grad_mode_has_an_entry_of_its_own(model):
    fast = braze.compile(model)
    with torch.enable_grad():
        out = run(fast, X)
        assert out.requires_grad
        out.sum().backward()
        weight = model.linear.weight
        same(weight.grad, torch.autograd.grad(run(model, X).sum(), weight)[0])
    assert not any(e["reason"] for e in entries(fast))
    out = run(fast, X)
    assert not out.requires_grad
    same(out, run(model, X))
    assert len(entries(fast)) == 2


def test_swapped_function_argument():
    def f(x, g):
        return g(x) + 1

    fast = braze.compile(f)
    for g in (torch.sin, torch.cos, lambda t: t * 2, torch.sin):
        same(fast(X, g), f(X, g))


def test_two_instances_of_one_class():
    a, b = Block().eval(), Block().eval()
    b.scale = 5.0
    fast_a, fast_b = braze.compile(a), braze.compile(b)
    same(fast_a(X), a(X))
    same(fast_b(X), b(X))
    same(fast_a(X), a(X))
