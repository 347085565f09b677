"""`torch.amp.GradScaler` as tensor programs, for capture: a step that gradients forbid is made and
taken back by a choice between values, so that nobody has to read whether one was found.
"""

import types

import torch
from torch import optim
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from . import _C

_GradScaler = torch.amp.GradScaler

# Their steps write to parameters and to the tensors of their state, and to nothing else.
_WRITE_TENSORS_ALONE = (
    optim.SGD,
    optim.Adam,
    optim.AdamW,
    optim.RMSprop,
    optim.Adagrad,
    optim.Adadelta,
    optim.Adamax,
    optim.RAdam,
    optim.Rprop,
    optim.NAdam,
    optim.ASGD,
    optim.Adafactor,
)


def _are_single_floats(*tensors):
    return all(tensor.dtype == torch.float32 and tensor.numel() == 1 for tensor in tensors)


def unscale_gradients(self, found_inf, inv_scale):
    """`torch._amp_foreach_non_finite_check_and_unscale_`."""
    if not self or not _are_single_floats(found_inf, inv_scale):
        torch.ops.aten._amp_foreach_non_finite_check_and_unscale_(self, found_inf, inv_scale)
        return
    finite = [torch.isfinite(gradient).all() for gradient in self]
    if len(finite) > 1:
        finite = [torch.stack(finite).all()]
    found_inf.copy_(torch.where(finite[0], found_inf, 1.0))
    for gradient in self:
        if gradient.dtype in (torch.bfloat16, torch.float16):
            gradient.copy_(gradient.float() * inv_scale)
        else:
            gradient.mul_(inv_scale)


def update_scale(self, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval):
    """`torch._amp_update_scale_`, whose products are of double precision."""
    if not _are_single_floats(self, found_inf) or growth_tracker.dtype != torch.int32:
        return torch.ops.aten._amp_update_scale_(
            self, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval
        )
    found = found_inf != 0
    successes = growth_tracker + 1
    grows = successes == growth_interval
    scale = self.double()
    grown = (scale * growth_factor).float()
    grown = torch.where(grows & torch.isfinite(grown), grown, self)
    self.copy_(torch.where(found, (scale * backoff_factor).float(), grown))
    growth_tracker.copy_(torch.where(found | grows, 0, successes))
    return self


# Under another identity, so that it is not replaced.
_maybe_step = types.FunctionType(
    _GradScaler._maybe_opt_step.__code__, _GradScaler._maybe_opt_step.__globals__
)


def _is_stepped_as_its_class_says(optimizer):
    own = optimizer.__dict__.get("step")
    if own is not None and not hasattr(own, "_wrapped_by_lr_sched"):
        return False
    hooks = (
        optimizer._optimizer_step_pre_hooks,
        optimizer._optimizer_step_post_hooks,
        _global_optimizer_pre_hooks,
        _global_optimizer_post_hooks,
    )
    return all(len(registered) == 0 for registered in hooks)


def _written_by(optimizer, device):
    """The tensors that a step writes to and the parameters whose state it makes; None where it may
    do more than that."""
    if type(optimizer) not in _WRITE_TENSORS_ALONE or not _is_stepped_as_its_class_says(optimizer):
        return None
    written, stateless = [], []
    for group in optimizer.param_groups:
        if group.get("capturable") or group.get("differentiable") or group.get("fused"):
            return None
        has_no_state = type(optimizer) is optim.SGD and group["momentum"] == 0
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            if parameter.device != device:
                return None
            written.append(parameter)
            if has_no_state:
                continue
            state = optimizer.state.get(parameter)
            if state is None:
                stateless.append(parameter)
                continue
            tensors = [value for value in state.values() if isinstance(value, torch.Tensor)]
            # The step makes a part of it.
            if not tensors or len(tensors) < len(state):
                return None
            written.extend(tensors)
    return written, stateless


def _look_at_first_step(optimizer):
    """For `_C.call_later`; see _schedulers.py."""
    changed = ((optimizer.state, None), (optimizer, ("_opt_called",)))
    return None, False, "", None, changed, ()


def _forget_if_skipped(optimizer, found, parameters, was_called):
    """In eager a step that is skipped has made no state, nor has a scheduler seen it."""
    if found.item() == 0:
        return
    for parameter in parameters:
        del optimizer.state[parameter]
    if not was_called:
        vars(optimizer).pop("_opt_called", None)


def maybe_step(self, optimizer, optimizer_state, *args, **kwargs):
    """`GradScaler._maybe_opt_step`."""
    found = list(optimizer_state["found_inf_per_device"].values())
    written = None
    if len(found) == 1 and not args and not kwargs:
        written = _written_by(optimizer, found[0].device)
    if written is None:
        return _maybe_step(self, optimizer, optimizer_state, *args, **kwargs)
    tensors, stateless = written
    skipped = found[0] != 0
    was_called = hasattr(optimizer, "_opt_called") or "step" not in vars(optimizer)
    with torch.no_grad():
        before = [tensor.clone() for tensor in tensors]
        optimizer.step()
        for tensor, old in zip(tensors, before, strict=True):
            tensor.copy_(torch.where(skipped, old, tensor))
    if stateless or not was_called:
        _C.call_later(
            _look_at_first_step,
            _forget_if_skipped,
            (optimizer, found[0], tuple(stateless), was_called),
        )
    return None


SUBSTITUTES = {
    torch._amp_foreach_non_finite_check_and_unscale_: unscale_gradients,
    torch._amp_update_scale_: update_scale,
    _GradScaler._maybe_opt_step: maybe_step,
}
