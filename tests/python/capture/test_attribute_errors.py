"""Messages of AttributeErrors, and who asked for what."""

import sys

import braze
import pytest
import torch


class Plain:
    @property
    def refuses(self):
        raise AttributeError("inner")


class Slots:
    __slots__ = ("a",)


class Answers:
    def __getattr__(self, name):
        raise AttributeError("mine " + name)


SLOTS = Slots()


def deleted(x):
    SLOTS.a = x + 1
    del SLOTS.a
    return SLOTS.a


CASES = {
    "a slot that was deleted": deleted,
    "an empty slot": lambda x: Slots().a,
    "of an object": lambda x: Plain().foo,
    "of a class": lambda x: Plain.foo,
    "of a module": lambda x: torch.foo,
    "of a tensor": lambda x: (x + 1).foo,
    "a property": lambda x: Plain().refuses,
    "__getattr__": lambda x: Answers().foo,
    "of a module of layers": lambda x: torch.nn.Linear(1, 1).foo,
    "getattr()": lambda x: getattr(Plain(), "foo"),
}


def is_told(case, got, wanted):
    """From 3.12 on, CPython notes name and object of what a property raises only as long as the
    instruction has not been specialised: in eager that hangs on how often the line has run."""
    if case == "a property" and sys.version_info >= (3, 12):
        return got[0] == wanted[0] and got[1:] in ((None, "NoneType"), ("refuses", "Plain"))
    return got == wanted


@pytest.mark.parametrize("caught", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_name_and_object(case, caught):
    def inside(x):
        try:
            CASES[case](x)
        except AttributeError as error:
            return str(error), error.name, type(error.obj).__name__
        return None

    def outside(function, x):
        try:
            function(x)
        except AttributeError as error:
            return str(error), error.name, type(error.obj).__name__
        return None

    x = torch.ones(2)
    if caught:
        assert is_told(case, braze.compile(inside)(x), inside(x))
    else:
        assert is_told(case, outside(braze.compile(CASES[case]), x), outside(CASES[case], x))
