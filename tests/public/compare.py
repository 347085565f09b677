"""One subject, eager and compiled: what a program can see of its calls, and how two runs differ."""

import contextlib
import gc
import math
import random
import re
import sys
from pathlib import Path

import braze
import numpy
import torch
from torch.utils.hooks import RemovableHandle

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from cases import changed
from snapshot import Snapshot

CALLS = 4
ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
# Objects that hold no state of the subject, or one that differs from run to run.
OPAQUE = ("braze", "inspect", "weakref", "threading", "_thread", "_weakref", "builtins.generator")


class Seen(Snapshot):
    """A snapshot that keeps values: exact strides, copies of tensors, text without addresses."""

    def tensor(self, t):
        facts = super().tensor(t)
        if t.layout == torch.strided:
            facts.append(t.stride() if t.numel() else ())
        self.tensors[facts[0]] = copied(t)
        return facts

    def contents(self, o):
        if isinstance(o, BaseException):
            return (self.name(type(o)), ADDRESS.sub("0x", str(o)))
        if isinstance(o, torch.Generator):
            self.tensors.append(o.get_state())
            return "generator"
        if isinstance(o, numpy.ndarray):
            if o.dtype == object:
                return ("array", o.shape, self.visit(o.tolist()))
            self.tensors.append(torch.from_numpy(o.copy()) if o.dtype.kind in "fiub" else None)
            return ("array", str(o.dtype), o.shape, o.strides, len(self.tensors))
        if isinstance(o, numpy.generic):
            return ("numpy", str(o.dtype), repr(o))
        kind = type(o)
        if kind.__module__.split(".")[0] in OPAQUE or isinstance(o, type(gc)):
            return self.name(kind)
        return super().contents(o)


def copied(t):
    """The values that are left when the tensor itself is changed later."""
    with torch.no_grad():
        if t.is_meta or t.layout == torch.jagged:
            return None
        if t.layout != torch.strided:
            t = t.to_dense()
        t = t.detach().resolve_conj().resolve_neg()
        return t.dequantize() if t.is_quantized else t.clone()


def split(t):
    """The elements of a tensor, in pieces that a cache holds."""
    return t.flatten().split(1 << 17)


def close(actual, expected):
    """None, or how far the values of two tensors of one shape and dtype are apart."""
    if actual is None or expected is None or actual.numel() == 0:
        return None
    if not (actual.is_floating_point() or actual.is_complex()):
        different = int((actual != expected).sum())
        return f"{different} of {actual.numel()} elements" if different else None
    if torch.equal(actual, expected):
        return None
    wide = torch.complex128 if actual.is_complex() else torch.float64
    pieces = list(zip(split(actual), split(expected)))
    # The largest finite value tells how much cancels where small results are sums of large ones.
    scale = max(float(e.abs().nan_to_num(0.0, 0.0, 0.0).max()) for _, e in pieces)
    # Doubles may come from float32: from what the call was not given, but a module holds.
    precision = {
        torch.float64: 1e-6,
        torch.complex128: 1e-6,
        torch.float16: 4e-3,
        torch.bfloat16: 3e-2,
    }
    rtol = precision.get(actual.dtype, 1e-4)
    atol = rtol * (0.01 + 0.1 * min(scale, 1e30))
    far = [
        ~torch.isclose(a.to(wide), e.to(wide), rtol=rtol, atol=atol, equal_nan=True)
        for a, e in pieces
    ]
    count = sum(int(here.sum()) for here in far)
    if not count:
        return None
    a, e, here = next((a, e, here) for (a, e), here in zip(pieces, far) if bool(here.any()))
    at = int(here.nonzero()[0, 0])
    return f"{count} of {actual.numel()} elements, first {a[at].item()!r} for {e[at].item()!r}"


