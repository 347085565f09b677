"""Small functions of all kinds: over several calls with changing inputs everything is as in eager,
whether captured or given up. `captured` says that the whole function must be captured."""

import collections
import contextlib
import dataclasses
import enum
import functools
import itertools
import math
import operator
import typing

import pytest
import torch
import torch.nn.functional as F
from support import compare, entries

CASES = []


def case(*calls, captured=True):
    def register(make):
        CASES.append(pytest.param(make, calls, captured, id=make.__name__))
        return make

    return register


def r(*shape):
    return torch.randn(*shape)


ONE = (lambda: (r(4, 5),), lambda: (r(4, 5),), lambda: (r(3, 7),))
TWO = (lambda: (r(4, 5), r(4, 5)), lambda: (r(4, 5), r(5)), lambda: (r(2, 1), r(1, 3)))


@case(*ONE)
def arithmetic():
    return lambda x: torch.relu(x + 1) * 2 - x / 3


@case(*TWO)
def broadcasting():
    return lambda x, y: (x + y, x * y, x - 2 * y)


@case(*ONE)
def several_results():
    def f(x):
        return x.sin(), [x.cos(), {"t": x.tanh()}], None, 3

    return f


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


@case(lambda: (r(8, 3, 6, 6),), lambda: (r(8, 3, 6, 6),), lambda: (r(4, 3, 6, 6),), captured=False)
def batch_norm_training():
    return torch.nn.BatchNorm2d(3).train()


@case(*ONE)
def no_grad_block():
    def f(x):
        with torch.no_grad():
            y = x * 2
        return y + 1

    return f


