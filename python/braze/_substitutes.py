"""Functions of PyTorch as plain tensor programs, for capture.

PyTorch's own run through its compiler, look at data only to check it, or are given numbers that may
vary in a list. `SUBSTITUTES` maps each to a function with the same signature and result, which
capture evaluates in its place.
"""

import types

import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch._higher_order_ops.associative_scan import associative_scan as _associative_scan
from torch.utils import _pytree
from torch.utils.checkpoint import noop_context_fn

from . import _C, _flex_attention, _grad_scaler, _optimizers, _schedulers


def associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    """Inclusive scan of a pytree of tensors along `dim`, log2(size) combinations deep."""
    leaves, spec = _pytree.tree_flatten(xs)
    dim = dim % leaves[0].dim()

    def combine(left, right):
        combined = combine_fn(
            _pytree.tree_unflatten(left, spec), _pytree.tree_unflatten(right, spec)
        )
        return _pytree.tree_leaves(combined)

    if reverse:
        leaves = [leaf.flip([dim]) for leaf in leaves]
    leaves = _scan(combine, leaves, dim)
    if reverse:
        leaves = [leaf.flip([dim]) for leaf in leaves]
    return _pytree.tree_unflatten(leaves, spec)


def _scan(combine, xs, dim):
    """Neighbours are combined, their scan gives every second element, the rest is one more step."""
    size = xs[0].shape[dim]
    if size < 2:
        return xs
    half = size // 2
    odd = _scan(combine, combine(_every_second(xs, dim, 0, half), _every_second(xs, dim, 1)), dim)
    before = [x.narrow(dim, 0, (size - 1) // 2) for x in odd]
    even = combine(before, _every_second(xs, dim, 2))
    return [
        _interleave(torch.cat([x.narrow(dim, 0, 1), e], dim), o, dim)
        for x, e, o in zip(xs, even, odd, strict=True)
    ]


def _every_second(xs, dim, start, count=None):
    end = None if count is None else start + 2 * count
    return [x[(slice(None),) * dim + (slice(start, end, 2),)] for x in xs]


def _interleave(even, odd, dim):
    count = odd.shape[dim]
    pairs = torch.stack([even.narrow(dim, 0, count), odd], dim + 1).flatten(dim, dim + 1)
    if even.shape[dim] == count:
        return pairs
    return torch.cat([pairs, even.narrow(dim, count, 1)], dim)


# Under another identity, so that it is not replaced.
_interpolate = types.FunctionType(
    F.interpolate.__code__, F.interpolate.__globals__, "interpolate", F.interpolate.__defaults__
)
_UPSAMPLE = {
    ("nearest", 1): torch._C._nn.upsample_nearest1d,
    ("nearest", 2): torch._C._nn.upsample_nearest2d,
    ("nearest", 3): torch._C._nn.upsample_nearest3d,
    ("nearest-exact", 1): torch._C._nn._upsample_nearest_exact1d,
    ("nearest-exact", 2): torch._C._nn._upsample_nearest_exact2d,
    ("nearest-exact", 3): torch._C._nn._upsample_nearest_exact3d,
    ("linear", 1): torch._C._nn.upsample_linear1d,
    ("bilinear", 2): torch._C._nn.upsample_bilinear2d,
    ("bicubic", 2): torch._C._nn.upsample_bicubic2d,
    ("trilinear", 3): torch._C._nn.upsample_trilinear3d,
}


def interpolate(
    input,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=None,
    recompute_scale_factor=None,
    antialias=False,
):
    """With sizes that stay symbols where the factors are whole or a few halves, quarters ..."""
    dims = input.dim() - 2 if isinstance(input, torch.Tensor) else 0
    upsample = _UPSAMPLE.get((mode, dims))
    factors = [scale_factor] * dims if isinstance(scale_factor, (int, float)) else scale_factor
    nearest = mode in ("nearest", "nearest-exact")
    plain = (
        upsample is not None
        and size is None
        and isinstance(factors, (tuple, list))
        and len(factors) == dims
        and not (recompute_scale_factor or antialias or (nearest and align_corners is not None))
    )
    sizes = _scaled(input.shape[2:], factors) if plain else None
    if sizes is None:
        return _interpolate(
            input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias
        )
    scales = [float(factor) for factor in factors]
    if nearest:
        return upsample(input, sizes, *scales)
    return upsample(input, sizes, bool(align_corners), *scales)


def _scaled(sizes, factors):
    scaled = []
    for size, factor in zip(sizes, factors, strict=True):
        if type(factor) not in (int, float) or not 0 < factor < 1e6:
            return None
        whole, parts = float(factor).as_integer_ratio()
        if parts > 64:  # rounded, as 1.1 is
            return None
        scaled.append(size * whole if parts == 1 else size * whole // parts)
    return scaled


def split_with_sizes(input, split_sizes, *dim, **named):
    """Numbers in a list that native code is given are fixed; read by themselves they may vary."""
    if type(split_sizes) in (list, tuple):
        split_sizes = [split_sizes[i] for i in range(len(split_sizes))]
    return input.split_with_sizes(split_sizes, *dim, **named)


def one_hot(input, num_classes=-1):
    """A class that is too large is an error of the scatter, and the call runs again in eager."""
    refused = input.dtype != torch.int64 or num_classes == 0 or num_classes < -1
    if refused or (input.numel() == 0 and num_classes == -1):
        return torch.ops.aten.one_hot(input, num_classes)  # which says why
    if num_classes == -1:
        num_classes = int(input.max()) + 1
    zeros = torch.zeros((*input.shape, num_classes), dtype=torch.int64, device=input.device)
    return zeros.scatter_(-1, input.unsqueeze(-1), 1)


def check(cond, message=None):
    """`torch._check`: a condition on numbers that are read from data becomes an assertion."""
    if type(cond) is not bool or not _C.expect(cond):
        torch._check_with(RuntimeError, cond if type(cond) is not bool else False, message)


def check_is_size(i, message=None, *, max=None):
    check(i >= 0, message)
    if max is not None:
        check(i <= max, message)


def tolist(self):
    """With numbers that are read from data as symbols; only then in the place of the method."""
    if self.dim() == 0:
        return self.item()
    return [tolist(row) for row in self.unbind(0)]


def tensor(data, *, dtype=None, device=None):
    """`torch.tensor` of numbers that vary; only then in the place of the function."""
    numbers = [data] if isinstance(data, (int, float)) else data
    if dtype is None:
        floats = any(isinstance(number, float) for number in numbers)
        dtype = torch.get_default_dtype() if floats else torch.int64
    made = [_number(number, dtype, device) for number in numbers]
    return made[0] if isinstance(data, (int, float)) else torch.stack(made)


def _number(number, dtype, device):
    if isinstance(number, float):
        return torch.full((), number, dtype=dtype, device=device)
    return torch.scalar_tensor(number, dtype=dtype, device=device)


def new_tensor(self, data, *, dtype=None, device=None):
    """Of numbers; only then in the place of the method."""
    return torch.tensor(
        data,
        dtype=self.dtype if dtype is None else dtype,
        device=self.device if device is None else device,
    )


def new(self, *given):
    """Of sizes, or numbers in a list; only then in the place of the method."""
    if len(given) == 1 and isinstance(given[0], (list, tuple)):
        if not isinstance(given[0], torch.Size):
            return new_tensor(self, given[0])
        given = given[0]
    elif not given:
        given = (0,)
    return self.new_empty(given)


# Labels for a profiler: what is compiled shows none. Where a break lies within one, its other end
# runs in eager: PyTorch's own ends this record, which nothing listens to.
_record_function = torch.autograd.profiler.record_function
_NO_RECORD = torch.ops.profiler._record_function_enter_new("")
_exit_in_eager = types.FunctionType(
    _record_function.__exit__.__code__, _record_function.__exit__.__globals__
)


# What a label has besides, which differs by PyTorch's version: numbers of other profilers.
_LABEL = {"name", "args", "run_callbacks_on_exit", "record"}
_OTHER_ATTRIBUTES = tuple(
    item for item in vars(_record_function("")).items() if item[0] not in _LABEL
)


def make_label(label, name, args=None):
    label.name = name
    label.args = args
    label.run_callbacks_on_exit = True
    label.record = None
    for attribute, value in _OTHER_ATTRIBUTES:
        setattr(label, attribute, value)


def enter_label(label):
    label.record = _NO_RECORD
    return label


def exit_label(label, exc_type, exc_value, traceback):
    if label.run_callbacks_on_exit and label.record is not _NO_RECORD:
        _exit_in_eager(label, exc_type, exc_value, traceback)


# Under another identity, so that it is not replaced.
_checkpoint = torch.utils.checkpoint.checkpoint
_checkpoint_in_eager = types.FunctionType(
    _checkpoint.__code__,
    _checkpoint.__globals__,
    "checkpoint",
    _checkpoint.__defaults__,
    _checkpoint.__closure__,
)


def call_checkpointed(function, args, kwargs):
    """What is recorded within is made again in the backward, not kept for it."""
    return function(*args, **kwargs)


def checkpoint(
    function,
    *args,
    use_reentrant=None,
    context_fn=noop_context_fn,
    determinism_check="default",
    debug=False,
    preserve_rng_state=True,
    **kwargs,
):
    """Without hooks: the partition makes again what the call computes, with the random numbers that
    the forward drew, which eager draws anew without `preserve_rng_state`."""
    if (
        use_reentrant is not False
        or not preserve_rng_state
        or context_fn is not noop_context_fn
        or determinism_check not in ("default", "none")
        or debug
    ):
        return _checkpoint_in_eager(
            function,
            *args,
            use_reentrant=use_reentrant,
            context_fn=context_fn,
            determinism_check=determinism_check,
            debug=debug,
            preserve_rng_state=preserve_rng_state,
            **kwargs,
        )
    kwargs.pop("early_stop", True)
    return call_checkpointed(function, args, kwargs)


# Under other identities, so that they are not replaced.
def _in_eager(function):
    return types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__
    )


_backward_in_eager = _in_eager(torch.autograd.backward)
_grad_in_eager = _in_eager(torch.autograd.grad)


_PLAIN = (torch.Tensor, torch.nn.Parameter)


def _tangents(tensors, given):
    """For each tensor the gradient that it starts with; None: eager is to refuse the call."""
    if given is None:
        given = (None,) * len(tensors)
    elif isinstance(given, torch.Tensor):
        given = (given,)
    if len(given) != len(tensors):
        return None
    tangents = []
    for tensor, tangent in zip(tensors, given, strict=True):
        if type(tensor) not in _PLAIN or not tensor.requires_grad:
            return None
        if tangent is None:
            if tensor.numel() != 1 or not tensor.dtype.is_floating_point:
                return None
            tangent = torch.ones_like(tensor)
        else:
            if type(tangent) is not torch.Tensor or tangent.shape != tensor.shape:
                return None
            if tangent.dtype.is_complex != tensor.dtype.is_complex:
                return None
        tangents.append(tangent)
    return tuple(tangents)


def _as_tuple(tensors):
    if isinstance(tensors, torch.Tensor):
        return (tensors,)
    return tuple(tensors) if isinstance(tensors, (tuple, list)) else ()


# What is gone through once, or has no order of its own, as `module.parameters()`.
_TAKEN_APART = (types.GeneratorType, type({}.values()), map, filter)


def _are_plain(inputs):
    return all(type(tensor) in _PLAIN and tensor.requires_grad for tensor in inputs)


def backward(
    tensors,
    grad_tensors=None,
    retain_graph=None,
    create_graph=False,
    grad_variables=None,
    inputs=None,
):
    """`torch.autograd.backward` within the graph. What eager refuses is left to it."""
    roots = _as_tuple(tensors)
    leaves = () if inputs is None else _as_tuple(inputs)
    tangents = _tangents(roots, grad_tensors) if roots else None
    if (
        tangents is None
        or grad_variables is not None
        or (inputs is not None and not (leaves and _are_plain(leaves)))
    ):
        return _backward_in_eager(
            tensors, grad_tensors, retain_graph, create_graph, grad_variables, inputs
        )
    keeps_graph = create_graph if retain_graph is None else retain_graph
    _C.run_backward(roots, tangents, leaves, bool(keeps_graph), bool(create_graph), True)


def tensor_backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    torch.autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    only_inputs=True,
    allow_unused=None,
    is_grads_batched=False,
    materialize_grads=False,
):
    """`torch.autograd.grad` within the graph. What eager refuses is left to it."""
    if type(outputs) in _TAKEN_APART:
        outputs = tuple(outputs)
    if type(inputs) in _TAKEN_APART:
        inputs = tuple(inputs)
    roots, wanted = _as_tuple(outputs), _as_tuple(inputs)
    tangents = _tangents(roots, grad_outputs) if roots else None
    gradients = None
    usual = (
        only_inputs and not is_grads_batched and not (materialize_grads and allow_unused is False)
    )
    if usual and tangents is not None and wanted and _are_plain(wanted):
        keeps_graph = create_graph if retain_graph is None else retain_graph
        gradients = _C.run_backward(
            roots, tangents, wanted, bool(keeps_graph), bool(create_graph), False
        )
    unused = gradients is not None and any(gradient is None for gradient in gradients)
    if gradients is None or (unused and not allow_unused and not materialize_grads):
        return _grad_in_eager(
            outputs,
            inputs,
            grad_outputs,
            retain_graph,
            create_graph,
            only_inputs,
            allow_unused,
            is_grads_batched,
            materialize_grads,
        )
    if unused and materialize_grads:
        gradients = tuple(
            torch.zeros_like(tensor, requires_grad=create_graph) if gradient is None else gradient
            for gradient, tensor in zip(gradients, wanted, strict=True)
        )
    return gradients


# What the decorator wraps that keeps torch.compile away.
_zero_gradients = torch.optim.Optimizer.zero_grad.__wrapped__
_zero_gradients_of_module = _in_eager(torch.nn.Module.zero_grad)


def _forget_gradient(parameter, set_to_none):
    if set_to_none:
        parameter.grad = None
        return
    gradient = parameter.grad
    if gradient is not None:
        if gradient.requires_grad:
            gradient.detach_()
        gradient.zero_()


def zero_grad(self, set_to_none=True):
    """Without a look at gradients that go, which may be there or not."""
    if not hasattr(self, "_zero_grad_profile_name"):
        return _zero_gradients(self, set_to_none)
    for group in self.param_groups:
        for parameter in group["params"]:
            _forget_gradient(parameter, set_to_none)


def zero_grad_of_module(self, set_to_none=True):
    if getattr(self, "_is_replica", False):
        return _zero_gradients_of_module(self, set_to_none)
    for parameter in self.parameters():
        _forget_gradient(parameter, set_to_none)


SUBSTITUTES = {
    **_flex_attention.SUBSTITUTES,
    **_grad_scaler.SUBSTITUTES,
    **_optimizers.SUBSTITUTES,
    **_schedulers.SUBSTITUTES,
    torch.optim.Optimizer.zero_grad: zero_grad,
    torch.nn.Module.zero_grad: zero_grad_of_module,
    torch.autograd.backward: backward,
    torch.autograd.grad: grad,
    torch.Tensor.backward: tensor_backward,
    _associative_scan: associative_scan,
    F.interpolate: interpolate,
    F.one_hot: one_hot,
    torch.split_with_sizes: split_with_sizes,
    torch.tensor: tensor,
    torch.as_tensor: tensor,
    torch._check: check,
    torch._check_is_size: check_is_size,
    torch.Tensor.tolist: tolist,
    torch.Tensor.new_tensor: new_tensor,
    torch.Tensor.new: new,
    _record_function.__init__: make_label,
    _record_function.__enter__: enter_label,
    _record_function.__exit__: exit_label,
    _checkpoint: checkpoint,
}
