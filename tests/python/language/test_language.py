"""Python as it is: every case does compiled what it does in eager, over several calls.

`golden/FAMILY.json` says for each case how many segments and breaks its compiled side has and
whether it runs tensor operations. `BRAZE_UPDATE_GOLDEN=1 pytest tests/python/language` writes it
anew; `python tests/python/language/report.py` lists the reasons of all breaks.
"""

import sys

import pytest
import running

CASES = [(family, name) for family in running.families() for name in running.names(family)]
recorded = {}


@pytest.mark.parametrize("family, name", CASES, ids=lambda v: v)
def test_case(family, name):
    found, reasons = running.run(family, name)
    if running.UPDATE:
        found["tensors"] = running.has_tensor_ops(family, name)
        recorded.setdefault(family, {})[name] = found
    elif sys.version_info[:2] == running.GOLDEN_PYTHON:
        expected = running.golden(family).get(name)
        assert expected, "no golden record: run with BRAZE_UPDATE_GOLDEN=1"
        del expected["tensors"]
        assert found == expected, reasons


@pytest.mark.skipif(
    not running.UPDATE, reason="rewrites the golden records; BRAZE_UPDATE_GOLDEN=1 lifts it"
)
def test_write_golden():
    for family, records in recorded.items():
        kept = {n: r for n, r in running.golden(family).items() if (family, n) in CASES}
        running.write_golden(family, {**kept, **records})


def test_golden_names_the_cases():
    for family in running.families():
        assert sorted(running.golden(family)) == sorted(n for f, n in CASES if f == family)


def test_most_cases_with_tensors_have_no_break():
    records = [r for family in running.families() for r in running.golden(family).values()]
    with_tensors = [r for r in records if r["tensors"]]
    whole = [r for r in with_tensors if not r["breaks"]]
    assert len(whole) >= 0.85 * len(with_tensors), f"{len(whole)} of {len(with_tensors)}"
