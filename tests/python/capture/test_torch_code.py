"""Which Python code of PyTorch runs natively in a trace (src/capture/policy/torch_code.h), and that
the rest is evaluated: what it reads is guarded, what it writes is the user's at the end of the call."""

import dis
import enum
import importlib.util
import sys
import types

import braze
import pytest
import torch
import torch.signal.windows

from bench import hooks

ENTRIES = hooks.torch_code_list()
IMMUTABLE = (
    types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type, str, int, float, bool, tuple, frozenset,
    type(None), torch.dtype, torch.layout, torch.memory_format, enum.Enum,
)  # fmt: skip


def entry_of(module, name):
    """The longest entry, as src/capture/policy/frames.cpp finds it."""
    fitting = [
        e
        for e in ENTRIES
        if (
            module == e[0] and name.startswith(e[1])
            if e[1]
            else (module + ".").startswith(e[0] + ".")
        )
    ]
    return max(fitting, key=lambda e: (len(e[0]), len(e[1])), default=None)


def functions(module):
    seen = set()

    def walk(namespace, prefix):
        for name, value in list(namespace.items()):
            if isinstance(value, (staticmethod, classmethod)):
                value = value.__func__
            if isinstance(value, property):
                value = value.fget
            if getattr(value, "__module__", None) != module.__name__ or id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, types.FunctionType):
                yield value
            elif isinstance(value, type) and value.__qualname__ == prefix + name:
                yield from walk(vars(value), prefix + name + ".")

    return list(walk(vars(module), ""))


def instructions(code):
    yield from dis.get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from instructions(constant)


def modules_of(kind):
    for name, module in sorted(sys.modules.items()):
        if (name + ".").startswith("torch.") and isinstance(module, types.ModuleType):
            for function in functions(module):
                entry = entry_of(name, function.__qualname__)
                if entry and entry[2] == kind:
                    yield function


def test_functions_of_their_arguments_are_that():
    """They store no attribute and no global, and read no global that can change."""
    looked_at, found = 0, []
    for function in modules_of("function"):
        looked_at += 1
        for i in instructions(function.__code__):
            where = f"{function.__module__}.{function.__qualname__}: {i.opname} {i.argval}"
            if i.opname in ("STORE_ATTR", "STORE_GLOBAL", "DELETE_ATTR", "DELETE_GLOBAL"):
                found.append(where)
            value = function.__globals__.get(i.argval) if i.opname == "LOAD_GLOBAL" else None
            if not isinstance(value, IMMUTABLE):
                found.append(where)
    assert not found
    assert looked_at > 100


# Native code that stores globals, and why nobody sees it in a compiled function.
STORES = {
    "torch.cpu": "the current stream of a `with`, which puts it back",
    "torch.cuda": "what has been asked of the machine once",
    "torch.xpu": "what has been asked of the machine once",
    "torch.mps": "what has been asked of the machine once",
    "torch.mtia": "what has been asked of the machine once",
    "torch.jit": "what TorchScript has compiled",
    "torch.nested": "tensors of no trace",
    "torch.sparse": "operators that are registered once",
    "torch._subclasses": "tensors of no trace",
    "torch.autograd.profiler": "a profiler's own",
    "torch.utils._python_dispatch": "which modes are on, which a trace looks at",
}


def test_native_code_stores_no_globals_but_caches():
    found = {
        entry_of(f.__module__, f.__qualname__)[0]
        for f in modules_of("native")
        for i in instructions(f.__code__)
        if i.opname in ("STORE_GLOBAL", "DELETE_GLOBAL")
    }
    assert found <= set(STORES), found - set(STORES)


def test_entries_name_what_there_is():
    for module, _, _, why in ENTRIES:
        assert why
        assert module in sys.modules or importlib.util.find_spec(module), module
    assert len({entry[:2] for entry in ENTRIES}) == len(ENTRIES)


REFUSED = {
    "torch.random": lambda x: (torch.manual_seed(3), x * torch.rand(3))[1],
    "torch.optim": lambda x: torch.optim.SGD([x.clone()], 0.1).param_groups[0]["lr"] + x,
    "torch.utils.weak": lambda x: torch.utils.weak.WeakIdRef(x)() * 2,
    "torch.testing": lambda x: (torch.testing.assert_close(x, x), x + 1)[1],
    "torch.utils.checkpoint": lambda x: torch.utils.checkpoint.checkpoint(
        torch.sin, x, use_reentrant=True
    ),
    "torch.func": lambda x: torch.func.vmap(torch.sin)(x),
    "torch.fx": lambda x: torch.fx.symbolic_trace(torch.nn.ReLU())(x),
    "torch.utils.data": lambda x: next(iter(torch.utils.data.DataLoader([x], batch_size=1))),
    "torch.backends": lambda x: x + torch.backends.cudnn.enabled,
    "torch.get_default_device": lambda x: x.to(torch.get_default_device()) + 1,
    "torch.sparse": lambda x: x + torch.sparse.check_sparse_tensor_invariants.is_enabled(),
    "torch.autograd.functional": lambda x: torch.autograd.functional.jacobian(torch.sin, x),
    "torch.storage": lambda x: x + x.untyped_storage().nbytes(),
    "torch.profiler": lambda x: (torch.profiler.profile(), x + 1)[1],
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_code_runs_for_real(name):
    f = REFUSED[name]
    x = torch.arange(3.0)
    torch.manual_seed(0)
    expected = f(x)
    with torch.no_grad():
        torch.manual_seed(0)
        torch.testing.assert_close(braze.compile(f)(x), expected)
    found = braze.explain(f)(x)
    assert found.breaks, "captured: the entry is not needed"
