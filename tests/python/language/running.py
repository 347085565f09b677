"""Running a case of the language suite eagerly and compiled.

A case is a function (or a class of modules) marked `@case` in one of the files `cases_*.py`. The
file is executed anew for each side, so that each has its own globals, classes and closures. The
case is called several times with changing arguments; after each call what a program can see is
compared: result or exception with its traceback, printed output, arguments, all globals of the
file with what can be reached from them, random and torch state.

Arguments come from the names of the parameters (`ARGUMENTS`) or from `@case(make=f)`, where
`f(k)` gives the tuple of arguments of call k. `@case(before=f)`: `f(k)` runs before call k,
outside of what is compiled.
"""

import contextlib
import inspect
import io
import json
import os
import pathlib
import random
import sys
import types
import warnings

import braze
import torch
from braze import _api
from snapshot import Snapshot, assert_equal

HERE = pathlib.Path(__file__).parent
GOLDEN = HERE / "golden"
GOLDEN_PYTHON = (3, 11)
UPDATE = bool(os.environ.get("BRAZE_UPDATE_GOLDEN"))
MODULE = "language_cases"
SHAPES = [(4,), (4,), (2, 3), (4,)]

ARGUMENTS = {
    "x": lambda k: torch.randn(SHAPES[k % 4]),
    "y": lambda k: torch.randn(SHAPES[k % 4]),
    "m": lambda k: torch.randn(3, 3),
    "i": lambda k: torch.arange(6).roll(k),
    "b": lambda k: torch.randn(5) > 0,
    "n": lambda k: [2, 2, 3, 2][k % 4],
    "s": lambda k: ["ab", "ab", "xyz", "ab"][k % 4],
    "flag": lambda k: k % 3 != 2,
    "items": lambda k: [3, 1, 2, *range(k % 3)],
    "tensors": lambda k: [torch.randn(3), torch.randn(3), torch.randn(3)],
    "d": lambda k: {"a": torch.randn(3), "b": torch.randn(3)},
    "log": lambda k: [],
}


def case(function=None, *, make=None, before=None, calls=4):
    def mark(function):
        function.language_case = {"make": make, "before": before, "calls": calls}
        return function

    return mark(function) if function else mark


_code = {}


def load(family):
    """A fresh execution of the family's file."""
    path = HERE / f"cases_{family}.py"
    if family not in _code:
        _code[family] = compile(path.read_text(), str(path), "exec")
    module = types.ModuleType(MODULE)
    module.__file__ = str(path)
    sys.modules[MODULE] = module
    torch.manual_seed(0)
    exec(_code[family], module.__dict__)
    return module


def families():
    return sorted(path.stem.removeprefix("cases_") for path in HERE.glob("cases_*.py"))


def names(family):
    return [
        n for n, v in vars(load(family)).items() if "language_case" in getattr(v, "__dict__", ())
    ]


class Side:
    """One of the two programs: eager or compiled."""

    def __init__(self, family, name, compiled):
        self.module = load(family)
        self.compiled = compiled
        marked = getattr(self.module, name)
        self.options = marked.language_case
        self.function = marked
        if isinstance(marked, type):
            self.function = self.module.instance = marked()
        self.parameters = list(
            inspect.signature(marked.forward if isinstance(marked, type) else marked).parameters
        )[isinstance(marked, type) :]
        if compiled:
            self.function = braze.compile(self.function)

    def arguments(self, k):
        torch.manual_seed(1000 + k)
        if self.options["make"]:
            return self.options["make"](k)
        return tuple(ARGUMENTS[name](k) for name in self.parameters)

    def call(self, k):
        sys.modules[MODULE] = self.module
        torch.utils.hooks.RemovableHandle.next_id = k * 1000
        if self.options["before"]:
            self.options["before"](k)
        args = self.arguments(k)
        torch.manual_seed(k)
        random.seed(k)
        printed = io.StringIO()
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
            warnings.catch_warnings(),
            torch.set_grad_enabled(torch.is_grad_enabled()),
        ):
            warnings.simplefilter("always")
            try:
                outcome = ("returned", self.function(*args))
            except BaseException as error:
                outcome = ("raised", error, self.traceback(error))
            switches = (
                torch.is_grad_enabled(),
                torch.is_inference_mode_enabled(),
                torch.is_autocast_enabled("cpu"),
                torch.get_default_dtype(),
                torch.random.get_rng_state().sum().item(),
                hash(random.getstate()),
            )
            torch.set_default_dtype(torch.float32)
        state = {n: v for n, v in vars(self.module).items() if not n.startswith("__")}
        return Snapshot((outcome, args, printed.getvalue(), switches, state), MODULE)

    def traceback(self, error):
        lines, traceback = [], error.__traceback__
        while traceback:
            if traceback.tb_frame.f_code.co_filename == self.module.__file__:
                lines.append((traceback.tb_frame.f_code.co_name, traceback.tb_lineno))
            traceback = traceback.tb_next
        return lines


def run(family, name):
    """Compares the two sides over all calls; what the compiled side is made of."""
    eager, compiled = Side(family, name, False), Side(family, name, True)
    for k in range(eager.options["calls"]):
        expected, actual = eager.call(k), compiled.call(k)
        try:
            assert_equal(actual, expected)
        except AssertionError as error:
            raise AssertionError(f"call {k}: compiled differs from eager: {error}") from None
    entries = _api.compiled_function_of(compiled.function)._entries()
    broken = [entry["reason_what"] for entry in entries if entry["reason"]]
    return {"segments": len(entries), "breaks": len(broken)}, broken


def has_tensor_ops(family, name):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Count(TorchDispatchMode):
        ops = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.ops += 1
            return func(*args, **(kwargs or {}))

    side = Side(family, name, False)
    function, count = side.function, Count()

    def counted(*args):
        with count:
            return function(*args)

    side.function = counted
    side.call(0)
    return count.ops > 0


def golden(family):
    path = GOLDEN / f"{family}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def write_golden(family, records):
    GOLDEN.mkdir(exist_ok=True)
    lines = ",\n".join(f"  {json.dumps(n)}: {json.dumps(r)}" for n, r in sorted(records.items()))
    (GOLDEN / f"{family}.json").write_text("{\n" + lines + "\n}\n")
