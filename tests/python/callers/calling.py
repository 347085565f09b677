"""The cases, and a module elsewhere whose code asks for its caller."""

import sys

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
