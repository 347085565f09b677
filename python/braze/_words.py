"""What Braze says to its users: numbers of breaks and errors, and the page made of them.

The words themselves stand beside the code that breaks, in `src/capture/breaks/reason.h` and
`src/capture/breaks/catalogue.cpp`.
"""

import builtins

from . import _C

_HUNDREDS = {
    "B1": "Tensor data",
    "B2": "Tensors and operators",
    "B3": "Side effects",
    "B4": "Native code",
    "B5": "Input and output",
    "B6": "Python",
    "B7": "What the program asked for",
    "B8": "Exceptions",
    "B9": "Braze itself",
}

_HEADER = """\
# Breaks and errors

<!-- Made by `python -m braze breaks`; the words are in src/capture/. -->

Where `braze.compile` cannot capture something, that part runs in eager PyTorch: a *break*.
`braze.explain(f)(*args)` and `BRAZE_LOG=breaks` name each break by its number, with the line, the
object, the reason and the way out. `fullgraph=True` makes a break an error. Each number has an
example here that breaks just so; `torch` and `braze` are imported, and the call is that of
`braze.compile(f)` without gradients.
"""

_ERRORS_HEADER = """\
## Errors of use

Raised where Braze is asked for something impossible; the number stands at the end of the message.
"""


def error(number, text):
    """The exception of that number, with `text` as its message; to be raised."""
    words = next(words for words in _C.error_catalogue() if words["number"] == number)
    return getattr(builtins, words["exception"])(f"{text} [{number}]")


def markdown():
    """docs/breaks.md."""
    lines = [_HEADER]
    hundred = None
    for words in _C.break_catalogue():
        if words["number"][:2] != hundred:
            hundred = words["number"][:2]
            lines.append(f"## {_HUNDREDS[hundred]}\n")
        lines.append(f"### {words['number']} {words['id']}\n")
        lines.append(f"{_sentence(words['why'])}\n\n*Way out:* {words['way_out']}.\n")
        lines += _example(words)
    lines.append(_ERRORS_HEADER)
    for words in _C.error_catalogue():
        lines.append(f"### {words['number']} {words['exception']}\n")
        lines.append(f"{_sentence(words['what'])}\n\n*Way out:* {words['way_out']}.\n")
        lines += _example(words)
    return "\n".join(lines).rstrip() + "\n"


def _example(words):
    if not words["example"]:
        return ["No example.\n"]
    return [f"```python\n{words['example'].strip()}\n```\n"]


def _sentence(text):
    return text[0].upper() + text[1:] + "."
