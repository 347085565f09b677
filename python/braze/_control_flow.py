"""PyTorch's control flow operators as plain Python, for capture.

A condition that is a number (`x.shape[0] > 4`) is decided while tracing, loops over a dimension are
unrolled. A condition on data stays PyTorch's own operator: a break, which runs for real.
"""

import importlib

import torch
from torch.utils import _pytree

# The package has functions of the same names as its modules.
_cond = importlib.import_module("torch._higher_order_ops.cond")
_map = importlib.import_module("torch._higher_order_ops.map")
_scan = importlib.import_module("torch._higher_order_ops.scan")


def _flatten(tree):
    return ([tree], None) if isinstance(tree, torch.Tensor) else _pytree.tree_flatten(tree)


def _unflatten(leaves, spec):
    return leaves[0] if spec is None else _pytree.tree_unflatten(leaves, spec)


def cond(pred, true_fn, false_fn, operands=()):
    if not isinstance(pred, (bool, int, float)):
        return _cond.cond_op(pred, true_fn, false_fn, operands)
    return true_fn(*operands) if pred else false_fn(*operands)


def map(f, xs, *args):
    leaves, spec = _flatten(xs)
    _check_rows(leaves)
    results = []
    for i in range(leaves[0].shape[0]):
        row = _unflatten([leaf[i] for leaf in leaves], spec)
        results.append(_flatten(f(row, *args)))
    columns = zip(*[flat for flat, _ in results], strict=True)
    return _unflatten([torch.stack(column) for column in columns], results[0][1])


def _check_rows(leaves):
    if not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
        raise RuntimeError(f"Mapped xs can only consist of tensors. Got xs {leaves}.")
    if leaves[0].shape[0] == 0:
        raise RuntimeError("Leading dimensions of mapped xs cannot be 0.")
    shapes = [leaf.shape for leaf in leaves]
    if any(shape[0] != shapes[0][0] for shape in shapes):
        raise RuntimeError(
            f"Leading dimensions of mapped xs must be consistent. Got shapes {shapes}."
        )


def scan(combine_fn, init, xs, *, dim=0, reverse=False):
    leaves, spec = _flatten(xs)
    if not leaves:
        return init, []
    dim = dim % leaves[0].dim()
    leaves = [torch.movedim(leaf, dim, 0) for leaf in leaves]
    if any(leaf.shape[0] == 0 for leaf in leaves):
        raise RuntimeError(
            "All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0"
        )
    carry, results = init, []
    for step in range(leaves[0].shape[0]):
        i = leaves[0].shape[0] - 1 - step if reverse else step
        row = _unflatten([leaf[i] for leaf in leaves], spec)
        carry, result = combine_fn(carry, row)
        results.append(_flatten(result))
    if reverse:
        results.reverse()
    columns = [torch.stack(column) for column in zip(*[flat for flat, _ in results], strict=True)]
    if dim != 0:
        columns = [torch.movedim(c, 0, dim) if dim < c.dim() else c for c in columns]
    return carry, _unflatten(columns, results[0][1])


SUBSTITUTES = {_cond.cond: cond, _map.map: map, _scan.scan: scan}
