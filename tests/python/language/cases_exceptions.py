"""raise, try, finally, with; exceptions that fly out of the compiled function."""

import contextlib

import torch
from running import case


class Custom(Exception):
    def __init__(self, value, extra=None):
        super().__init__(f"custom {value}")
        self.value = value
        self.extra = extra


@case
def raised_and_caught(x):
    try:
        raise Custom(3)
    except Custom as error:
        return x * error.value


@case
def raised_in_a_callee(x, n):
    def check(k):
        if k > 1:
            raise Custom(k, extra=n)
        return k

    total = x
    for k in range(3):
        try:
            total = total + check(k)
        except Custom as error:
            total = total * error.value + error.extra
    return total


@case
def flies_out(x, n):
    y = x + 1
    if n == 2:
        raise Custom(n, extra=y)
    return y


@case
def flies_out_of_two_calls(x):
    def inner(v):
        raise ValueError(f"dimension {v.dim()}")

    def outer(v):
        return inner(v + 1)

    return outer(x)


@case
def raised_from(x):
    try:
        try:
            [][3]
        except IndexError as error:
            raise Custom(1) from error
    except Custom as error:
        return x + 1, error


@case
def context_is_kept(x):
    try:
        try:
            {}["missing"]
        finally:
            int("no number")
    except ValueError as error:
        return x, type(error.__context__), str(error)


@case
def raised_from_none_flies_out(x):
    try:
        x.not_there
    except AttributeError:
        raise KeyError("clean") from None


@case
def finally_order(x, log):
    def f():
        try:
            log.append("try")
            return x + 1
        finally:
            log.append("finally")

    result = f()
    log.append("after")
    return result


@case
def finally_overrides(x):
    def f():
        for k in range(3):
            try:
                continue
            finally:
                if k == 1:
                    return x * k

    return f()


@case
def else_and_finally(x, n):
    out = []
    for k in range(n):
        try:
            1 / k
        except ZeroDivisionError:
            out.append(x)
        else:
            out.append(x + k)
        finally:
            out.append(k)
    return out


@case
def reraise(x, log):
    try:
        try:
            raise Custom("again")
        except Custom:
            log.append("seen")
            raise
    except Custom as error:
        return x, error.value


@case
def name_is_unbound_after_except(x):
    try:
        raise Custom(1)
    except Custom as error:
        x = x + error.value
    try:
        return error  # noqa: F821
    except UnboundLocalError as unbound:
        return x, str(unbound)


@case
def several_types(x, n):
    errors = (KeyError, IndexError)
    try:
        return [x][n]
    except errors as error:
        return x + 1, str(error)


@case
def assert_fails(x, n):
    assert n == 2, f"n is {n}"
    return x + n


@case
def exception_group(x, n):
    caught = []
    try:
        raise ExceptionGroup("all", [ValueError(1), KeyError(2), TypeError(3)])
    except* ValueError as group:
        caught.append(len(group.exceptions))
    except* (KeyError, TypeError) as group:
        caught.append([type(e).__name__ for e in group.exceptions])
    return x + n, caught


@case
def exception_group_that_flies_on(x):
    try:
        raise ExceptionGroup("some", [ValueError(1), KeyError(2)])
    except* ValueError:
        x = x + 1
    return x


@case
def plain_exception_in_except_star(x):
    try:
        raise ValueError("plain")
    except* ValueError as group:
        return_value = str(group), len(group.exceptions)
    return x * 2, return_value


@case
def suppress(x):
    with contextlib.suppress(KeyError, IndexError):
        x = x + 1
        [][0]
        x = x * 100
    return x


@case
def context_manager_swallows(x, log):
    class Swallow:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, traceback):
            log.append((kind.__name__, str(error), traceback is not None))
            return True

    with Swallow():
        raise Custom("swallowed")
    return x + 1


@case
def exit_sees_none(x, log):
    class Note:
        def __enter__(self):
            return 5

        def __exit__(self, *error):
            log.append(error)

    with Note() as five, Note() as other:
        return x * five + other


@contextlib.contextmanager
def managed(log, name):
    log.append(("enter", name))
    try:
        yield name
    except ValueError as error:
        log.append(("caught", str(error)))
    finally:
        log.append(("exit", name))


@case
def contextmanager_decorator(x, log):
    with managed(log, "a") as a, managed(log, "b"):
        x = x + len(a)
    with managed(log, "c"):
        raise ValueError("inside")
    return x


@case
def exit_stack(x, log):
    with contextlib.ExitStack() as stack:
        for name in "xyz":
            stack.enter_context(managed(log, name))
        stack.callback(log.append, "callback")
        x = x * 2
    return x


@case
def closing_and_nullcontext(x, log):
    class Closes:
        def close(self):
            log.append("closed")

    with contextlib.closing(Closes()) as c, contextlib.nullcontext(4) as four:
        x = x + four
    return x, type(c).__name__


@case
def redirected_exception_attributes(x):
    try:
        raise OSError(2, "gone", "file.txt")
    except OSError as error:
        return x + error.errno, error.filename, type(error)


@case
def stop_iteration_value(x):
    try:
        raise StopIteration(x + 1)
    except StopIteration as stop:
        return stop.value


@case
def keyboard_interrupt_is_not_caught(x):
    try:
        raise SystemExit(3)
    except Exception:
        return x
    except BaseException as error:
        return x + error.code


@case
def wrong_arguments(x):
    def f(a, *, b):
        return a + b

    try:
        f(x)
    except TypeError as error:
        first = str(error)
    try:
        f(x, 1, b=2)
    except TypeError as error:
        return x + 1, first, str(error)


@case
def errors_of_operators(x):
    out = []
    for attempt in (
        lambda: 1 + "a",
        lambda: len(3),
        lambda: None.shape,
        lambda: [1, 2]["a"],
        lambda: {}["k"],
        lambda: int("x"),
        lambda: (1, 2).index(9),
        lambda: "a" < 1,
        lambda: 3(),
        lambda: undefined_name,  # noqa: F821
    ):
        try:
            attempt()
        except Exception as error:
            out.append((type(error).__name__, str(error)))
    return x * len(out), out


@case
def notes(x):
    try:
        error = ValueError("with a note")
        error.add_note("look here")
        raise error
    except ValueError as caught:
        return x + 1, caught.__notes__


@case
def failing_tensor_operations(x):
    out = []
    for attempt in (
        lambda: x.reshape(1000),
        lambda: torch.cat([x, torch.ones(3, 3, 3)]),
        lambda: x.sum(dim=9),
        lambda: torch.ones(2, 3) @ torch.ones(2, 3),
        lambda: x.not_a_method(),
        lambda: x + "text",
    ):
        try:
            attempt()
        except Exception as error:
            out.append(type(error).__name__)
    return x * 2, out


@case
def traceback_of_a_caught_one(x):
    def fails():
        raise Custom("deep")

    try:
        fails()
    except Custom as error:
        names = []
        traceback = error.__traceback__
        while traceback:
            names.append(traceback.tb_frame.f_code.co_name)
            traceback = traceback.tb_next
        return x + 1, names
