"""A capture with symbolic sizes costs little more than one with numbers."""

import pytest
import torch

from bench import hooks
from bench.zoo import ZOO

pytest.importorskip("transformers", reason="the models come from transformers")

# `python -m bench capture` measures it; here only what cannot be noise.
MOST = 2.0


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "distilbert"])
def test_dynamic_against_static(name):
    model = ZOO[name].build()
    arguments = {**ZOO[name].inputs(3, 24), **ZOO[name].options}
    call = torch.nn.Module.__call__.__get__(model)

    def seconds(dynamic):
        captured = hooks.capture(call, (), arguments, dynamic=dynamic)
        assert captured["exit"] == "return", captured["reason"]
        return captured["seconds"]

    with torch.no_grad():
        static = dynamic = float("inf")
        for _ in range(60):
            static, dynamic = min(static, seconds(False)), min(dynamic, seconds(True))
            if dynamic < MOST * static:
                return
    raise AssertionError(f"{dynamic * 1e3:.2f} ms, {static * 1e3:.2f} ms with numbers for sizes")


def test_symbolic_sizes_are_what_is_measured():
    captured = hooks.capture(
        lambda x: torch.relu(x).reshape(-1), (torch.randn(6, 8),), {}, dynamic=True
    )
    assert captured["exit"] == "return", captured["reason"]
    assert "f32[s0*s1]" in captured["graph"]
