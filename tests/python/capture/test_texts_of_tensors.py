"""A tensor inside any object that is made text: its elements are those of the call.

Before PyTorch 2.14 the code for printing stumbled over tensors without data; later versions print
such a tensor without a word, so that none may come to be printed.
"""

import collections
import dataclasses
import functools
import logging
import operator
import pprint
import reprlib
import string
import traceback
import types

import braze
import pytest
import showing
import torch


class Holder:
    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return f"Holder({self.value})"


class Items(list):
    pass


@dataclasses.dataclass
class Record:
    value: object


Pair = collections.namedtuple("Pair", "first second")

OBJECTS = {
    "itself": lambda t: t,
    "nested lists": lambda t: [[(t,)], {"a": [{"b": t}]}],
    "deque": lambda t: [collections.deque([{1: t}])],
    "dicts": lambda t: (collections.OrderedDict(a=t), collections.defaultdict(list, a=t)),
    "named tuple": lambda t: Pair(1, t),
    "namespace": lambda t: types.SimpleNamespace(a=[t]),
    "partial": lambda t: functools.partial(operator.add, t),
    "record": lambda t: [Record([t])],
    "holder": lambda t: [Holder([t])],
    "subclass": lambda t: Items([t]),
    "exceptions": lambda t: (ValueError(t), KeyError([t]), StopIteration(t)),
    "views": lambda t: ({"a": t}.values(), {"a": [t]}.items()),
    "proxy": lambda t: types.MappingProxyType({"a": t}),
    "chain": lambda t: (collections.ChainMap({"a": t}), collections.UserList([t])),
    "set": lambda t: frozenset([t]),
    "slice": lambda t: slice(None, t),
    "results": lambda t: (t.max(0), torch.sort(t)),
    "parameters": lambda t: torch.nn.ParameterList([torch.nn.Parameter(t, requires_grad=False)]),
}


def logged(o):
    return logging.Formatter("%(message)s").format(
        logging.LogRecord("name", 1, "path", 1, "%s and %r", (o, o), None)
    )


def told(o):
    try:
        raise ValueError("words", o)
    except ValueError as error:
        return "".join(traceback.format_exception_only(error))


TEXTS = {
    "str": str,
    "repr": repr,
    "format": lambda o: f"{o!s:>3} {o!r}" + format(str(o)),
    "percent": lambda o: "%s %r" % (o, o) + "%(a)s" % {"a": o},
    "str.format": lambda o: "{} {!r}".format(o, o) + "{a}".format_map({"a": o}),
    "string": lambda o: string.Template("$a").substitute(a=o) + string.Formatter().format("{0}", o),
    "print": lambda o: print(o, [o]),
    "pprint": pprint.pformat,
    "reprlib": reprlib.repr,
    "logging": logged,
    "map": lambda o: "".join(map(str, [o])),
    "methods": lambda o: o.__repr__() + o.__str__() + list.__repr__([o]),
    "exception": told,
}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", OBJECTS)
def test_texts(kind, text):
    make, say = OBJECTS[kind], TEXTS[text]

    def f(x):
        y = x * 2 + 1
        return say(make(y)), y

    fast = braze.compile(f)
    for x in (torch.arange(3.0), torch.arange(3.0), torch.arange(3.0) + 7):
        expected = showing.outcome(f, x)
        assert showing.same(expected, showing.outcome(fast, x))
        assert expected[0][0] == "raised" or "..., size=" not in str(expected)
