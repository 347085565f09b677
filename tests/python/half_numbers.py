"""Operators of halves and a number that halves cannot hold, over all bit patterns."""

import torch

NUMBERS = (0.9, 0.1, 1 / 3, 1e-8, 0.001, 3.14159, -0.7, 100.7, 2049, -257)
DTYPES = [torch.bfloat16, torch.float16]
OPERATORS = {
    "mul": lambda x, n: x * n,
    "add": lambda x, n: x + n,
    "sub": lambda x, n: x - n,
    "rsub": lambda x, n: n - x,
    "div": lambda x, n: x / n,
    "lists": lambda x, n: torch._foreach_mul(torch._foreach_add([x], n), n)[0],
    "in place": lambda x, n: x.clone().mul_(n).add_(n),
    "maximum": lambda x, n: torch.clamp(x, min=n),
    "minimum": lambda x, n: torch.clamp(x, max=n),
    "greater": lambda x, n: x > n,
    "less": lambda x, n: x <= n,
    "equal": lambda x, n: x == n,
    "where": lambda x, n: torch.where(x > 0, x, n),
    "masked_fill": lambda x, n: x.masked_fill(x > 0, n),
    "pad": lambda x, n: torch.nn.functional.pad(x.reshape(-1), (1, 1), value=n),
}


def halves(dtype, device="cpu"):
    """All 65,536 of them: a vector, some that lie apart, a few, and one without dimensions."""
    patterns = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    all_of_them = patterns.view(dtype).to(device)
    return all_of_them, all_of_them[::7], all_of_them[16200:16203], all_of_them[16205]


def over_all(operator, tensors):
    return [OPERATORS[operator](x, n) for x in tensors for n in NUMBERS]
