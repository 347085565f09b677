"""The lists of operators that traces ask are of operators that PyTorch has."""

import re
from pathlib import Path

import pytest
import torch

SOURCES = Path(__file__).resolve().parents[3] / "src"


@pytest.fixture(scope="module")
def known():
    """Names with overloads, and without."""
    schemas = torch._C._jit_get_all_schemas()
    bases = {schema.name.replace("::", ".") for schema in schemas}
    full = {
        f"{schema.name}.{schema.overload_name}".rstrip(".").replace("::", ".") for schema in schemas
    }
    return full, bases


@pytest.mark.parametrize(
    "file", ["graph/call_facts.inc", "trace/rules/rules.inc", "graph/in_place.inc"]
)
def test_listed_operators_exist(file, known):
    full, bases = known
    text = re.sub(r"//.*", "", (SOURCES / file).read_text())
    names = set(re.findall(r'"((?:aten|prims)\.\w[\w.]*)"', text))
    assert len(names) > 15
    parts = set(re.findall(r'PART\("([\w.]+)"', text))  # of names
    missing = {
        name
        for name in names
        if name not in full
        and name not in bases
        and not (name in parts and any(name in base for base in bases))
    }
    assert missing == set()
