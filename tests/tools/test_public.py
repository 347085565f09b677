"""The lane of public code finds what it is there to find: planted defects, each of a kind."""

import sys
from pathlib import Path

import pytest

PUBLIC = Path(__file__).resolve().parents[1] / "public"

PLANTED = '''
import os, sys, time
import braze, torch
from cases import Case

KEPT = []
real = braze.compile


def compile(function, **options):
    """Compiles what is planted in place of the function."""
    return real(getattr(function, "planted", function), **options)


braze.compile = compile


def subject(eager, planted=None, state=None):
    def make():
        held = state() if state else None
        call = lambda x: eager(x, held)
        if planted:
            call.planted = lambda x: planted(x, held)
        return call, held

    return lambda: [Case(make, lambda number: ((torch.ones(2, 3) * number,), {}))]


def raising(text):
    def call(x, held):
        raise ValueError(text)

    return call


def fake(x, held):
    from bench import hooks

    braze.graph_break()
    KEPT.append(hooks.trace(lambda v: v + 1, (torch.ones(2),), {})["outputs"][0])
    return x + 1


def put(value):
    def call(x, held):
        held["a"] = value
        return x + 1

    return call


def dies(x, held):
    braze.graph_break()
    os.abort()


def waits(x, held):
    braze.graph_break()
    time.sleep(1000)


def unlike(x, held):
    KEPT.append(0)
    return x + len(KEPT)


def refuses():
    raise RuntimeError("no such library")


def asks(x, held):
    return x + (1 if torch.compiler.is_compiling() else 2)


def planted():
    plus = lambda x, held: x + 1
    return {
        "equal": subject(plus),
        "equal too": subject(raising("a")),
        "a set": subject(lambda x, held: set(x[0]), lambda x, held: set(reversed(x[0].unbind()))),
        "value": subject(plus, lambda x, held: x + 2),
        "dtype": subject(plus, lambda x, held: (x + 1).double()),
        "strides": subject(plus, lambda x, held: (x + 1).t().contiguous().t()),
        "message": subject(raising("a"), raising("b")),
        "exception": subject(plus, raising("c")),
        "argument": subject(plus, lambda x, held: x.add_(1).clone()),
        "sharing": subject(plus, lambda x, held: x.add_(1)),
        "state": subject(put(1), put(2), dict),
        "generator": subject(plus, lambda x, held: (x + 1, torch.rand(1))[0]),
        "fake": subject(plus, fake),
        "crash": subject(plus, dies),
        "hang": subject(plus, waits),
        "broken": refuses,
        "asks": subject(asks),
        "varies": subject(unlike),
        "equal after all": subject(plus),
    }
'''
EXPECTED = {
    "equal": ("equal", ""),
    "equal too": ("equal", ""),
    "a set": ("equal", ""),
    "value": ("differs", "call 0, result values of tensor 0: 6 of 6 elements, first 2.0 for 1.0"),
    "dtype": ("differs", "torch.float64"),
    "strides": ("differs", "call 0, result"),
    "message": ("differs", "'b' instead of 'a'"),
    "exception": ("differs", "instead of"),
    "argument": ("differs", "call 0, arguments values"),
    "sharing": ("differs", "call 0, arguments values"),
    "state": ("differs", "call 0, state"),
    "generator": ("differs", "call 0, generators values"),
    "fake": ("fake", "(2,) held by"),
    "crash": ("crash", "exit status -6"),
    "hang": ("hang", "no answer"),
    "broken": ("broken", "RuntimeError: no such library"),
    "asks": ("asks", ""),
    "varies": ("varies", ""),
    "equal after all": ("equal", ""),
}


@pytest.fixture(scope="module")
def lane(tmp_path_factory):
    """The lane's modules, and the results of the planted subjects by name."""
    folder = tmp_path_factory.mktemp("planted")
    (folder / "planted.py").write_text(PLANTED)
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(str(PUBLIC))
    for name in ("report", "run", "subjects", "cases", "recipes"):
        sys.modules.pop(name, None)
    import report
    import run

    patch.setenv("PYTHONPATH", f"{folder}:{PUBLIC.parents[1]}", prepend=":")
    patch.setattr(run, "SECONDS", 20)
    results = run.try_all("planted:planted", list(EXPECTED), 1, "aten")
    yield report, {found["name"]: found for found in results}
    patch.undo()


@pytest.mark.parametrize("name", EXPECTED)
def test_what_is_planted_is_found(lane, name):
    _, results = lane
    status, words = EXPECTED[name]
    assert results[name]["status"] == status, results[name]
    assert words in results[name].get("what", "")


def test_only_differences_can_be_listed(lane):
    report, results = lane
    everything = report.read_listed(PUBLIC / "no such file") + [
        (report.re.compile(".*"), report.re.compile(""), "known")
    ]
    for name in ("fake", "crash", "broken"):
        assert report.reason_of(results[name], everything) is None
    assert report.reason_of(results["message"], everything) == "known"


def test_counts(lane):
    report, results = lane
    counts = report.count(results.values(), [])
    assert counts["found"] == len(EXPECTED)
    assert counts["tried"] == len(EXPECTED) - 1  # what varies is not tried
    assert counts["equal"] == 4
    assert counts["listed"] == 1  # what asks whether it is compiled
    assert counts["unlisted"] == counts["tried"] - 5
    assert "13 DIFFERENT" in report.in_words(counts)


def test_a_listed_line_has_a_reason(lane, tmp_path):
    report, _ = lane
    path = tmp_path / "listed.txt"
    path.write_text("# a comment\ntorch\\.nn\\..* | values | sums in another order\n")
    assert [line[2] for line in report.read_listed(path)] == ["sums in another order"]
    path.write_text("a | b |\n")
    with pytest.raises(ValueError, match="no reason"):
        report.read_listed(path)
