"""Functions that raise by what tensors hold; not in a test, whose assert statements pytest rewrites."""

import torch
from torch import nn


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
