"""Functions that ask for their caller, or have others ask for them."""

import abc
import collections
import contextlib
import dataclasses
import enum
import functools
import inspect
import os
import sys
import traceback
import types
import typing

import torch
from calling import CASES, OTHER, case, who
from torch import nn


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
