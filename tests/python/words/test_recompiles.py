"""Reasons of recompiles, their limit, isolation of instances."""

import os
import subprocess
import sys

import braze
import pytest
import torch
from support import entries, same


def log_of(tmp_path, body, component="recompiles"):
    script = tmp_path / "program.py"
    script.write_text(f"import torch, braze\ntorch.set_grad_enabled(False)\n{body}")
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        env={**os.environ, "BRAZE_LOG": component},
    )
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


def test_one_line_with_old_and_new_value(tmp_path):
    lines = log_of(
        tmp_path,
        "@braze.compile(dynamic=False)\n"
        "def f(x, scale):\n"
        "    return x * scale\n"
        "f(torch.ones(4, 3), True)\n"
        "f(torch.ones(8, 3), True)\n"
        "f(torch.ones(8, 3), False)\n"
        "f(torch.ones(8, 3).double(), False)\n",
    )
    assert [line.split("compiled again, ")[1] for line in lines] == [
        "x.size(0): 4 -> 8",
        "scale: True -> False",
        "x.dtype: float32 -> float64",
    ], lines
    assert all("f (program.py:" in line for line in lines)


def test_the_closest_entry_tells(tmp_path):
    """The oldest entry differs in one size, the newest in dtype, sizes and a flag."""
    lines = log_of(
        tmp_path,
        "@braze.compile(dynamic=False)\n"
        "def f(x, y, flag):\n"
        "    return x + y if flag else x - y\n"
        "f(torch.ones(4), torch.ones(4), True)\n"
        "f(torch.ones(2, 2).double(), torch.ones(2, 2).double(), False)\n"
        "f(torch.ones(4), torch.ones(1), True)\n",
    )
    assert lines[-1].endswith("compiled again, y.size(0): 4 -> 1"), lines


def test_limit_is_told_once_without_a_log(tmp_path):
    lines = log_of(
        tmp_path,
        "@braze.compile(dynamic=False, recompile_limit=2)\n"
        "def f(x):\n"
        "    return x * 2\n"
        "for n in range(1, 7):\n"
        "    assert torch.equal(f(torch.ones(n)), torch.ones(n) * 2)\n",
        component="",
    )
    assert len(lines) == 1, lines
    assert "recompile_limit=2 is reached" in lines[0] and "x.size(0): 2 -> 3" in lines[0]


class Layer(torch.nn.Module):
    def __init__(self, scale, size=3):
        super().__init__()
        self.scale = scale
        self.linear = torch.nn.Linear(size, size)

    def forward(self, x):
        return self.linear(x) * self.scale


def test_modules_of_one_class_do_not_evict_each_other():
    layers = [Layer(scale, 2 + scale) for scale in range(4)]
    fast = [braze.compile(layer, recompile_limit=1, fullgraph=True) for layer in layers]
    for _ in range(2):
        for layer, compiled in zip(layers, fast):
            x = torch.randn(2, 2 + layer.scale)
            same(compiled(x), layer(x))
    assert [len(entries(compiled)) for compiled in fast] == [1] * 4


def test_one_compiled_method_serves_many_instances():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        @braze.compile(fullgraph=True)
        def forward(self, x):
            return self.linear(x).relu()

    models = [Model() for _ in range(12)]
    x = torch.randn(2, 3)
    for model in models:
        same(model(x), model.linear(x).relu())
    assert len(entries(vars(Model)["forward"])) == 1


@pytest.mark.parametrize("limit", [1, 3])
def test_limit_of_one_function(limit):
    fast = braze.compile(lambda x: x * 2, recompile_limit=limit, dynamic=False)
    for n in range(2, 8):
        same(fast(torch.ones(n)), torch.ones(n) * 2)
    assert len(entries(fast)) == limit
