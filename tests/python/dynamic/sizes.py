"""Helpers of the tests of dynamic sizes."""

import braze
from support import same


def check(fn, calls, *, compiles, **settings):
    """Run `fn` in eager and compiled on each of `calls` (tuples of arguments); the results must be
    equal as a user sees them, under at most `compiles` entries. Gives the compiled function."""
    fast = braze.compile(fn, **settings)
    for number, args in enumerate(calls):
        same(fast(*args), fn(*args), f"call {number}")
    assert count(fast) <= compiles, f"{count(fast)} compiles: {guards(fast)}"
    return fast


def count(fast):
    return len(fast._entries())


def guards(fast, entry=-1):
    """The guards about sizes of one entry, as text."""
    return [
        line
        for line in fast._entries()[entry]["guards"]
        if any(sign in line for sign in (" == ", " >= ", " <= ", " < ", " > ", " != "))
        and (".size(" in line or ".stride(" in line or " % " in line)
    ]
