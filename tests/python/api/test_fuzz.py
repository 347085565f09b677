"""Random programs of tensors: compiled equals eager. `tests/fuzz.py` runs many more, with fresh seeds;
what it has found is repeated here. A failing program is printed as Python that can be pasted."""

from pathlib import Path

import pytest
from tensor_programs import failure, program

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.py"))


def check(source):
    found = failure(source)
    assert found is None, f"{source}\n{found}"


@pytest.mark.parametrize("seed", range(40))
def test_pure(seed):
    check(program(seed, dtypes=["float32"]))


@pytest.mark.parametrize("seed", range(1000, 1040))
def test_in_place(seed):
    check(program(seed, in_place=True, dtypes=["float32"]))


@pytest.mark.parametrize("seed", range(2000, 2030))
def test_all_dtypes(seed):
    check(program(seed, in_place=seed % 2 == 0))


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_found_before(path):
    check(path.read_text())
