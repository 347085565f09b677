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
    """Without times, paths, and the stages of the compiler, which have tests of their own."""
    text = re.sub(r"\d+\.\d+ ms", "N ms", text)
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
