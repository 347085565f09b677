"""Subjects and their cases: how a public function or module is called, found by trying in eager."""

import inspect
import itertools
import time
import warnings

import torch
from recipes import candidates

ATTEMPTS, SECONDS = 160, 3.0
# Of each call. In call 4 something does not fit, in call 5 the tensors have other strides, in call 6
# another dtype.
SIZES = (2, 2, 3, 2, 2, 3, 2)


class Case:
    """`make()` gives a fresh (function, state); `inputs(number)` (args, kwargs) of a call."""

    calls = len(SIZES)

    def __init__(self, make, inputs, calls=None):
        self.make, self.inputs = make, inputs
        self.calls = calls or self.calls

    def arguments(self, number):
        args, kwargs = self.inputs(number)
        if number == 5:
            return changed(args, relaid), changed(kwargs, relaid)
        if number == 6:
            return changed(args, widened), changed(kwargs, widened)
        return args, kwargs


def changed(value, change):
    """The tensors of plain containers changed."""
    if type(value) is torch.Tensor:
        return change(value)
    if type(value) in (list, tuple):
        return type(value)(changed(v, change) for v in value)
    return {k: changed(v, change) for k, v in value.items()} if type(value) is dict else value


def relaid(t):
    """The same values with other strides; of four dimensions: channels last."""
    if t.layout != torch.strided or t.dim() < 2:
        return t
    if t.dim() == 4:
        return t.contiguous(memory_format=torch.channels_last)
    return t.transpose(0, -1).contiguous().transpose(0, -1)


def widened(t):
    return t.double() if t.dtype == torch.float32 else t


class Arguments:
    """A choice of recipes for the parameters of a signature."""

    def __init__(self, recipes, flag=None):
        self.recipes = recipes  # (name or None where positional, recipe)
        self.flag = flag  # (name, value) of an option for call 3

    def make(self, n):
        args = [recipe(n) for name, recipe in self.recipes if name is None]
        kwargs = {name: recipe(n) for name, recipe in self.recipes if name is not None}
        return args, kwargs

    def of_call(self, number):
        args, kwargs = self.make(SIZES[number])
        if number == 3 and self.flag:
            kwargs[self.flag[0]] = self.flag[1]
        if number == 4:
            args, kwargs = spoiled(args, kwargs)
        return tuple(args), kwargs


def spoiled(args, kwargs):
    """The last tensor gets a size that hardly fits: eager raises, or does not."""
    for place in [(args, i) for i in reversed(range(len(args)))] + [(kwargs, k) for k in kwargs]:
        value = place[0][place[1]]
        if isinstance(value, torch.Tensor) and value.layout == torch.strided:
            place[0][place[1]] = value[..., :-1] if value.dim() else value[None, None].repeat(2, 3)
            break
    return args, kwargs


def signature_of(function):
    try:
        return inspect.signature(function)
    except (ValueError, TypeError):
        return None


def choices(function, given=None):
    """Choices of `Arguments` for a function, the likeliest first. `given`: recipes by name."""
    signature = signature_of(function)
    if signature is None:
        return
    given = given or {}
    if any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values()):
        parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_POSITIONAL]
        if all(p.kind is p.VAR_KEYWORD or p.default is not p.empty for p in parameters):
            yield Arguments([], [])
    names, lists = [], []
    for p in signature.parameters.values():
        if p.kind is p.VAR_KEYWORD or (p.default is not p.empty and p.name not in given):
            continue
        if p.kind is p.VAR_POSITIONAL:
            if lists:
                continue
            names.append(None)
        else:
            names.append(p.name if p.kind is p.KEYWORD_ONLY or p.default is not p.empty else None)
        lists.append(list(given[p.name]) if p.name in given else candidates(p)[:24])
    flags = [
        (p.name, not p.default)
        for p in signature.parameters.values()
        if isinstance(p.default, bool)
    ]
    for indices in by_rank([len(found) for found in lists]):
        recipes = [(name, found[i]) for name, found, i in zip(names, lists, indices)]
        yield Arguments(recipes, flags)


def by_rank(lengths):
    """Index tuples, those with small sums first."""
    if not lengths:
        yield ()
        return
    for total in range(sum(n - 1 for n in lengths) + 1):
        yield from of_sum(lengths, total)


def of_sum(lengths, total):
    if len(lengths) == 1:
        if total < lengths[0]:
            yield (total,)
        return
    for first in range(min(lengths[0] - 1, total) + 1):
        for rest in of_sum(lengths[1:], total - first):
            yield (first, *rest)


def accepts(call, arguments):
    """Whether eager takes these arguments, at two sizes, soon."""
    try:
        for n in (2, 3):
            args, kwargs = arguments.make(n)
            begin = time.monotonic()
            if call(*args, **kwargs) is NotImplemented or time.monotonic() - begin > 2:
                return False
    except (Exception, SystemExit):
        return False
    return True


def search(call, function, given=None, seconds=SECONDS):
    """The first arguments that eager accepts, with an option that it accepts as well; or None."""
    end = time.monotonic() + seconds
    for arguments in itertools.islice(choices(function, given), ATTEMPTS):
        if accepts(call, arguments):
            flags, arguments.flag = arguments.flag, None
            for name, value in flags or ():
                trial = Arguments([*arguments.recipes, (name, lambda n, value=value: value)])
                if accepts(call, trial):
                    arguments.flag = (name, value)
                    break
            return arguments
        if time.monotonic() > end:
            return None
    return None


def function_case(function, given=None):
    found = search(function, function, given)
    if found is None:
        return None

    def make():
        def call(*args, **kwargs):
            return function(*args, **kwargs)

        return call, None

    return Case(make, found.of_call)


def constructions(cls, given=None, seconds=SECONDS):
    """Arguments with which the class can be made."""
    end = time.monotonic() + seconds
    for arguments in itertools.islice(choices(cls, given), ATTEMPTS):
        torch.manual_seed(
            0
        )  # as where a case is made: whether a class takes values may depend on them
        try:
            args, kwargs = arguments.make(2)
            made = cls(*args, **kwargs)
        except (Exception, SystemExit):
            pass
        else:
            yield arguments, made
        if time.monotonic() > end:
            return


def module_case(cls, given=None, forward=None):
    """A module, made by its signature, and called."""
    for construction, module in itertools.islice(constructions(cls, given), 12):
        found = search(module, module.forward, forward, seconds=1.5)
        if found is None:
            continue

        def make(construction=construction):
            args, kwargs = construction.make(2)
            module = cls(*args, **kwargs)
            return module, module

        return Case(make, found.of_call)
    return None


warnings.simplefilter("ignore")
