"""What eager refuses raises the same with symbolic sizes, behind the same side effects."""

import braze
import pytest
import torch
from support import outcome, same

CASES = {
    "a result that does not fit": lambda x, y: x.mean().add_(y),
    "a row": lambda x, y: x[0].mul_(y),
    "an integer that would be divided": lambda x, y: x.long().div_(y),
    "an integer and a fraction": lambda x, y: x.long().add_(y),
    "a comparison that does not fit": lambda x, y: (x > 0).mul_(y),
    "repeated elements": lambda x, y: x.sum(0).expand(x.shape).add_(y),
    "sizes that differ": lambda x, y: x + y.t()[:-1],
    "overlapping operands": lambda x, y: x[1:].add_(x[:-1]),
    "booleans subtracted": lambda x, y: (x > 0) - (y > 0),
    "a boolean negated": lambda x, y: -(x > 0),
    "an integer's negative power": lambda x, y: x.long() ** -1,
    "gelu of integers": lambda x, y: torch.nn.functional.gelu(x.long()),
    "relu of booleans": lambda x, y: torch.relu(x > 0),
}


@pytest.mark.parametrize("case", CASES)
def test_errors(case):
    def f(x, y, log):
        log.append(x.shape[0])
        result = CASES[case](x, y)
        log.append("behind")
        return result

    fast = braze.compile(f)
    for size in ((2, 3), (3, 4), (4, 2), (5, 3)):
        told = []
        for function in (f, fast):
            x, log = torch.arange(float(size[0] * size[1])).reshape(size), []
            told.append((*outcome(function, (x, torch.ones(size), log), {})[:2], x, log))
        (kind, value, x, log), (kind_seen, value_seen, x_seen, log_seen) = told
        assert (kind, log) == (kind_seen, log_seen)
        same(x_seen, x)
        if kind == "raised":
            assert type(value_seen) is type(value) and str(value_seen) == str(value)
        else:
            same(value_seen, value)
