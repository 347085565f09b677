"""Functions that ask for their caller, or have others ask for them."""

import abc
import collections
import contextlib
import dataclasses
import enum
import functools
import inspect
import io
import logging
import os
import sys
import traceback
import types
import typing
import warnings

import torch
from torch import nn

CASES = {}
STATES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def case_with(state):
    def note(function):
        STATES[function.__name__] = state
        return case(function)

    return note


# A module elsewhere, whose code asks for its caller.
OTHER = {"__name__": "other_module"}
exec(
    compile(
        """
import collections, enum, sys, typing, warnings

def make(): return collections.namedtuple('N', 'a')
def make_enum(): return enum.Enum('E', 'a')
def make_dict(): return typing.TypedDict('T', {'a': int})
def caller():
    frame = sys._getframe(1)
    return frame.f_globals['__name__'], frame.f_code.co_name, frame.f_lineno
def warn(): warnings.warn('careful', stacklevel=2)
def warn_here(): warnings.warn('careful')
def warn_far(): warnings.warn('careful', stacklevel=3)
""",
        "/other/module.py",
        "exec",
    ),
    OTHER,
)


def who():
    return sys._getframe(1).f_code.co_name, sys._getframe(1).f_lineno


def who_calls_me():
    return (
        who(),
        sys._getframe(2).f_code.co_name,
        os.path.basename(sys._getframe(2).f_code.co_filename),
    )


# --- The module of what is made -----------------------------------------------------------------


@case
def typed_dict(x):
    class T(typing.TypedDict):
        a: int

    return x + 1, typing.TypedDict("T", {"a": int}).__module__, T.__module__


@case
def named_tuples(x):
    class N(typing.NamedTuple):
        a: int = 3

    made = collections.namedtuple("N", "a b"), typing.NamedTuple("N", [("a", int)]), N
    return x + N().a, [(cls.__module__, cls.__qualname__) for cls in made]


@case
def named_tuple_with_a_default(x):
    made = collections.namedtuple("N", "a b", defaults=(x * 2,))
    return made(1).b, made.__module__


@case
def enums(x):
    class Named(enum.Enum):
        A = 1

    made = enum.Enum("E", "a b"), enum.IntFlag("F", ["p", "q"]), enum.Flag("G", "a", module="given")
    return x + made[0].b.value, [(cls.__module__, cls.__qualname__) for cls in (*made, Named)]


@case
def data_classes(x):
    @dataclasses.dataclass(frozen=True)
    class P:
        a: int = 1

    made = dataclasses.make_dataclass("C", ["a", ("b", int, 3)])
    return x * P().a + made(1).b, made.__module__, P.__module__, repr(P())


@case
def new_class(x):
    return x + 1, types.new_class("C", (), {}).__module__


@case
def class_by_type(x):
    plain, given = type("C", (), {"v": 3}), type("C", (dict,), {"__module__": "mine"})
    return x * plain.v, plain.__module__, given.__module__


class Meta(type):
    def __new__(cls, name, bases, namespace):
        return super().__new__(cls, name, bases, dict(namespace))


class PlainMeta(type):
    pass


@case
def class_by_metaclass(x):
    return x + 1, Meta("C", (), {}).__module__, PlainMeta("D", (), {"v": 2}).__module__


@case
def type_variables(x):
    made = typing.NewType("U", int), typing.TypeVar("V"), typing.ParamSpec("P")
    return x + 1, [variable.__module__ for variable in made]


@case
def class_statement(x):
    class C(abc.ABC):
        @abc.abstractmethod
        def m(self): ...

    try:
        C()
    except TypeError as error:
        return x + 1, str(error), C.__module__, C.__qualname__


def makes_types():
    return typing.TypedDict("T", {"a": int}), typing.NewType("U", int), enum.Enum("E", "a")


@case
def types_of_a_helper(x):
    y = x * 2
    return y, [made.__module__ for made in makes_types()], y + 1


@case
def types_made_elsewhere(x):
    made = OTHER["make"](), OTHER["make_enum"](), OTHER["make_dict"]()
    return x * 2, [cls.__module__ for cls in made]


@case
def types_in_a_loop(x):
    return x * 2, [typing.NewType(f"A{k}", int).__module__ for k in range(2)]


@case
def subclass_hook(x):
    class Base:
        def __init_subclass__(cls):
            cls.made_in = sys._getframe(1).f_code.co_name

    class Derived(Base):
        pass

    return x + 1, Derived.made_in


# --- Warnings -----------------------------------------------------------------------------------


