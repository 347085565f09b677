"""Small functions of all kinds of Python, as in eager."""

import collections
import dataclasses
import enum
import functools
import itertools
import operator
import typing

import pytest
import torch
from function_cases import ONE, Cases, check, r

case = Cases()


@case(*ONE)
def closure():
    scale, shift = 2.5, torch.ones(1)

    def f(x):
        return x * scale + shift

    return f


@case(*ONE)
def nested_functions():
    def f(x):
        def inner(y, k=3):
            return y * k + x

        return inner(x) + inner(x, k=4)

    return f


@case(lambda: (r(3), r(3)), lambda: (r(3), r(3), r(3)), lambda: (r(3),))
def varargs():
    def f(*xs):
        total = 0
        for x in xs:
            total = total + x
        return total

    return f


@case(
    lambda: ((r(3),), {"a": r(3)}),
    lambda: ((r(3),), {"a": r(3), "b": 2}),
    lambda: ((r(3),), {"b": 3, "a": r(3)}),
)
def kwargs():
    def f(x, **more):
        for name in sorted(more):
            x = x + more[name]
        return x

    return f


@case(lambda: (r(3),), lambda: (r(3), 5.0), lambda: ((r(3),), {"k": 2}))
def defaults():
    def f(x, k=3.0, *, m=torch.tensor(2.0)):
        return x * k + m

    return f


@case(lambda: (r(4), 2), lambda: (r(4), 3), lambda: (r(4), 2))
def loop_over_range():
    def f(x, n):
        for i in range(n):
            x = x * (i + 1)
        return x

    return f


@case(*ONE)
def comprehensions():
    def f(x):
        rows = [row * i for i, row in enumerate(x)]
        table = {i: row.sum() for i, row in enumerate(rows)}
        return torch.stack(rows), table, tuple(v for v in table.values())

    return f


@case(*ONE)
def generator_inside():
    def halves(x):
        yield x / 2
        yield x / 4

    def f(x):
        return sum(halves(x)) + next(halves(x))

    return f


@case(*ONE)
def generator_send():
    def accumulate():
        total = None
        while True:
            value = yield total
            total = value if total is None else total + value

    def f(x):
        g = accumulate()
        next(g)
        g.send(x)
        return g.send(x * 2)

    return f


@case(*ONE)
def generator_returned():
    def f(x):
        return list(x.cos() for _ in range(2))

    return f


class Config:
    def __init__(self):
        self.scale = 2.0
        self.names = ["a", "b"]


@case(*ONE)
def object_attributes():
    config = Config()

    def f(x):
        return x * config.scale + len(config.names)

    return f


class Point:
    __slots__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __add__(self, other):
        return Point(self.x + other.x, self.y + other.y)

    @property
    def norm(self):
        return (self.x**2 + self.y**2).sqrt()

    @classmethod
    def diagonal(cls, v):
        return cls(v, v)

    @staticmethod
    def origin(like):
        return Point(torch.zeros_like(like), torch.zeros_like(like))


@case(*ONE)
def class_with_slots():
    def f(x):
        p = Point.diagonal(x) + Point.origin(x)
        return p.norm, p.x

    return f


@dataclasses.dataclass
class Result:
    value: torch.Tensor
    count: int = 0
    extra: typing.Optional[list] = None


@case(*ONE)
def dataclass_result():
    def f(x):
        return Result(x * 2, count=x.shape[0], extra=[x.sum()])

    return f


Pair = collections.namedtuple("Pair", "left right")


@case(*ONE)
def namedtuple_result():
    def f(x):
        p = Pair(x + 1, right=x - 1)
        return p, p._replace(left=p.right)

    return f


@case(*ONE)
def ordered_dict_result():
    def f(x):
        d = collections.OrderedDict()
        d["b"], d["a"] = x, x * 2
        d.move_to_end("b")
        return d

    return f


@case(*ONE)
def attributes_of_an_ordered_dict():
    layer = torch.nn.Sequential(torch.nn.BatchNorm1d(3))

    def f(x):
        d = collections.OrderedDict(a=x)
        d.note = [x + 1]
        return d, d.note[0], layer.state_dict()

    return f


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@case(lambda: (r(3), Colour.RED), lambda: (r(3), Colour.BLUE), lambda: (r(3), Colour.RED))
def enum_argument():
    def f(x, c):
        return x * c.value if c is Colour.RED else x - c.value

    return f


