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
        return [next(a), next(b), next(b), next(a), next(a)] + list(itertools.islice(zip(a, b), 3))

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
