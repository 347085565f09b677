"""Generator functions with what is done with their generators: scopes, sizes, state."""

import torch
from cases_values import X, everything

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


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
