"""Python's own features: what a traced function computes is what CPython computes."""

import collections
import contextlib
import dataclasses
import enum
import functools
import itertools
import math
import operator

import pytest
import torch
import torch.nn.functional as F
from capturing import check

CASES = []


def case(fn):
    CASES.append(pytest.param(fn, id=fn.__name__))
    return fn


K = 3


@case
def closures(x):
    k = 2

    def g(y, *, m=3):
        return y * k + m

    h = lambda z: g(z, m=k)
    return h(x) + K


@case
def starargs(x):
    def f(a, /, b, *args, c=1, **kw):
        return a + b + sum(args) + c + kw["d"]

    return f(x, *[x, x, x], **{"c": 2, "d": x})


@case
def comps(x):
    made = [x * i for i in range(3) if i]
    d = {i: x + i for i in range(2)}
    s = {i for i in (1, 2, 2)}
    return made, d, sum(i * 1.0 for i in s) + x, tuple(v for v in made), [*made, *d.values()]


@case
def gens(x):
    def g(n):
        for i in range(n):
            r = yield x * i
            if r is not None:
                yield r

    a = list(g(3))
    it = g(4)
    next(it)
    b = it.send(x + 5)

    def d():
        v = yield from g(2)
        yield x - 1

    return a, b, list(d()), [i for i, _ in enumerate(g(2))]


@dataclasses.dataclass
class DC:
    a: torch.Tensor
    b: int = 3
    c: list = dataclasses.field(default_factory=list)


@case
def dcs(x):
    d = DC(x + 1)
    d.c.append(x)
    return d, DC(x, b=4)


NT = collections.namedtuple("NT", "p q")


@case
def nts(x):
    return NT(x, q=x + 1)._replace(p=x * 2), torch.Size([1, 2]), x.shape, x.max(0)


@case
def excs(x):
    out = []
    for i in range(4):
        try:
            try:
                if i == 0:
                    raise KeyError("k")
                if i == 1:
                    [][1]
                if i == 2:
                    1 / 0
                out.append("ok")
            except (KeyError, IndexError) as e:
                out.append(type(e).__name__)
                raise RuntimeError("w") from e
            finally:
                out.append(i)
        except RuntimeError as e:
            out.append((str(e), type(e.__cause__).__name__))
            x = x + 1
        except ZeroDivisionError:
            out.append("z")
    return x, out


@case
def withs(x):
    class_log = []

    @contextlib.contextmanager
    def cm(v):
        class_log.append(("in", v))
        try:
            yield v
        finally:
            class_log.append("out")

    with cm(3) as v, torch.no_grad():
        x = x + v
    try:
        with cm(4):
            raise ValueError("q")
    except ValueError as e:
        class_log.append(str(e))
    with contextlib.suppress(KeyError):
        raise KeyError
    return x, class_log


class Base:
    reg = [1]

    def __init__(s, a):
        s.a = a
        s.l = [a]

    def f(s, x):
        return x + s.a

    @property
    def p(s):
        return s.a * 2

    @p.setter
    def p(s, v):
        s.a = v

    @classmethod
    def mk(c, v):
        return c(v)

    @staticmethod
    def st(x):
        return x * 7

    def __getattr__(s, n):
        if n.startswith("dyn"):
            return n[3:]
        raise AttributeError(n)

    def __len__(s):
        return 3

    def __getitem__(s, i):
        return s.l[i]

    def __contains__(s, v):
        return v == s.a

    def __call__(s, x):
        return x - s.a

    def __eq__(s, o):
        return s.a == o.a

    def __hash__(s):
        return hash(s.a)

    def __iter__(s):
        return iter(s.l)

    def __add__(s, o):
        return type(s)(s.a + o.a)

    def __format__(s, sp):
        return "B" + sp

    def __enter__(s):
        return s

    def __exit__(s, *a):
        return a[0] is KeyError


class Der(Base):
    def __init__(s, a):
        super().__init__(a)
        s.d = 1

    def f(s, x):
        return super().f(x) * s.d

    def __getattribute__(s, n):
        if n == "magic":
            return 42
        return super().__getattribute__(n)


