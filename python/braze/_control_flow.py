"""PyTorch's control flow operators as plain Python, for capture.

A condition that is a number (`x.shape[0] > 4`) is decided while tracing, loops over a dimension are
unrolled. With a condition on data both branches become regions of the graph, of which the compiled
code runs one. What cannot be a region (a branch that prints, or changes its operand) is a break, at
which PyTorch's own operator runs for real and says what is wrong with it, if anything is.
"""

import importlib

import torch
from torch.utils import _pytree

from . import _C

# The package has functions of the same names as its modules.
_cond = importlib.import_module("torch._higher_order_ops.cond")
_map = importlib.import_module("torch._higher_order_ops.map")
_scan = importlib.import_module("torch._higher_order_ops.scan")
_while_loop = importlib.import_module("torch._higher_order_ops.while_loop")


def _flatten(tree):
    return ([tree], None) if isinstance(tree, torch.Tensor) else _pytree.tree_flatten(tree)


def _unflatten(leaves, spec):
    return leaves[0] if spec is None else _pytree.tree_unflatten(leaves, spec)


def _run_flat(function, operands):
    return _flatten(function(*operands))


def _is_flag(value):
    return isinstance(value, torch.Tensor) and value.dtype == torch.bool and value.numel() == 1


def _are_tensors(operands):
    if not isinstance(operands, (tuple, list)):
        return False
    return all(isinstance(leaf, torch.Tensor) for leaf in _pytree.tree_leaves(operands))


def cond(pred, true_fn, false_fn, operands=()):
    if isinstance(pred, (bool, int, float)):
        return true_fn(*operands) if pred else false_fn(*operands)
    if not _is_flag(pred):
        _C.decline("its predicate is no tensor of one bool")
    if not _are_tensors(operands) or not callable(true_fn) or not callable(false_fn):
        _C.decline("its operands are not tensors, or its branches no functions")
    yes, (_, spec) = _C.branch(_run_flat, (true_fn, operands))
    no, (_, other) = _C.branch(_run_flat, (false_fn, operands))
    if spec != other:
        _C.decline("its branches give different structures")
    return _unflatten(_C.choose(pred, yes, no), spec)


def while_loop(cond_fn, body_fn, carried_inputs):
    if any(type(leaf) is int for leaf in _pytree.tree_leaves(carried_inputs)):
        _C.decline("it carries integers: make them tensors of no dimension, or use a Python loop")
    if not _are_tensors(carried_inputs) or not callable(cond_fn) or not callable(body_fn):
        _C.decline("what it carries are not tensors, or its parts no functions")
    leaves, spec = _pytree.tree_flatten(carried_inputs)
    carried = _pytree.tree_unflatten(_C.parameters(leaves), spec)
    condition, _ = _C.branch(_run_flat, (cond_fn, carried))
    body, (_, given) = _C.branch(_run_flat, (body_fn, carried))
    if given != spec:
        _C.decline("its body gives another structure than it takes")
    return _pytree.tree_unflatten(_C.repeat(condition, body, leaves), spec)


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


SUBSTITUTES = {
    _cond.cond: cond,
    _while_loop.while_loop: while_loop,
    _map.map: map,
    _scan.scan: scan,
}
