"""Gradients of gradients of gradients: what a write leaves of a history, and complex numbers between."""

import warnings

import braze
import pytest
import torch
import torch.nn.functional as F


def cosine(x):
    """PyTorch's operator writes to its norms while nothing is recorded."""
    return F.cosine_similarity(x, torch.linspace(1, 2, 4, dtype=x.dtype).expand_as(x)).sum()


def cosine_of_itself(x):
    return F.cosine_similarity(x, x.flip(0)).square().sum()


def clamped_norm(x):
    norm = x.norm(dim=1, keepdim=True).clone()
    with torch.no_grad():
        norm.clamp_min_(1e-8)
    return (x / norm).sum()


def rounded(x):
    """Straight through."""
    y = x * 2
    with torch.no_grad():
        y.round_()
    return (y * x.sin()).sum()


def rounded_data(x):
    y = x * 2
    y.data.round_()
    return (y * x.sin()).sum()


def written_over(x):
    y = x * x
    with torch.no_grad():
        y[:, 1:3] = 0.5
    return (y * x).sum()


def spectrum(x):
    return torch.view_as_real(torch.fft.rfft(x)).pow(4).sum()


def back_from_spectrum(x):
    return torch.fft.irfft(x.to(torch.complex128)).pow(4).sum()


def windows(x):
    found = torch.stft(x.flatten(), 4, window=torch.ones(4, dtype=x.dtype), return_complex=True)
    return torch.view_as_real(found).pow(4).sum()


def gradients(f, x, orders):
    x = x.clone().requires_grad_()
    value, found = f(x), []
    for _ in range(orders):
        (slope,) = torch.autograd.grad(value, x, create_graph=True)
        found.append(slope.detach().clone())
        value = (slope * torch.linspace(0.5, 1, x.numel(), dtype=x.dtype).view_as(x)).sum()
    return found


FUNCTIONS = [
    cosine,
    cosine_of_itself,
    clamped_norm,
    rounded,
    rounded_data,
    written_over,
    spectrum,
    back_from_spectrum,
    windows,
]


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("whole", [False, True], ids=["call", "whole"])
def test_orders(f, whole):
    torch.manual_seed(0)
    x = torch.randn(3, 4, dtype=torch.float64)
    compiled = braze.compile(lambda x: gradients(f, x, 3)) if whole else braze.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of complex numbers that become real
        wanted = gradients(f, x, 3)
        for _ in range(2):
            found = compiled(x) if whole else gradients(compiled, x, 3)
            for got, gradient in zip(found, wanted, strict=True):
                torch.testing.assert_close(got, gradient, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: torch.view_as_real(x.to(torch.complex64)).pow(3).sum(),
        lambda x: x.to(torch.complex64).real.pow(3).sum(),
        lambda x: (x * 1j).imag.float().pow(3).sum(),
    ],
)
def test_complex_numbers_of_another_width(f):
    torch.manual_seed(0)
    x = torch.randn(3, 4, dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for got, gradient in zip(
            gradients(braze.compile(f), x, 2), gradients(f, x, 2), strict=True
        ):
            torch.testing.assert_close(got, gradient, rtol=1e-5, atol=1e-6)
