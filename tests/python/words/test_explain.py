"""`braze.explain` as a person sees it. BRAZE_UPDATE_GOLDEN=1 writes the golden texts anew."""

import os
import pathlib
import re

import braze
import explain_cases
import pytest
import torch
from support import same

GOLDEN = pathlib.Path(__file__).parent / "golden"


def normalised(text):
    """Without times, paths, what was measured of memory, and the stages of the compiler, which have
    tests of their own."""
    text = re.sub(r"\d+\.\d+ ms", "N ms", text)
    text = re.sub(r"memory: \S+ k?B (.*), \S+ k?B after", r"memory: N B \1, N B after", text)
    text = re.sub(r"compile time: .*", "compile time: N ms", text)
    text = re.sub(r"\S*/(\w+\.py:\d+)", r"\1", text)
    lines, skipping = [], False
    for line in text.splitlines():
        if re.match(r"  (graph|schedule|plan):$", line):
            skipping = True
        elif not line.startswith("    "):
            skipping = False
        if not skipping:
            lines.append(line)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("case", explain_cases.CASES, ids=lambda case: case.__name__)
def test_explanation(case, capfd):
    x = torch.ones(3)
    explanation = braze.explain(case)(x)
    same(explanation.result, case(x))
    path = GOLDEN / f"explain_{case.__name__}.txt"
    text = normalised(explanation.details)
    if os.environ.get("BRAZE_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), "BRAZE_UPDATE_GOLDEN=1 pytest writes it anew"


def test_facts_behind_the_text():
    explanation = braze.explain(explain_cases.data)(torch.ones(3))
    first = explanation.breaks[0]
    assert first["number"] == "B101" and first["file"].endswith("explain_cases.py")
    assert "if y.sum() > 0:" in first["text"] and first["text"] in explanation.entries[0]["reason"]
    assert braze.explain(explain_cases.whole)(torch.ones(3)).breaks == []


def test_a_screen_says_what_matters():
    source = "def many_breaks(x):\n" + "    x = x * x.sum().item()\n" * 20 + "    return x\n"
    scope = {}
    exec(source, scope)
    explanation = braze.explain(scope["many_breaks"])(torch.ones(3))
    assert len(explanation.breaks) == 20 and "... and 9 more segments" in explanation
    assert "graph(" not in explanation and "graph(" in explanation.details


def test_of_training():
    module = torch.nn.Sequential(
        torch.nn.Linear(8, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 4)
    )
    with torch.enable_grad():
        explanation = braze.explain(module)(torch.ones(32, 8))
    (entry,) = explanation.entries
    kept = {tensor["what"]: tensor["bytes"] for tensor in entry["kept"]}
    assert kept["torch.linear f32[32, 64]"] == 32 * 64 * 4
    assert {tensor["place"].split(", ")[-1] for tensor in entry["kept"]} == {"0", "2"}
    assert "kept for it: 8.45 kB in 3 tensors\n    8.19 kB  torch.linear" in explanation
    assert entry["backward_nodes"] > 5 and "compiled when it first runs" in explanation
    assert not any(line.startswith("    graph(") for line in explanation.splitlines())


def test_of_training_in_a_file_whose_name_is_no_text():
    scope = {}
    exec(compile("def f(x):\n    return (x @ x).exp().sum()\n", "caf\udce9.py", "exec"), scope)
    with torch.enable_grad():
        explanation = braze.explain(scope["f"])(torch.ones(3, 3, requires_grad=True))
    assert explanation.entries[0]["kept"] and "kept for it" in explanation


def test_what_the_call_raises_is_raised():
    def f(x):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        braze.explain(f)(torch.ones(3))


def test_what_is_compiled_is_explained_as_it_was_compiled():
    fast = braze.compile(lambda x: x + 1, dynamic=True, fullgraph=True)
    assert "s0 = size(" in braze.explain(fast)(torch.ones(3)).entries[0]["graph"]
    assert "s0 = size(" not in braze.explain(fast, dynamic=False)(torch.ones(3)).entries[0]["graph"]


def training_module(dropout=0.0):
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(256, 1024),
        torch.nn.GELU(),
        torch.nn.Dropout(dropout),
        torch.nn.LayerNorm(1024),
        torch.nn.Linear(1024, 256),
    )


