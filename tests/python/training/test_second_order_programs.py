"""Programs that differentiate the gradients of a compiled module, outside of it."""

import copy
import warnings

import braze
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from comparing import assert_same


def slope(y, x, tangent=None):
    tangent = torch.ones_like(y) if tangent is None else tangent
    return torch.autograd.grad(y, x, tangent, create_graph=True)[0]


def points():
    return torch.rand(12, 2).requires_grad_()


def burgers_equation(module, call):
    """A physics-informed network (Raissi et al. 2019, section 3.1)."""
    x, t = torch.rand(12, 1).requires_grad_(), torch.rand(12, 1).requires_grad_()
    u = call(torch.cat([x, t], 1))
    along = slope(u, x)
    return (slope(u, t) + u * along - 0.01 * slope(along, x)).square().mean()


def laplace_equation(module, call):
    x = points()
    u = call(x)
    first = slope(u, x)
    second = [slope(first[:, i : i + 1], x)[:, i] for i in range(2)]
    return (sum(second) + u[:, 0]).square().mean()


def bent_beam(module, call):
    """The fourth derivative."""
    x = points()
    u = call(x)
    for _ in range(4):
        u = slope(u, x)
    return u.square().mean()


def jacobian_regularisation(module, call):
    """Hoffman et al. 2019, algorithm 1."""
    x = points()
    y = call(x)
    direction = F.normalize(torch.randn_like(y), dim=1)
    return y.square().mean() + slope(y, x, direction).square().sum()


def implicit_gradients(module, call):
    """Of a solution by conjugate directions (Rajeswaran et al. 2019, section 3.2)."""
    weights = list(module.parameters())
    slopes = torch.autograd.grad(call(points()).square().mean(), weights, create_graph=True)
    solution = [torch.ones_like(w) for w in weights]
    for _ in range(3):
        products = torch.autograd.grad(slopes, weights, solution, retain_graph=True)
        solution = [s - 0.1 * (p + s) for s, p in zip(solution, products)]
    return sum((s * v).sum() for s, v in zip(slopes, solution))


def sharpness(module, call):
    """Foret et al. 2020, with the gradient of the ascent."""
    loss = call(points()).square().mean()
    slopes = torch.autograd.grad(loss, list(module.parameters()), create_graph=True)
    return loss + 0.05 * (sum(s.square().sum() for s in slopes) + 1e-12).sqrt()


def accumulated_slopes(module, call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that .grad and what it is made of hold each other
        call(points()).square().mean().backward(create_graph=True)
    total = sum(p.grad.square().sum() for p in module.parameters())
    module.zero_grad()
    return total


def penalty_of_slopes(module, call):
    """R1 (Mescheder et al. 2018)."""
    x = points()
    y = call(x)
    return F.softplus(-y).mean() + 5 * slope(y, x).square().sum(1).mean()


def rows_of_a_jacobian(module, call):
    x = points()
    y = call(x)[:, 0]
    rows = [slope(y, x, row) for row in torch.eye(len(y), dtype=y.dtype)[:4]]
    return torch.stack(rows).square().sum() + y.sum()


PROGRAMS = (
    burgers_equation,
    laplace_equation,
    bent_beam,
    jacobian_regularisation,
    implicit_gradients,
    sharpness,
    accumulated_slopes,
    penalty_of_slopes,
    rows_of_a_jacobian,
)
spectral, weight = (
    getattr(nn.utils.parametrizations, name) for name in ("spectral_norm", "weight_norm")
)
MODULES = {
    "tanh": lambda: (nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1)),
    "layer norm": lambda: (nn.Linear(2, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 1)),
    "batch norm": lambda: (nn.Linear(2, 16), nn.BatchNorm1d(16), nn.Softplus(), nn.Linear(16, 1)),
    "spectral norm": lambda: (spectral(nn.Linear(2, 16)), nn.SiLU(), spectral(nn.Linear(16, 1))),
    "weight norm": lambda: (weight(nn.Linear(2, 16)), nn.SiLU(), nn.Linear(16, 1)),
    "dropout": lambda: (nn.Linear(2, 16), nn.Tanh(), nn.Dropout(0.3), nn.Linear(16, 1)),
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("layers", MODULES)
def test_program(layers, program, capfd):
    module = nn.Sequential(*MODULES[layers]()).double()
    twin = copy.deepcopy(module)
    torch.set_default_dtype(torch.float64)
    try:
        runs = []
        for model, call in ((module, module), (twin, braze.compile(twin))):
            optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
            seen = []
            for step in range(3):
                torch.manual_seed(step)
                loss = program(model, call)
                optimizer.zero_grad()
                loss.backward()
                seen += [loss.detach(), torch.rand(())]
                seen += [None if p.grad is None else p.grad.clone() for p in model.parameters()]
                optimizer.step()
            runs.append([*seen, *(t.clone() for t in model.state_dict().values())])
    finally:
        torch.set_default_dtype(torch.float32)
    for wanted, got in zip(*runs, strict=True):
        assert_same(got, wanted, layout=False, rtol=1e-6, atol=1e-7)
    assert "internal error" not in capfd.readouterr().err
