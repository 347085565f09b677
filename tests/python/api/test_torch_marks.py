"""What torch.compiler's decorators say to torch.compile: compiled code gives what eager gives."""

import braze
import torch
from support import reasons, same


def test_allow_in_graph_is_traced_through():
    @torch.compiler.allow_in_graph
    def scaled(x, n):
        return x * n + 1

    def fn(x):
        return scaled(x.sin(), 3) * 2

    fast = braze.compile(fn, fullgraph=True)
    x = torch.randn(4)
    same(fast(x), fn(x))


def test_an_assumed_constant_stays_true():
    """It is evaluated with guards like everything else: never stale."""
    table = {"n": 2}

    @torch.compiler.assume_constant_result
    def number():
        return table["n"]

    def fn(x):
        return x * number()

    fast, x = braze.compile(fn, fullgraph=True), torch.randn(4)
    for table["n"] in (2, 5, 7):
        same(fast(x), x * table["n"])


def test_disable_of_torch_is_a_break():
    def inner(x):
        return x.exp()

    for recursive in (True, False):
        outer = torch.compiler.disable(lambda x: inner(x) + 1, recursive=recursive)

        def fn(x, outer=outer):
            return outer(x * 2) - 3

        fast, x = braze.compile(fn), torch.randn(4)
        same(fast(x), fn(x))
        assert reasons(fast)
