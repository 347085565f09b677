"""What a user says about sizes of tensors: which may vary, within which bounds."""

import collections

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
    """
    for dim in _dims(tensor, dims):
        _attribute(tensor, _DYNAMIC).add(dim)
        _attribute(tensor, _STATIC).discard(dim)
        if min is not None or max is not None:
            if min is not None and max is not None and min > max:
                raise ValueError(f"min={min} is larger than max={max}")
            _attribute(tensor, _RANGE).add(DimRange(dim, min, max))


def maybe_mark_dynamic(tensor, dims):
    """Like `mark_dynamic`, but where the code works for one size only, it is compiled for that."""
    for dim in _dims(tensor, dims):
        _attribute(tensor, _WEAK_DYNAMIC).add(dim)


def mark_static(tensor, dims=None):
    """Say that sizes of `tensor` never vary: another size is compiled for itself.

    `dims`: a dimension or several; all by default.
    """
    for dim in range(tensor.dim()) if dims is None else _dims(tensor, dims):
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


def _dims(tensor, dims):
    for dim in (dims,) if isinstance(dims, int) else dims:
        if not isinstance(dim, int):
            raise TypeError(f"a dimension must be an int, not {type(dim).__name__}")
        if not -tensor.dim() <= dim < tensor.dim():
            raise IndexError(f"no dimension {dim} in a tensor of {tensor.dim()} dimensions")
        yield dim % tensor.dim()


def _attribute(tensor, name):
    if not hasattr(tensor, name):
        setattr(tensor, name, set())
    return getattr(tensor, name)
