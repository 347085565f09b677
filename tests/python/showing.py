"""What a call shows, eagerly or compiled: its result or exception, and what it printed."""

import contextlib
import io
import math
import traceback

import torch


def outcome(function, *args):
    """Result or exception with its lines and those of its causes, and what was printed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), torch.no_grad():
        try:
            result = "returned", function(*args)
        except Exception as error:
            result = "raised", described(error)
    return result, out.getvalue()


def described(error):
    """An exception as text, with the lines of its traceback and what it was raised from."""
    if error is None:
        return None
    frames = traceback.extract_tb(error.__traceback__)
    lines = [(f.name, f.lineno) for f in frames if f.name not in ("outcome", "__call__")]
    return repr(error), lines, described(error.__cause__), described(error.__context__)


def same(a, b):
    if isinstance(a, torch.Tensor):
        return (
            type(a) is type(b)
            and a.dtype == b.dtype
            and a.shape == b.shape
            and torch.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True)
        )
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return type(a) is type(b) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, float):
        return type(a) is type(b) and math.isclose(a, b, rel_tol=1e-5)
    return type(a) is type(b) and a == b