@case
def warning(x):
    warnings.warn("mine")
    y = x * 2
    warnings.warn("mine", DeprecationWarning)
    return y


@case
def warning_about_the_caller(x):
    warnings.warn("mine", stacklevel=2)
    return x * 2


@case
def warning_about_the_callers_caller(x):
    warnings.warn("mine", stacklevel=3)
    return x * 2


@case
def warning_about_nobody(x):
    warnings.warn("mine", stacklevel=300)
    return x * 2


@case
def warning_that_is_an_object(x):
    warnings.warn(UserWarning("an instance"), stacklevel=1)
    return x * 2


@case
def warnings_elsewhere(x):
    OTHER["warn"]()
    y = x * 2
    OTHER["warn_here"]()
    OTHER["warn_far"]()
    return y


@case
def warnings_behind_a_break(x):
    if x.sum() > -1e9:
        warnings.warn("here", stacklevel=2)
        warnings.warn("there")
    y = x + 1
    OTHER["warn"]()
    return y, who(), sys._getframe(1).f_code.co_name


def caught(record):
    return [(str(w.message), w.lineno, os.path.basename(w.filename)) for w in record]


@case
def recorded_warnings(x):
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        warnings.warn("caught")
        OTHER["warn"]()
        y = x + 1
    return y, caught(record)