@case(lambda: (r(4, 4), r(4, 4)), lambda: (r(4, 4), r(4, 4)), lambda: (r(4, 4), r(4, 4)))
def autocast_block():
    def f(x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = x @ y
        return z.float()

    return f


@case(*ONE, captured=False)
def data_dependent_branch():
    def f(x):
        if x.sum() > 0:
            return x + 1
        return x - 1

    return f


@case(*ONE, captured=False)
def item_of_tensor():
    def f(x):
        k = x.mean().item()
        return x * k

    return f


@case(*ONE, captured=False)
def prints():
    def f(x):
        y = x * 2
        print("shape", tuple(y.shape))
        return y + 1

    return f


@case(*ONE, captured=False)
def prints_a_tensor():
    def f(x):
        y = torch.ones(2) * 2
        print(y)
        return x + y.sum()

    return f


@case(lambda: (r(3), []), lambda: (r(3), [1]), lambda: (r(3), [1, 2]))
def appends_to_argument():
    def f(x, log):
        log.append(x * 2)
        return len(log)

    return f


@case(lambda: (r(3), {}), lambda: (r(3), {"a": 1}), lambda: (r(3), {"z": 0}))
def writes_into_dict_argument():
    def f(x, d):
        d["a"] = x + 1
        d.setdefault("n", 0)
        d["n"] += 1
        return x

    return f


@case(lambda: (r(3), Config()), lambda: (r(3), Config()), lambda: (r(3), Config()))
def writes_attribute_of_argument():
    def f(x, config):
        config.last = x.sum()
        config.scale = config.scale * 2
        return x * config.scale

    return f


@case(*ONE, captured=False)
def nonlocal_counter():
    def make():
        n = 0

        def f(x):
            nonlocal n
            n += 1
            return x * n

        return f

    return make()


@case(*ONE)
def in_place_on_argument():
    def f(x):
        x.add_(1).mul_(2)
        x[0] = 0
        return x.sum()

    return f


@case(*ONE)
def in_place_on_view():
    def f(x):
        y = x.clone()
        row = y[0]
        row.mul_(3)
        y[:, 1:].add_(1)
        return y, row

    return f


@case(*ONE)
def returns_argument():
    return lambda x: (x, x)


@case(*ONE)
def returns_view_of_argument():
    return lambda x: (x.t(), x[1:], x.view(-1))


@case(*ONE)
def returns_views_of_result():
    def f(x):
        y = x * 2
        return y, y.t(), y[0]

    return f


@case(*ONE)
def mutates_and_returns_view():
    def f(x):
        v = x.view(-1)
        x.add_(1)
        return v, v * 2

    return f


def _same_tensor():
    x = r(3)
    return x, x


@case(lambda: (r(3), r(3)), _same_tensor, lambda: (r(3), r(3)))
def same_tensor_twice():
    def f(x, y):
        return x + y if x is y else x - y

    return f


def _overlapping():
    base = r(6)
    return base[:4], base[2:]


@case(lambda: (r(4), r(4)), _overlapping, lambda: (r(4), r(4)))
def overlapping_arguments():
    def f(x, y):
        x.add_(1)
        return x * y

    return f


@case(lambda: (r(3), 1), lambda: (r(3), 0), lambda: (r(3), 2))
def raises_own_error():
    def f(x, n):
        y = x * n
        if n == 0:
            raise ValueError(f"n is {n}")
        return y

    return f


@case(lambda: (r(3), r(3)), lambda: (r(3), r(4)), lambda: (r(3), r(3)))
def raises_shape_error():
    return lambda x, y: x + y


@case(*ONE)
def catches_own_error():
    def f(x):
        try:
            if x.dim() == 2:
                raise KeyError("two")
            return x
        except KeyError as e:
            return x * len(e.args)
        finally:
            x = None

    return f


@case(lambda: (r(3), r(3)), lambda: (r(3), r(4)), lambda: (r(3), r(3)), captured=False)
def catches_shape_error():
    def f(x, y):
        try:
            return x + y
        except RuntimeError:
            return x

    return f


@case(*ONE)
def try_finally_that_does_not_fire():
    def f(x):
        try:
            y = x + 1
        finally:
            z = x * 2
        return y + z

    return f


@case(*ONE)
def context_manager():
    @contextlib.contextmanager
    def scaled(k):
        yield k * 2

    def f(x):
        with scaled(3) as k:
            return x * k

    return f


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


@case(*ONE)
def indexing():
    def f(x):
        return x[0], x[:, 1], x[..., ::2], x[None], x[-1, 1:3], x[[0, 1]]

    return f


@case(*ONE)
def masks_and_where():
    def f(x):
        mask = x > 0
        return torch.where(mask, x, -x), x.masked_fill(mask, 0.5), mask.any(), mask.sum()

    return f


@case(*ONE, captured=False)
def boolean_index():
    return lambda x: x[x > 0]


@case(*ONE)
def reductions():
    def f(x):
        return x.sum(), x.mean(0), x.amax(1, keepdim=True), x.var(1), x.argmax(1), x.max(0), x.std()

    return f


@case(*ONE)
def softmax_and_norms():
    def f(x):
        return x.softmax(-1), F.log_softmax(x, 0), F.layer_norm(x, x.shape[-1:]), x.logsumexp(1)

    return f


@case(lambda: (r(2, 6), r(6, 3)), lambda: (r(2, 6), r(6, 3)), lambda: (r(4, 2), r(2, 5)))
def matrix_products():
    return lambda x, w: (x @ w, F.linear(x, w.t()), torch.einsum("ij,jk->ik", x, w))


@case(
    lambda: (torch.tensor([1, 0, 2]),),
    lambda: (torch.tensor([3, 3]),),
    lambda: (torch.tensor([9]),),
)
def embedding_with_bad_index():
    table = torch.arange(12.0).view(4, 3)
    return lambda i: F.embedding(i, table) * 2


@case(lambda: (torch.arange(5),), lambda: (torch.arange(5) - 2,), lambda: (torch.arange(7),))
def integers():
    return lambda i: (i * 3 // 2, i % 3, i**2, i.float() / 2, i > 2, i & 3, -i)


@case(
    lambda: (torch.tensor(2.0),),
    lambda: (torch.tensor(3),),
    lambda: (torch.zeros(0, 3),),
)
def zero_dim_and_empty():
    return lambda x: (x + 1, x.sum(), x * x)


@case(
    lambda: (r(4, 6).t(),),
    lambda: (r(4, 12)[:, ::2],),
    lambda: (r(6).expand(3, 6),),
)
def strided_arguments():
    return lambda x: (x * 2 + 1, x.sum(0), x.contiguous())


@case(lambda: (r(4, 5).double(),), lambda: (r(4, 5).half(),), lambda: (r(4, 5).bfloat16(),))
def dtypes():
    return lambda x: (x * 2 + 1).relu()


@case(
    lambda: (torch.randn(3, dtype=torch.complex64),),
    lambda: (r(3),),
    lambda: (r(3).bool(),),
    captured=False,
)
def unusual_dtypes():
    return lambda x: x * 2


@case(
    lambda: (r(3, 3).to_sparse(),),
    lambda: (r(3, 3),),
    lambda: (r(3, 3).to_sparse(),),
    captured=False,
)
def sparse_argument():
    return lambda x: x * 2


class Tagged(torch.Tensor):
    pass


@case(
    lambda: (r(3).as_subclass(Tagged),),
    lambda: (r(3),),
    lambda: (r(3).as_subclass(Tagged),),
    captured=False,
)
def tensor_subclass():
    return lambda x: x * 2


@case(lambda: (r(3),), lambda: (), lambda: (r(3), r(3)))
def wrong_argument_count():
    def f(x):
        return x + 1

    return f


@case(lambda: (r(64),), lambda: (r(64),), lambda: (r(32),))
def random_numbers():
    return lambda x: (x + torch.rand_like(x), F.dropout(x, 0.5, training=True))


@case(lambda: (r(3), "sin"), lambda: (r(3), "cos"), lambda: (r(3), "tanh"))
def getattr_by_name():
    return lambda x, name: getattr(torch, name)(x) + getattr(x, name)()


@case(lambda: (r(3), 2), lambda: (r(3), 2.5), lambda: (r(3), True))
def scalar_types():
    return lambda x, k: (x * k, k, isinstance(k, bool), math.sqrt(k))


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
def cat_stack_pad():
    def f(x):
        return torch.cat([x, x * 2], 1), torch.stack([x, -x]), F.pad(x, (1, 2)), x.repeat(2, 1)

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


@case(*ONE)
def deleted_local():
    def f(x):
        y = x + 1
        z = y * 2
        del y
        return z

    return f


@case(*ONE)
def tensor_created_inside():
    def f(x):
        mask = torch.arange(x.shape[-1]) < 3
        return x * mask + torch.full((1,), 2.0) + torch.tensor([1.0]) + torch.zeros(x.shape)

    return f


@case(*ONE)
def numbers_in_tensor_positions():
    def f(x):
        return (
            torch.sub(2, x),
            torch.where(x > 0, 1.0, x),
            torch.where(x > 0, x, 2),
            2**x,
            torch.mul(3, x),
            torch.add(1, x, alpha=2),
            1 / (x.abs() + 1),
            torch.pow(2, x),
        )

    return f


@pytest.mark.parametrize("make, calls, captured", CASES)
def test_as_eager(make, calls, captured):
    compiled = compare(make, calls)
    if captured:
        first = entries(compiled)[0]
        assert first["kind"] == "plan" and first["exit"] == "return", first["reason"]


def test_there_are_sixty():
    assert len(CASES) >= 60


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 3), (0,)])
def test_empty_tensors(shape):
    def f(x):
        return (
            x + 1,
            x.sum(),
            x.sum(-1),
            x.sum(0),
            x.softmax(-1),
            x * x,
            x.mean(),
            x.prod(0),
            x.t() if x.dim() == 2 else x,
        )

    compare(lambda: f, [lambda: (torch.zeros(shape),)] * 2)
