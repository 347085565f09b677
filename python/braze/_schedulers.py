"""Steps of PyTorch's schedulers of learning rates, for capture: they count and compute on Python's
own numbers, so they are made when the compiled code has run (`src/capture/calls/late_calls.h`).

What such a step reads and changes is worked out here, from the scheduler itself, for the traced
code may neither read nor change it afterwards. Of the user's own code (a function of `LambdaLR`,
`get_lr()` of a class) all that it can reach is looked at; code that may do more than compute a
number from it is not put off.
"""

import builtins
import cmath
import contextlib
import copy
import dis
import functools
import inspect
import math
import types
import warnings
import weakref

import torch
from torch.optim import lr_scheduler

from . import _C

_LRScheduler = lr_scheduler.LRScheduler
_OF_TORCH = ("torch.optim.lr_scheduler", "torch.optim.swa_utils")
_CHANGE_MOMENTUM = (lr_scheduler.OneCycleLR, lr_scheduler.CyclicLR)
_CONTAINERS = (list, dict, set, frozenset, tuple)
_NUMBERS = (int, float, complex, bool, str, bytes, type(None), range)

# --- What the user's code may do -----------------------------------------------------------------

_FUNCTIONS = {
    *(abs, all, any, divmod, isinstance, len, max, min, pow, round, sorted, sum, warnings.warn),
    *(bool, complex, dict, enumerate, filter, float, int, list, map, range, reversed, set, str),
    *(tuple, type, zip, super),
}
_FUNCTIONS |= {
    value for name, value in vars(builtins).items() if name.endswith(("Error", "Warning"))
}
_MODULES = (math, cmath, warnings)
_CHANGE_CONTAINERS = {
    name
    for container in (list, dict, set)
    for name in vars(container)
    if not name.startswith("_") and not hasattr(tuple, name) and not hasattr(frozenset, name)
} - {"get", "items", "keys", "values", "fromkeys"}
_READ_CONTAINERS = {"get", "items", "keys", "values", "index", "count", "is_integer", "bit_length"}
_OF_EVERY_CLASS = {
    *("__init__", "__new__", "__repr__", "__str__", "__eq__", "__hash__", "__call__"),
    *("__post_init__", "__getstate__", "__setstate__", "__reduce__", "__replace__"),
    *("__init_subclass__", "__class_getitem__", "__subclasshook__"),
}
_WRITES = (
    *("STORE_GLOBAL", "STORE_NAME", "STORE_ATTR", "STORE_SUBSCR", "STORE_SLICE", "STORE_DEREF"),
    *("DELETE_GLOBAL", "DELETE_NAME", "DELETE_ATTR", "DELETE_SUBSCR", "DELETE_DEREF"),
    *("IMPORT_NAME", "IMPORT_FROM", "IMPORT_STAR", "LOAD_BUILD_CLASS", "BEFORE_WITH"),
    *("SETUP_WITH", "SEND", "GET_AWAITABLE"),
)


_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class _Unknown(Exception):
    pass


