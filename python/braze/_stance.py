"""`braze.set_stance`: whether calls may compile, while the program runs."""

import functools
import threading

from . import _C, _words


class set_stance:
    """Set what compiled functions do when they are called.

    As a call (`braze.set_stance("force_eager")`) for the whole process; in a `with` block and as a
    decorator for the calling thread alone, until the block or the call ends.

    Args:
        stance: "default": compile when nothing that is compiled fits. "force_eager": run no
            compiled code. "eager_on_recompile": compiled code that fits runs, everything else runs
            in eager. "fail_on_recompile": compiled code that fits runs, everything else raises
            RuntimeError with the guard that failed.

    Raises:
        ValueError: there is no such stance.
    """

    def __init__(self, stance):
        if stance not in _C.stances():
            names = ", ".join(map(repr, _C.stances()))
            raise _words.error("E110", f"unknown stance {stance!r}: use one of {names}")
        self.stance = stance
        self._process_before = _C.set_process_stance(stance)
        self._threads = threading.local()

    def __enter__(self):
        self._give_process_back()
        if not hasattr(self._threads, "before"):
            self._threads.before = []  # a block may be entered again inside itself
        self._threads.before.append(_C.set_thread_stance(self.stance))
        return self

    def __exit__(self, *exception):
        _C.set_thread_stance(self._threads.before.pop())

    def __call__(self, function):
        self._give_process_back()

        @functools.wraps(function)
        def with_stance(*args, **kwargs):
            before = _C.set_thread_stance(self.stance)
            try:
                return function(*args, **kwargs)
            finally:
                _C.set_thread_stance(before)

        return with_stance

    def _give_process_back(self):
        if self._process_before is not None:
            _C.set_process_stance(self._process_before)
            self._process_before = None
