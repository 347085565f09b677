"""Objects of all kinds that a call is given, looked at in all ways: each call sees what it is given."""

import array
import collections
import contextvars
import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import io
import json
import operator
import pathlib
import random
import re
import string
import struct
import types
import typing
import uuid

import braze
import numpy
import pytest
import torch


class Letter(enum.Enum):
    A = 1
    B = 2
    C = 3


class Point:
    def __init__(self, v):
        self.v = v

    def __str__(self):
        return f"P{self.v}"

    __repr__ = __str__

    def __eq__(self, other):
        return self.v == getattr(other, "v", None)

    def __hash__(self):
        return hash(self.v)

    def __len__(self):
        return self.v

    def __format__(self, spec):
        return f"<{self.v}>"

    def __call__(self):
        return self.v

    def __iter__(self):
        return iter(range(self.v))

    def __contains__(self, item):
        return item < self.v

    def __lt__(self, other):
        return self.v < other.v


@dataclasses.dataclass
class Record:
    v: int
    items: list


class Slots:
    __slots__ = ("v",)

    def __init__(self, v):
        self.v = v

    def __repr__(self):
        return f"S{self.v}"


class Told(ValueError):
    def __str__(self):
        return f"T{self.args[0]}"


class Missing(FileNotFoundError):
    pass


Pair = collections.namedtuple("Pair", "a b")
TYPES = (int, str, float, bytes, list)
DTYPES = (torch.float32, torch.float64, torch.int32, torch.int64, torch.bool)
OBJECTS = {
    "slice": slice,
    "range": range,
    "namespace": lambda v: types.SimpleNamespace(a=v),
    "date": lambda v: datetime.date(2020, 1, v + 1),
    "datetime": lambda v: datetime.datetime(2020, 1, v + 1, 3),
    "timedelta": datetime.timedelta,
    "decimal": decimal.Decimal,
    "fraction": lambda v: fractions.Fraction(v, 7),
    "uuid": lambda v: uuid.UUID(int=v),
    "path": lambda v: pathlib.PurePosixPath(f"/a{v}"),
    "match": lambda v: re.match("a(.)", f"a{v}"),
    "deque": lambda v: collections.deque([v]),
    "counter": lambda v: collections.Counter({v: v}),
    "ordered dict": lambda v: collections.OrderedDict(a=v),
    "default dict": lambda v: collections.defaultdict(int, a=v),
    "mapping proxy": lambda v: types.MappingProxyType({"a": v}),
    "memory view": lambda v: memoryview(bytes([v])),
    "byte array": lambda v: bytearray([v]),
    "bytes": lambda v: bytes([v]),
    "complex": lambda v: complex(v, 1),
    "enum": lambda v: Letter(v % 3 + 1),
    "flag": lambda v: enum.IntFlag("F", "A B C")(v % 4),
    "instance": Point,
    "dataclass": lambda v: Record(v, [v]),
    "slots": Slots,
    "array": lambda v: array.array("i", [v]),
    "partial": lambda v: functools.partial(int, v),
    "method": lambda v: Point(v).__call__,
    "named tuple": lambda v: Pair(v, [v]),
    "ValueError": ValueError,
    "OSError": lambda v: OSError(v, "x"),
    "file not found": lambda v: FileNotFoundError(2, "no", f"f{v}"),
    "own file error": lambda v: Missing(2, "no", f"f{v}"),
    "KeyError": KeyError,
    "own exception": Told,
    "group": lambda v: ExceptionGroup(f"g{v}", [ValueError(v)]),
    "UnicodeDecodeError": lambda v: UnicodeDecodeError("utf8", b"abc", v % 2, 2, f"r{v}"),
    "StopIteration": StopIteration,
    "SystemExit": SystemExit,
    "ImportError": lambda v: ImportError(f"m{v}", name=f"n{v}"),
    "AttributeError": lambda v: AttributeError(f"a{v}", name=f"n{v}"),
    "SyntaxError": lambda v: SyntaxError(f"s{v}"),
    "list": lambda v: [v, [v]],
    "dict": lambda v: {"a": {v: v}},
    "set": lambda v: {v},
    "frozenset": lambda v: frozenset([v]),
    "str": lambda v: "s" * v,
    "float": lambda v: v + 0.5,
    "tuple": lambda v: (v, (v, [v])),
    "values": lambda v: {"a": v}.values(),
    "items": lambda v: {"a": v}.items(),
    "keys": lambda v: {v: 1}.keys(),
    "chain map": lambda v: collections.ChainMap({"a": v}),
    "user dict": lambda v: collections.UserDict(a=v),
    "user list": lambda v: collections.UserList([v]),
    "user string": lambda v: collections.UserString(f"s{v}"),
    "stream": lambda v: io.StringIO(f"s{v}"),
    "template": lambda v: string.Template(f"$a{v}"),
    "size": lambda v: torch.Size([v]),
    "dtype": lambda v: DTYPES[v],
    "generator": lambda v: torch.Generator().manual_seed(v),
    "struct": lambda v: struct.Struct(f"{v}i"),
    "item getter": lambda v: operator.itemgetter(v % 2),
    "method caller": lambda v: operator.methodcaller("__add__", v),
    "optional": lambda v: typing.Optional[TYPES[v]],
    "generic": lambda v: list[TYPES[v]],
    "union": lambda v: dict | TYPES[v],
    "NumPy float": numpy.float32,
    "NumPy int": numpy.int64,
    "NumPy array": lambda v: numpy.array([v]),
    "NumPy date": lambda v: numpy.datetime64(f"2020-01-0{v + 1}"),
    "random": random.Random,
    "context variable": lambda v: contextvars.ContextVar(f"a{v}", default=v),
}