@functools.lru_cache(512)
def _names_in(code):
    """The globals that it reads and the attributes that it asks for; None: it does more."""
    names, attributes = set(), set()
    if code.co_flags & _SUSPENDS and code.co_name != "<genexpr>":
        return None
    for instruction in dis.get_instructions(code):
        operation = instruction.opname
        if operation in _WRITES and instruction.argval not in code.co_cellvars:
            return None
        if operation in ("LOAD_GLOBAL", "LOAD_NAME"):
            names.add(instruction.argval)
        elif operation in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"):
            attributes.add(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = _names_in(constant)
            if inner is None:
                return None
            names |= inner[0]
            attributes |= inner[1]
    return names, attributes


class _Reach:
    """All that code can reach whose own objects are given to `value`, one after another."""

    def __init__(self):
        self.read = []  # (object, names or None)
        self.attributes = set()
        self.instances = []
        self.modules = []
        self.seen = set()
        self.has_code = False

    def value(self, value):
        kind = type(value)
        if kind in _NUMBERS or id(value) in self.seen:
            return
        self.seen.add(id(value))
        if kind in _CONTAINERS:
            if kind is not tuple:
                self.read.append((value, None))
            if len(value) > 1000:
                raise _Unknown("more than 1000 numbers")
            for item in (*value, *value.values()) if kind is dict else value:
                self.value(item)
        elif kind is types.FunctionType:
            self.function(value)
        elif kind is types.MethodType:
            self.value(value.__func__)
            self.value(value.__self__)
        elif kind is functools.partial:
            for part in (value.func, value.args, value.keywords):
                self.value(part)
        elif kind is types.ModuleType:
            self.modules.append(value)
        elif kind is types.BuiltinFunctionType and value.__module__ in ("math", "cmath"):
            pass
        elif isinstance(value, torch.optim.Optimizer):
            self.attributes.discard("param_groups")
        elif self.is_listed(value):
            pass
        elif isinstance(value, (torch.Tensor, torch.nn.Module, type)) or not hasattr(
            value, "__dict__"
        ):
            raise _Unknown(f"a '{kind.__name__}' object in a function of the user's")
        else:
            self.instances.append(value)
            self.read.append((value, None))
            if callable(value):
                self.attributes.add("__call__")

    def is_listed(self, value):
        try:
            return value in _FUNCTIONS
        except Exception:
            return False

    def function(self, function):
        if function.__module__ in _OF_TORCH:
            return
        self.has_code = True
        names = _names_in(function.__code__)
        if names is None:
            raise _Unknown(f"{function.__qualname__}() does more than compute a number")
        for name in sorted(names[0]):
            if name in function.__globals__:
                self.value(function.__globals__[name])
            elif hasattr(builtins, name):
                self.value(getattr(builtins, name))
            self.read.append((function.__globals__, (name,)))
        self.attributes |= names[1]
        for cell in function.__closure__ or ():
            self.read.append((cell, None))
            with contextlib.suppress(ValueError):
                self.value(cell.cell_contents)
        for part in (function.__defaults__, function.__kwdefaults__):
            self.value(part)

    def follow(self):
        """The attributes, of whatever has them."""
        done = set()
        while True:
            open_ones = [
                (name, owner)
                for name in sorted(self.attributes)
                for owner in (*self.instances, *self.modules)
                if (name, id(owner)) not in done
            ]
            if not open_ones:
                break
            for name, owner in open_ones:
                done.add((name, id(owner)))
                self.attribute(owner, name)
        for name in self.attributes - _READ_CONTAINERS - {"param_groups", "__call__"}:
            known = any(hasattr(owner, name) for owner in (*self.instances, *self.modules))
            if name in _CHANGE_CONTAINERS or not known:
                raise _Unknown(f"'.{name}' in a function of the user's")

    def attribute(self, owner, name):
        if isinstance(owner, types.ModuleType):
            if owner not in _MODULES and hasattr(owner, name):
                self.value(getattr(owner, name))
            return
        for cls in type(owner).__mro__[:-1]:
            if cls.__module__ in _OF_TORCH or cls is types.SimpleNamespace:
                continue
            for special, value in vars(cls).items():
                is_own = special.startswith("__") and isinstance(value, types.FunctionType)
                if is_own and special not in _OF_EVERY_CLASS:
                    raise _Unknown(f"a '{cls.__name__}' object in a function of the user's")
        found = next((vars(cls)[name] for cls in type(owner).__mro__ if name in vars(cls)), None)
        if isinstance(found, property):
            self.value(found.fget)
        elif isinstance(found, (staticmethod, classmethod)):
            self.value(found.__func__)
        elif name in vars(owner):
            # The scheduler's own are among what changes; the list of rates is another each time.
            if name != "_last_lr" or not isinstance(owner, _LRScheduler):
                self.value(vars(owner)[name])
        elif isinstance(found, types.FunctionType) or type(found) in (*_NUMBERS, *_CONTAINERS):
            self.value(found)
        elif found is not None and name != "__call__":
            raise _Unknown(f"'.{name}' in a function of the user's")


# --- What a step reads and changes ---------------------------------------------------------------

_OWN_METHODS = ("_update_lr", "__setattr__", "__getattr__", "__getattribute__", "__delattr__")


class _Step:
    def __init__(self, scheduler):
        self.changed = []
        self.reach = _Reach()
        self.computed_by_user = []
        self.add(scheduler)
        self.reach.follow()
        self.may_raise = self.reach.has_code
        for each in self.computed_by_user:
            _try_next_rate(each)

    def add(self, scheduler):
        kind = type(scheduler)
        if not isinstance(scheduler, _LRScheduler):
            raise _Unknown("it is of another class than PyTorch's")
        for cls in kind.__mro__[: kind.__mro__.index(_LRScheduler)]:
            if cls.__module__ not in _OF_TORCH:
                self.add_methods(cls, scheduler)
        for name in ("get_lr", "_get_closed_form_lr", "_update_lr", "step"):
            if name in vars(scheduler) and name != "step":
                raise _Unknown(f"a '{name}' of its own")
        self.changed.append((scheduler, None))
        self.add_optimizer(scheduler)
        is_cycle = isinstance(scheduler, lr_scheduler.OneCycleLR)
        if is_cycle and scheduler.last_epoch >= scheduler.total_steps:
            raise _Unknown("it has made all of its steps")
        for name, value in vars(scheduler).items():
            if name == "_schedulers":
                self.reach.read.append((value, None))
                for inner in value:
                    self.add(inner)
            elif name in ("lr_lambdas", "_scale_fn_custom", "anneal_func"):
                self.reach.value(value)
                if name == "lr_lambdas":
                    self.computed_by_user.append(scheduler)
            elif type(value) in _CONTAINERS and name != "_last_lr":
                self.reach.read.append((value, None))

    def add_methods(self, cls, scheduler):
        """Those of a class of the user's."""
        for name in _OWN_METHODS:
            if name in vars(cls):
                raise _Unknown(f"its class has a {name}() of its own")
        for name in ("get_lr", "_get_closed_form_lr"):
            if name in vars(cls):
                self.reach.value(vars(cls)[name])
                self.computed_by_user.append(scheduler)
                if scheduler not in self.reach.instances:
                    self.reach.instances.append(scheduler)
                    self.reach.seen.add(id(scheduler))

    def add_optimizer(self, scheduler):
        optimizer = scheduler.optimizer
        groups = optimizer.param_groups
        if len(groups) != len(getattr(scheduler, "base_lrs", groups)):
            raise _Unknown("the optimizer has got another number of parameter groups")
        names = ("lr",)
        if isinstance(scheduler, _CHANGE_MOMENTUM):
            names = ("lr", "momentum", "betas")
        for group in groups:
            if any(isinstance(group.get(name), torch.Tensor) for name in ("lr", "initial_lr")):
                raise _Unknown("a learning rate that is a tensor")
            self.changed.append((group, names))
        self.reach.read += [(optimizer, None), (groups, None)]


def _try_next_rate(scheduler):
    """What raises is not put off: the code behind it has not run then. Code that is looked at
    computes a number, so that nobody can tell how often it is called."""
    probe = copy.copy(scheduler)
    probe.last_epoch += 1
    probe._get_lr_called_within_step = True
    try:
        probe.get_lr()
    except Exception as error:
        raise _Unknown("its next rate raises " + type(error).__name__) from None


def _fingerprint(step):
    return repr(
        [
            step.may_raise,
            [(id(thing), names) for thing, names in step.changed],
            [(id(thing), names) for thing, names in step.reach.read],
        ]
    )


def _fingerprint_of(reference):
    try:
        return _fingerprint(_Step(reference()))
    except Exception as error:
        return repr(error)


def _look_at(scheduler):
    """For `_C.call_later`: why the step is not put off, else None; whether it may raise; a text
    that is the same as long as all this is; a function that gives it again; what is changed and
    what is read, as pairs of an object and the names in it, None for all."""
    try:
        step = _Step(scheduler)
    except _Unknown as unknown:
        return str(unknown), True, "", None, (), ()
    again = functools.partial(_fingerprint_of, weakref.ref(scheduler))
    return (
        *(None, step.may_raise, _fingerprint(step), again),
        *(tuple(step.changed), tuple(step.reach.read)),
    )


def _call(function, *arguments): return function(*arguments)  # fmt: skip # noqa: E704


def caller_at(function, line):
    """A function of one call, which stands at that line of `function`."""
    place = function.__code__
    code = _call.__code__.replace(
        co_filename=place.co_filename,
        co_name=place.co_name,
        co_qualname=place.co_qualname,
        co_firstlineno=line,
    )
    return types.FunctionType(code, function.__globals__)


def _substitute(original):
    in_eager = types.FunctionType(
        original.__code__, original.__globals__, original.__name__, original.__defaults__
    )

    def step(self, epoch=None):
        if epoch is not None:
            return in_eager(self, epoch)
        _read_groups(self)
        return _C.call_later(_look_at, original, (self,))

    return step


def _read_groups(scheduler):
    """The exit guards that they are no other objects of the traced code."""
    for group in scheduler.optimizer.param_groups:
        group["params"]
    for inner in getattr(scheduler, "_schedulers", ()):
        _read_groups(inner)


SUBSTITUTES = {
    scheduler.step: _substitute(scheduler.step)
    for scheduler in (
        _LRScheduler,
        lr_scheduler.SequentialLR,
        lr_scheduler.ChainedScheduler,
        lr_scheduler.CosineAnnealingWarmRestarts,
    )
}
