"""Halves and numbers that they cannot hold: kernels with eager's bits."""

import braze
import pytest
from half_numbers import DTYPES, OPERATORS, halves, over_all
from support import same


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("operator", OPERATORS)
def test_all_bit_patterns(operator, dtype):
    tensors = halves(dtype)
    text = braze.explain(over_all)(operator, tensors)
    assert not text.breaks, text
    assert "aten." not in text.entries[0]["plan"]
    same(braze.compile(over_all)(operator, tensors), over_all(operator, tensors), rtol=0, atol=0)
