"""Random programs: results, exceptions, printed text, arguments and globals as CPython leaves them."""

import contextlib
import gc
import io
import linecache
import random
import types

import braze
import pytest
import torch
from programs import KINDS, program
from snapshot import Snapshot, assert_equal

CHUNK = 40
WIDE = 10
CALLS = 7


def arguments(number, box, child):
    """Of one call: twice the same, other values, an alias, other sizes."""
    grid = torch.arange(6.0).reshape(2, 3)
    shared = torch.ones(2, 3)
    later = (grid, torch.full((2, 3), 2.0), 3, [4, 1, 2], {"a": 3, "c": 2}, child(2))
    first = (grid - 2, shared, 2, [1, 2, 3], {"a": 1, "b": 2}, box(1))
    return [
        first,
        first,
        later,
        (shared, shared, 2, [1, 2, 3], {"a": 1, "b": 2}, box(1)),
        (grid - 2, torch.ones(3), 0, [], {}, box(0)),
        (torch.arange(8.0).reshape(4, 2), torch.ones(4, 2), 5, [1, 2], {"b": 2}, box(1)),
        later,
    ][number]


def without_frames(error):
    """Tracebacks would hold the frames that hold the exceptions, until the collector comes by."""
    chain = [error]
    while chain:
        one = chain.pop()
        if one.__traceback__ is not None:
            one.__traceback__ = None
            chain += [e for e in (one.__cause__, one.__context__) if e is not None]
    return error


def drive(generator, seed):
    """What a generator yields under random requests, and how it ends."""
    requests, seen = random.Random(seed), []
    for _ in range(12):
        request = requests.choices(("next", "send", "throw", "close"), (70, 20, 6, 4))[0]
        try:
            if request == "next":
                seen.append(next(generator))
            elif request == "send":
                seen.append(generator.send(None if not seen else 4))
            elif request == "throw":
                seen.append(generator.throw(ValueError("thrown")))
            else:
                generator.close()
        except StopIteration as stop:
            return ["ended", seen, stop.value]
        except Exception as error:
            return ["raised", seen, without_frames(error)]
    return ["left", seen, generator]


def drive_coroutine(coroutine, requests, seen, turns):
    """The same for what is awaited; what it gives in the end, or its exception."""
    for _ in range(turns):
        request = requests.choices(("send", "throw", "close"), (90, 6, 3))[0]
        try:
            if request == "send":
                seen.append(coroutine.send(None if requests.random() < 0.7 or not seen else 4))
            elif request == "throw":
                seen.append(coroutine.throw(ValueError("thrown")))
            else:
                coroutine.close()
        except StopIteration as stop:
            return "ended", stop.value
        except (Exception, StopAsyncIteration) as error:
            return "raised", without_frames(error)
    coroutine.close()
    return "left", None


def drive_async(made, seed):
    requests, seen = random.Random(seed), []
    if isinstance(made, types.CoroutineType):
        return [*drive_coroutine(made, requests, seen, 12), seen]
    ends = []
    for _ in range(8):
        turn = requests.choices(("anext", "asend", "athrow", "aclose"), (70, 20, 6, 3))[0]
        if turn == "asend":
            turn = made.asend(4 if seen else None)
        elif turn == "athrow":
            turn = made.athrow(ValueError("thrown"))
        else:
            turn = made.__anext__() if turn == "anext" else made.aclose()
        ends.append(drive_coroutine(turn, requests, seen, 6))
    return [ends, seen]


class Run:
    """A program in a namespace of its own."""

    def __init__(self, seed, name, wrap, kind="function", wide=False):
        source = program(seed, kind, wide)
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        self.space = {"__name__": "program", "braze": braze}
        exec(compile(source, name, "exec"), self.space)
        self.f = wrap(self.space["f"])

    def call(self, number):
        """What one call shows of itself."""
        given = arguments(number, self.space["Box"], self.space["Child"])
        torch.manual_seed(number)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), torch.no_grad():
            try:
                result = self.f(*given)
                if isinstance(result, types.GeneratorType):
                    result = drive(result, number)
                elif isinstance(result, (types.CoroutineType, types.AsyncGeneratorType)):
                    result = drive_async(result, number)
            except Exception as error:
                result = without_frames(error)
        # What only cycles hold goes now, and not whenever the collector comes by.
        gc.collect(1)
        state = [self.space[name] for name in ("LOG", "TOTAL", "SCALE")]
        return Snapshot([result, printed.getvalue(), given, state], "program")


def compare(seed, kind, wide=False, **options):
    plain = Run(seed, f"<program {seed}>", lambda f: f, kind, wide)
    fast = Run(
        seed,
        f"<compiled {seed}>",
        lambda f: braze.compile(f, backend="aten", **options),
        kind,
        wide,
    )
    for number in range(CALLS):
        expected, actual = plain.call(number), fast.call(number)
        try:
            assert_equal(actual, expected)
        except AssertionError as error:
            told = f"program({seed}, {kind!r}, {wide}), call {number}: {error}"
            raise AssertionError(told) from None


def check_told(capfd):
    told = capfd.readouterr().err
    assert "Please report" not in told, told
    # What CPython ignores when it ends a generator, it ignores twice.
    assert told.count("ignored in") % 2 == 0, told


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chunk", range(4))
def test_random_programs(chunk, kind, capfd):
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        compare(seed, kind)
    check_told(capfd)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dynamic", [None, True])
def test_random_programs_over_objects(dynamic, kind, capfd):
    for seed in range(WIDE):
        compare(seed, kind, wide=True, dynamic=dynamic)
    check_told(capfd)
