"""Generators of compiled functions do what generators do."""

import cases_delegating
import cases_exceptions
import cases_scopes
import cases_values
import pytest
from resuming import check

MODULES = (cases_values, cases_scopes, cases_exceptions, cases_delegating)
CASES = {name: make for module in MODULES for name, make in module.CASES.items()}


@pytest.mark.parametrize("name", CASES)
def test_case(name, capfd):
    check(*CASES[name]())
    assert "report" not in capfd.readouterr().err
