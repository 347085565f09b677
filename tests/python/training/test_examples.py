"""`examples/`: programs that train in eager and compiled, with settings that take seconds."""

import sys

import pytest

from examples import character_gpt, digits


def test_digits(tmp_path):
    pytest.importorskip("sklearn", reason="has the digits; pip install scikit-learn lifts it")
    eager, compiled = digits.train(epochs=3)
    assert digits.largest_difference(eager.losses, compiled.losses) < 1e-4
    # One of the 360 pictures may be on the border between two digits.
    assert digits.largest_difference(eager.accuracies, compiled.accuracies) < 1.5 / 360
    assert min(eager.accuracies[-1], compiled.accuracies[-1]) > 0.95


def test_character_gpt():
    characters, eager, compiled = character_gpt.train(steps=12)
    assert character_gpt.largest_difference(eager.losses, compiled.losses) < 1e-4
    assert len(compiled.losses) == 12
    assert compiled.losses[-1] < compiled.losses[0] - 0.5
    prompt = [characters.index(character) for character in "A compiler "]
    written = compiled.write(prompt, 8)
    assert written[: len(prompt)] == prompt
    assert written == eager.write(prompt, 8)


def test_what_the_program_says(capsys, tmp_path):
    pytest.importorskip("matplotlib", reason="draws the plot; pip install matplotlib lifts it")
    character_gpt.main(["--steps", "2", "--plot", str(tmp_path / "losses.png")])
    said = capsys.readouterr().out
    assert "The losses differ by at most" in said
    assert "tokens per second" in said
    assert (tmp_path / "losses.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("missing", "words", "message"),
    [
        ("sklearn.datasets", [], "The digits are scikit-learn's: pip install scikit-learn"),
        ("matplotlib.figure", ["--plot", "x.png"], "The plot needs matplotlib: pip install"),
    ],
)
def test_a_missing_library_is_named(monkeypatch, missing, words, message):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SystemExit, match=message):
        digits.main(words)
