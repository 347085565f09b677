"""Strings, bytes, f-strings, numbers, math, copy, match, containers made inside."""

import collections
import copy
import datetime
import decimal
import fractions
import json
import math
import re
import string
import struct
import types

import torch
from running import case


@case
def string_methods(s, x):
    return (
        s.upper(), s.title(), s.center(7, "*"), s.zfill(5), s.replace("a", "b"), s.split("a"),
        s.partition("b"), s.find("b"), s.startswith(("a", "x")), s.encode(), s * 2, s[::-1], s in "xab",
        ",".join(s), s.join(["1", "2"]), s.isalpha(), s.strip("a"), s.index("b") if "b" in s else -1,
        s.ljust(4) + "|", s.count("a"), s.swapcase(), s.rsplit("y", 1), s.splitlines(), s.casefold(),
        s.translate({97: "A"}), s.expandtabs(), s.removeprefix("a"), x + len(s),
    )  # fmt: skip


@case
def f_strings(s, n, x):
    v = 3.14159
    return (
        f"{s!r} {n:>5} {v:.2f} {v:{n}.1f} {s=} {n + 1=}",
        f"{x.shape} {x.dtype} {tuple(x.shape)}",
        f"{{}} {'nested ' + f'{n}'}",
        f"{1e10:e} {255:#x} {True} {None} {n:,}",
    ), x + 1


@case
def old_formatting(s, n, x):
    return (
        "%s %d %5.2f %r" % (s, n, 1.5, s),
        "{} {0!r:>6} {k}".replace("{0", "{1"),
        "%(a)s" % {"a": n},
        x * 2,
    )


@case
def format_method(s, n, x):
    return (
        "{} {}".format(s, n),
        "{0}{1}{0}".format(s, n),
        "{a[0]} {b.real}".format(a=[n], b=2),
        x + 1,
    )


@case
def templates(s, x):
    return string.Template("$a and $b").substitute(a=s, b=1), string.ascii_lowercase[:3], x + 1


@case
def bytes_methods(x):
    b = b"abc"
    return (
        b.hex(),
        b[0],
        b[1:],
        b + b"d",
        b.find(b"c"),
        bytes([1, 2]),
        b.decode(),
        b"%d" % 3,
        x + b[0],
    )


@case
def regular_expressions(s, x):
    m = re.match(r"(\w)(?P<rest>\w+)", s)
    return (
        x + len(m.group(1)),
        m.groupdict(),
        re.sub("[ab]", "-", s),
        re.findall("[a-y]", s),
        bool(m),
    )


@case
def numbers(n, x):
    return (
        n // 2, n % 2, n**3, -n // 2, n << 3, n & 1, n | 4, n ^ 7, ~n, 7.5 // 2, -7.5 % 2, 1e308 * 10,
        (2**70) % 7, complex(1, n) * 1j, n.bit_length(), (3.7).is_integer(), (0.1).hex(),
        float("nan") != float("nan"), int(-3.9), round(2.5), round(-1.567, 2), 0.1 + 0.2, x * n,
    )  # fmt: skip


@case
def big_numbers(n, x):
    big = 10**30 + n
    return big * big, big // 3, str(big), x + float(big % 1000)


@case
def fractions_and_decimals(n, x):
    return fractions.Fraction(n, 6) + 1, float(fractions.Fraction(1, 4)), x + n


@case
def decimal_numbers(n, x):
    return decimal.Decimal(n) / 4, x + 1


@case
def math_functions(n, x):
    return (
        math.sqrt(n), math.floor(2.7), math.gcd(12, 18), math.prod([1, 2, n]), math.isclose(1, 1 + 1e-12),
        math.log2(8), math.factorial(5), math.comb(5, 2), math.hypot(3, 4), math.copysign(1, -0.0),
        math.pi, math.inf, math.isnan(math.nan), math.fsum([0.1] * 10), x * math.exp(1),
    )  # fmt: skip


@case
def division_by_zero(n, x):
    try:
        return n // (n - n)
    except ZeroDivisionError as error:
        return x, str(error)


class Box:
    def __init__(self, value, other=None):
        self.value, self.other = value, other


box = Box([1, [2]], {"k": (3,)})


@case
def shallow_copy(x):
    c = copy.copy(box)
    c.value.append(1)
    return c is box, c.value is box.value, x + len(c.value)


@case
def deep_copy(x):
    c = copy.deepcopy(box)
    c.value[1].append(1)
    return c.value is box.value, len(box.value), x + len(c.value[1])


@case
def copy_of_containers(d, items, x):
    a, b, c = d.copy(), items[:], list(items)
    a["z"] = 1
    b.append(2)
    return a, b, c, copy.copy(items), copy.deepcopy([items, items]), x + 1