OB = Der(5)


@case
def objects(x):
    b = Der.mk(2)
    b.p = 6
    with b:
        raise KeyError("x")
    return (
        b.f(x),
        OB.f(x),
        OB.p,
        OB.st(x),
        b.dynfoo,
        getattr(b, "nope", None),
        hasattr(OB, "a"),
        len(OB),
        OB[0],
        5 in OB,
        OB(x),
        b == OB,
        (b + OB).a,
        f"{OB:q}",
        b.magic,
        OB.magic,
        {b: 1}[b],
        [*OB],
        bool(OB),
        isinstance(b, Base),
        issubclass(Der, Base),
        Base.reg,
    )


@case
def fstr(x):
    a = 3.14159
    n = "q"
    return (
        f"{a:.2f} {n!r:>5} {x.shape[0]}",
        "%s-%d" % (n, 2),
        "{} {k}".format(1, k=2),
        n.upper().join(["a", "b"]),
    )


@case
def unpack(x):
    a, *b, (c, d) = [1, 2, 3, (4, 5)]
    p, q = x.split(2, 1)
    m = {**{"a": 1}, "b": 2}
    del m["a"]
    i = 10
    while (i := i - 3) > 0:
        pass
    return (
        a,
        b,
        c,
        d,
        p,
        q,
        m,
        i,
        x[1:, None, ..., ::2],
        1 < a < 3,
        not a,
        -a,
        ~a,
        7 // 2,
        2**5,
        "x" * 3,
        [1, 2][::-1],
    )


@case
def matches(x):
    out = []
    for v in [(1, {"k": [2, 3]}), 5, "s", [1, 2, 3], DC(x, 2)]:
        match v:
            case (1, {"k": [a, b]}):
                out.append((a, b))
            case int(n):
                out.append(n)
            case [a, *r]:
                out.append((a, r))
            case DC(b=2):
                out.append("dc")
            case _:
                out.append(None)
    return out


@case
def nonloc(x):
    n = 0

    def inc():
        nonlocal n
        n += 1
        return n

    inc()
    inc()
    return x + n, n


@case
def funcs(x):
    p = functools.partial(torch.add, x, alpha=2)
    return (
        p(x),
        functools.reduce(operator.add, [x, x, x]),
        list(map(lambda v: v + 1, [x])),
        sorted([3, 1, 2], key=lambda v: -v),
        max([1, 5, 2]),
        list(zip([1], [x])),
        list(itertools.chain([1], [2])),
        math.sqrt(4),
        dict(a=1),
        operator.itemgetter(1)([1, 2]),
        any([0, 1]),
        [*reversed([1, 2])],
    )


class Col(enum.Enum):
    R = 1
    G = 2


@case
def enums(x):
    return Col.R.name, Col(2).value, Col.R is Col.R, {Col.R: 1}[Col.R]


@case
def strs(x):
    return (
        "abc".split("b"),
        "a".replace("a", "b"),
        " x ".strip(),
        str(3),
        int("4"),
        float("2.5"),
        repr([1]),
        "b" in "abc",
        len("xyz"),
        "x".startswith(("x", "y")),
    )


@case
def inplace(x):
    y = x.clone()
    y.add_(1)
    y[0] = 5
    y[:, 1] *= 2
    z = y.view(-1)
    z += 1
    return y, z


@case
def retfn(x):
    k = 2

    def g(a, b=3):
        return a * k + b

    return g(x)


@case
def ident(x):
    return x, x is x, x is not None, x.T


@case
def tens(x):
    return (
        torch.where(x > 0, x, -x),
        x.shape[0] * x.numel(),
        x.dtype == torch.float32,
        x.device.type,
        len(x),
        x.dim(),
        x.size(-1),
        F.softmax(x, dim=-1),
        torch.cat([x, x]),
        x.new_zeros(2),
        torch.arange(3, device=x.device),
        x.to(torch.float64),
        torch.tensor([1.0, 2.0]),
        torch.zeros(2, 3),
    )


@pytest.mark.parametrize("fn", CASES)
def test_as_cpython(fn):
    check(fn, torch.randn(3, 4))
