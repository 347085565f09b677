"""Steps of PyTorch's optimizers that read what they have computed, as tensor programs, for capture:
their numbers are tensors of one element in double precision, in which Python computes.

Each has the lists, the options and the formulas of the function for single tensors, and stands for
that of lists as well. Both keep what is not of single or double precision on the CPU.
"""

import types

import torch
from torch.optim import _adafactor, asgd, nadam


def _are_plain(params, *, capturable=False, differentiable=False, has_complex=False, **others):
    return (
        not (capturable or differentiable or has_complex)
        and all(p.device.type == "cpu" for p in params)
        and all(p.dtype in (torch.float32, torch.float64) for p in params)
    )


def _double(number):
    return torch.full((), number, dtype=torch.float64)


def _larger(number, tensor):
    """`max(number, tensor)`, of which NaN is not the larger one."""
    return torch.where(tensor > number, tensor, number)


def _add(param, tensor, factor):
    param.add_(tensor * factor.to(param.dtype))


def _add_quotient(param, numerator, denominator, factor):
    param.add_(numerator * factor.to(param.dtype) / denominator)


def step_nadam(params, grads, exp_avgs, exp_avg_sqs, mu_products, state_steps, **options):
    beta1, beta2, lr = options["beta1"], options["beta2"], options["lr"]
    weight_decay, momentum_decay = options["weight_decay"], options["momentum_decay"]
    for i, param in enumerate(params):
        grad = -grads[i] if options["maximize"] else grads[i]
        exp_avg, exp_avg_sq, mu_product = exp_avgs[i], exp_avg_sqs[i], mu_products[i]
        step_t = state_steps[i]
        step_t += 1
        step = step_t.item()
        if weight_decay != 0:
            if options["decoupled_weight_decay"]:
                param.mul_(1 - lr * weight_decay)
            else:
                grad = grad.add(param, alpha=weight_decay)
        mu = beta1 * (1.0 - 0.5 * (0.96 ** (step * momentum_decay)))
        mu_next = beta1 * (1.0 - 0.5 * (0.96 ** ((step + 1) * momentum_decay)))
        mu_product *= mu
        product = mu_product.double()
        exp_avg.lerp_(grad, 1 - beta1)
        exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        denom = exp_avg_sq.div(1 - beta2**step).sqrt()
        denom.add_(options["eps"])
        _add_quotient(param, grad, denom, (-lr * (1.0 - mu)) / (1.0 - product))
        _add_quotient(param, exp_avg, denom, (-lr * mu_next) / (1.0 - product * mu_next))


def step_asgd(params, grads, axs, mus, etas, state_steps, **options):
    lr, lambd, alpha = options["lr"], options["lambd"], options["alpha"]
    weight_decay = options["weight_decay"]
    for i, param in enumerate(params):
        grad = -grads[i] if options["maximize"] else grads[i]
        mu, ax, eta, step_t = mus[i], axs[i], etas[i], state_steps[i]
        step_t += 1
        if weight_decay != 0:
            grad = grad.add(param, alpha=weight_decay)
        rate = eta.double()
        param.mul_((1 - lambd * rate).to(param.dtype))
        _add(param, grad, -rate)
        ax.copy_(torch.where(mu != 1, ax + (param - ax) * mu, param))
        step = step_t.item()
        eta.fill_(lr / ((1 + lambd * lr * step) ** alpha))
        averaged = step - options["t0"]
        mu.fill_(1 / averaged if averaged > 1 else 1.0)


def step_adafactor(
    params, grads, row_vars, col_vars, variances, state_steps, grad_scale, found_inf, **options
):
    lr, weight_decay, eps1 = options["lr"], options["weight_decay"], options["eps1"]
    for i, param in enumerate(params):
        grad = -grads[i] if options["maximize"] else grads[i]
        row_var, col_var, variance = row_vars[i], col_vars[i], variances[i]
        step_t = state_steps[i]
        if eps1 is None:
            eps1 = torch.finfo(param.dtype).eps
        step_t += 1
        step = step_t.item()
        one_minus_beta2_t = step ** options["beta2_decay"]
        rate, bound = _double(lr), _double(1 / (step**0.5))
        rho_t = torch.where(bound < rate, bound, rate)
        alpha = _larger(options["eps2"], param.norm(2).double() / (param.numel() ** 0.5)) * rho_t
        if weight_decay != 0:
            param.mul_(1 - lr * weight_decay)
        if grad.dim() > 1:
            row_mean = torch.norm(grad, dim=-1, keepdim=True).square_().div_(grad.size(-1))
            row_var.lerp_(row_mean, one_minus_beta2_t)
            col_mean = torch.norm(grad, dim=-2, keepdim=True).square_().div_(grad.size(-2))
            col_var.lerp_(col_mean, one_minus_beta2_t)
            var_estimate = row_var @ col_var
            var_estimate.div_(row_var.mean(dim=-2, keepdim=True).clamp_(min=eps1))
        else:
            variance.lerp_(grad * grad, one_minus_beta2_t)
            var_estimate = variance.clone()
        update = var_estimate.clamp_(min=eps1 * eps1).rsqrt_()
        update.mul_(grad)
        size = update.norm(2).double() / ((update.numel() ** 0.5) * options["d"])
        _add(param, update, -alpha / _larger(1.0, size))


def _substitute(original, step):
    in_eager = types.FunctionType(
        original.__code__, original.__globals__, original.__name__, original.__defaults__
    )

    def call(params, *lists, **options):
        function = step if _are_plain(params, **options) else in_eager
        return function(params, *lists, **options)

    return call


SUBSTITUTES = {
    original: _substitute(original, step)
    for original, step in (
        (nadam._single_tensor_nadam, step_nadam),
        (nadam._multi_tensor_nadam, step_nadam),
        (asgd._single_tensor_asgd, step_asgd),
        (asgd._multi_tensor_asgd, step_asgd),
        (_adafactor._single_tensor_adafactor, step_adafactor),
        (_adafactor._multi_tensor_adafactor, step_adafactor),
    )
}
