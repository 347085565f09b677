"""Runs a function eagerly and compiled, compares everything, and prints the segments as text."""

import builtins
import contextlib
import io
import traceback

import braze
import torch


def outcome(function, args):
    """What a call gives: result or exception with its lines, and what it printed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            result = "returned", function(*args)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            lines = [(f.name, f.lineno) for f in frames if f.name not in ("outcome", "__call__")]
            result = "raised", repr(error), repr(error.__context__), lines
    return result, out.getvalue()


def same(a, b):
    if isinstance(a, torch.Tensor):
        return (
            isinstance(b, torch.Tensor)
            and a.dtype == b.dtype
            and torch.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True)
        )
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return type(a) is type(b) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return type(a) is type(b) and a == b


def segments(compiled):
    """One line per segment: where it begins, how many operators, where and how it ends."""
    if isinstance(compiled, torch.nn.Module):
        compiled = compiled._braze_compiled
    lines = []
    first = {}
    for entry in compiled._entries():
        name = entry["function"].split(".<locals>.")[-1]
        start = first.setdefault((entry["function"], entry["file"]), None)
        if start is None:
            start = entry["first_line"]
        text = f"{name}+{entry['line'] - start}: "
        text += f"{entry['nodes']} operators" if entry["kind"] != "eager" else "CPython"
        text += f", {entry['exit']}"
        if entry["exit"] == "break":
            text += f" at +{entry['break_line'] - start}"
        lines.append(text)
    return lines


def check(function, *calls, compiled=None, modules=(), limit=None):
    """Each call eagerly and compiled, three times over; the compiled function."""
    fast = compiled or braze.compile(function, recompile_limit=limit)
    for _ in range(3):
        for make in calls:
            with torch.no_grad():
                expected = outcome(function, make())
                got = outcome(fast, make())
            assert same(expected, got), f"eager {expected}\ncompiled {got}"
    return fast


@braze.disable
def print(*values, **options):
    """A break, which the builtin, put off to the end of a segment, is not."""
    builtins.print(*values, **options)


x4 = torch.tensor([0.5, -1.0, 2.0, 3.0])


def four():
    return (x4.clone(),)
