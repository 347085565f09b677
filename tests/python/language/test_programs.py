"""Random programs: results, exceptions, printed text, arguments and globals as CPython leaves them.

`run_programs.py` runs many more of them.
"""

import json
from pathlib import Path

import pytest
from program_running import compare, difference
from programs import KINDS, LIBRARIES, with_prelude

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.py"))
CHUNK = 40
WIDE = 10


def check_told(capfd):
    told = capfd.readouterr().err
    assert "Please report" not in told, told
    # What CPython ignores when it ends a generator, it ignores twice.
    assert told.count("ignored in") % 2 == 0, told


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chunk", range(4))
def test_random_programs(chunk, kind, capfd):
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        compare(seed, kind)
    check_told(capfd)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dynamic", [None, True])
def test_random_programs_over_objects(dynamic, kind, capfd):
    for seed in range(WIDE):
        compare(seed, kind, wide=True, dynamic=dynamic)
    check_told(capfd)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dynamic", [None, True])
def test_random_programs_over_libraries(dynamic, kind, capfd):
    for seed in range(WIDE):
        compare(seed, kind, wide=LIBRARIES, dynamic=dynamic)
    check_told(capfd)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_found_before(path, capfd):
    """What `run_programs.py` has found, made small."""
    head, function = path.read_text().split("\n", 1)
    options = json.loads(head.removeprefix("#"))
    found = difference(with_prelude(function), f"program {path.stem}", **options)
    assert found is None, f"{function}\n{found}"
    check_told(capfd)