@case
def raised_warning(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            warnings.warn("raised")
        except UserWarning as error:
            return x + 1, str(error)


@case
def filter_behind_a_warning(x):
    with warnings.catch_warnings():
        x.sum().item()
        warnings.warn("a")
        y = x * 2
        warnings.simplefilter("ignore")
        warnings.warn("b")
    warnings.warn("c")
    return y


def registry():
    keys = sorted(str(key) for key in globals().get("__warningregistry__", {}) if key != "version")
    globals().pop("__warningregistry__", None)
    return keys


@case_with(registry)
def repeated_warnings(x):
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("default")
        for _ in range(3):
            warnings.warn("again")
            OTHER["warn"]()
        warnings.warn("again")
    return x + 1, caught(record)


@case_with(registry)
def warning_in_a_registry(x):
    known = globals().setdefault("__warningregistry__", {})
    warnings.warn_explicit("explicit", UserWarning, "file.py", 7, registry=known)
    return x * 2


# --- Logging ------------------------------------------------------------------------------------

RECORDS = []
LOG = logging.getLogger(__name__)


class Keep(logging.Handler):
    def emit(self, record):
        file = os.path.basename(record.pathname)
        RECORDS.append(
            (record.funcName, record.lineno, file, record.getMessage(), record.levelname)
        )


KEEP = Keep()
LOG.addHandler(KEEP)
LOG.setLevel(logging.DEBUG)
LOG.propagate = False


def records():
    kept = list(RECORDS)
    RECORDS.clear()
    return kept


@case_with(records)
def log_records(x):
    LOG.info("one %s", 3)
    y = x * 2
    LOG.warning("two")
    LOG.log(25, "three")
    return y


def log_for_others():
    LOG.info("in a helper")
    LOG.info("its caller", stacklevel=2)


@case_with(records)
def log_records_of_a_helper(x):
    log_for_others()
    LOG.info("the caller", stacklevel=2)
    return x * 2


@case_with(records)
def log_record_of_an_exception(x):
    try:
        1 / 0
    except ZeroDivisionError:
        LOG.exception("failed")
    LOG.error("with", stack_info=True)
    return x * 2


@case_with(records)
def level_between_records(x):
    LOG.info("a")
    LOG.setLevel(logging.ERROR)
    LOG.info("b")
    y = x * 2
    LOG.setLevel(logging.DEBUG)
    LOG.info("c")
    return y


@case_with(records)
def logger_switched_off(x):
    LOG.info("a")
    LOG.disabled = True
    LOG.info("b")
    y = x * 2
    LOG.disabled = False
    LOG.info("c")
    return y


@case_with(records)
def handler_taken_away(x):
    LOG.info("a")
    LOG.removeHandler(KEEP)
    LOG.info("b")
    y = x * 2
    LOG.addHandler(KEEP)
    LOG.info("c")
    return y


@case
def output_redirected(x):
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        print("inside")
        positive = x.sum().item() > 0
        print("again")
        y = x * 2
    print("outside")
    return y, stream.getvalue(), positive


# --- Frames -------------------------------------------------------------------------------------


@case
def own_frame(x):
    frame = sys._getframe()
    first = frame.f_lineno
    y = x * 2
    second = frame.f_lineno
    z = y + 1
    return z, frame.f_code.co_name, first, second, frame.f_lineno, sorted(frame.f_locals)


@case
def frame_of_the_caller(x):
    frame = sys._getframe().f_back
    y = x * 2
    return (
        y,
        frame.f_code.co_name,
        frame.f_lineno,
        sorted(frame.f_locals),
        frame.f_globals["__name__"],
    )


@case
def all_frames(x):
    y = x + 1
    frames, frame = [], sys._getframe()
    while frame is not None and len(frames) < 5:
        frames.append((frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back
    return y * 2, frames


@case
def frames_of_helpers(x):
    first = who()
    y = x * 2
    return y + 1, first, who_calls_me(), OTHER["caller"]()


@case
def inspected(x):
    y = x * 2
    frame = inspect.currentframe()
    stack = [(entry.function, entry.lineno) for entry in inspect.stack()[:4]]
    info = inspect.getframeinfo(frame)
    return (
        y,
        stack,
        info.function,
        info.lineno,
        info.code_context,
        inspect.getmodule(frame).__name__,
    )


@case
def extracted_stack(x):
    y = x * 2
    entries = traceback.extract_stack()[-3:]
    return (
        y,
        [(entry.name, entry.lineno, entry.line) for entry in entries],
        traceback.format_stack()[-1],
    )


def fails():
    raise ValueError("no")


@case
def traceback_of_an_exception(x):
    y = x + 1
    try:
        fails()
    except ValueError as error:
        trace = error.__traceback__
        inner = trace.tb_next.tb_frame.f_code.co_name
        return y, trace.tb_lineno, trace.tb_next.tb_lineno, inner, traceback.format_exc()


@case
def code_made_at_run_time(x):
    names = {"sys": sys}
    exec(
        "caller = sys._getframe(1).f_code.co_name, sys._getframe(1).f_lineno, __name__",
        names | {"__name__": "inner"},
        names,
    )
    return x * 2, names["caller"], eval("who()"), eval("__name__")


@case
def inner_functions(x):
    def generator():
        yield who()
        yield sys._getframe(1).f_code.co_name

    def peek():
        return sys._getframe(1).f_locals["secret"]

    secret = 42
    return x * secret, [who() for _ in range(2)], (lambda: who())(), list(generator()), peek()


class Methods:
    def method(self, x):
        return x * 2, who(), sys._getframe().f_code.co_qualname

    @property
    def property(self):
        return who()

    def __len__(self):
        self.seen = who(), sys._getframe(1).f_lineno
        return 3

    def __add__(self, other):
        return sys._getframe(1).f_code.co_name

    @classmethod
    def of_class(cls):
        return sys._getframe(1).f_lineno


METHODS = Methods()


@case
def methods(x):
    return (
        METHODS.method(x),
        METHODS.property,
        len(METHODS),
        METHODS.seen,
        METHODS + 1,
        Methods.of_class(),
    )


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.ReLU()

    def forward(self, x):
        return self.inner(x), who(), sys._getframe(1).f_code.co_name


LAYER = Layer()


@case
def module(x):
    return LAYER(x)


CASES["module_itself"] = LAYER
CASES["bound_method"] = METHODS.method


@case
def names_of_scopes(x):
    a = 1
    y = x * 2
    return y, sorted(locals()), globals()["__name__"], "y" in vars(), "a" in dir()


def has_a_break(x):
    y = x * 2
    total = x.sum().item() > 1e9
    return y, total, sys._getframe(1).f_code.co_name, sys._getframe(1).f_lineno, who()


@case
def break_in_a_helper(x):
    y = x + 1
    result = has_a_break(y)
    return result, y * 2, sys._getframe().f_lineno


@case
def recursion(x, depth=3):
    if depth == 0:
        return x, [who()]
    y, callers = recursion(x, depth - 1)
    return y * 2, callers + [who(), sys._getframe(1).f_code.co_name]


@contextlib.contextmanager
def manager():
    yield who()


def decorate(function):
    @functools.wraps(function)
    def inner(*args):
        return function(*args), sys._getframe(1).f_code.co_name

    return inner


@case
@decorate
def decorated(x):
    with manager() as inside:
        y = x * 2
    return y, who(), inside[0]


@case
def functions_called_by_c(x):
    key = sorted([3, 1], key=lambda value: (who()[0], value))
    return x * 2, functools.partial(who)(), list(map(lambda _: who(), [1])), key


@case
def printed_lines(x):
    print("line", sys._getframe().f_lineno)
    y = x * 2
    print(who())
    return y


@case
def raised(x):
    torch.relu(x)
    raise RuntimeError("out")
