"""Generator functions with what is done with their generators: delegating, frames, tracebacks."""

import sys
import traceback

from cases_exceptions import caught
from cases_values import X

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


@case
def delegates():
    def inner(x, n):
        got = yield x * n
        got = yield x + (got or 0)
        return x.sum() * (got or 1)

    def f(x):
        a = yield from inner(x, 2)
        b = yield from inner(x + a, 3)
        yield from [a, b]
        yield from ()
        c = yield from range(2)
        return a + b, c

    def use(make):
        g = make(X)
        out = [next(g), g.send(2), g.send(3), next(g), g.gi_yieldfrom is not None]
        out.append(type(g.gi_yieldfrom).__name__)
        try:
            while True:
                out.append(next(g))
        except StopIteration as stop:
            return out, stop.value, g.gi_yieldfrom

    return f, use


@case
def throws_into_a_delegate():
    def inner(x):
        try:
            yield x + 1
        except ValueError:
            yield "inner caught"
        return 5

    def f(x):
        try:
            n = yield from inner(x)
            yield x * n
            m = yield from inner(x)
            yield x * m
        except KeyError as error:
            yield x - 1, repr(error)

    def use(make):
        a = make(X)
        first = next(a), a.throw(ValueError()), next(a), next(a), a.throw(KeyError(1)), list(a)
        b, c, d = make(X), make(X), make(X)
        next(b)
        next(c)
        next(d)
        c.close()
        return first, caught(b.throw, OSError("out")), next(c, "closed"), d.throw(KeyError(2))

    return f, use


@case
def delegates_to_itself():
    def f(x, n):
        if n > 0:
            yield from f(x * 0.5, n - 1)
        yield x + n

    def use(make):
        return list(make(X, 6)), [float(y.sum()) for y in make(X, 30)]

    return f, use


@case
def delegates_to_what_has_no_send():
    def f(x):
        got = yield from iter([x, x + 1])
        yield got

    def use(make):
        g = make(X)
        next(g)
        return caught(g.send, 3), next(g, "gone")

    return f, use


@case
def already_executing():
    def f(x):
        yield caught(next, box[0])
        yield x + 1, box[0].gi_running

    box = [None]

    def use(make):
        box[0] = make(X)
        out = list(box[0]), box[0].gi_running
        box[0] = None
        return out

    return f, use


@case
def handled_exception_around():
    def f(x):
        yield sys.exc_info()[0], x + 1
        try:
            raise KeyError(1)
        except KeyError:
            yield sys.exc_info()[0], x + 2
        yield sys.exc_info()[0], x + 3

    def use(make):
        g = make(X)
        out = [next(g)]
        try:
            raise OSError
        except OSError:
            out += [next(g), sys.exc_info()[0], next(g), sys.exc_info()[0]]
        return out

    return f, use


@case
def tracebacks_through_generators():
    def inner(x):
        yield x + 1
        raise ValueError("deep")

    def f(x):
        for y in inner(x):
            yield y * 2

    def use(make):
        def outer(x):
            yield from make(x)

        try:
            list(outer(X))
        except ValueError as error:
            lines = traceback.extract_tb(error.__traceback__)
            codes = [t.tb_frame.f_code for t in walk(error.__traceback__)]
            return [(line.name, line.lineno, line.line) for line in lines], [
                code.co_name for code in codes
            ]

    def walk(tb):
        while tb:
            yield tb
            tb = tb.tb_next

    return f, use


@case
def exception_with_a_cause():
    def f(x):
        try:
            yield x + 1
            x.nonsense
        except AttributeError as error:
            raise RuntimeError("worse") from error

    return f, lambda make: caught(list, make(X))


@case
def unraisable_in_finally():
    def f(x):
        try:
            yield x + 1
        finally:
            raise ValueError("in finally")

    def use(make):
        seen = []
        before, sys.unraisablehook = sys.unraisablehook, lambda u: seen.append(repr(u.exc_value))
        try:
            g = make(X)
            next(g)
            del g
        finally:
            sys.unraisablehook = before
        return seen

    return f, use


@case
def return_in_finally():
    def f(x):
        for k in range(3):
            try:
                yield x * k
            finally:
                if k == 1:
                    return x.sum()

    def use(make):
        g = make(X)
        out = [next(g), next(g), caught(next, g)]
        h = make(X)
        next(h)
        next(h)
        return out, caught(h.throw, ValueError("swallowed"))

    return f, use


@case
def recursion_without_end():
    def f(x):
        yield x + 1
        yield from f(x)

    def use(make):
        count = 0
        try:
            for _ in make(X):
                count += 1
        except RecursionError:
            return count > 50

    return f, use
