"""Functions of PyTorch that are given Python floats that vary, as tensor programs, for capture.

`SUBSTITUTES` maps each to a function with the same result, which capture evaluates in its place
where an argument is such a float. `_C.operand(value, tensor)` is that float as a tensor of no
dimension, which takes part in type promotion beside `tensor` as the float would; or the number
itself, with a guard on its value, where that cannot be (beside halves, numbers beyond float32).
"""

import torch

from . import _C


def _number(value):
    return _C.operand(value, None)


def _fill_value(value, tensor):
    return _C.operand(value, tensor) if tensor.is_floating_point() else _number(value)


def clamp(input, min=None, max=None, *, out=None):
    if out is not None or isinstance(min, torch.Tensor) or isinstance(max, torch.Tensor):
        return torch.clamp(input, _number(min), _number(max), out=out)
    if min is not None:
        input = torch.clamp(input, min=_C.operand(min, input))
    return input if max is None else torch.clamp(input, max=_C.operand(max, input))


def clamp_(input, min=None, max=None):
    if isinstance(min, torch.Tensor) or isinstance(max, torch.Tensor):
        return input.clamp_(_number(min), _number(max))
    if min is not None:
        input.clamp_(min=_C.operand(min, input))
    return input if max is None else input.clamp_(max=_C.operand(max, input))


def clamp_min(input, min):
    return torch.clamp_min(input, _C.operand(min, input))


def clamp_max(input, max):
    return torch.clamp_max(input, _C.operand(max, input))


def clamp_min_(input, min):
    return input.clamp_min_(_C.operand(min, input))


def clamp_max_(input, max):
    return input.clamp_max_(_C.operand(max, input))


def _exponent(value, tensor):
    """PyTorch takes square roots, which differ from powers at -0.0 and at infinity."""
    if value == 0.5 or value == -0.5:
        return _number(value)
    return _C.operand(value, tensor)


def power(input, exponent, *, out=None):
    if out is not None:
        return torch.pow(_number(input), _number(exponent), out=out)
    if isinstance(input, torch.Tensor):
        return torch.pow(input, _exponent(exponent, input))
    return torch.pow(_C.operand(input, exponent), exponent)


def power_(input, exponent):
    return input.pow_(_exponent(exponent, input))


def where(condition, input=None, other=None, *, out=None):
    if out is not None:
        return torch.where(condition, _number(input), _number(other), out=out)
    if isinstance(input, torch.Tensor):
        return torch.where(condition, input, _C.operand(other, input))
    if isinstance(other, torch.Tensor):
        return torch.where(condition, _C.operand(input, other), other)
    return torch.where(condition, _number(input), _number(other))


def tensor_where(self, condition, other):
    return torch.where(condition, self, _C.operand(other, self))


def full(size, fill_value, *, dtype=None, device=None, **others):
    if others:
        return torch.full(size, _number(fill_value), dtype=dtype, device=device, **others)
    return fill_(torch.empty(size, dtype=dtype, device=device), fill_value)


def full_like(input, fill_value, **options):
    return fill_(torch.empty_like(input, **options), fill_value)


def new_full(self, size, fill_value, **options):
    return fill_(self.new_empty(size, **options), fill_value)


def fill(input, value):
    return torch.fill(input, _fill_value(value, input))


def fill_(input, value):
    return input.fill_(_fill_value(value, input))


def masked_fill(input, mask, value):
    return torch.masked_fill(input, mask, _fill_value(value, input))


def masked_fill_(input, mask, value):
    return input.masked_fill_(mask, _fill_value(value, input))


def index_fill(input, dim, index, value):
    return torch.index_fill(input, dim, index, _fill_value(value, input))


def index_fill_(input, dim, index, value):
    return input.index_fill_(dim, index, _fill_value(value, input))


_HALVES = (torch.bfloat16, torch.float16)


def _in_single(*tensors):
    """Halves of one dtype in single precision, in which PyTorch computes with them; else None."""
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor) or tensor.dtype is not tensors[0].dtype:
            return None
    if tensors[0].dtype not in _HALVES or tensors[0].dim() == 0:
        return None
    return [tensor.float() for tensor in tensors]


def lerp(input, end, weight, *, out=None):
    if out is not None:
        return torch.lerp(input, end, _number(weight), out=out)
    if single := _in_single(input, end):
        return torch.lerp(*single, _C.operand(weight, single[0])).to(input.dtype)
    return torch.lerp(input, end, _fill_value(weight, input))


