"""A fact about an operator stands once: no operator has its metadata or formula in two places."""

import re
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "src"


def names(pattern, folder, files="*.cpp"):
    """Name -> the files that have it, once for each time."""
    found = {}
    for path in sorted((SOURCES / folder).glob(files)):
        for name in re.findall(pattern, path.read_text(), re.M):
            found.setdefault(name, []).append(f"{folder}/{path.name}")
    return found


def metadata():
    rules = names(r'\{"aten\.([\w.]+)",', "graph/infer")
    for name, places in names(r'^X\(metadata, "aten\.([\w.]+)"', "trace/rules", "*.inc").items():
        rules.setdefault(name, []).extend(places)
    return rules


def test_metadata_stands_once():
    rules = metadata()
    assert len(rules) > 250
    assert {n: places for n, places in rules.items() if len(places) > 1} == {}


def test_rules_of_traces_stand_once():
    """A rule that is listed and has no function, or has one and is not listed, is not built."""
    rules = names(r'^X\((\w+, "[\w.]+")', "trace/rules", "*.inc")
    assert len(rules) > 40
    assert {n: places for n, places in rules.items() if len(places) > 1} == {}
    for name in rules:  # "refusals" stands for all overloads, in place or not
        assert not re.fullmatch(r'refusals, "aten\.\w+(_|\.\w+)"', name), name


def test_facts_of_calls_stand_once():
    facts = names(
        r'^((?:ONE|ALL|PART|SAME)\("[\w.]+"|REFUSED\("[\w.]+")', "graph", "call_facts.inc"
    )
    facts = {n.replace("REFUSED", "ONE"): places for n, places in facts.items()}
    assert len(facts) > 50
    assert {n: places for n, places in facts.items() if len(places) > 1} == {}
    for name in facts:
        assert not re.fullmatch(r'ALL\("\w+\.\w+(?<!_)_"', name), f"{name} is for all in any case"


def test_traces_ask_the_lists():
    """Sources of traces know no operator by name, but for those that they call."""
    for name, text in sources("trace", "trace/shapes", "trace/rules").items():
        code = re.sub(r"//.*", "", text)
        named = re.findall(r'^(?!.*findSchemaOrThrow).*"(?:aten|prims)[.:]+\w.*', code, re.M)
        assert not named, f"{name}: {named}"


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


def test_facts_of_calls_are_asked():
    header = (SOURCES / "graph/call_facts.h").read_text()
    facts = set(re.findall(r"^  (k\w+) = 1 <<", header, re.M))
    lines = re.sub(r"//.*", "", (SOURCES / "graph/call_facts.inc").read_text())
    asked = "".join(sources("graph", "trace").values())
    assert len(facts) > 20
    for fact in facts:
        assert re.search(rf"\b{fact}\b", lines), f"no operator is {fact}"
        assert re.search(rf"(has\(|{{|, )graph::{fact}\b", asked), f"nothing asks for {fact}"


def test_facts_are_asked():
    facts = set(re.findall(r"^  (k\w+) = 1 <<", (SOURCES / "graph/op.h").read_text(), re.M))
    lines = (SOURCES / "graph/op_list.inc").read_text()
    asked = "".join(sources("graph", "passes", "loop/lowering", "schedule", "dispatch").values())
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
