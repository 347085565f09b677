"""Functions that the program defines anew before each call: known by what they do."""

import functools
import gc
import types
import weakref

import braze
import pytest
import torch
from showing import outcome, same

X = torch.arange(4.0)
HANDLERS = {}


def makes(k, d=1):
    def g(v, e=d):
        return v * 2 + k + e

    return g


def check(f, make, calls=6, variants=None):
    """`make(i)`: the arguments of call number i, made anew for each of the two."""
    fast = braze.compile(f)
    for i in range(calls):
        expected, got = outcome(f, *make(i)), outcome(fast, *make(i))
        assert same(expected, got), f"call {i}: eager {expected}\ncompiled {got}"
    if variants is not None:
        assert len(fast._entries()) == variants, fast._entries()
    return fast


def test_an_argument_closes_over_other_tensors():
    check(lambda x, g: g(x) + 1, lambda i: (X, makes(torch.full((4,), float(i)))), variants=1)


def test_a_lambda_at_each_call():
    check(lambda x, g: g(x) + 1, lambda i: (X, lambda v: v * 3), variants=1)


def test_a_closed_over_number_is_guarded():
    check(lambda x, g: g(x), lambda i: (X, makes(i // 2)))


def test_a_default_is_guarded():
    check(lambda x, g: g(x), lambda i: (X, makes(1, i // 2)))


def test_another_number_of_defaults():
    def make(i):
        g = makes(1)
        if i % 2:
            g.__defaults__ = (7, 3)
        if i == 5:
            g.__defaults__ = ()
        return X, g

    check(lambda x, g: g(x), make)


def test_keyword_defaults():
    def make(i):
        def g(v, *, k=i // 2):
            return v + k

        if i == 4:
            g.__kwdefaults__ = None
        return X, g

    check(lambda x, g: g(x), make)


def test_other_globals():
    def g(v):
        return v * SCALE  # noqa: F821

    def make(i):
        return X, types.FunctionType(g.__code__, {"SCALE": i // 2, "__name__": "elsewhere"})

    check(lambda x, g: g(x), make)


def test_globals_of_two_functions():
    """The second reads the globals of its own, whatever the first one's are."""

    def read(v):
        return v * HANDLERS.get("scale", 1)

    def make(i):
        HANDLERS["scale"] = 3
        first = types.FunctionType(read.__code__, {"HANDLERS": {"scale": i}, "__name__": "other"})
        return X, first, read

    check(lambda x, g, h: g(x) + h(x), make)


def test_another_body():
    def make(i):
        return X, (lambda v: v + 1) if i % 2 else (lambda v: v - 1)

    check(lambda x, g: g(x), make, variants=2)


def test_attributes():
    def make(i):
        g = makes(1)
        if i > 1:
            g.scale = i
        return X, g

    check(lambda x, g: g(x) * getattr(g, "scale", 10), make)


def test_names():
    def make(i):
        g = makes(1)
        g.__name__ = f"name{i // 3}"
        return X, g

    check(lambda x, g: (g(x), g.__name__), make)


def test_a_write_to_an_attribute():
    def f(x, g):
        g.seen = getattr(g, "seen", 0) + 1
        return g(x), g.seen

    check(f, lambda i: (X, makes(1)))


def test_a_mark():
    def make(i):
        g = makes(1)
        return X, braze.disable(g) if i % 2 else g

    check(lambda x, g: g(x), make)


def test_identity():
    one = makes(1)

    def f(x, g, h):
        return g(x) + h(x), g is h, g == h, g is None, g is one, h != one

    def make(i):
        g = makes(1)
        return X, g if i % 3 else one, [g, makes(1), one][i % 3]

    check(f, make)


def test_one_object_at_two_places():
    def make(i):
        g = makes(1)
        return X, g, g if i < 3 else makes(1)

    check(lambda x, g, h: (g(x) + h(x), g is h), make)


def test_as_a_key():
    one = makes(1)

    def make(i):
        return X, makes(1) if i % 2 else one

    check(lambda x, g: (g(x), {one: 1}.get(g), g in [one], g in (one, 1), g in {one}), make)
    HANDLERS.clear()
    HANDLERS[one] = 5
    check(lambda x, g: g(x) * HANDLERS.get(g, 1), make)
    HANDLERS.clear()


def test_native_code_looks_at_it():
    one = makes(1)

    def f(x, g):
        return [one, 3, one].count(g), (one, g).index(g), hash(g) == hash(one), callable(g), g(x)

    check(f, lambda i: (X, makes(1) if i % 2 else one))


def test_native_code_calls_it():
    def make(i):
        return X, lambda v: -v if i < 9 else v

    check(lambda x, g: (sorted([1, 3, 2], key=g), [*map(g, [1, 2])], g(x)), make)


def test_partials_and_methods():
    class Holder:
        def __init__(self, g):
            self.g = g

    check(lambda x, g: functools.partial(g, e=x)(x), lambda i: (X, makes(i // 2)))
    check(lambda x, h: h.g(x), lambda i: (X, Holder(makes(i // 2))))
    check(lambda x, p: p(x), lambda i: (X, functools.partial(makes(i // 2), e=i // 3)))
    check(lambda x, m: m(x), lambda i: (X, types.MethodType(makes(i // 2), X)))


def test_it_is_given_back():
    def f(x, g):
        return g(x), g, [g], {"g": g}

    fast = braze.compile(f)
    for i in range(4):
        g = makes(i)
        result = fast(X, g)
        assert result[1] is g and result[2] == [g] and result[3]["g"] is g
        assert torch.equal(result[0], g(X))


def test_it_stays_behind():
    class Box:
        pass

    def f(x, g, box):
        box.g = g
        box.of = [g]
        return g(x)

    fast = braze.compile(f)
    for i in range(4):
        g, box = makes(i), Box()
        assert torch.equal(fast(X, g, box), g(X))
        assert box.g is g and box.of == [g]


def shared(separate):
    """Two functions over one counter, or over two."""

    def pair():
        count = 0

        def up():
            nonlocal count
            count += 1
            return count

        def value():
            return count

        return up, value

    up, value = pair()
    return (up, pair()[1]) if separate else (up, value)


@pytest.mark.parametrize("first", [True, False])
def test_a_shared_variable(first):
    def f(x, up, value):
        before = value()
        return up(), value(), before, x * value()

    check(f, lambda i: (X, *shared((i % 2 == 0) == first)))


@pytest.mark.parametrize("first", [True, False])
def test_a_variable_shared_with_a_lasting_function(first):
    up, value = shared(False)

    def f(x, g):
        return up(), g(), value(), x * g()

    def make(i):
        return X, shared(False)[1] if (i % 2 == 0) == first else types.FunctionType(
            value.__code__, value.__globals__, closure=value.__closure__
        )

    fast = braze.compile(f)
    for i in range(6):
        up.__closure__[0].cell_contents = i
        expected = outcome(f, *make(i))
        up.__closure__[0].cell_contents = i
        assert same(expected, outcome(fast, *make(i)))


def test_functions_within_functions():
    def make(i):
        def inner(v):
            return v.sin() if i < 4 else v.cos()

        def outer(v, again=inner):
            return inner(v) + again(v) * 2

        return X, outer

    check(lambda x, g: g(x), make)


def test_recursion():
    def make(i):
        def g(v, n):
            return v if n == 0 else g(v * 2, n - 1)

        return X, g

    check(lambda x, g: g(x, 3), make, variants=1)


def test_generators():
    def make(i):
        def g(v):
            for k in range(2 + i // 3):
                yield v * k

        return X, g

    check(lambda x, g: (sum(g(x)), list(g(x))), make)


def test_it_raises():
    def make(i):
        def g(v):
            if i > 2:
                raise ValueError(f"of call {i}")
            return v

        return X, g

    check(lambda x, g: g(x), make)


def test_too_many_arguments():
    check(lambda x, g: g(x, 1, 2, 3), lambda i: (X, makes(1)))


def test_other_kinds_of_callables():
    class Callable:
        def __call__(self, v):
            return v + 5

    def make(i):
        return X, [makes(1), Callable(), torch.sin, len, torch.nn.ReLU(), makes(1)][i]

    check(lambda x, g: g(x), make)


def test_over_a_break():
    def f(x):
        k = x.sin()

        def g(v):
            return v * 2 + k

        braze.graph_break()
        return g(x)

    fast = check(f, lambda i: (X + i,))
    assert len(fast._entries()) == 2


def test_what_it_closes_over_is_not_kept():
    fast = braze.compile(lambda x, g: g(x))
    for i in range(3):
        held = torch.full((4,), float(i))
        reference = weakref.ref(held)
        g = makes(held)
        function = weakref.ref(g)
        fast(X, g)
        del g, held
        gc.collect()
        assert reference() is None and function() is None


def test_not_kept_by_a_segment():
    references = []

    def f(x):
        def g(v):
            return v + x

        x = g(x)
        references.append(weakref.ref(x))
        braze.graph_break()
        return g(x) * 2

    fast = braze.compile(f)
    for _ in range(3):
        fast(X)
        gc.collect()
        assert [r() for r in references] == [None] * len(references)


@pytest.mark.parametrize("first", [True, False])
def test_a_cell_that_is_looked_at(first, capfd):
    """As an object, before and after what is in it is used as a variable."""

    def f(x, g):
        before = g(x) if first else None
        cells = [c.cell_contents for c in g.__closure__]
        return before, cells, g(x), g.__closure__[0] == g.__closure__[-1]

    check(f, lambda i: (X, makes(i // 2)))
    assert "internal error" not in capfd.readouterr().err


PROGRAMS = {
    "reduce": (
        lambda x, g: functools.reduce(lambda a, b: g(a) + b, [x, x]),
        lambda i: makes(i // 2),
    ),
    "filter": (lambda x, g: [*filter(g, [1, 2, 3, 4])], lambda i: lambda v: v > i // 2),
    "vmap": (lambda x, g: torch.func.vmap(g)(x.reshape(2, 2)), lambda i: makes(i // 2)),
    "grad": (lambda x, g: torch.func.grad(lambda v: g(v).sum())(x), lambda i: makes(i // 2)),
    "checkpoint": (
        lambda x, g: torch.utils.checkpoint.checkpoint(g, x, use_reentrant=False),
        lambda i: makes(i // 2),
    ),
    "wraps": (lambda x, g: functools.wraps(g)(lambda v: g(v) * 2)(x), lambda i: makes(i // 2)),
    "cached": (lambda x, g: g(3), lambda i: functools.lru_cache(lambda n: n + i // 2)),
    "a set of it": (lambda x, g: (g in {g}, {g: 1}[g], g(x)), lambda i: makes(i // 2)),
    "told": (lambda x, g: (g.__qualname__, g.__defaults__, g(x)), lambda i: makes(1, i // 2)),
    "a generator": (lambda x, g: [*g()], lambda i: lambda: (yield i // 2)),
    "of functions": (lambda x, g: g(g)(x), lambda i: lambda f: lambda v: v + i // 2),
    "a write": (lambda x, g: g(), lambda i: (lambda t: lambda: t.add_(1))(torch.zeros(2) + i)),
    "decorated": (lambda x, g: g(x), lambda i: torch.no_grad()(makes(i // 2))),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_functions_of_functions(name, dynamic):
    f, make = PROGRAMS[name]
    fast = braze.compile(f, dynamic=dynamic)
    for i in range(7):
        assert same(outcome(f, X, make(i)), outcome(fast, X, make(i)))


def reads(a, b):
    def g(v):
        return v * a + b

    return g


def writes(a, b):
    def g(v):
        nonlocal a
        a = a + 1
        return v * a + b

    return g


@pytest.mark.parametrize("made", [reads, writes])
@pytest.mark.parametrize("order", ["0120", "1022", "2101", "1002"])
def test_one_cell_for_two_variables(made, order):
    def make(i):
        g = made(2, 3)
        which = int(order[i])
        if which:
            cells = (g.__closure__[which - 1],) * 2
            g = types.FunctionType(g.__code__, g.__globals__, closure=cells)
        return X, g

    check(lambda x, g: (g(x), g(x)), make, calls=4)
