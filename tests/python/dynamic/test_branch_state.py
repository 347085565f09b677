"""Branches on data that change what native code keeps for the trace: no part of a graph."""

import array
import itertools

import braze
import pytest
import torch
from support import same
from torch._higher_order_ops import while_loop

# How the state is made, and what a branch does with it.
STATE = {
    "bytearray": (lambda x: bytearray(b"abc"), lambda state: state.__setitem__(0, 65)),
    "bytearray in a list": (lambda x: [bytearray(1)], lambda state: state[0].append(1)),
    "array": (lambda x: array.array("i", [1]), lambda state: state.append(2)),
    "range": (lambda x: iter(range(5)), next),
    "enumerate": (lambda x: enumerate(range(5)), next),
    "count": (lambda x: itertools.count(x.shape[0]), next),
    "cycle": (lambda x: itertools.cycle([1, 2]), next),
    "product": (lambda x: itertools.product([1, 1], repeat=2), next),
    "generator": (lambda x: (i for i in range(5)), next),
}


def replace_float(state):
    # The second float may get the place in memory that the first one had.
    state[0] = None
    state[0] = len(state) * 2.9


STATE["float"] = (lambda x: [x.shape[0] * 1.7], replace_float)


@pytest.mark.parametrize("name", STATE)
def test_state_of_the_trace(name):
    make, change = STATE[name]

    def fn(x):
        state = make(x)

        def yes(a):
            change(state)
            return a + 1

        return torch.cond(x.sum() > 0, yes, lambda a: a - 1, (x,)), state

    with pytest.raises(braze.GraphBreakError, match="B104"):
        braze.compile(fn, fullgraph=True)(torch.ones(3))


def test_a_loop_that_carries_memory_with_gaps():
    def fn(x, turns):
        def body(i, y):
            return i + 1, (torch.cat([y, y]) * 2)[::2]

        _, y = while_loop(lambda i, y: i < turns, body, (torch.tensor(0), x[::2]))
        return y + 1

    fast = braze.compile(fn)
    x = torch.arange(6.0)
    for turns in (0, 2, 0, 1):
        same(fast(x, torch.tensor(turns)), fn(x, torch.tensor(turns)))
