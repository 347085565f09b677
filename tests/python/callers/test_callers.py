"""Whatever asks for its caller gets what eager would give it."""

import copy
import traceback
import warnings

import braze
import cases_callers  # noqa: F401
import cases_output  # noqa: F401
import pytest
import torch
from calling import CASES, STATES
from support import outcome, same


def rows(count):
    return torch.randn(count, generator=torch.Generator().manual_seed(count))


def run(function, count):
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        kind, value, printed = outcome(function, (rows(count),), {})
    place = None
    if kind == "raised":
        place = [(entry.name, entry.lineno) for entry in traceback.extract_tb(value.__traceback__)]
    told = [(str(w.message), w.category, w.filename, w.lineno) for w in record]
    return kind, value, printed, told, place


@pytest.mark.parametrize("dynamic", [None, True], ids=["auto", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_case(name, dynamic):
    eager = CASES[name]
    compiled = braze.compile(eager, dynamic=dynamic)
    state = STATES.get(name, lambda: None)
    for count in (3, 4, 3, 5):
        results = []
        # One line calls both, so that they have the same caller.
        for function in (eager, compiled):
            results.append((run(function, count), copy.deepcopy(state())))
        (want, want_state), (got, got_state) = results
        assert want[0] == got[0], f"{want} is not {got}"
        same(got[1], want[1])
        assert got[2:] == want[2:]
        assert got_state == want_state


def compiled_elsewhere(source, name="elsewhere"):
    space = {"__name__": name, "torch": torch}
    exec(compile(source, f"/{name}.py", "exec"), space)
    return space, braze.compile(space["f"])


def test_the_module_is_that_of_the_function():
    """Neither the test's nor the compiler's."""
    space, compiled = compiled_elsewhere(
        "import typing, collections\n"
        "def f(x):\n"
        "    made = typing.TypedDict('T', {'a': int}), collections.namedtuple('N', 'a')\n"
        "    return x + 1, [cls.__module__ for cls in made], type('C', (), {}).__module__\n"
    )
    for count in (2, 3):
        same(compiled(rows(count)), space["f"](rows(count)))
        assert compiled(rows(count))[1:] == (["elsewhere", "elsewhere"], "elsewhere")


def test_the_module_is_renamed():
    """type() looks for the name when it is called."""
    space, compiled = compiled_elsewhere(
        "def f(x):\n    return x + 1, type('C', (), {}).__module__\n"
    )
    assert compiled(rows(2))[1] == "elsewhere"
    space["__name__"] = "renamed"
    assert compiled(rows(2))[1] == "renamed"
    del space["__name__"]
    for function in (space["f"], compiled):
        with pytest.raises(AttributeError, match="__module__"):
            function(rows(2))
