"""mode="max-autotune": kernels tried in place."""

import os
import subprocess
import sys

import braze
import pytest
import torch
import torch.nn.functional as F

MODES = ["max-autotune", "max-autotune-no-cudagraphs"]


def layers(x, w, b):
    y = F.layer_norm(F.gelu(x @ w), (w.shape[1],))
    return torch.softmax(y + b, -1), y.sum(0), (y * 2).relu()


def arguments(dtype, rows=512, width=1024):
    torch.manual_seed(0)
    x = torch.randn(rows, width, device="cuda") * 0.1
    w = torch.randn(width, width, device="cuda") * 0.1
    return [t.to(dtype) for t in (x, w, torch.randn(width, device="cuda"))]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_results(mode, dtype):
    given = arguments(dtype)
    expected = layers(*given)
    exact = layers(*(t.double() for t in given))
    function = braze.compile(layers, mode=mode)
    for _ in range(4):
        for result, eager, right in zip(function(*given), expected, exact, strict=True):
            error = (result.double() - right).abs().max()
            scale = right.abs().max()
            assert error <= 2 * (eager.double() - right).abs().max() + 1e-6 * scale


@pytest.mark.parametrize("mode", MODES)
def test_training(mode):
    torch.manual_seed(0)
    with torch.enable_grad():
        module = torch.nn.Sequential(
            torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.LayerNorm(512)
        ).cuda()
        x = torch.randn(64, 256, device="cuda")
        fast = braze.compile(module, mode=mode)
        for _ in range(4):
            module.zero_grad()
            module(x).square().mean().backward()
            expected = [p.grad.clone() for p in module.parameters()]
            module.zero_grad()
            fast(x).square().mean().backward()
            for p, gradient in zip(module.parameters(), expected, strict=True):
                torch.testing.assert_close(p.grad, gradient, rtol=1e-3, atol=1e-5)


PROGRAM = """
import braze, torch
torch.manual_seed(0)
x = torch.randn(4096, 768, device="cuda", dtype=torch.float16)
function = braze.compile(lambda x: torch.softmax(x * 2, -1), mode="max-autotune-no-cudagraphs")
print(function(x).double().sum(0).tolist())
"""


def test_the_choice_is_kept(tmp_path):
    environment = {**os.environ, "BRAZE_CACHE_DIR": str(tmp_path), "BRAZE_LOG": "timing"}

    def run():
        return subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )

    first, second = run(), run()
    assert "autotune" in first.stderr and "autotune" not in second.stderr
    assert first.stdout == second.stdout
