"""Exceptions that leave the compiled function, exception objects as values, except*."""

import contextlib

import torch
from running import case


class Problem(Exception):
    def __init__(self, code, *details):
        super().__init__(*details)
        self.code = code


seen = []


@case
def check_before_the_work(x, n):
    if n != 2:
        raise ValueError(f"n is {n}, not 2")
    return x * n


@case
def only_sometimes(x, n):
    y = x * 2
    check(n)
    return y + n


def check(n):
    if n == 3:
        raise Problem(n, "three", n)


@case
def effects_and_output_before(x, log, d):
    y = x + 1
    log.append(y)
    seen.append(len(log))
    print("before", y.dim())
    d["key"].append(y)
    return y


@case
def raised_in_a_loop(x, items):
    total = x
    for k in items:
        total = total + k
        if k == 2:
            raise Problem(k, total.dim())
    return total


@case
def raised_with_a_tensor(x):
    y = x * 3
    raise Problem(y, y.sum(), [y])


@case
def raised_from_another(x):
    y = x + 1
    try:
        [][1]
    except IndexError as error:
        raise Problem(1, "outer") from error
    return y


@case
def raised_while_handling(x, log):
    y = x + 1
    try:
        log.append(y)
        int("no number")
    except ValueError:
        log.append("handler")
        {}["gone"]
    return y


@case
def raised_again(x, log):
    y = x - 1
    try:
        raise Problem(5, "first")
    except Problem as error:
        log.append(error.code)
        raise
    finally:
        log.append(y)


@case
def raised_in_finally(x):
    y = x + 2
    try:
        y = y * 2
    finally:
        raise KeyError("from finally")
    return y


@case
def raised_by_exit(x, log):
    @contextlib.contextmanager
    def noted():
        log.append("in")
        yield 3
        log.append("out")
        raise RuntimeError("at the exit")

    with noted() as k:
        x = x + k
    return x


@case
def handled_then_raised(x, log):
    for k in range(3):
        try:
            1 / k
        except ZeroDivisionError:
            log.append(k)
    y = x + len(log)
    raise LookupError(y.shape)


@case
def raised_in_a_comprehension(x, items):
    return [x / (k - 2 if k == 2 else k) for k in items if 1 / (k - 1)]


@case
def raised_in_a_generator(x):
    def steps():
        yield x + 1
        raise Problem(2, "step")

    return [y for y in steps()]


@case
def wrong_call(x):
    def f(a, b):
        return a + b

    y = x + 1
    return f(y)


@case
def system_exit(x):
    y = x + 1
    raise SystemExit(y.dim())


@case
def unbound_local(x, n):
    y = x + n
    if n == 3:
        z = y
    return z


@case
def tensor_operation_fails_at_the_end(x, log):
    y = x * 2
    log.append(y)
    return y.reshape(-1, 1000)


@case
def exception_is_a_result(x, n):
    made = Problem(n, "not raised", x)
    made.extra = [n]
    return made, KeyError("k"), [ValueError(n, 1)]


@case
def exception_with_a_note(x, d):
    error = ValueError("noted")
    error.add_note("look here")
    d["error"] = error
    return x + 1


@case
def exceptions_of_c(x):
    return x + 1, OSError(2, "gone", "file"), StopIteration(3), AttributeError("a"), SystemExit(4)


@case
def nested_groups(x):
    caught = []
    inner = ExceptionGroup("inner", [TypeError("t"), ValueError("v")])
    try:
        raise ExceptionGroup("outer", [inner, KeyError("k"), ValueError("w")])
    except* ValueError as group:
        caught.append(repr(group))
        x = x + len(group.exceptions)
    except* (KeyError, TypeError) as group:
        caught.append(repr(group))
    return x, caught


@case
def some_parts_fly_on(x, log):
    y = x + 1
    inner = ExceptionGroup("inner", [TypeError("t"), ValueError("v")])
    try:
        raise ExceptionGroup("outer", [inner, KeyError("k")])
    except* ValueError as group:
        log.append(repr(group))
    return y


@case
def rest_is_caught_outside(x):
    try:
        try:
            raise ExceptionGroup("outer", [KeyError("k"), ValueError("w"), ValueError("z")])
        except* KeyError:
            x = x * 2
    except ExceptionGroup as rest:
        return x + 1, repr(rest), len(rest.exceptions)


@case
def raised_in_except_star(x):
    try:
        try:
            raise ExceptionGroup("outer", [KeyError("k"), ValueError("w")])
        except* KeyError:
            raise TypeError("in the handler")
    except ExceptionGroup as both:
        return x + 1, [type(e).__name__ for e in both.exceptions]


@case
def plain_one_is_not_matched(x):
    try:
        try:
            raise Problem(1, "plain")
        except* KeyError:
            x = x * 2
    except Problem as error:
        return x + error.code


@case
def nothing_is_raised_in_except_star(x):
    try:
        y = x + 1
    except* KeyError:
        y = x
    else:
        y = y * 2
    return y


@case
def group_in_except_star(x):
    try:
        try:
            raise ValueError("v")
        except* ExceptionGroup:
            pass
    except TypeError as error:
        return torch.relu(x), str(error)
