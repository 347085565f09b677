"""In-place calls that eager refuses, behind writes that happened: handlers run, tensors are eager's."""

import braze
import pytest
import torch

ROW, WIDE, LINE = torch.ones(1, 5), torch.ones(5, 5), torch.ones(5)
WHOLE = torch.ones(5, dtype=torch.int8)
FEW = torch.arange(3)


def expand(x):
    return x.expand(5, 5)


CASES = {
    "cauchy": (lambda x: x.cauchy_(0, -1), LINE),
    "geometric": (lambda x: x.geometric_(2.0), LINE),
    "exponential": (lambda x: x.exponential_(-2.0), LINE),
    "log_normal": (lambda x: x.log_normal_(1, -2.0), LINE),
    "normal": (lambda x: x.normal_(0, -1), LINE),
    "uniform": (lambda x: x.uniform_(1, 0), LINE),
    "uniform too wide": (lambda x: x.uniform_(-1e39, 1e39), LINE),
    "random": (lambda x: x.random_(1, 0), LINE),
    "random of nothing": (lambda x: x.random_(0), LINE),
    "random that does not fit": (lambda x: x.random_(1, 1000), WHOLE),
    "bernoulli": (lambda x: x.bernoulli_(2.0), LINE),
    "bernoulli of tensors": (lambda x: x.bernoulli_(x + 7), LINE),
    "poisson": (lambda x: x.copy_(torch.poisson(x - 5)), LINE),
    "floor_divide": (lambda x: x.floor_divide_(WIDE), ROW),
    "masked_fill": (lambda x: x.masked_fill_(WIDE > 0, 2.0), LINE),
    "lerp": (lambda x: x.lerp_(WIDE, 0.5), ROW),
    "addmm": (lambda x: x.addmm_(WIDE, WIDE), ROW),
    "remainder": (lambda x: x.remainder_(WIDE), LINE),
    "index_add": (lambda x: x.index_add_(0, FEW, x[:2]), LINE),
    "index_copy": (lambda x: x.index_copy_(0, FEW, x[:2]), LINE),
    "index_put": (lambda x: x.index_put_((FEW,), x[:2]), LINE),
    "put": (lambda x: x.put_(FEW, x[:2]), LINE),
    "scatter_add": (lambda x: x.scatter_add_(0, FEW, x[:2]), LINE),
    "foreach": (lambda x: torch._foreach_add_([x], [WIDE]), LINE),
    "sqrt of whole numbers": (lambda x: x.sqrt_(), WHOLE),
    "expanded floor_divide": (lambda x: expand(x).floor_divide_(2), ROW),
    "expanded copy": (lambda x: expand(x).copy_(x), ROW),
    "expanded cumsum": (lambda x: expand(x).cumsum_(0), ROW),
    "expanded addmm": (lambda x: expand(x).addmm_(WIDE, WIDE), ROW),
}


@pytest.mark.parametrize("before", (0, 1, 2))
@pytest.mark.parametrize("case", CASES)
def test_refused(case, before):
    call, x = CASES[case]

    def f(x, y):
        text = ""
        try:
            for _ in range(before):
                x.add_(1)
                y.mul_(2)
            call(x)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
        return text, x.sum() + y

    for backend in ("braze", "aten"):
        fast = braze.compile(f, backend=backend)
        for _ in range(3):
            found = []
            for function in (f, fast):
                torch.manual_seed(7)
                a, y = x.clone(), torch.ones(3)
                text, total = function(a, y)
                found.append((text, total.tolist(), a.tolist(), y.tolist(), torch.rand(1).item()))
            assert found[0] == found[1]
            assert found[0][0]  # it was refused


def test_an_input_that_repeats_its_elements():
    def f(x, y):
        try:
            y.add_(1)
            x.floor_divide_(2)
        except RuntimeError as error:
            return str(error)

    fast = braze.compile(f)
    for _ in range(2):
        found = []
        for function in (f, fast):
            x, y = torch.ones(1, 5).expand(5, 5), torch.ones(3)
            found.append((function(x, y), x.tolist(), y.tolist()))
        assert found[0] == found[1]
        assert "single memory location" in found[0][0]


def test_sizes_that_vary():
    def f(x, y):
        try:
            x.add_(1)
            x.floor_divide_(y)
        except RuntimeError as error:
            return str(error)

    fast = braze.compile(f, dynamic=True)
    for rows in (3, 4, 5, 4):
        for wide in (3, 4):
            found = []
            for function in (f, fast):
                x, y = torch.ones(rows, 2), torch.ones(wide, 2)
                found.append((function(x, y), x.tolist()))
            assert found[0] == found[1]
