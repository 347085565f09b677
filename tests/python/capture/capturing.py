"""Capturing a call, carrying the draft out with real ops, comparing with CPython."""

import torch

from bench import hooks


def capture(fn, *args, **kwargs):
    """The dict that `capture` of tests/hooks/hooks.h gives. `fn` may be a module."""
    if isinstance(fn, torch.nn.Module):
        fn = torch.nn.Module.__call__.__get__(fn)
    return hooks.capture(fn, args, kwargs)


def same(a, b):
    """Equal as a user can see: types, values, order of keys, instance dicts."""
    if isinstance(a, torch.Tensor):
        return (
            isinstance(b, torch.Tensor)
            and (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
            and torch.equal(a, b)
        )
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if hasattr(a, "__dict__") and not callable(a):
        return same(vars(a), vars(b))
    return a == b


def check(fn, *args, **kwargs):
    """`fn` is captured as a whole and gives what CPython gives."""
    captured = capture(fn, *args, **kwargs)
    assert captured["exit"] == "return", captured["reason"]
    result, expected = captured["run"](), fn(*args, **kwargs)
    assert same(result, expected), f"{result!r}\n{expected!r}\n{captured['recipe']}"
    return captured


def check_gives_up(match, fn, *args, kind=None, **kwargs):
    """Capture gives up with a reason that says `match`."""
    captured = capture(fn, *args, **kwargs)
    assert captured["exit"] in ("break", "give up")
    assert match in captured["reason"], captured["reason"]
    assert kind is None or captured["kind"] == kind, captured["kind"]
    return captured
