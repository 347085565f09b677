"""Tracing a function natively, replaying its graph with real ops and comparing with eager."""

import pytest
import torch
from braze import _C

from bench import hooks

TraceBreak = _C.TraceBreak


def trace(fn, *args, **options):
    """The dict that `trace` of tests/hooks/hooks.h gives."""
    return hooks.trace(fn, args, options)


def layout(t):
    return tuple(t.shape), t.stride(), t.storage_offset(), t.dtype


def copies(args):
    """Copies with the same strides."""

    def copy(t):
        if not isinstance(t, torch.Tensor):
            return t
        storage = torch.empty(0, dtype=t.dtype).set_(t.untyped_storage().clone())
        result = storage.as_strided(t.shape, t.stride(), t.storage_offset())
        return result.requires_grad_() if t.requires_grad else result

    return tuple(copy(a) for a in args)


def as_list(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def check(fn, *args):
    """Metadata of the fakes, replayed values and written-to arguments are eager's, bit for bit."""
    traced_args, eager_args = copies(args), copies(args)
    result = trace(fn, *traced_args)
    assert not result["rules"], result["rules"]
    for a, b in zip(traced_args, args):
        if isinstance(a, torch.Tensor):
            assert torch.equal(a, b) and layout(a) == layout(b), "tracing changed an argument"
    torch.manual_seed(1)
    replayed = result["replay"]()
    torch.manual_seed(1)
    expected = as_list(fn(*eager_args))
    assert len(expected) == len(replayed)
    for fake, got, wanted in zip(result["outputs"], replayed, expected):
        assert layout(fake) == layout(wanted), result["graph"]
        assert layout(got) == layout(wanted), result["graph"]
        assert torch.equal(got.nan_to_num(), wanted.detach().nan_to_num()), result["graph"]
    for a, b in zip(traced_args, eager_args):
        if isinstance(a, torch.Tensor):
            assert torch.equal(a, b), "an argument was written to otherwise than in eager"
    return result


def check_break(match, fn, *args):
    with pytest.raises(TraceBreak, match=match):
        trace(fn, *args)


def check_layout(fn, *args):
    """The fakes have eager's metadata. The trace; None if eager raises."""
    try:
        expected = as_list(fn(*args))
    except (RuntimeError, IndexError, ValueError, TypeError):
        return None
    result = trace(fn, *args)
    assert not result["rules"], result["rules"]
    for fake, wanted in zip(result["outputs"], expected):
        assert layout(fake) == layout(wanted), (
            f"{result['graph']}\n{layout(fake)} is not {layout(wanted)}, "
            f"for {[layout(a) for a in args if isinstance(a, torch.Tensor)]}"
        )
    return result
