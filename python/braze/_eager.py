"""The public names where the extension is not loaded (`_torch_version.py`): all runs in eager.

Programs that use Braze run as they would without it. Arguments are not checked, as what checks them
is part of the extension.
"""

import functools

from ._dynamic import mark_dynamic, mark_static, mark_unbacked, maybe_mark_dynamic  # noqa: F401


class GraphBreakError(RuntimeError):
    """Raised by the extension alone."""


class Explanation(str):
    """The text; `entries` and `breaks` are empty."""

    entries: list
    breaks: list
    result: object


def compile(
    model=None,
    *,
    fullgraph=False,
    dynamic=None,
    backend="braze",
    mode=None,
    options=None,
    disable=False,
    recompile_limit=None,
):
    return (lambda model: model) if model is None else model


def explain(function, *, dynamic=None, backend=None, mode=None, options=None, recompile_limit=None):
    from . import WHY_EAGER

    def run(*args, **kwargs):
        result = function(*args, **kwargs)
        name = getattr(function, "__qualname__", type(function).__name__)
        text = Explanation(f"braze.explain({name})\n  everything runs in eager: {WHY_EAGER}\n")
        text.details, text.entries, text.breaks = str(text), [], []
        text.memory, text.result = {}, result
        return text

    return run


def disable(fn=None, recursive=True, *, reason=None):
    return (lambda fn: fn) if fn is None else fn


def allow_in_graph(fn):
    return fn


def assume_constant_result(fn):
    return fn


class set_stance:
    def __init__(self, stance):
        self.stance = stance

    def __enter__(self):
        pass

    def __exit__(self, *exception):
        pass

    def __call__(self, function):
        @functools.wraps(function)
        def with_stance(*args, **kwargs):
            return function(*args, **kwargs)

        return with_stance


def graph_break(msg=""):
    pass


def is_compiling():
    return False


def list_backends():
    return ["eager"]


def reset():
    pass
