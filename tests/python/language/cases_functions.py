"""Functions: arguments, closures, decorators, partials, functools, operator, sorting with keys."""

import functools
import itertools
import operator

import torch
from running import case

K = 3


@case
def all_kinds_of_parameters(x):
    def f(a, /, b, c=1, *rest, d, e=2, **named):
        return a + b * c + sum(rest) + d * e + named.get("z", 0)

    return f(x, 1, d=3), f(x, 1, 2, 3, 4, d=5, z=6), f(x, b=1, c=2, d=0, e=1)


@case
def unpacked_arguments(x, items):
    def f(*args, **kwargs):
        return len(args), sorted(kwargs), sum(args)

    return f(*items, *[1, 2], **{"a": 1}, **dict(b=2)), x + 1


@case
def defaults_are_evaluated_once(x):
    made = []

    def make():
        made.append(1)
        return x

    def f(a=make()):
        return a + 1

    return f(), f(), len(made)


@case
def late_binding_in_a_loop(x):
    late = [lambda v: v + k for k in range(3)]
    early = [lambda v, k=k: v + k for k in range(3)]
    return [f(x) for f in late], [f(x) for f in early]


@case
def nested_closures(x):
    def a(k):
        def b(m):
            def c(v):
                nonlocal m
                m += k
                return v * m

            return c

        return b

    f = a(2)(3)
    return f(x), f(x)


@case
def recursion(x):
    def power(v, n):
        return v if n == 0 else power(v * 2, n - 1)

    return power(x, 5)


@case
def mutual_recursion(x):
    def even(n):
        return True if n == 0 else odd(n - 1)

    def odd(n):
        return False if n == 0 else even(n - 1)

    return x if even(10) else -x


@case
def lambda_with_everything(x):
    f = lambda a, *b, c=2, **d: (a * c, b, d)
    return f(x, 1, 2, c=3, e=4)


