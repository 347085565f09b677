"""Braze: a compiler for PyTorch programs.

    import braze
    fast = braze.compile(model)
    y = fast(x)

`compile` captures the Python of a function or module, compiles what it does with tensors, and
keeps it under guards: when something that the code relied on has changed, it is captured anew. What
cannot be captured runs in eager PyTorch; `explain` says why. Under a PyTorch that Braze does not
know all runs in eager, and `WHY_EAGER` is the reason; else it is None.
"""

import warnings as _warnings

import torch  # the extension links against its libraries

from . import _built_for, _torch_version

__version__ = "0.1.0"
__all__ = [
    "Explanation",
    "GraphBreakError",
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "disable",
    "explain",
    "graph_break",
    "is_compiling",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "reset",
    "set_stance",
]

WHY_EAGER = _torch_version.why_not(torch.__version__, _built_for.TORCH)
if WHY_EAGER is None:
    from . import _C, _control_flow, _float_calls
    from ._api import compile, list_backends, reset
    from ._dynamic import mark_dynamic, mark_static, mark_unbacked, maybe_mark_dynamic
    from ._explain import Explanation, explain
    from ._marks import allow_in_graph, assume_constant_result, disable
    from ._stance import set_stance
    from ._substitutes import SUBSTITUTES, call_checkpointed

    is_compiling = _C.is_compiling
    graph_break = _C.graph_break
    GraphBreakError = _C.GraphBreakError
    _C.set_substitutes(
        {**SUBSTITUTES, **_control_flow.SUBSTITUTES}, _float_calls.SUBSTITUTES, call_checkpointed
    )
else:
    from . import _eager

    globals().update({name: getattr(_eager, name) for name in __all__})
    _warnings.warn(f"braze compiles nothing, all runs in eager: {WHY_EAGER}", stacklevel=2)