@case
def copy_with_hooks(x):
    class Special:
        def __copy__(self):
            return "copied"

        def __deepcopy__(self, memo):
            return "deep"

    return copy.copy(Special()), copy.deepcopy([Special()]), x + 1


@case
def match_literals_and_captures(n, s, x):
    out = []
    for value in (n, s, (1, 2), [1, 2, 3], {"a": 1, "b": 2}, None, Box(5), "zz", 3.5):
        match value:
            case 2 | 3:
                out.append("number")
            case "ab":
                out.append("text")
            case (a, b):
                out.append(a + b)
            case [first, *rest]:
                out.append((first, rest))
            case {"a": k, **others}:
                out.append((k, others))
            case None:
                out.append("none")
            case Box(value=v, other=None) if v > 3:
                out.append(v)
            case str() as text:
                out.append(text)
            case _:
                out.append("other")
    return out, x + len(out)


class Point:
    __match_args__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b


@case
def match_positional_classes(x):
    match Point(1, Point(2, x)):
        case Point(k, Point(2, y)):
            return y + k


@case
def match_on_tensors(x):
    match x:
        case torch.Tensor(shape=(4,)):
            return x + 1
        case torch.Tensor(ndim=2):
            return x * 2


@case
def match_int_and_bool(flag, n, x):
    match flag:
        case True:
            x = x + 1
        case False:
            x = x - 1
    match n:
        case int(k) if k > 2:
            return x * k
        case int() | float():
            return x


@case
def match_falls_through(n, x):
    y = x
    match n:
        case 100:
            y = x * 100
    return y


@case
def containers(x):
    c = collections.Counter("abca")
    o = collections.OrderedDict(a=1)
    o["b"] = x
    dd = collections.defaultdict(int)
    dd["k"] += 2
    dq = collections.deque([1, 2, 3], maxlen=3)
    dq.append(4)
    return c["a"], o, dd, dq, collections.ChainMap({"a": 1}, {"a": 2})["a"], c.most_common(1)


class CaseDict(dict):
    def __missing__(self, key):
        return "missing " + key

    def __setitem__(self, key, value):
        super().__setitem__(key.lower(), value)


class Stack(list):
    def push(self, value):
        self.append(value)
        return self


@case
def subclasses_of_containers(x):
    d = CaseDict()
    d["KEY"] = x
    s = Stack([1]).push(2).push(x)
    return d, d["nope"], s, len(s), Stack([3]) + [4]


@case
def user_containers(x):
    class Mine(collections.UserDict):
        pass

    m = Mine(a=1)
    m["b"] = x
    return dict(m), len(m), "a" in m


@case
def named_values(x):
    ns = types.SimpleNamespace(a=1, b=x)
    ns.c = ns.a + 1
    proxy = types.MappingProxyType({"k": 2})
    return ns, proxy["k"], x + ns.c


@case
def dates(x):
    d = datetime.date(2024, 2, 28) + datetime.timedelta(days=2)
    return d.isoformat(), d.weekday(), (d - datetime.date(2024, 1, 1)).days, x + d.day


@case
def json_round_trip(x, n):
    text = json.dumps({"a": [1, n, None], "b": {"c": True}})
    return text, json.loads(text)["a"][1], x + 1


@case
def struct_packing(x):
    return struct.pack("<iH", 5, 2), struct.unpack("<iH", b"\x05\0\0\0\x02\0"), x + 1


@case
def ranges_and_slices(x, n):
    r = range(1, 10, n)
    s = slice(0, 4, 2)
    return (
        list(r),
        r[1],
        3 in r,
        len(r),
        r == range(1, 10, n),
        s.indices(3),
        [1, 2, 3, 4, 5][s],
        x[..., s],
    )


@case
def ternary_of_shapes(x):
    if x.dim() == 2 and x.shape[0] < x.shape[1]:
        return x.t()
    elif x.numel() % 4 == 0:
        return x.view(2, 2)
    return x


@case
def sizes(x):
    b, *rest = x.shape
    return (
        x.reshape(-1, b),
        torch.Size([b, 1]),
        x.size(),
        x.size(0) * 2,
        x.shape + (1,),
        x.shape[-1:],
    )


@case
def tensor_as_a_key(x, y):
    table = {x: 1, y: 2}
    return table[x] + x, y in table, len({x, y, x})


@case
def identity(x, y):
    z = x
    return x is z, x is not y, [x, y][0] is x, x == x, None is None


@case
def truth_of_containers(x, d, items):
    return (x if d else -x), not [], bool({}), (items and items[0]), ("" or "default")


@case
def none_and_ellipsis(x):
    return x[None], x[...], x[..., None], None, Ellipsis is ..., NotImplemented


@case
def global_import_inside(x):
    import math as m
    from os import path

    return x * m.pi, path.basename("/a/b")


@case
def string_that_is_interned(x):
    a = "".join(["ab", "cd"])
    return a == "abcd", {"abcd": 1}[a], x + 1
