"""print, logging and warnings: in order, where they stood."""

import contextlib
import io
import logging
import sys
import warnings

from running import case

logger = logging.getLogger("language.cases")
logger.setLevel(logging.INFO)


@case
def print_of_constants(x):
    print("before")
    y = x + 1
    print("after", 3, None, sep="-", end="!\n")
    return y * 2


@case
def print_of_shapes(x, n):
    print("shape", x.shape, x.dtype, n)
    for k in range(n):
        print(k, end=" ")
        x = x * 2
    print()
    return x


@case
def print_of_a_list_that_changes(x, items):
    print(items)
    items.append(len(items))
    print(items)
    return x + len(items)


class Shown:
    shown = 0

    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return f"<{self.value}>"

    def __str__(self):
        Shown.shown += 1
        return f"shown {self.value}"


@case
def print_of_an_object(x):
    shown = Shown(3)
    print([shown], repr(shown))
    return x + 1


@case
def print_of_an_object_with_an_effect(x):
    print(Shown(5))
    return x + 1


@case
def print_of_a_tensor(x):
    y = x * 2
    print(y)
    return y + 1


@case
def print_of_an_item(x):
    print(f"{x.sum().item():.1f}")
    return x + 1


@case
def print_to_stderr(x):
    print("to stderr", file=sys.stderr)
    print("flushed", flush=True)
    return x + 1


@case
def redirected_print(x):
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        print("caught")
    return x + 1, stream.getvalue()


class Tee:
    def __init__(self):
        self.lines = []

    def write(self, text):
        self.lines.append(text)


tee = Tee()


@case
def print_to_a_python_stream(x):
    print("one", file=tee)
    return x + len(tee.lines)


@case
def print_before_an_exception(x):
    print("about to raise")
    raise ValueError("raised")


@case
def print_in_a_callee_and_a_generator(x, n):
    def g():
        for k in range(n):
            print("yielding", k)
            yield x + k

    def helper(values):
        print("helping")
        return sum(values)

    return helper(g())


@case
def print_between_mutations(x, log):
    log.append("a")
    print(len(log))
    log.clear()
    print(len(log))
    return x * 3


@case
def logging_calls(x):
    logger.info("starting")
    logger.debug("not shown")
    logger.warning("value %d of %s", 3, "text")
    return x + 1


@case
def logging_is_enabled(x):
    if logger.isEnabledFor(logging.DEBUG):
        x = x * 100
    if logger.isEnabledFor(logging.INFO):
        x = x + 1
    return x


@case
def warning_given(x):
    warnings.warn("careful")
    return x + 1


@case
def warning_with_a_category(x):
    warnings.warn("old", DeprecationWarning, stacklevel=1)
    warnings.warn("in the future", category=FutureWarning)
    return x * 2


@case
def warning_about_the_calling_function(x):
    def helper(v):
        warnings.warn("helper is old", stacklevel=2)
        return v + 1

    return helper(x)


@case
def warning_about_the_caller(x):
    warnings.warn("you", stacklevel=2)
    return x + 1


@case
def warning_is_recorded(x):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("kept")
    return x + len(caught), str(caught[0].message)


@case
def warning_is_an_error(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            warnings.warn("raised")
        except UserWarning as error:
            return x + 1, str(error)


@case
def print_warning_and_log_in_order(x):
    print("1")
    warnings.warn("2")
    logger.warning("3")
    print("4")
    return x
