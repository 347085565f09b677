"""Random programs of tensors: compiled equals eager. `tests/fuzz.py` runs many more, with fresh seeds;
what it has found is repeated here. A failing program is printed as Python that can be pasted."""

import os
import secrets
from pathlib import Path

import pytest
import torch
from tensor_programs import failure, program

# What operators say of themselves when they are first used.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The reduce argument of torch.scatter"),
    pytest.mark.filterwarnings("ignore:index_reduce"),
]
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


@pytest.fixture
def one_thread():
    """In eager, several threads race for a place that is written to twice."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("seed", range(3000, 3030))
def test_places(seed, one_thread):
    check(program(seed, in_place=seed % 3 == 0, places=True))


def test_places_of_fresh_seeds(one_thread):
    first = int(os.environ.get("BRAZE_FUZZ_SEED") or secrets.randbelow(1 << 30))
    print(f"BRAZE_FUZZ_SEED={first}")
    for seed in range(first, first + 20):
        check(program(seed, in_place=seed % 3 == 0, places=True))


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_found_before(path, one_thread):
    check(path.read_text())