def difference(a, e, path=""):
    """Where two trees differ, as text; None where they are equal."""
    if isinstance(a, list | tuple) and type(a) is type(e):
        if len(a) == len(e):
            for i, (x, y) in enumerate(zip(a, e)):
                found = difference(x, y, f"{path}.{i}")
                if found:
                    return found
            return None
    elif a == e or (
        isinstance(a, float)
        and isinstance(e, float)
        and math.isclose(a, e, rel_tol=1e-4, abs_tol=1e-6)
    ):
        return None
    return f"{path}: {cut(a)} instead of {cut(e)}"


def cut(o, most=300):
    text = repr(o)
    return text if len(text) <= most else text[:most] + "..."


def compare(actual, expected):
    """What differs between two `Seen`; None if nothing does."""
    found = difference(actual.tree, expected.tree)
    if found:
        return found
    for i, (a, e) in enumerate(zip(actual.tensors, expected.tensors)):
        apart = close(a, e) if a is None or a.shape == e.shape else f"{a.shape} for {e.shape}"
        if apart:
            return f"values of tensor {i}: {apart}"
    return None


def seed(number):
    torch.manual_seed(number)
    random.seed(number)
    numpy.random.seed(number)


def drawn():
    """The next number of each generator."""
    return [torch.rand(1), random.random(), float(numpy.random.rand())]


class Exhausted(BaseException):
    """The process cannot go on: a subject is to be tried again in a fresh one."""


def observe(case, wrap):
    """What each call of the case shows: (the result or exception, arguments, state, generators)."""
    seed(0)
    RemovableHandle.next_id = 0  # keys of the dicts of hooks
    function, state = case.make()
    function = wrap(function)
    shown = []
    for number in range(case.calls):
        seed(100 + number)
        args, kwargs = case.arguments(number)
        seed(number)
        try:
            result = ("returned", function(*args, **kwargs))
        except Exception as error:
            # What oneDNN raises in eager once a process that has had many shapes is out of memory
            # for code.
            if "could not create a primitive" in str(error):
                raise Exhausted(str(error)) from None
            error.__traceback__ = None
            result = ("raised", error)
        after = drawn()
        parts = {"result": result, "arguments": (args, kwargs), "state": state, "generators": after}
        shown.append(
            (
                {part: Seen(value, "subject") for part, value in parts.items()},
                Seen(parts, "subject"),
            )
        )
    return shown


def errors(actual, expected):
    """What was raised where only one of the two returned."""
    return "".join(
        f"; {name} raised {cut(seen.tree)}"
        for name, seen, other in (
            ("compiled", actual, expected),
            ("eager", expected, actual),
        )
        if "'raised'" in repr(seen.tree) and "'raised'" not in repr(other.tree)
    )


def first_difference(actual, expected):
    for number, ((a_parts, a_all), (e_parts, e_all)) in enumerate(zip(actual, expected)):
        for part in e_parts:
            found = compare(a_parts[part], e_parts[part])
            if found:
                return f"call {number}, {part} {found}{errors(a_parts[part], e_parts[part])}"
        found = compare(a_all, e_all)  # what the parts share
        if found:
            return f"call {number}, sharing {found}"
    return None


class Shaken:
    """A case whose inputs are off by a rounding."""

    def __init__(self, case, seed):
        self.case, self.make, self.calls, self.seed = case, case.make, case.calls, seed

    def arguments(self, number):
        noise = torch.Generator().manual_seed(100 * self.seed + number)

        def shake(t):
            if t.dtype not in (torch.float32, torch.float64) or t.layout != torch.strided:
                return t
            # What a dtype of more digits is given comes from one of fewer.
            return t.clone().addcmul_(
                t, torch.randn(t.shape, generator=noise).to(t.dtype), value=1e-7
            )

        args, kwargs = self.case.arguments(number)
        return changed(args, shake), changed(kwargs, shake)


MOVED = ("result", "state")  # by roundings
# Inputs are shaken so many times: a rounding that decides which of two values a result is does so
# now and then.
SHAKEN = 12


