"""What is seen when a generator function is used, eagerly and compiled."""

import braze
from showing import outcome, same


def check(function, use, times=3, **options):
    """`use` of the function and of what it is compiled to, several times; the compiled one."""
    fast = braze.compile(function, **options)
    for _ in range(times):
        expected, got = outcome(use, function), outcome(use, fast)
        assert same(expected, got), f"eager {expected}\ncompiled {got}"
    return fast
