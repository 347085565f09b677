"""Code whose value stack the driver of frames does not understand: told once, and left to CPython
from where the first segment ends."""

import braze
import torch


class Counter:
    value = 0


def with_small_stack(function):
    """Says of the function that it needs less of the stack than a branch that is not taken does."""
    function.__code__ = function.__code__.replace(co_stacksize=6)
    return function


def test_a_frame_goes_on_from_its_first_break(capfd):
    counter = Counter()

    @with_small_stack
    def fn(x, deep):
        counter.value += 1
        y = x + 1
        braze.graph_break()
        if deep:
            return max(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
        return y * 2

    fast, x = braze.compile(fn), torch.ones(2)
    for step in range(3):
        assert torch.equal(fast(x, False), torch.full((2,), 4.0))
        assert counter.value == step + 1
    told = capfd.readouterr().err
    assert told.count("is not understood") == 1
    assert "internal error" in told


def test_a_generator_is_left_to_cpython(capfd):
    counter = Counter()

    @with_small_stack
    def fn(x, deep):
        for i in range(3):
            counter.value += 1
            yield x + i
        if deep:
            yield max(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)

    fast, x = braze.compile(fn), torch.ones(2)
    for step in range(3):
        assert [float(y[0]) for y in fast(x, False)] == [1, 2, 3]
        assert counter.value == 3 * (step + 1)
    assert "internal error" in capfd.readouterr().err