class Base(torch.nn.Module):
    def forward(self, x):
        return x + 1


class Derived(Base):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(5.0))
        self.register_buffer("shift", torch.ones(5))

    def forward(self, x):
        return super().forward(x) * self.weight + self.shift


@case(lambda: (r(2, 5),), lambda: (r(2, 5),), lambda: (r(3, 5),))
def module_with_super():
    return Derived()


@case(lambda: (r(2, 5),), lambda: (r(2, 5),), lambda: (r(3, 5),))
def sequential():
    torch.manual_seed(3)
    return torch.nn.Sequential(
        torch.nn.Linear(5, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2)
    ).eval()


@case(lambda: (r(2, 5),), lambda: (r(2, 5),), lambda: (r(3, 5),))
def module_hooks():
    torch.manual_seed(3)
    m = torch.nn.Linear(5, 3)
    m.register_forward_hook(lambda mod, args, out: out * 2)
    m.register_forward_pre_hook(lambda mod, args: (args[0] + 1,))
    return m


@case(*ONE)
def format_strings():
    def f(x):
        name = f"{x.dim()}d-{tuple(x.shape)!r:>10}-{x.dtype}"
        return x, name, "%d" % x.shape[0], "{}".format(len(name))

    return f


@case(*ONE)
def sorted_with_key():
    def f(x):
        items = sorted([3, 1, 2], key=lambda k: -k)
        return sum(x * i for i in items), max(items), min(items, default=0)

    return f


@case(*ONE)
def functools_and_itertools():
    add = functools.partial(torch.add, alpha=2)

    def f(x):
        parts = [x * i for i in itertools.islice(itertools.count(1), 3)]
        total = functools.reduce(operator.add, parts)
        return add(total, x), list(zip(range(2), itertools.chain([1], [2])))

    return f


@case(*ONE)
def unpacking():
    def f(x):
        a, *rest = [x, x + 1, x + 2]
        (b, c), d = (x, x * 2), {**{"k": 1}, "m": 2}
        return a + rest[-1] + b + c, d, [*rest, 1]

    return f


@case(lambda: (r(3), "sin"), lambda: (r(3), "cos"), lambda: (r(3), "tanh"))
def getattr_by_name():
    return lambda x, name: getattr(torch, name)(x) + getattr(x, name)()


@case(*ONE)
def lambda_table():
    table = {"a": lambda t: t + 1, "b": torch.sin}

    def f(x):
        for op in table.values():
            x = op(x)
        return x

    return f


@case(*ONE)
def while_and_match():
    def f(x):
        n = 0
        while n < 3:
            n += 1
            if n == 2:
                continue
            x = x + n
        match x.dim():
            case 1:
                return x
            case 2 | 3:
                return x * 2
        return None

    return f


@case(*ONE)
def recursion():
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)

    return lambda x: power(x, 4)


@case(*ONE)
def lru_cached_helper():
    @functools.lru_cache
    def scale(n):
        return n * 2.0

    return lambda x: x * scale(x.shape[0])


class Wrapper:
    def __init__(self, value):
        self.value = value

    def __getattr__(self, name):
        if name == "double":
            return self.value * 2
        raise AttributeError(name)

    def __call__(self, x):
        return x + self.value

    def __getitem__(self, i):
        return self.value + i

    def __len__(self):
        return 3

    def __contains__(self, v):
        return v == 7


@case(*ONE)
def python_protocols():
    w = Wrapper(2.0)

    def f(x):
        return w(x) * w.double + w[1] + len(w) + (7 in w) + hasattr(w, "nothing")

    return f


@case(*ONE)
def starred_call_and_dict():
    def g(a, b=1, *c, d=2, **e):
        return a * b + len(c) + d + sum(e.values())

    def f(x):
        return g(x, *[2, 3], **{"d": 4, "z": 5}), g(*(x,))

    return f


@pytest.mark.parametrize("make, calls, captured", case)
def test_as_eager(make, calls, captured):
    check(make, calls, captured)
