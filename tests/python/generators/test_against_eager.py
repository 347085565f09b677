"""Generators of compiled functions do what generators do."""

import cases_values
import pytest
from running import check

CASES = {**cases_values.CASES}


@pytest.mark.parametrize("name", CASES)
def test_case(name, capfd):
    check(*CASES[name]())
    assert "report" not in capfd.readouterr().err
