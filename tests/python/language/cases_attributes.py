"""Attributes of tensors: Python attributes, .data, .grad; objects whose attributes are replaced."""

import enum
import functools
import gc
import threading
import types
import warnings

import torch
from running import case

kept = torch.ones(4)
with_gradient = torch.ones(3)
with_gradient.grad = torch.full((3,), 2.0)


@case
def attribute_of_a_result_leaves(x):
    y = x + 1
    y.tag = ["mine", x]
    z = y * 2
    z.other = y
    return y, z


@case
def attribute_of_a_result_is_deleted(x):
    y = x + 1
    y.tag = 3
    first = y.tag
    del y.tag
    return y * first, hasattr(y, "tag"), getattr(y, "tag", 5)


@case
def attribute_of_an_outside_tensor_is_counted(x):
    kept.times = getattr(kept, "times", 0) + 1
    return x.sum() + kept * kept.times


@case
def attribute_of_an_argument_is_deleted(x):
    x.tag = 1
    del x.tag
    try:
        return x.tag
    except AttributeError as error:
        return x + 1, str(error)


@case
def attribute_of_a_view(x):
    y = x[1:]
    y.part = "tail"
    return y + 1, y.part, hasattr(x, "part")


@case
def data_of_results_and_views(x):
    y = x + 1
    y.data.add_(1)
    view = y.data[1:]
    view.mul_(3)
    return y, view, y.data is y.data, y.data.requires_grad


@case
def data_of_a_global(x):
    kept.data.mul_(1.5)
    return kept + x.sum(), kept.data.dtype


@case
def gradient_of_a_global(x):
    if with_gradient.grad is None:
        return x
    return x.sum() + with_gradient.grad * 2, with_gradient.grad is with_gradient.grad


def drop_gradient(k):
    import sys

    module = sys.modules["language_cases"]
    module.with_gradient.grad = None if k == 2 else torch.full((3,), float(k))


@case(before=drop_gradient)
def gradient_comes_and_goes(x):
    return x if with_gradient.grad is None else x.sum() + with_gradient.grad


@case
def no_gradient_of_a_result(x):
    y = x * 2
    return y if y.grad is None else x


@case
def module_made_inside(x):
    class Special(types.ModuleType):
        factor = 3

    made = types.ModuleType("made")
    before = hasattr(made, "factor")
    made.__class__ = Special
    made.own = 2
    try:
        made.__dict__ = {}
    except (AttributeError, TypeError) as error:
        said = type(error).__name__
    return x * made.factor + made.own, before, said, made.__name__


@case
def module_without_its_init(x):
    made = types.ModuleType.__new__(types.ModuleType)
    has_name = hasattr(made, "__name__")
    made.value = 4
    return x + made.value, has_name, sorted(made.__dict__)


@case
def warning_of_a_library_is_recorded(x):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")

        class Mixed(enum.Enum):
            first = "text"
            second = enum.auto()

    return x + 1, Mixed.second.value, [w.category.__name__ for w in caught]


@case
def partial_is_read_only(x):
    p = functools.partial(torch.add, other=1)
    said = []
    for name in ("func", "args", "keywords"):
        try:
            setattr(p, name, None)
        except AttributeError as error:
            said.append(str(error))
    return p(x), said


@case
def namespace_leaves(x, n):
    made = types.SimpleNamespace(x=x + n, inner=types.SimpleNamespace(k=[n]))
    made.more = made.inner
    return made


outside_partial = functools.partial(torch.mul, other=3)
local = threading.local()


@case
def partial_from_outside_is_read_only(x, log):
    try:
        outside_partial.func = torch.add
    except AttributeError as error:
        log.append(str(error))
    outside_partial.note = len(log)
    return outside_partial(x) + outside_partial.note


@case
def attribute_of_a_thread_local(x):
    local.count = getattr(local, "count", 0) + 1
    return x * local.count


class Parent:
    pass


@case(before=lambda k: gc.collect(), calls=1)
def subclasses_that_live(x):
    class Child(Parent):
        pass

    names = [cls.__name__ for cls in Parent.__subclasses__()]
    return x + len(names), names, Child.__name__
