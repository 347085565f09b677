"""Functions that raise by what tensors hold; not in a test, whose assert statements pytest rewrites."""

import contextlib

import torch
from torch import nn
from torch.overrides import TorchFunctionMode


def asserts(x):
    assert (x > 0).all(), "all must be positive"
    return x * 2


def asserts_without_words(x):
    y = x + 1
    assert y.sum() > 0
    return y


def raises_if(x):
    if torch.isnan(x).any():
        raise ValueError(f"NaN among {x.numel()} elements")
    return x.exp()


def raises_if_not(x):
    if not torch.isfinite(x).all():
        raise FloatingPointError("not finite: " + str(x.shape))
    return x.sum()


def raises_else(x):
    if (x >= 0).all():
        return x.sqrt()
    raise ArithmeticError


def in_a_loop(x):
    for k in range(3):
        if x.max() > 100:
            raise OverflowError(k)
        x = x * 5 + 1
    return x


def check(x, name):
    if (x < 0).any():
        raise ValueError(f"{name} is negative: {x.min().item()}")
    return x


def in_a_callee(x):
    return check(x, "x").sqrt() + check(x * 2, "twice x")


def caught(x):
    try:
        if (x < 0).any():
            raise ValueError
        return x.sqrt()
    except ValueError:
        return x.abs()


def behind_a_write(x):
    x.add_(1)
    assert (x > 0).all()
    return x * 3


def both_raise(x):
    if (x > 0).all():
        raise ValueError("positive")
    raise ValueError("not positive")


def with_effects(x, seen):
    seen.append("before")
    print("before")
    assert (x > 0).all()
    seen.append("behind")
    return x + 1


def draws(x):
    y = x + torch.rand(3)
    assert (y > 0).all()
    return y + torch.rand(3)


class Checked(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        y = self.layer(x)
        if not torch.isfinite(y).all():
            raise ValueError("diverged")
        return y.tanh()


# --- Exceptions that are caught: ways on ---


class Growing:
    def __init__(self, x):
        self.x = x

    def __iter__(self):
        return self

    def __next__(self):
        if self.x.sum() > 10:
            raise StopIteration
        self.x = self.x + 1
        return self.x

    def __getattr__(self, name):
        if self.x.sum() > 0:
            raise AttributeError(name)
        return 5


def check_sum(x):
    if not x.sum() <= 10:
        raise ValueError("large")


def iterated(x):
    total = 0
    for value in Growing(x.abs().nan_to_num(1)):
        total = total + value
    return total


def looked_up(x):
    return x * getattr(Growing(x), "scale", 3)


def loop_that_an_exception_ends(x):
    x = x.abs()
    while True:
        try:
            check_sum(x)
        except ValueError:
            break
        x = x + 1
    return x


def suppressed(x):
    x = x.abs().nan_to_num(1)
    while True:
        with contextlib.suppress(ValueError):
            if x.sum() < 10:
                raise ValueError
            return x
        x = x + 1


def caught_in_a_loop(x):
    times = 0
    for _ in range(5):
        try:
            check_sum(x)
            times += 1
        except ValueError:
            pass
        x = x * 2
    return x + times


# --- Conditions whose truth is something else ---


class AlwaysFalse(torch.Tensor):
    def __bool__(self):
        return False


class Inverting(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return not result if getattr(func, "__name__", "") == "__bool__" else result


def of_a_subclass(x):
    if not (x == x).as_subclass(AlwaysFalse).any():
        raise ValueError("false")
    return x + 1


def under_a_mode(x):
    with Inverting():
        if (x > 0).all():
            raise ValueError("inverted")
        return x + 1


def under_vmap(x):
    def row(y):
        assert y > 0
        return y * 2

    return torch.vmap(row)(x)


def without_grad(x):
    with torch.no_grad():
        if not (x > 0).all():
            raise ValueError("negative")
        return x.log()
