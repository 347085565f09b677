"""Functions under mode="reduce-overhead", and what became of them.

On a machine without a GPU the steps are repeated where a graph would be launched, over the memory
that the graph would have (`repeat_on_cpu` in tests/hooks/)."""

import re

import braze
import torch
import torch.nn as nn
from braze import _C, _cuda_graphs

from bench.hooks import repeat_on_cpu

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def recording():
    """What a fixture does around each test: graphs are recorded, gradients are on."""
    _cuda_graphs.install()
    if DEVICE == "cpu":
        repeat_on_cpu()
    with torch.enable_grad():
        yield
    _C.record_cuda_graphs(_cuda_graphs._begin)


def fast(function, **kwargs):
    return braze.compile(function, mode="reduce-overhead", **kwargs)


def counts(compiled, of="cuda_graphs"):
    """Graphs recorded and launched, over all entries."""
    entries = braze._api.compiled_function_of(compiled)._entries()
    found = re.findall(r"(\d+) recorded, (\d+) launches", " ".join(e[of] for e in entries))
    return tuple(sum(int(pair[i]) for pair in found) for i in (0, 1))


def reasons(compiled):
    return " ".join(
        entry["cuda_graphs"] for entry in braze._api.compiled_function_of(compiled)._entries()
    )


def layers(x, w):
    return torch.relu(x @ w).mul(2).softmax(-1) @ w


def tensor(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(DEVICE)


class Net(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Dropout(dropout), nn.Linear(32, 4)
        )

    def forward(self, x):
        return self.layers(x).log_softmax(-1)
