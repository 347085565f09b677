"""Log records are those of eager: message, values as they were, line and function, exception."""

import logging

import braze
import pytest
import torch
from support import entries

X = torch.ones(3)
RECORDS = []
LIST, DICT = [], {}


class Keeper(logging.Handler):
    def emit(self, record):
        kind = record.exc_info and record.exc_info[0]
        where = record.filename, record.lineno, record.funcName
        RECORDS.append((record.levelname, record.getMessage(), *where, kind, record.stack_info))


class Counted:
    def __init__(self):
        self.count = 0

    def __repr__(self):
        return f"Counted({self.count})"


COUNTED = Counted()
log = logging.getLogger("log_records")
log.setLevel(logging.INFO)
log.addHandler(Keeper())
log.propagate = False


def plain(x):
    log.info("text")
    log.debug("not shown")
    y = x * 2
    log.log(logging.WARNING, "%d of %s", 3, "three")
    return y


def shapes(x):
    log.error("%s %s %s", x.shape, tuple(x.shape), (x.dtype, x.device))
    return x * 2


def helper(x):
    log.info("in the helper")
    return x + 1


def by_a_helper(x):
    y = [helper(x) for _ in range(2)]
    log.critical("behind it")
    return y[0] * 2


def list_that_changes(x):
    log.info("%s", LIST)
    LIST.append(1)
    log.info("%s", LIST)
    return x * 2


def dict_that_changes(x):
    log.info("%s %s", "x", DICT)
    DICT["key"] = 1
    return x * 2


def object_that_changes(x):
    for i in range(3):
        COUNTED.count = i
        log.info("%s", COUNTED)
    return x * 2


def tuple_around_a_list(x):
    values = (1, [2])
    log.info("%s", values)
    values[1].append(3)
    return x * 2


def exception(x):
    try:
        raise ValueError("v")
    except ValueError:
        log.exception("caught")
    return x * 2


def exception_by_name(x):
    try:
        raise ValueError("v")
    except ValueError:
        log.warning("caught", exc_info=True)
    return x * 2


def stack(x):
    log.info("text", stack_info=True)
    return x * 2


def disabled_meanwhile(x):
    log.disabled = True
    log.info("not shown")
    log.disabled = False
    log.info("shown")
    return x * 2


def disabled_afterwards(x):
    log.info("shown")
    log.disabled = True
    return x * 2


def records_of(function):
    RECORDS.clear()
    LIST[:] = [0]
    DICT.clear()
    COUNTED.count, log.disabled = 0, False
    function(X)
    # A stack holds the lines of who calls.
    return [(*record[:-1], record[-1] is not None) for record in RECORDS]


WHOLE = plain, shapes, by_a_helper
CUT = (
    list_that_changes, dict_that_changes, object_that_changes, tuple_around_a_list, exception,
    exception_by_name, stack, disabled_meanwhile, disabled_afterwards,
)  # fmt: skip


@pytest.mark.parametrize("function", WHOLE + CUT, ids=lambda function: function.__name__)
def test_records(function):
    fast = braze.compile(function)
    expected = records_of(function)
    assert expected
    for _ in range(3):
        assert records_of(fast) == expected
    log.disabled = False
    assert (len(entries(fast)) == 1) == (function in WHOLE)


def test_a_logger_of_another_class():
    class Counting(logging.Logger):
        def info(self, message, *values):
            LIST.append(message)
            super().info(message, *values)

    other = Counting("counting", logging.INFO)
    other.addHandler(Keeper())

    def f(x):
        other.info("one")
        return x * len(LIST)

    for function in (f, braze.compile(f)):
        RECORDS.clear()
        LIST[:] = []
        assert torch.equal(function(X), X) and [record[:2] for record in RECORDS] == [
            ("INFO", "one")
        ]
