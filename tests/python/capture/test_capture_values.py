"""Values of the standard library's types as arguments: another value is another entry."""

import braze
import pytest
import torch
from support import same


def loop(x, numbers):
    for number in numbers:
        x = x + number
    return x


def item(x, numbers):
    return x * numbers[1], len(numbers), 2 in numbers


def bounds(x, part):
    return x * part.stop, part.start, part.step


@pytest.mark.parametrize(
    "fn, values",
    [
        (loop, [range(3), range(4), range(0), range(2, 9, 3), range(3)]),
        (item, [range(3), range(1, 4), range(0, 3, 2), range(0, 4, 2)]),
        (lambda x, r: x if r else x + 1, [range(0), range(1), range(0)]),
        (bounds, [range(3), range(1, 4), range(0, 4, 2), range(0, 3, 2)]),
        (bounds, [slice(3), slice(1, 4), slice(0, 4, 2)]),
        (lambda x, part: x[part] + 1, [slice(2), slice(1), slice(1, None), slice(None, None, 2)]),
        (lambda x, part: ([1, 2, 3, 4][part], x), [slice(2), slice(1), slice(None, None, -1)]),
    ],
)
def test_ranges_and_slices(fn, values):
    fast = braze.compile(fn, recompile_limit=16)
    for value in values:
        x = torch.randn(4)
        same(fast(x, value), fn(x, value))
