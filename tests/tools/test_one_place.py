"""A fact about an operator stands once: no operator has its metadata or formula in two places."""

import re
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "src"


def names(pattern, folder, files="*.cpp"):
    """Name -> the files that have it, once for each time."""
    found = {}
    for path in sorted((SOURCES / folder).glob(files)):
        for name in re.findall(pattern, path.read_text()):
            found.setdefault(name, []).append(f"{folder}/{path.name}")
    return found


def metadata():
    rules = names(r'\{"aten\.([\w.]+)",', "graph/infer")
    for folder, files in (("trace/shapes", "*.cpp"), ("trace", "recurrent.cpp")):
        for name, places in names(r'\{"([\w.]+)", \w+\}', folder, files).items():
            rules.setdefault(name, []).extend(places)
    return rules


def test_metadata_stands_once():
    rules = metadata()
    assert len(rules) > 250
    assert {n: places for n, places in rules.items() if len(places) > 1} == {}


def test_formulas_stand_once():
    case = r"case OpKind::k(\w+):"
    decomposed = set(names(case, "passes", "decompose_*.cpp"))
    lowered = set(names(case, "loop/lowering"))
    assert decomposed and lowered
    assert decomposed & lowered == set(), "a decomposition and a lowering"


def sources(*folders):
    return {
        f"{folder}/{path.name}": path.read_text()
        for folder in folders
        for path in sorted((SOURCES / folder).iterdir())
        if path.suffix in {".cpp", ".h"}
    }


# Beside metadata, decompositions, lowerings and the interpreter: what an operation of numbers gives
# where they are known, and how views are undone.
CHOOSING_BY_OPERATOR = {"passes/fold.cpp", "passes/uniform.cpp", "passes/view_chain.cpp"}


def test_other_facts_stand_in_the_list():
    """Sources of passes ask op_list.inc and in_place.inc, not sets of operators of their own."""
    for name, text in sources("graph", "passes", "compile", "loop", "schedule", "dispatch").items():
        if name in CHOOSING_BY_OPERATOR or name.startswith("passes/decompose_"):
            continue
        assert "case OpKind::k" not in text, f"{name} chooses by operator"
        assert not re.search(r'is_one_of\([^)]*\{"', text), f"{name} has a set of names"
        in_place = re.search(r'^(?!\s*//)[^/]*"aten\.\w*[a-z]_["\.]', text, re.M)
        assert not in_place or name == "compile/direct_function.cpp", f"{name} names {in_place}"


def test_facts_are_asked():
    facts = set(re.findall(r"^  (k\w+) = 1 <<", (SOURCES / "graph/op.h").read_text(), re.M))
    lines = (SOURCES / "graph/op_list.inc").read_text()
    asked = "".join(sources("graph", "passes", "loop/lowering", "dispatch").values())
    assert len(facts) > 4
    for fact in facts:
        assert re.search(rf"^X\(.*\b{fact}\b", lines, re.M), f"no operator is {fact}"
        assert re.search(rf"has\((graph::)?{fact}\)", asked), f"nothing asks for {fact}"


def test_dtype_that_halves_are_computed_in_stands_once():
    found = [
        name
        for name, text in sources("graph", "graph/infer", "passes", "loop", "loop/lowering").items()
        if re.search(r"is_half\(\w+\) \? (graph::)?DType::kFloat32", text)
    ]
    assert found == ["graph/infer/promotion.h"]