def traced(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        wrapper.calls += 1
        return function(*args, **kwargs) + wrapper.calls

    wrapper.calls = 0
    return wrapper


@traced
def decorated(v):
    """Adds one."""
    return v + 1


@case
def decorator_that_counts(x):
    return decorated(decorated(x)), decorated.__name__, decorated.__doc__


@case
def decorator_inside(x):
    def times(k):
        def decorate(f):
            @functools.wraps(f)
            def wrapper(v):
                return f(v) * k

            return wrapper

        return decorate

    @times(2)
    @times(3)
    def plus(v):
        "doc"
        return v + 1

    return plus(x), plus.__name__, plus.__doc__, plus.__wrapped__.__name__


@case
def wrapped_function_is_a_result(x):
    def f(v):
        "inner doc"
        return v

    @functools.wraps(f)
    def g(v):
        return f(v) + 1

    g.__name__ = "renamed"
    g.tag = 5
    return g, x + 1


class Decorator:
    def __init__(self, function):
        functools.update_wrapper(self, function)
        self.function = function

    def __call__(self, x):
        return self.function(x) * 2

    def __get__(self, instance, owner):
        return functools.partial(self, instance)


@Decorator
def by_class(x):
    return x + 1


@case
def decorator_class(x):
    return by_class(x), by_class.__name__


add_two = functools.partial(operator.add, 2)
scaled = functools.partial(lambda a, b, k=1: a * k + b, b=1)


@case
def partials(x):
    p = functools.partial(torch.add, alpha=2)
    q = functools.partial(p, x)
    return add_two(x), scaled(x, k=4), q(x), p.func is torch.add, q.keywords, len(q.args)


@case
def partial_is_a_result(x):
    return functools.partial(add_two, k=1), x + 1


class Methods:
    def base(self, x, k):
        return x + k

    plus_two = functools.partialmethod(base, k=2)

    @functools.singledispatchmethod
    def kind(self, value):
        return "other"

    @kind.register
    def _(self, value: int):
        return "int"


@case
def partialmethod(x):
    return Methods().plus_two(x)


@functools.singledispatch
def describe(value):
    return "object"


@describe.register
def _(value: int):
    return "int"


@describe.register(list)
def _(value):
    return "list of " + describe(value[0])


@case
def singledispatch(x):
    return x + 1, describe(3), describe([1]), describe("a")


@case
def singledispatch_method(x):
    return x + 1, Methods().kind(1), Methods().kind("a")


@case
def reduce_and_accumulate(x, n):
    values = [x + k for k in range(n)]
    return (
        functools.reduce(operator.mul, values),
        functools.reduce(lambda a, b: a + b, range(5), 10),
        list(itertools.accumulate(values)),
        list(itertools.accumulate([1, 2, 3], operator.mul, initial=2)),
    )


@functools.total_ordering
class Ranked:
    def __init__(self, rank):
        self.rank = rank

    def __eq__(self, other):
        return self.rank == other.rank

    def __lt__(self, other):
        return self.rank < other.rank


@case
def total_ordering(x):
    a, b = Ranked(1), Ranked(2)
    return x + 1, a <= b, a > b, max(a, b).rank, sorted([b, a])[0].rank


@case
def sorting_with_keys(x, items):
    words = ["pear", "fig", "apple", "kiwi"]
    return (
        sorted(words, key=len),
        sorted(words, key=lambda w: (-len(w), w)),
        sorted(items, key=operator.neg),
        sorted([(1, "b"), (1, "a"), (0, "z")], key=operator.itemgetter(0)),
        min(words, key=len),
        max(words, key=lambda w: w[-1]),
        sorted({"b": 1, "a": 2}.items(), key=lambda p: p[1], reverse=True),
        x + 1,
    )


@case
def sorting_tensors_by_metadata(x, tensors):
    return sorted([x, torch.ones(1), torch.ones(9)], key=lambda t: t.numel())


@case
def sort_key_with_an_effect(x, items, log):
    items.sort(key=lambda v: (log.append(v), v)[1])
    return x + len(log)


@case
def cmp_to_key(x, items):
    return sorted(items, key=functools.cmp_to_key(lambda a, b: b - a)), x * 2


@case
def sort_that_raises(x):
    try:
        sorted([1, "a"])
    except TypeError as error:
        return x, str(error)


@case
def operator_functions(x, y, items, d):
    operator.setitem(d, "k", 1)
    operator.iadd(items, [5])
    return (
        operator.add(x, y),
        operator.neg(x),
        operator.getitem(items, 0),
        operator.itemgetter("a", "k")(d),
        operator.attrgetter("shape")(x),
        operator.methodcaller("sum", dim=-1)(x),
        operator.contains(items, 5),
        operator.truth(items),
        operator.index(3),
        operator.concat([1], [2]),
        operator.is_(x, x),
        operator.lt(1, 2),
        operator.matmul(y.flatten(), x.flatten()),
    )


@case
def itertools_functions(x, n):
    return (
        list(itertools.chain([x], [x + 1], range(n))),
        list(itertools.chain.from_iterable([[1, 2], [3]])),
        list(itertools.product("ab", repeat=2)),
        list(itertools.permutations([1, 2, 3], 2)),
        list(itertools.combinations(range(4), 2))[-1],
        list(itertools.zip_longest([1], [2, 3], fillvalue=0)),
        list(itertools.pairwise([1, 2, 3])),
        [(k, list(g)) for k, g in itertools.groupby("aabbb")],
        list(itertools.takewhile(lambda v: v < 2, range(5))),
        list(itertools.dropwhile(lambda v: v < 2, range(4))),
        list(itertools.filterfalse(None, [0, 1, 2])),
        list(itertools.compress("abc", [1, 0, 1])),
        list(itertools.starmap(pow, [(2, 3), (3, 2)])),
        list(itertools.repeat(x, 2)),
        list(itertools.islice(itertools.count(5, 2), 3)),
        list(itertools.islice(itertools.cycle("ab"), 5)),
    )


@case
def tee(x):
    a, b = itertools.tee(v * 2 for v in (x, x + 1))
    return next(a), list(b), list(a)


@case
def cached_inside(x):
    calls = []

    @functools.lru_cache
    def square(k):
        calls.append(k)
        return k * k

    return x + square(3) + square(3), calls, square.cache_info().hits


@functools.cache
def plain_cached(k):
    return k * 2


@case
def cached_from_outside(x, n):
    return x + plain_cached(n) + plain_cached(5), plain_cached.cache_info()


@case
def function_attributes(x):
    def f(a: int, b: str = "q", *, c=3) -> float:
        "A doc."

    f.note = "kept"
    return (
        x + 1,
        f.__name__,
        f.__doc__,
        f.__defaults__,
        f.__kwdefaults__,
        f.__annotations__,
        f.__code__.co_argcount,
        f.note,
        f.__qualname__,
    )


@case
def code_and_globals_of_a_function(x):
    return x + decorated.__wrapped__.__code__.co_argcount, decorated.__globals__["K"]


@case
def callable_tests(x):
    return callable(len), callable(3), callable(by_class), callable(x), x + 1


@case
def map_with_several_iterables(x, items):
    return list(map(lambda a, b: a * x + b, items, range(10)))


@case
def star_expressions(x, items):
    first, *middle, last = items
    *start, end = x.shape
    (a, b), c = (1, 2), 3
    return first, middle, last, start, end, a + b + c, [*items, *middle], {*items}, (*start, 1)


@case
def conditional_expressions_and_chains(x, n):
    return (x if n > 2 else -x), 1 < n <= 3 < 5, not n or n and "both", n == 2 != 3


@case
def comprehensions(x, n, items):
    return (
        [x * a for a in items if a > 1],
        {a: x + a for a in range(n)},
        {a % 2 for a in items},
        [[a * b for a in range(2)] for b in range(n)],
        [a for row in [[1, 2], [3]] for a in row if a != 2],
        {k: v for k, v in zip("abc", items)},
        [y := x + 1, y * 2],
    )


@case
def comprehension_with_effects(x, log):
    return [log.append(k) or x * k for k in range(3)], len(log)


@case
def global_constant(x):
    return x * K


@case
def builtin_functions(x, items):
    return (
        abs(-3), divmod(7, 2), pow(2, 5, 7), round(2.567, 1), bin(5), hex(255), oct(8), chr(65),
        ord("a"), len(items), sum(items, 10), any(items), all([]), bool([]), int("12"), float("1.5"),
        str(3), repr("q"), list("ab"), tuple(items), set([1, 1]), frozenset([2]), dict(a=1),
        complex(1, 2), bytes(3), bytearray(b"x"), slice(1, 2), range(3), type(3), enumerate, max(1, 2),
        min(items), sorted(items), list(reversed(items)), isinstance(3, int), format(3.14159, ".2f"),
        x + 1,
    )  # fmt: skip
