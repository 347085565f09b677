"""Generators and iterators that a function makes and uses, over breaks."""

import braze
from segmenting import check, four, print
from showing import outcome, same


def test_iterators_over_breaks():
    def f(x):
        out = []
        for i, (k, v) in enumerate({"a": 1, "b": 2}.items()):
            x = x + 1
            print(i, k, v)
            out.append(x)
        for a, b in zip(out, reversed(out)):
            x = x + a * b
            print("z")
        for t in x.unbind(0):
            out.append(t * 2)
            print("t")
        return out, [print(n) or n for n in range(2)]

    check(f, four, limit=20)


def test_generator_with_send_and_finally():
    def numbers(x):
        try:
            got = yield x * 2
            print("got", got)
            yield x + got
            print("never")
        finally:
            print("closed")

    def f(x):
        g = numbers(x)
        a = next(g)
        print("first")
        b = g.send(3)
        g.close()
        return a + b

    check(f, four)


def test_yield_from_over_breaks():
    def inner(x):
        print("inner")
        got = yield x + 1
        print("inner", got)
        return x * 2

    def outer(x):
        result = yield from inner(x)
        print("outer")
        yield result + 1

    def f(x):
        total = x
        for y in outer(x):
            total = total + y
            print("sum")
        return total * 2

    check(f, four)


def test_generator_that_raises():
    def numbers(x):
        yield x + 1
        print("raising")
        raise ValueError("from the generator")

    def f(x):
        total = x
        for y in numbers(x):
            total = total * y
            print("y")
        return total

    check(f, four)


def test_finally_of_a_generator_does_not_run_while_tracing():
    def numbers(x):
        try:
            for j in range(2):
                print("generator", j)
                yield x * 0.1 + j
        finally:
            print("end")

    def quiet(x):
        try:
            yield x + 1
            yield x + 2
        finally:
            print("quiet end")

    def f(x):
        y = x * 2
        for t in numbers(x):
            y = y + t
        for t in quiet(x):
            y = y + t
            print("loop")
            break
        half = quiet(y)
        return y + next(half), half

    for _ in range(3):
        expected, got = outcome(f, *four()), outcome(braze.compile(f), *four())
        assert expected[1] == got[1] and same(expected[0][1][0], got[0][1][0])


def test_a_break_drops_generators_without_a_word(capfd):
    def numbers():
        yield 1

    def f(x):
        made, begun = numbers(), numbers()
        next(begun)
        total = float(x.sum())
        return x * total, next(made), list(begun)

    check(f, four)
    assert capfd.readouterr().err == ""
