"""Arguments made in C: another value is noticed."""

import array
import datetime
import decimal
import operator
import re

import braze
import pytest
import torch

VALUES = [
    ("x * float(v.total_seconds())", datetime.timedelta(1), datetime.timedelta(2)),
    ("x * len(str(v))", datetime.timedelta(1), datetime.timedelta(20)),
    ("x * v.year", datetime.date(1, 1, 1), datetime.date(2, 1, 1)),
    ("x * float(v)", decimal.Decimal(1), decimal.Decimal(2)),
    ("x * v[0]", array.array("i", [1]), array.array("i", [2])),
    ("x * len([*v])", array.array("i", [1]), array.array("i", [1, 2])),
    ("x * sum(v)", {1: 1}.values(), {1: 2}.values()),
    ("x * list(v)[0]", {1: 1}.keys(), {2: 1}.keys()),
    ("x * bool(v)", {}.keys(), {1: 1}.keys()),
    ("x * len(v)", {1: 1}.items(), {1: 1, 2: 2}.items()),
    ("x * (v.match('bb') is not None)", re.compile("a"), re.compile("bb")),
    ("x * v([1, 2])", operator.itemgetter(0), operator.itemgetter(1)),
    ("x * v([1, 1])", operator.methodcaller("count", 1), operator.methodcaller("count", 2)),
    ("x * v(3)", (3).__add__, (4).__add__),
    ("x * (hash(v) % 7)", (1, 2), (1, 3)),
]


@pytest.mark.parametrize("expression, one, other", VALUES)
def test_another_value_is_noticed(expression, one, other):
    scope = {}
    exec(f"def f(x, v):\n    return {expression}\n", scope)
    fn, x = scope["f"], torch.ones(3)
    fast = braze.compile(fn)
    for value in (one, one, other, one, other):
        assert torch.equal(fast(x, value), fn(x, value))
