"""While a call is captured nothing outside changes, and afterwards the state is what eager leaves."""

import builtins
import decimal
import gc
import locale
import os
import random
import sys
import warnings

import braze
import numpy
import outside_state
import pytest
import torch
from capturing import capture
from outside_state import VARIABLE, WAYS, Plain, fresh
from snapshot import Snapshot, assert_equal


def native_state(s):
    """What a snapshot does not look into."""
    return [
        s.iterator.__length_hint__(),
        s.generator.gi_frame and s.generator.gi_frame.f_lasti,
        repr(s.count),
        [o.__length_hint__() for o in gc.get_referents(s.cycle) if hasattr(o, "__length_hint__")],
        [i.__length_hint__() for i in s.zip.__reduce__()[1]],
        dict(s.local.__dict__),
        s.text.getvalue(),
        s.text.tell(),
        s.queue.qsize(),
        s.lru.cache_info(),
        len(s.weak),
        s.numpy.tolist(),
        s.array.tolist(),
        [p.requires_grad for p in s.linear.parameters()],
        s.generator_of_numbers.getstate(),
        s.torch_generator.get_state().tolist(),
        s.lock.locked(),
        vars(s.module),
        s.function.__defaults__,
        vars(s.function),
        os.environ.get("BRAZE_TEST_WRITTEN"),
        os.getcwd(),
        VARIABLE.get(),
        outside_state.WRITTEN,
        hasattr(builtins, "braze_written"),
        "braze_made" in sys.modules,
        sys.getrecursionlimit(),
        sys.getswitchinterval(),
        gc.isenabled(),
        decimal.getcontext().prec,
        random.getstate(),
        numpy.random.get_state()[1].tolist(),
        torch.get_rng_state().tolist(),
        torch.get_default_dtype(),
        torch.get_num_threads(),
        torch.is_grad_enabled(),
        len(warnings.filters),
        torch.is_autocast_enabled("cpu"),
        torch.are_deterministic_algorithms_enabled(),
        locale.setlocale(locale.LC_NUMERIC),
        sorted(k for k in vars(Plain) if not k.startswith("__")),
        Plain.kind,
        Plain.__init__.__name__,
        Plain.__init__.__code__.co_name,
    ]


LIMITS = sys.getrecursionlimit(), sys.getswitchinterval(), torch.get_num_threads()
FILTERS = list(warnings.filters)
INIT = Plain.__init__, Plain.__init__.__code__


@pytest.fixture(autouse=True)
def clean():
    def restore():
        outside_state.WRITTEN = None
        os.environ.pop("BRAZE_TEST_WRITTEN", None)
        for name in [n for n in vars(Plain) if n not in ("kind", "__init__", "__repr__")]:
            if not name.startswith("__"):
                delattr(Plain, name)
        Plain.kind = 1
        Plain.__init__ = INIT[0]
        Plain.__init__.__code__ = INIT[1]
        sys.modules.pop("braze_made", None)
        if hasattr(builtins, "braze_written"):
            del builtins.braze_written
        VARIABLE.set(0)
        warnings.filters[:] = FILTERS
        sys.setrecursionlimit(LIMITS[0])
        sys.setswitchinterval(LIMITS[1])
        torch.set_num_threads(LIMITS[2])
        torch.set_default_dtype(torch.float32)
        torch.use_deterministic_algorithms(False)
        gc.enable()
        decimal.getcontext().prec = 28
        random.seed(0)
        numpy.random.seed(0)
        torch.manual_seed(0)

    restore()
    yield restore
    restore()


def snapshot(s, result=None):
    native = native_state(s)
    return Snapshot([result, vars(s), native], outside_state.__name__)


@pytest.mark.parametrize("name", WAYS)
def test_nothing_changes_while_capturing(name, clean):
    s = fresh()
    before = snapshot(s)
    capture(WAYS[name], s)
    assert_equal(snapshot(s), before)


@pytest.mark.parametrize("name", WAYS)
def test_afterwards_the_state_is_eagers(name, clean):
    def run(function):
        clean()
        s = fresh()
        with torch.set_grad_enabled(torch.is_grad_enabled()):
            try:
                result = function(s)
            except Exception as error:
                result = type(error), str(error)
            return snapshot(s, result)

    expected = run(WAYS[name])
    compiled = braze.compile(WAYS[name])
    for _ in range(2):
        assert_equal(run(compiled), expected)
