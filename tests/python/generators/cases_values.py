"""Generator functions with what is done with their generators: values, sending, iterating.

A case is a function that returns (generator function, use); `use` is called with the function or
what it was compiled to, and gives all that can be seen.
"""

import collections
import contextlib
import functools
import itertools

import torch

X = torch.tensor([[0.5, -1.0, 2.0], [3.0, 0.25, -0.5]])
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def everything(make):
    return list(make(X))


@case
def one_value():
    def f(x):
        yield x * 2 + 1

    return f, everything


@case
def nothing_is_yielded():
    def f(x):
        if x.dim() > 5:
            yield x

    return f, everything


@case
def loop_with_a_result():
    def f(x):
        for k in range(4):
            x = x.sin() + k
            yield x
        return x.sum()

    def use(make):
        g = make(X)
        out = []
        while True:
            try:
                out.append(next(g))
            except StopIteration as stop:
                return out, stop.value

    return f, use


@case
def constant_result():
    def f(x):
        yield x
        return None

    def use(make):
        g = make(X)
        with contextlib.suppress(StopIteration):
            while True:
                next(g)
        return next(g, "gone"), next(g, "still gone")

    return f, use


@case
def sent_values():
    def f(x):
        total = x
        while True:
            got = yield total * 2
            if got is None:
                break
            total = total + got
        return total

    def use(make):
        g = make(X)
        out = [next(g), g.send(X), g.send(3), g.send(2.5), g.send(X[0])]
        try:
            g.send(None)
        except StopIteration as stop:
            out.append(stop.value)
        return out

    return f, use


@case
def sent_before_the_start():
    def f(x):
        yield x + 1

    def use(make):
        g = make(X)
        try:
            g.send(1)
        except TypeError as error:
            return str(error), next(g)

    return f, use


@case
def yields_in_an_expression():
    def f(x):
        y = (yield x) * 2 + (yield x + 1) * (yield x + 2)
        yield [(yield y), y, (yield)]

    def use(make):
        g = make(X)
        return [next(g)] + [g.send(v) for v in (X, 2, 3.0, "a", "b")]

    return f, use


@case
def deep_value_stack():
    def f(x):
        yield torch.stack([x, (yield 1), x * 2, (yield 2), torch.cat([x[:1], (yield 3)])])

    def use(make):
        g = make(X)
        return next(g), g.send(X + 1), g.send(X - 1), g.send(X[1:])

    return f, use


@case
def many_yields_side_by_side():
    def f(x):
        yield 1
        yield 2
        yield x
        yield x.relu()
        yield
        yield
        yield x.relu() + 1

    return f, everything


@case
def arguments_of_all_kinds():
    def f(x, /, a, *rest, k=2, **more):
        yield x * a
        for r in rest:
            yield x + r
        yield x * k, sorted(more)
        more["new"] = x
        yield more["new"] + k

    def use(make):
        return [
            list(make(X, 2)),
            list(make(X, a=2, z=1)),
            list(make(X, 1, 2, 3, k=4, y=5)),
        ]

    return f, use


@case
def wrong_arguments():
    def f(x, a):
        yield x

    def use(make):
        try:
            make(X)
        except TypeError as error:
            return str(error)

    return f, use


@case
def branches_on_data():
    def f(x):
        for row in x:
            if row.sum() > 0:
                yield row * 2
            else:
                yield row.abs()

    return f, everything


@case
def breaks_between_yields():
    seen = []

    def f(x):
        for k in range(3):
            y = x.cos() * k
            seen.append(float(y.sum()))
            y = y + len(seen)
            yield y.tanh()

    def use(make):
        seen.clear()
        return list(make(X)), list(seen)

    return f, use


@case
def two_at_a_time():
    def f(x, step):
        while True:
            x = x * 0.5 + step
            yield x

    def use(make):
        a, b = make(X, 1), make(X, 2)
        return [next(a), next(b), next(b), next(a), next(a)] + list(
            itertools.islice(zip(a, b), 3)
        )

    return f, use


@case
def in_all_consumers():
    def f(x):
        for row in x:
            yield row.exp()

    def use(make):
        first, *others = make(X)
        a, b = make(X)
        return [
            list(make(X)),
            tuple(make(X)),
            sum(make(X)),
            dict(enumerate(make(X))),
            list(zip(make(X), make(X), strict=True)),
            list(map(torch.sum, make(X))),
            torch.stack(list(make(X))),
            [r for r in make(X)],
            [*make(X), *make(X)],
            max(make(X), key=lambda r: float(r.sum())),
            functools.reduce(torch.add, make(X)),
            collections.deque(make(X), maxlen=1)[0],
            list(itertools.chain(make(X), make(X))),
            first,
            others,
            a,
            b,
        ]

    return f, use


@case
def for_with_break_and_else():
    def f(x):
        for k in range(5):
            yield x + k

    def use(make):
        out = []
        g = make(X)
        for y in g:
            out.append(y)
            if len(out) == 2:
                break
        for y in g:
            out.append(y)
        else:
            out.append("else")
        return out

    return f, use


@case
def closures_and_cells():
    scale = torch.tensor(2.0)
    count = 0

    def f(x):
        nonlocal count
        total = x

        def add(y):
            nonlocal total
            total = total + y * scale
            return total

        for k in range(3):
            count += 1
            yield add(x) * k
        yield total, count

    def use(make):
        nonlocal count
        count = 0
        return list(make(X)), count

    return f, use


@case
def inner_generators():
    def f(x):
        inner = (row * 2 for row in x)
        for y in inner:
            yield y.sin()
        yield [y for y in (r + 1 for r in x)]
        yield sum(r.sum() for r in x)

    return f, everything


@case
def comprehension_over_itself():
    def f(x, n):
        yield x * n
        if n:
            for y in f(x + 1, n - 1):
                yield y * 2

    return f, lambda make: list(make(X, 4))


@case
def walrus_and_unpacking():
    def f(x):
        a, *b = (yield x), x * 2, x * 3
        while (n := (yield a)) is not None:
            b.append(x * n)
        yield b

    def use(make):
        g = make(X)
        return [next(g)] + [g.send(v) for v in (1, 2, 3, None)]

    return f, use


@case
def changing_shapes():
    def f(x):
        for n in range(1, 7):
            x = torch.cat([x, x[:1] * n])
            yield x.sum(0)

    return f, everything


@case
def writes_in_place():
    def f(x):
        buffer = torch.zeros(3)
        for row in x:
            buffer += row
            yield buffer
            buffer.mul_(2)
        yield buffer.clone()

    def use(make):
        g = make(X)
        first = next(g)
        first += 1
        rest = list(g)
        return first, rest, [r is first for r in rest]

    return f, use


@case
def method_of_a_class():
    class Source:
        def __init__(self):
            self.n = 0

        def rows(self, x):
            for row in x:
                self.n += 1
                yield row * self.n

    def f(x):
        source = Source()
        yield from source.rows(x)
        yield source.n

    return f, everything


@case
def no_tensors_at_all():
    def f(n):
        a, b = 0, 1
        for _ in range(n):
            yield a
            a, b = b, a + b

    return f, lambda make: [list(make(20)), list(make(200))[-1], sum(make(90))]


@case
def larger_than_one_byte():
    body = "\n".join(f"    x = x + {k}\n    yield x.sum() * c{k % 7}" for k in range(80))
    constants = ", ".join(f"c{k}={k}.5" for k in range(7))
    scope = {}
    exec(f"def f(x, {constants}):\n{body}\n    return x", scope)
    return scope["f"], everything