def test_memory_of_training():
    x, megabyte = torch.ones(256, 256), 2**20
    with torch.enable_grad():
        explanation = braze.explain(training_module())(x)
    (entry,) = explanation.entries
    memory, kept = explanation.memory, sum(tensor["bytes"] for tensor in entry["kept"])
    assert kept >= megabyte
    # Its result is f32[256, 256].
    assert memory["held"] == pytest.approx(kept + megabyte // 4, rel=0.02)
    assert memory["peak"] == pytest.approx(entry["peak_bytes"], rel=0.02)
    # Eager keeps the linear layer's, the GELU's and the layer norm's results.
    assert memory["eager_held"] == pytest.approx(3.25 * megabyte, rel=0.02)
    assert memory["eager_peak"] >= memory["eager_held"] > memory["held"]
    # The backward makes gradients of both weights, of 1 MB each.
    assert entry["backward_peak_bytes"] >= kept + 2 * megabyte
    for text in ("at most in such a call", "in eager", "memory by the plan", "with what is kept"):
        assert text in explanation
    assert len(explanation.splitlines()) < 25


def test_the_backward_takes_what_its_plan_says():
    x = torch.ones(256, 256)
    with torch.enable_grad():
        explanation = braze.explain(training_module())(x)
        tangent = torch.ones(256, 256)
        _, peak, _ = braze._C.measure_memory(lambda: explanation.result.backward(tangent))
    (entry,) = explanation.entries
    kept = sum(tensor["bytes"] for tensor in entry["kept"])
    assert kept + peak == pytest.approx(entry["backward_peak_bytes"], rel=0.05)


def test_memory_of_random_numbers():
    """Eager draws the same again, and nothing is drawn twice."""
    module, x = training_module(0.5), torch.ones(256, 256)
    with torch.enable_grad():
        torch.manual_seed(1)
        module(x)
        drawn_to = torch.get_rng_state()
        torch.manual_seed(1)
        explanation = braze.explain(module)(x)
    assert "eager_peak" in explanation.memory
    assert torch.equal(torch.get_rng_state(), drawn_to)


def test_what_a_call_changes_is_changed_once():
    calls, count = [], torch.zeros(())
    weight = torch.ones(64, 64, requires_grad=True)

    def appends(x):
        calls.append(1)
        return (x @ weight).exp()

    def counts(x):
        count.add_(1)
        return (x @ weight).exp()

    def steps(x):
        weight.grad = None
        (x @ weight).exp().sum().backward()

    def breaks(x):
        calls.append(print())
        return (x @ weight).exp()

    for function in (appends, counts, steps, breaks):
        with torch.enable_grad():
            explanation = braze.explain(function)(torch.ones(64, 64))
        assert explanation.memory == {} and "in such a call" not in explanation, function
    assert (calls, count.item()) == ([1, None], 1)


def test_a_profiler_of_the_users_goes_on():
    from torch.profiler import ProfilerActivity, profile

    def model(x):
        return torch.linalg.inv(x @ x + 3 * torch.eye(8))

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        explained = braze.explain(model)(torch.eye(8))
        torch.ones(3).sin()
    torch.testing.assert_close(explained.result, model(torch.eye(8)))
    assert "aten::sin" in {event.key for event in profiler.key_averages()}

    def profiled(x):
        with profile(activities=[ProfilerActivity.CPU]):
            return x.cos()

    x = torch.ones(3)
    torch.testing.assert_close(braze.explain(profiled)(x).result, x.cos())


def test_functions_of_the_users_are_measured():
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    def model(x):
        return Doubled.apply(x * x).sum()

    x = torch.ones(3, requires_grad=True)
    with torch.enable_grad():
        explained = braze.explain(model)(x)
    assert explained.memory["eager_peak"] > 0
    explained.result.backward()
    torch.testing.assert_close(x.grad, torch.full((3,), 4.0))
