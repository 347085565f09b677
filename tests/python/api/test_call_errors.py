"""Calls with * and ** that CPython refuses: the same TypeError, caught inside the compiled code."""

import collections
import functools
import types

import pytest
import torch
from support import compare

TABLE = {"a": 1}


def scale(a=0, b=0):
    return a + b


class Scale:
    def __init__(self, a=0):
        self.a = a

    def method(self, a=0):
        return a

    def __call__(self, a=0):
        return a


class Mapping:
    def keys(self):
        return list(TABLE)

    def __getitem__(self, key):
        return TABLE[key]


INSTANCE = Scale()
CALLS = {
    "a function": lambda: scale(a=1, **TABLE),
    "an inner function": lambda: (lambda a: a)(a=1, **TABLE),
    "a class": lambda: Scale(a=1, **TABLE),
    "a method": lambda: INSTANCE.method(a=1, **TABLE),
    "a builtin": lambda: sorted([], key=None, **{"key": None}),
    "a function of torch": lambda: torch.add(1, 1, alpha=1, **{"alpha": 1}),
    "an instance": lambda: Scale.__call__(INSTANCE, a=1, **TABLE),
    "a partial function": lambda: functools.partial(scale, 1)(b=1, **{"b": 2}),
    "a counter": lambda: scale(a=1, **collections.Counter(a=3)),
    "a mapping": lambda: scale(a=1, **Mapping()),
    "a mapping made here": lambda: scale(a=1, **collections.UserDict(a=3)),
    "a proxy": lambda: scale(a=1, **types.MappingProxyType({"a": 1})),
    "other keywords": lambda: scale(b=1, **Mapping()),
    "no mapping": lambda: scale(**3),
    "no mapping beside a keyword": lambda: scale(a=1, **3),
    "no string": lambda: scale(a=1, **{1: 2}),
    "no iterable": lambda: scale(*3),
    "no iterable behind an argument": lambda: scale(1, *3),
}


@pytest.mark.parametrize("name", CALLS)
def test_message(name):
    def make():
        def f(x):
            try:
                return x * CALLS[name]()
            except TypeError as error:
                text = str(error)
                return x + 1, text.split("0x")[0]

        return f

    compare(make, [lambda: (torch.ones(3),)] * 2)
