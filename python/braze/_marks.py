"""What users say of single functions: that they stay in eager, or how they are captured."""

import functools
import types

from . import _C, _words


def disable(fn=None, recursive=True, *, reason=None):
    """Mark a function so that it always runs in eager, also when called from compiled code.

    Returns a function with the same signature; a module or method is wrapped likewise. Also a
    decorator. `reason` is shown by `explain`.

    recursive: True: functions that it calls run in eager as well, unless they were given to
        `compile` themselves. False: it alone does; called from compiled code, the functions that it
        calls are compiled, each as segments of its own.
    """
    if not isinstance(recursive, bool):
        raise _words.error("E107", f"recursive must be True or False, not {recursive!r}")
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if not callable(fn):
        raise _words.error("E109", f"braze.disable needs a callable, not {type(fn).__name__}")
    inner = fn.__wrapped__ if isinstance(fn, _C.CompiledFunction) else fn

    @functools.wraps(inner)
    def eager(*args, **kwargs):
        return inner(*args, **kwargs)

    eager._braze_disable = True
    eager._braze_disable_reason = reason
    eager._braze_disable_recursive = recursive
    return eager


def allow_in_graph(fn):
    """Show a function to a user's backend as one node of its graph: the call of the function.

    Also a decorator; returns `fn`, or for a list or tuple of functions a list of them. The function
    is captured like all others: it is guarded, and what it cannot do while it is traced is a graph
    break. The node takes the place of the calls that it makes, unless the function writes to Python
    objects, prints, or is given or returns more than tensors, constants and tuples of them; the
    backends of Braze itself always see the calls.
    """
    return _mark(fn, "allow_in_graph", "_braze_allow_in_graph")


def assume_constant_result(fn):
    """Promise that a function, given the same arguments, always gives the same and changes nothing.

    Also a decorator; returns `fn`. A capture calls the function for real, once for each call that
    it evaluates, and takes what it gives for a constant of the compiled code: what the function
    reads is not guarded, the arguments are. A call with tensors, or with lists and dicts, is
    captured like any other.
    """
    return _mark(fn, "assume_constant_result", "_braze_constant_result")


def _mark(fn, name, mark):
    if isinstance(fn, (list, tuple)):
        return [_mark(item, name, mark) for item in fn]
    if not callable(fn):
        raise _words.error("E109", f"braze.{name} needs a callable, not {type(fn).__name__}")
    target = fn.__wrapped__ if isinstance(fn, _C.CompiledFunction) else fn
    target = target.__func__ if isinstance(target, types.MethodType) else target
    if isinstance(target, types.FunctionType):  # what is written in C is one node, and is called
        setattr(target, mark, True)
    return fn