def distances(actual, expected):
    """How far the results of each call and the state are apart, at most; None where more differs."""
    found = []
    for (a_parts, _), (e_parts, _) in zip(actual, expected):
        found.append(0.0)
        for part in MOVED:
            if difference(a_parts[part].tree, e_parts[part].tree):
                return None
            for a, e in zip(a_parts[part].tensors, e_parts[part].tensors):
                found[-1] = max(found[-1], distance(a, e))
    return found


def distance(a, e):
    if a is None or e is None or a.numel() == 0:
        return 0.0
    if a.shape == e.shape and a.is_floating_point():
        return float((a.double() - e.double()).abs().nan_to_num(0.0).max())
    return 0.0 if torch.equal(a, e) else math.inf


def differ_in_values_alone(actual, expected):
    return not any(
        difference(a_all.tree, e_all.tree)
        or any(compare(a_parts[part], e_parts[part]) for part in e_parts if part not in MOVED)
        for (a_parts, a_all), (e_parts, e_all) in zip(actual, expected)
    )


def is_ill_conditioned(case, actual, expected):
    """Inputs that are off by a rounding move the results of eager itself as far."""
    left = distances(actual, expected) if differ_in_values_alone(actual, expected) else None
    for seed in range(SHAKEN):
        shaken = left and distances(observe(Shaken(case, seed), plain), expected)
        if not shaken:
            return False
        left = [0.0 if a <= 1e-6 + 3 * e else a for a, e in zip(left, shaken)]
        if not any(left):
            return True
    return False


FAKE = "Fake"


def is_fake(t):
    return FAKE in str(torch._C._dispatch_keys(t))


def fakes_alive():
    """Where fake tensors are left that something reaches, as text."""
    gc.collect()
    found = []
    for o in gc.get_objects():
        if issubclass(type(o), torch.Tensor) and is_fake(o):
            owners = [type(r).__name__ for r in gc.get_referrers(o) if not isinstance(r, type(sys))]
            found.append(f"{tuple(o.shape)} held by {owners[:4]}")
    return found


@contextlib.contextmanager
def said_to_compile(says):
    """What `torch.compiler.is_compiling()` says in eager: code that asks for it does something else."""
    before = torch.compiler._is_compiling_flag
    torch.compiler._is_compiling_flag = says
    try:
        yield
    finally:
        torch.compiler._is_compiling_flag = before


def plain(function):
    return function


def check(case, variants, backend, begin=lambda: None):
    """(status, text, breaks) of a case.

    status: "equal"; "differs"; "fake"; "asks" (equal to eager in which `is_compiling()` is true);
        "varies" (eager itself gives something else each time); "refused" (eager cannot make it).
    variants: values of `dynamic`. `begin()` is called where compiled code runs for the first time.
    """
    try:
        expected = observe(case, plain)
    except Exception as error:
        return "refused", repr(error), 0
    apart = first_difference(observe(case, plain), expected)
    if apart:
        return "varies", apart, 0
    begin()
    breaks, status = 0, "equal"
    for dynamic in variants:
        compiled = []

        def wrap(function, dynamic=dynamic, compiled=compiled):
            compiled.append(braze.compile(function, backend=backend, dynamic=dynamic))
            return compiled[-1]

        actual = observe(case, wrap)
        found = first_difference(actual, expected)
        if found and is_ill_conditioned(case, actual, expected):
            return "varies", f"a rounding of its inputs moves its results as far: {found}", breaks
        if found:
            with said_to_compile(True):
                if first_difference(observe(case, wrap), observe(case, plain)):
                    return "differs", f"dynamic={dynamic}: {found}", breaks
            status = "asks"
        breaks += count_breaks(compiled[0])
        del compiled[:], wrap
        left = fakes_alive()
        if left:
            text = f"dynamic={dynamic}: {len(left)} fakes left: {'; '.join(left[:3])}"
            return "fake", text, breaks
    again = first_difference(observe(case, plain), expected)
    if again:
        return "differs", f"in eager afterwards: {again}", breaks
    return status, "", breaks


def count_breaks(compiled):
    from braze import _api

    entries = _api.compiled_function_of(compiled)._entries()
    return sum(bool(entry["reason"]) for entry in entries)
