"""Cases of small functions: over several calls with changing inputs everything is as in eager,
whether captured or given up. `captured` says that the whole function must be captured."""

import pytest
import torch
from support import compare, entries


class Cases(list):
    def __call__(self, *calls, captured=True):
        def register(make):
            self.append(pytest.param(make, calls, captured, id=make.__name__))
            return make

        return register


def check(make, calls, captured):
    compiled = compare(make, calls)
    if captured:
        first = entries(compiled)[0]
        assert first["kind"] == "plan" and first["exit"] == "return", first["reason"]


def r(*shape):
    return torch.randn(*shape)


ONE = (lambda: (r(4, 5),), lambda: (r(4, 5),), lambda: (r(3, 7),))
TWO = (lambda: (r(4, 5), r(4, 5)), lambda: (r(4, 5), r(5)), lambda: (r(2, 1), r(1, 3)))
