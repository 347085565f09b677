"""What a user says about sizes of tensors: which may vary, within which bounds."""

import collections

import torch

DimRange = collections.namedtuple("DimRange", ["dim", "min", "max"])

# torch._dynamo leaves the same attributes on a tensor; tensors that it has marked count as well.
_DYNAMIC = "_dynamo_dynamic_indices"
_WEAK_DYNAMIC = "_dynamo_weak_dynamic_indices"
_UNBACKED = "_dynamo_unbacked_indices"
_STATIC = "_dynamo_static_indices"
_RANGE = "_dynamo_dynamic_range"


def mark_dynamic(tensor, dims, *, min=None, max=None):
    """Say that sizes of `tensor` vary, so that the first compile serves all of them.

    Args:
        tensor: an argument of a compiled function, or a tensor reached from one.
        dims: a dimension or several.
        min, max: the smallest and largest size that will come, both included. Sizes 0 and 1 are
            always compiled for themselves.

    Compiling raises RuntimeError with the responsible line if the code works for one size only.

    Raises:
        TypeError, IndexError, ValueError: no tensor, no such dimension, no such sizes. Nothing is
            marked then. This holds for the functions below as well.
    """
    _check_range(min, max)
    for dim in _dims(tensor, dims):
        _attribute(tensor, _DYNAMIC).add(dim)
        _attribute(tensor, _STATIC).discard(dim)
        if min is not None or max is not None:
            _attribute(tensor, _RANGE).add(DimRange(dim, min, max))


def maybe_mark_dynamic(tensor, dims):
    """Like `mark_dynamic`, but where the code works for one size only, it is compiled for that."""
    for dim in _dims(tensor, dims):
        _attribute(tensor, _WEAK_DYNAMIC).add(dim)


def mark_static(tensor, dims=None):
    """Say that sizes of `tensor` never vary: another size is compiled for itself.

    `dims`: a dimension or several; all by default.
    """
    for dim in _all_dims(tensor) if dims is None else _dims(tensor, dims):
        _attribute(tensor, _STATIC).add(dim)
        for name in (_DYNAMIC, _WEAK_DYNAMIC, _UNBACKED):
            if hasattr(tensor, name):
                getattr(tensor, name).discard(dim)


def mark_unbacked(tensor, dims):
    """Say that sizes of `tensor` vary and that no code depends on them: any size, 0 and 1 too.

    No guard comes of such a size. Code that decides on it is a break (an error with
    `fullgraph=True`) unless the answer follows from `torch._check(condition)`, which is then a
    condition of the compiled code.
    """
    for dim in _dims(tensor, dims):
        _attribute(tensor, _UNBACKED).add(dim)


def _check_range(min, max):
    for name, value in (("min", min), ("max", max)):
        if value is not None and not isinstance(value, int):
            raise TypeError(f"{name} must be an int, not {type(value).__name__}")
        if value is not None and value < 0:
            raise ValueError(f"{name} must be a size, not {value}")
    if min is not None and max is not None and min > max:
        raise ValueError(f"min={min} is larger than max={max}")


def _all_dims(tensor):
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"sizes of a tensor can be marked, not those of {type(tensor).__name__}")
    return range(tensor.dim())


def _dims(tensor, dims):
    """The dimensions, counted from the front."""
    count = len(_all_dims(tensor))
    dims = (dims,) if not isinstance(dims, (list, tuple, set, frozenset, range)) else tuple(dims)
    for dim in dims:
        if not isinstance(dim, int):
            raise TypeError(f"a dimension must be an int, not {type(dim).__name__}")
        if not -count <= dim < count:
            raise IndexError(f"no dimension {dim} in a tensor of {count} dimensions")
    return [dim % count for dim in dims]


def _attribute(tensor, name):
    if not hasattr(tensor, name):
        setattr(tensor, name, set())
    return getattr(tensor, name)
