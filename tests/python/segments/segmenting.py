"""Runs a function eagerly and compiled, compares everything, and prints the segments as text."""

import builtins

import braze
import torch
from showing import outcome, same


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
                expected = outcome(function, *make())
                got = outcome(fast, *make())
            assert same(expected, got), f"eager {expected}\ncompiled {got}"
    return fast


@braze.disable
def print(*values, **options):
    """A break, which the builtin, put off to the end of a segment, is not."""
    builtins.print(*values, **options)


x4 = torch.tensor([0.5, -1.0, 2.0, 3.0])


def four():
    return (x4.clone(),)