def lerp_(input, end, weight):
    if single := _in_single(input, end):
        return input.copy_(torch.lerp(*single, _C.operand(weight, single[0])))
    return input.lerp_(end, _fill_value(weight, input))


def _scaled(factor, tensor, others):
    """The product, if PyTorch computes it in that dtype; else None."""
    for other in (tensor, *others):
        if not isinstance(other, torch.Tensor) or other.dtype is not tensor.dtype:
            return None
    factor = _fill_value(factor, tensor)
    return tensor * factor if isinstance(factor, torch.Tensor) else None


def _plus_scaled(input, other, alpha, negative=False):
    """The sum, where both are halves and PyTorch computes it in single precision; else None. On the
    CPU the factor is rounded to one of them."""
    single = _in_single(input, other)
    if single is None:
        return None
    factor = _C.operand(alpha, single[1])
    if isinstance(factor, torch.Tensor) and not input.is_cuda:
        factor = factor.to(input.dtype).float()
    return single[0] - single[1] * factor if negative else single[0] + single[1] * factor


def add(input, other, *, alpha=1, out=None):
    if out is None and (result := _plus_scaled(input, other, alpha)) is not None:
        return result.to(input.dtype)
    scaled = None if out is not None else _scaled(alpha, other, (input,))
    if scaled is None:
        return torch.add(_number(input), _number(other), alpha=_number(alpha), out=out)
    return input + scaled


def sub(input, other, *, alpha=1, out=None):
    if out is None and (result := _plus_scaled(input, other, alpha, True)) is not None:
        return result.to(input.dtype)
    scaled = None if out is not None else _scaled(alpha, other, (input,))
    if scaled is None:
        return torch.sub(_number(input), _number(other), alpha=_number(alpha), out=out)
    return input - scaled


def _as(input, other):
    """In the dtype that PyTorch computes in, if that is the one of `input`."""
    if not isinstance(other, torch.Tensor) or other.dtype is input.dtype:
        return other
    promoted = torch.promote_types(input.dtype, other.dtype)
    return other.to(promoted) if promoted is input.dtype and other.dim() > 0 else other


def add_(input, other, *, alpha=1):
    if (result := _plus_scaled(input, other, alpha)) is not None:
        return input.copy_(result)
    other = _as(input, other)
    scaled = _scaled(alpha, other, (input,))
    if scaled is None:
        return input.add_(_number(other), alpha=_number(alpha))
    return input.add_(scaled)


def sub_(input, other, *, alpha=1):
    if (result := _plus_scaled(input, other, alpha, True)) is not None:
        return input.copy_(result)
    other = _as(input, other)
    scaled = _scaled(alpha, other, (input,))
    if scaled is None:
        return input.sub_(_number(other), alpha=_number(alpha))
    return input.sub_(scaled)


def addcmul(input, tensor1, tensor2, *, value=1, out=None):
    scaled = None if out is not None else _scaled(value, tensor1, (input, tensor2))
    if scaled is None:
        return torch.addcmul(input, tensor1, tensor2, value=_number(value), out=out)
    return input + scaled * tensor2


def _plus_quotient(input, tensor1, tensor2, value):
    """The same of addcdiv."""
    single = _in_single(input, tensor1, tensor2)
    if single is None:
        return None
    return single[0] + single[1] * _C.operand(value, single[1]) / single[2]


def addcdiv(input, tensor1, tensor2, *, value=1, out=None):
    if out is None and (result := _plus_quotient(input, tensor1, tensor2, value)) is not None:
        return result.to(input.dtype)
    scaled = None if out is not None else _scaled(value, tensor1, (input, tensor2))
    if scaled is None:
        return torch.addcdiv(input, tensor1, tensor2, value=_number(value), out=out)
    return input + scaled / tensor2


def addcmul_(input, tensor1, tensor2, *, value=1):
    scaled = _scaled(value, tensor1, (input, tensor2))
    if scaled is None:
        return input.addcmul_(tensor1, tensor2, value=_number(value))
    return input.add_(scaled * tensor2)


def addcdiv_(input, tensor1, tensor2, *, value=1):
    if (result := _plus_quotient(input, tensor1, tensor2, value)) is not None:
        return input.copy_(result)
    scaled = _scaled(value, tensor1, (input, tensor2))
    if scaled is None:
        return input.addcdiv_(tensor1, tensor2, value=_number(value))
    return input.add_(scaled / tensor2)


