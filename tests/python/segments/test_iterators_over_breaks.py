"""Loops that a break interrupts go on where they were, and notice what happens to their container."""

import itertools

import braze
import pytest
import torch
from segmenting import check, print, x4


def over_list(x, items):
    y = x * 2
    items.append(2)
    for item in items:
        print(item)
        y = y + item
    return y


def over_zip(x, items):
    y = x * 2
    items.extend([5, 6])
    for number, item in zip(range(3), items):
        print(number, item)
        y = y + item
    return y


def over_reversed(x, items):
    y = x * 2
    items += [7, 8]
    for item in reversed(items):
        print(item)
        y = y + item
    return y


def over_dict(x, items):
    y, table = x * 2, dict.fromkeys([*items, 9], 1)
    for key, value in table.items():
        y = y + value
        print(key)
        table[key] = 3
    return y, table


def over_growing_dict(x, items):
    y, table = x * 2, dict.fromkeys([*items, 9], 1)
    for key in table:
        y = y + key
        print(key)
        table[key + 20] = 3
    return y


def over_dict_with_other_keys(x, items):
    y, table = x * 2, dict.fromkeys([*items, 9, 10], 1)
    for value in table.values():
        y = y + value
        if value == 1:
            del table[9]
            table[11] = 4
        print(value)
    return y


@pytest.mark.parametrize(
    "f",
    [
        over_list,
        over_zip,
        over_reversed,
        over_dict,
        over_growing_dict,
        over_dict_with_other_keys,
    ],
)
def test_made_in_the_function(f):
    for items in ([], [1], [1, 2, 3]):
        check(f, lambda: (x4.clone(), list(items)))


def test_dict_from_outside():
    def f(x, table, grows):
        y = x * 2
        for key, value in zip(table, table.values()):
            y = y + value
            table[key] = value + 1
            print(key)
            if grows:
                table["new"] = 0
        return y

    for grows in (False, True):
        check(f, lambda: (x4.clone(), {"a": 1, "b": 2, "c": 3}, grows))


def test_dict_from_outside_that_grows_before_the_loop():
    def f(x, table):
        y = x * 2
        table["new"] = 4
        for key, value in table.items():
            y = y + value
            print(key)
        return y

    check(f, lambda: (x4.clone(), {"a": 1, "b": 2}))


ITERATORS = {
    "list": lambda: iter([1, 2]),
    "tuple": lambda: iter((1, 2)),
    "str": lambda: iter("ab"),
    "reversed list": lambda: reversed([1, 2]),
    "reversed tuple": lambda: reversed((1, 2)),
    "keys": lambda: iter({1: 2, 3: 4}),
    "values": lambda: iter({1: 2, 3: 4}.values()),
    "items": lambda: iter({1: 2, 3: 4}.items()),
    "range": lambda: iter(range(2)),
    "enumerate": lambda: enumerate([1, 2]),
    "nothing": lambda: iter([]),
    "no keys": lambda: iter({}),
}


@pytest.mark.parametrize("count", [0, 1, 2, 3])
@pytest.mark.parametrize("name", ITERATORS)
def test_an_iterator_that_was_advanced(name, count):
    """Also to its end: it has then let go of what it went over."""

    def fn(x):
        iterator = ITERATORS[name]()
        for _ in range(count):
            next(iterator, None)
        return x + 1, iterator

    expected, got = fn(torch.ones(2))[1], braze.compile(fn)(torch.ones(2))[1]
    assert type(got) is type(expected)
    parts = [
        [list(part) if hasattr(part, "__next__") else part for part in iterator.__reduce__()[1:]]
        for iterator in (got, expected)
    ]
    if name != "enumerate":
        assert parts[0] == parts[1]
    assert list(got) == list(expected)


def test_a_tuple_that_is_built_when_the_segment_begins():
    def f(x, n, items, log):
        try:
            first, *rest, last = *items, (2 if n > 1 else n), 7
            log.append((first, rest, last))
        except ValueError as error:
            log.append(str(error))
        try:
            x[None].expand(2, *x.shape)
        except RuntimeError as error:
            log.append(str(error))
        log.append(list(itertools.takewhile(lambda v: float(x.sum()) > v, items)))

    fast = braze.compile(f, backend="aten")
    x = torch.arange(6.0).reshape(2, 3)
    for n, items in ((2, [1, 2, 3]), (3, [4, 1, 2]), (2, [1, 2, 3]), (0, []), (0, [1]), (3, [])):
        told = []
        for function in (f, fast):
            function(x, n, items, log := [])
            told.append(log)
        assert told[0] == told[1]
