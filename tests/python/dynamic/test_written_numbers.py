"""A number that varies, in a container from outside, is set to what it happens to be in the call
that is captured."""

import braze
import pytest
import torch

from tests.python.support import same


def a_dict(box, size):
    box["b"] = size


def its_update(box, size):
    box.update(b=size)


def a_list(box, size):
    box["l"][1] = size


def an_attribute(box, size):
    box["o"].n = size


def a_float(box, size):
    box["f"] = float(size)


class Plain:
    pass


def box_with(number):
    made = Plain()
    made.n = number
    return {"b": number, "l": [0, number], "o": made, "f": float(number)}


@pytest.mark.parametrize("write", [a_dict, its_update, a_list, an_attribute, a_float])
@pytest.mark.parametrize("look", [True, False])
def test_it_is_written_in_each_call(write, look):
    def f(x, box, items):
        y = x * 2
        if look:
            y = y * box["b"] + box["l"][1] + box["o"].n + box["f"]
        write(box, len(items))
        return y

    fast = braze.compile(f)
    x = torch.ones(3)
    for before in (2, 5, 3, 4, 3):
        expected, got = box_with(before), box_with(before)
        same(fast(x, got, [1, 2, 3]), f(x, expected, [1, 2, 3]))
        for box in (expected, got):
            box["o"] = vars(box["o"])
        assert got == expected


def test_in_a_loop_with_a_break():
    def f(x, items, table):
        for _ in range(2):
            x = torch.as_tensor([x.sum(), 1.0]) + 1  # a break
            table.update(b=len(items))
        return x

    fast = braze.compile(f)
    for _ in range(3):
        expected, got = {"a": 1, "b": 2}, {"a": 1, "b": 2}
        same(fast(torch.ones(2), [1, 2, 3], got), f(torch.ones(2), [1, 2, 3], expected))
        assert got == expected == {"a": 1, "b": 3}