def _at(other, i):
    return other[i] if isinstance(other, list | tuple) else other


def _foreach(name):
    """The substitutes of the `torch._foreach_` functions, in place and not, of what that method of
    tensors does: its calls for each place of the lists, where what is no list is one for all."""

    def substitute(method):
        def call(self, *others, alpha=None, **named):
            (other,) = (*others, *named.values())
            if alpha is None:
                return [method(tensor, _at(other, i)) for i, tensor in enumerate(self)]
            return [method(tensor, _at(other, i), alpha=alpha) for i, tensor in enumerate(self)]

        return call

    in_place = substitute(getattr(torch.Tensor, name + "_"))
    new = substitute(getattr(torch.Tensor, name))

    def given(self, *others, **named):
        in_place(self, *others, **named)
        return self

    def as_tuple(self, *others, **named):
        return tuple(new(self, *others, **named))

    return given, as_tuple


def _three(function):
    """Of `addcmul_` and `addcdiv_`, whose factor may come by position."""

    def call(self, tensor1, tensor2, scalars=1, *, value=None):
        factors = scalars if value is None else value
        for i, tensor in enumerate(self):
            function(tensor, tensor1[i], tensor2[i], value=_at(factors, i))
        return self

    return call


def _lerp_each(self, tensors1, *others, **named):
    (weight,) = (*others, *named.values())
    for i, tensor in enumerate(self):
        tensor.lerp_(tensors1[i], _at(weight, i))
    return self


def _rate(lr):
    """A learning rate for a fused optimizer, which takes a tensor as well."""
    return _C.operand(lr, torch.empty((), dtype=torch.float64))


def _fused(function):
    def call(*lists, lr, **options):
        function(*lists, lr=_rate(lr), **options)

    return call


_BOTH = {
    "clamp": clamp,
    "clip": clamp,
    "clamp_min": clamp_min,
    "clamp_max": clamp_max,
    "pow": power,
    "full_like": full_like,
    "fill": fill,
    "masked_fill": masked_fill,
    "index_fill": index_fill,
    "lerp": lerp,
    "add": add,
    "sub": sub,
    "subtract": sub,
    "addcmul": addcmul,
    "addcdiv": addcdiv,
}
_METHODS = {
    "clamp_": clamp_,
    "clip_": clamp_,
    "clamp_min_": clamp_min_,
    "clamp_max_": clamp_max_,
    "pow_": power_,
    "where": tensor_where,
    "new_full": new_full,
    "fill_": fill_,
    "masked_fill_": masked_fill_,
    "index_fill_": index_fill_,
    "lerp_": lerp_,
    "add_": add_,
    "sub_": sub_,
    "subtract_": sub_,
    "addcmul_": addcmul_,
    "addcdiv_": addcdiv_,
}
SUBSTITUTES = {torch.where: where, torch.full: full}
_EACH = {name: name for name in ("add", "sub", "mul", "div", "clamp_min", "clamp_max", "pow")}
# Of numbers, as PyTorch has them.
_EACH |= {"minimum": "clamp_max", "maximum": "clamp_min"}
for _name, _method in _EACH.items():
    _in_place, _new = _foreach(_method)
    SUBSTITUTES[getattr(torch, f"_foreach_{_name}_")] = _in_place
    SUBSTITUTES[getattr(torch, f"_foreach_{_name}")] = _new
SUBSTITUTES[torch._foreach_lerp_] = _lerp_each
SUBSTITUTES[torch._foreach_addcmul_] = _three(torch.Tensor.addcmul_)
SUBSTITUTES[torch._foreach_addcdiv_] = _three(torch.Tensor.addcdiv_)
for _name in ("_fused_adam_", "_fused_adamw_", "_fused_sgd_", "_fused_adagrad_"):
    if hasattr(torch, _name) and "tensor_lr" in getattr(torch.ops.aten, _name).overloads():
        SUBSTITUTES[getattr(torch, _name)] = _fused(getattr(torch.ops.aten, _name).tensor_lr)
for _name, _function in _BOTH.items():
    SUBSTITUTES[getattr(torch, _name)] = _function
for _name, _function in (*_BOTH.items(), *_METHODS.items()):
    if hasattr(torch.Tensor, _name):
        SUBSTITUTES[getattr(torch.Tensor, _name)] = _function