def matched(o):
    match o:
        case [a, *_]:
            return ("sequence", str(a))
        case {"a": a}:
            return ("mapping", str(a))
        case ValueError(args=(a,)):
            return ("error", a)
        case Point(v=v) | Record(v=v):
            return v
        case Letter.A:
            return "A"
    return None


def raised(o):
    try:
        raise o
    except Exception as error:
        return str(error)


LOOKS = {
    "str": lambda x, o: str(o),
    "repr": lambda x, o: repr(o),
    "f-string": lambda x, o: f"{o}",
    "f-string with repr": lambda x, o: f"{o!r:>20}",
    "%": lambda x, o: "%s" % (o,),
    "in a list": lambda x, o: str([o]),
    "in a tuple": lambda x, o: repr((o, 1)),
    "in a dict": lambda x, o: str({"k": o}),
    "in an exception": lambda x, o: (str(ValueError(o)), repr(KeyError(o))),
    "joined": lambda x, o: ",".join(map(str, [o])),
    "copy": lambda x, o: str(copy.copy(o)),
    "deepcopy": lambda x, o: str(copy.deepcopy(o)),
    "truth": lambda x, o: not o,
    "length": lambda x, o: len(o),
    "membership": lambda x, o: 2 in o,
    "list": lambda x, o: list(o),
    "loop": lambda x, o: [i for i in o],
    "unpacked": lambda x, o: (lambda *a: a)(*o),
    "sorted": lambda x, o: sorted(o),
    "number": lambda x, o: int(o),
    "twice": lambda x, o: o * 2,
    "called": lambda x, o: o(),
    "arguments": lambda x, o: o.args,
    "entries": lambda x, o: list(o.items()),
    "matched": lambda x, o: matched(o),
    "raised": lambda x, o: raised(o),
    "JSON": lambda x, o: json.dumps(o),
    "added to a tensor": lambda x, o: x + o,
    "index of a tensor": lambda x, o: x[o],
}
ADDRESS = re.compile("0x[0-9a-f]+")


def seen(function, o):
    try:
        result = function(torch.arange(5.0), o)[1]
        if isinstance(result, torch.Tensor):
            result = (str(result.dtype), result.tolist())
    except (Exception, SystemExit) as error:
        result = (type(error), str(error))
    return ADDRESS.sub("0x", f"{type(result)} {result!r}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("look", LOOKS)
def test_values_from_outside(look):
    for name, make in OBJECTS.items():

        def f(x, o):
            return x + 1, LOOKS[look](x, o)

        fast = braze.compile(f)
        for v in (1, 2, 1, 3):
            assert seen(fast, make(v)) == seen(f, make(v)), (name, v)


def test_an_exception_that_holds_itself():
    def error():
        made = ValueError()
        made.args = (made,)
        return made

    for look in ("str", "repr", "in a list"):

        def f(x, o):
            return x + 1, LOOKS[look](x, o)

        assert seen(braze.compile(f), error()) == seen(f, error())
