"""Comparing a compiled function with eager: values, dtype, shape, strides, aliasing, mutation,
exceptions, printed output."""

import contextlib
import copy
import dataclasses
import io
import math

import braze
import torch


def same(a, b, path="result", rtol=1e-5, atol=1e-6):
    """Assert that two values are equal as a user can see."""
    assert type(a) is type(b), f"{path}: {type(a).__name__} is not {type(b).__name__}"
    if isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype, f"{path}: dtype {a.dtype} is not {b.dtype}"
        assert a.shape == b.shape, f"{path}: shape {tuple(a.shape)} is not {tuple(b.shape)}"
        assert a.layout == b.layout, path
        assert a.requires_grad == b.requires_grad, f"{path}: requires_grad"
        if a.layout == torch.strided:
            significant = [i for i in range(a.dim()) if a.size(i) > 1] if a.numel() else []
            for i in significant:
                assert a.stride(i) == b.stride(i), (
                    f"{path}: strides {a.stride()} is not {b.stride()}"
                )
            torch.testing.assert_close(
                a.detach(),
                b.detach(),
                rtol=rtol,
                atol=atol,
                equal_nan=True,
                msg=lambda m: f"{path}: {m}",
            )
        else:
            torch.testing.assert_close(a.to_dense(), b.to_dense())
    elif isinstance(a, dict):
        assert list(a) == list(b), f"{path}: keys {list(a)} are not {list(b)}"
        for key in a:
            same(a[key], b[key], f"{path}[{key!r}]", rtol, atol)
        if hasattr(a, "__dict__"):
            same(vars(a), vars(b), f"{path}.__dict__", rtol, atol)
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), f"{path}: length {len(a)} is not {len(b)}"
        for i, (x, y) in enumerate(zip(a, b)):
            same(x, y, f"{path}[{i}]", rtol, atol)
    elif isinstance(a, float):
        assert a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-5), (
            f"{path}: {a!r} is not {b!r}"
        )
    elif dataclasses.is_dataclass(a) and not isinstance(a, type):
        for field in dataclasses.fields(a):
            same(getattr(a, field.name), getattr(b, field.name), f"{path}.{field.name}", rtol, atol)
    elif isinstance(a, BaseException):
        assert a.args == b.args, f"{path}: {a!r} is not {b!r}"
    elif hasattr(a, "__dict__") and not callable(a):
        same(vars(a), vars(b), f"{path}.__dict__", rtol, atol)
    elif isinstance(
        a, (int, str, bytes, bool, type(None), set, frozenset, torch.dtype, torch.device)
    ):
        assert a == b, f"{path}: {a!r} is not {b!r}"


def autocast_nesting():
    """How many autocast contexts of this thread are open."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def aliasing(value, args):
    """Which tensors of result and arguments share memory, and which are the same object."""
    tensors, seen = [], set()

    def visit(x):
        if isinstance(x, torch.Tensor):
            tensors.append(x)
        elif isinstance(x, dict):
            for item in x.values():
                visit(item)
        elif isinstance(x, (list, tuple)):
            if id(x) in seen:
                return
            seen.add(id(x))
            for item in x:
                visit(item)

    visit(value)
    visit(args)

    def pointer(t):
        if t.layout != torch.strided or t.numel() == 0:
            return None
        return t.untyped_storage().data_ptr()

    facts = []
    for i, x in enumerate(tensors):
        for j, y in enumerate(tensors[:i]):
            if x is y:
                facts.append((i, j, "same object"))
            elif pointer(x) is not None and pointer(x) == pointer(y):
                facts.append((i, j, "shared memory"))
    return facts


def outcome(function, args, kwargs):
    """(kind, value, printed) of one call."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            value = ("returned", function(*args, **kwargs))
        except Exception as error:
            value = ("raised", error)
    return value[0], value[1], printed.getvalue()


def compare(make, calls, state=None, rtol=1e-5, atol=1e-6, **options):
    """Run what `make()` gives eagerly and compiled over the same calls, and compare everything.

    make: returns a fresh function; with `state`, returns (function, object) whose state is compared
        after each call.
    calls: list of functions that make the arguments: a tuple, or (tuple, dict).
    Returns the compiled callable.
    """
    eager, eager_state = make() if state else (make(), None)
    plain, compiled_state = make() if state else (make(), None)
    compiled = braze.compile(plain, **options)
    for number, make_args in enumerate(calls):
        results = []
        for function in (eager, compiled):
            torch.manual_seed(number)
            made = make_args()
            args, kwargs = (
                made
                if isinstance(made, tuple)
                and len(made) == 2
                and isinstance(made[1], dict)
                and isinstance(made[0], tuple)
                else (made, {})
            )
            torch.manual_seed(100 + number)
            results.append((outcome(function, args, kwargs), args, kwargs, torch.rand(1)))
        (a, a_args, a_kwargs, a_random), (b, b_args, b_kwargs, b_random) = results
        where = f"call {number}"
        assert a[0] == b[0], f"{where}: eager {a[0]} {a[1]!r}, compiled {b[0]} {b[1]!r}"
        same(b[1], a[1], f"{where}: result", rtol, atol)
        if a[0] == "raised":
            assert str(a[1]) == str(b[1]), f"{where}: {a[1]!r} is not {b[1]!r}"
        assert a[2] == b[2], f"{where}: printed {b[2]!r} instead of {a[2]!r}"
        same(b_args, a_args, f"{where}: arguments", rtol, atol)
        same(b_kwargs, a_kwargs, f"{where}: keyword arguments", rtol, atol)
        assert aliasing(a[1], a_args) == aliasing(b[1], b_args), f"{where}: aliasing"
        assert torch.equal(a_random, b_random), f"{where}: random state"
        if state:
            same(
                copy.copy(vars(compiled_state))
                if hasattr(compiled_state, "__dict__")
                else compiled_state,
                copy.copy(vars(eager_state)) if hasattr(eager_state, "__dict__") else eager_state,
                f"{where}: state",
            )
    return compiled


def entries(compiled):
    from braze import _api

    return _api.compiled_function_of(compiled)._entries()


def reasons(compiled):
    return [entry["reason_what"] for entry in entries(compiled) if entry["reason"]]
