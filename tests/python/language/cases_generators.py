"""Generators and iterators: as callees, half consumed, closed, thrown into."""

import itertools
import types

import torch
from running import case


def upto(x, n):
    for k in range(n):
        yield x + k


@case
def sum_of_a_generator(x, n):
    return sum(upto(x, n))


@case
def generator_expression(x, n):
    return torch.stack([v * 2 for v in (x + k for k in range(n))])


@case
def consumed_by_list_tuple_and_star(x, n):
    return list(upto(x, n)), tuple(upto(x, n)), [*upto(x, n)]


@case
def half_consumed_is_a_result(x):
    generator = upto(x, 3)
    next(generator)
    return next(generator), isinstance(generator, types.GeneratorType)


@case
def send_and_return_value(x):
    def accumulate():
        total = x * 0
        while True:
            value = yield total
            if value is None:
                return total
            total = total + value

    g = accumulate()
    next(g)
    g.send(x)
    result = g.send(x)
    try:
        g.send(None)
    except StopIteration as stop:
        return result, stop.value


@case
def throw_into(x):
    def patient():
        while True:
            try:
                yield x
            except ValueError as error:
                yield str(error)

    g = patient()
    next(g)
    return g.throw(ValueError("poke")), next(g)


@case
def nested_yield_from(x, n):
    def leaf(k):
        yield x * k
        return k

    def branch():
        total = 0
        for k in range(n):
            total += yield from leaf(k)
        return total

    def tree():
        result = yield from branch()
        yield x + result

    return list(tree())


@case
def yield_from_a_list(x):
    def g():
        yield from [x, x + 1]
        yield from (x * 2,)

    return list(g())


@case
def with_inside_a_generator(x, log):
    class Manager:
        def __enter__(self):
            log.append("in")

        def __exit__(self, *error):
            log.append("out")

    def g():
        with Manager():
            yield x
            yield x + 1

    return [v * 2 for v in g()]


@case
def generator_left_open(x, log):
    def g():
        try:
            yield x
            yield x + 1
        finally:
            log.append("closed")

    for v in g():
        return v * 2


@case
def stop_iteration_inside(x):
    def g():
        yield x
        raise StopIteration

    try:
        return list(g())
    except RuntimeError as error:
        return str(error), type(error.__cause__).__name__, x + 1


@case
def exception_from_a_generator(x):
    def g():
        yield x
        raise KeyError("inside")

    out = []
    try:
        for v in g():
            out.append(v + 1)
    except KeyError as error:
        out.append(error.args)
    return out


@case
def exhausted_twice(x):
    g = upto(x, 2)
    return list(g), list(g), next(g, "nothing")


@case
def zip_enumerate_map_filter(x, n):
    pairs = zip(upto(x, n), range(5))
    return [
        *(a * b for a, b in pairs),
        *(a + k for k, a in enumerate(upto(x, n), 1)),
        *map(lambda v: v - 1, upto(x, n)),
        *filter(lambda v: v.dim() > 0, upto(x, n)),
    ]


@case
def islice_of_an_endless_one(x):
    def endless():
        k = 0
        while True:
            yield x + k
            k += 1

    return list(itertools.islice(endless(), 1, 4))


outside = upto(torch.ones(2), 100)


@case
def generator_from_outside(x):
    return next(outside).sum() + x


numbers = iter([1, 2, 3, 4, 5, 6, 7, 8, 9])


@case
def iterator_from_outside(x):
    return x + next(numbers), x * next(numbers)


counter = itertools.count(3)


@case
def count_from_outside(x):
    return x + next(counter)


@case(make=lambda k: (torch.randn(4), iter([1, 2, 3, 4])))
def iterator_argument_half_consumed(x, iterator):
    for k in iterator:
        if k == 2:
            break
    return x * k


class Countdown:
    def __init__(self, start):
        self.left = start

    def __iter__(self):
        return self

    def __next__(self):
        if self.left == 0:
            raise StopIteration
        self.left -= 1
        return self.left


@case
def iterator_class(x, n):
    return [x + k for k in Countdown(n)], list(Countdown(n))


countdown = Countdown(7)


@case
def iterator_class_from_outside(x):
    return x + next(countdown)


class Sequence:
    def __getitem__(self, k):
        if k > 2:
            raise IndexError(k)
        return k * 10


@case
def iteration_by_getitem(x):
    return [x + k for k in Sequence()], 20 in Sequence()


@case
def iter_with_a_sentinel(x):
    values = [3, 2, 1, 0]
    return [x + k for k in iter(values.pop, 3)], values


@case
def generator_result(x, n):
    return [upto(x, n)]


@case
def generator_made_and_kept(x, d):
    d["g"] = upto(x, 3)
    return next(d["g"])


@case
def generator_attributes(x):
    g = upto(x, 2)
    before = g.gi_frame is None, g.gi_running
    list(g)
    return before, g.gi_frame is None, g.__name__, x + 1


@case
def recursive_generator(x):
    def walk(tree):
        if isinstance(tree, list):
            for branch in tree:
                yield from walk(branch)
        else:
            yield x * tree

    return torch.stack(list(walk([1, [2, [3, 4]], 5])))


@case
def reversed_and_sorted(x, items):
    return [x * k for k in reversed(items)], sorted(items), [*reversed(range(3))]


@case
def any_all_min_max_over_generators(x, items):
    return x + max(k for k in items), any(k > 2 for k in items), min((k, -k) for k in items)


@case
def loop_with_else(x, n):
    for k in range(3):
        if k == n:
            x = x * 2
            break
    else:
        x = x - 1
    while n:
        n -= 1
    else:
        x = x + 1
    return x


@case
def value_of_the_stop(x):
    def steps():
        yield x
        return x * 2

    class Once:
        def __next__(self):
            raise StopIteration(x + 1, "two")

    g = steps()
    seen = [next(g)]
    for source in (g, g, Once(), iter([])):
        try:
            next(source)
        except StopIteration as stop:
            seen.append((stop.value, stop.args))
    return seen
