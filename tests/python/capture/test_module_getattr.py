"""Attributes that a module of the program's computes in a function `__getattr__`."""

import sys
import types

import braze
import pytest
import torch
from support import same

SOURCE = """
level = 2
state = [1]

def __getattr__(name):
    if name == "answer":
        return level + state[0]
    if name == "count":
        state[0] += 1
        return state[0]
    raise AttributeError(f"no {name}")
"""


@pytest.fixture
def computed():
    module = types.ModuleType("braze_test_computed")
    exec(SOURCE, module.__dict__)
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


def test_what_it_reads_is_guarded(computed):
    def read(x):
        return x * computed.answer

    def imported(x):
        from braze_test_computed import answer

        return x * answer

    def asked(x):
        present = hasattr(computed, "other"), hasattr(computed, "answer")
        return x * getattr(computed, "other", 7), present

    fast = [braze.compile(fn) for fn in (read, imported, asked)]
    x = torch.ones(2)

    def compare():
        for f, fn in zip(fast, (read, imported, asked), strict=True):
            same(f(x), fn(x))

    compare()
    computed.level = 3
    compare()
    computed.state[0] = 5
    compare()
    computed.other = 9
    compare()
    computed.answer = 1
    compare()
    del computed.answer
    exec("def __getattr__(name):\n    return 11\n", computed.__dict__)
    compare()


def test_its_effects_happen_once(computed):
    def fn(x):
        return x * computed.count + computed.count

    fast, x = braze.compile(fn), torch.ones(2)
    for expected in (2 + 3, 4 + 5, 6 + 7):
        assert fast(x).tolist() == [expected] * 2
    assert computed.state == [7]


def test_its_error(computed):
    def fn(x):
        try:
            return x * computed.missing
        except AttributeError as error:
            return x, str(error)

    same(braze.compile(fn)(torch.ones(2)), fn(torch.ones(2)))
    with pytest.raises(AttributeError, match="no missing"):
        braze.compile(lambda x: x * computed.missing)(torch.ones(2))
