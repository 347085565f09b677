"""Every example of the catalogue of breaks and errors gives its number; docs/breaks.md is made of
them."""

import ast
import pathlib
import sys

import braze
import pytest
import torch
from braze import _words
from support import autocast_nesting, entries

ROOT = pathlib.Path(__file__).resolve().parents[3]
BREAKS = [words for words in braze._C.break_catalogue() if words["example"]]
ERRORS = braze._C.error_catalogue()


def namespace(script, name):
    return {"torch": torch, "braze": braze, "__name__": "example"}, ast.parse(script, name)


@pytest.fixture
def quiet(monkeypatch):
    """What examples do to the process is undone."""
    monkeypatch.setattr(sys, "breakpointhook", lambda *args, **kwargs: None)
    limit, grad = sys.getrecursionlimit(), torch.is_grad_enabled()
    yield
    sys.setrecursionlimit(limit)
    torch.set_grad_enabled(grad)
    torch.set_autocast_enabled("cpu", False)
    torch.clear_autocast_cache()
    if autocast_nesting():
        torch.autocast_decrement_nesting()


@pytest.mark.parametrize("words", BREAKS, ids=lambda words: words["number"])
def test_example_of_a_break(words, quiet):
    names, tree = namespace(words["example"], words["number"])
    call = tree.body.pop()
    exec(compile(tree, words["number"], "exec"), names)
    fast = names["f"] = braze.compile(names["f"])
    try:
        exec(compile(ast.Module([call], []), words["number"], "exec"), names)
    except ValueError:
        assert words["id"] == "Exception"
    numbers = [entry["reason_number"] for entry in entries(fast) if entry["reason"]]
    assert words["number"] in numbers, [entry["reason"] for entry in entries(fast)]


@pytest.mark.parametrize("words", ERRORS, ids=lambda words: words["number"])
def test_example_of_an_error(words):
    names, tree = namespace(words["example"], words["number"])
    with pytest.raises(Exception) as caught:
        exec(compile(tree, words["number"], "exec"), names)
    assert type(caught.value).__name__ == words["exception"]
    assert f"[{words['number']}]" in str(caught.value)


def test_numbers_are_unique():
    numbers = [words["number"] for words in braze._C.break_catalogue() + ERRORS]
    assert len(set(numbers)) == len(numbers)


def test_the_page_is_up_to_date():
    page = (ROOT / "docs" / "breaks.md").read_text()
    assert page == _words.markdown(), "run: python -m braze breaks > docs/breaks.md"
