"""Tensors that share memory without PyTorch's knowledge: what is written through one is read
through the others, in every order of calls that do and do not share."""

import braze
import numpy
import pytest
import torch
from capturing import capture
from sharing import PAIRS, numbers, outcomes, twin
from sharing_programs import PROGRAMS, generator

pytestmark = pytest.mark.filterwarnings("ignore")

BODIES = [
    "x += 2\nreturn y * 2",
    "z = x * 3\ny.mul_(2)\nreturn z, x + 1",
    "x += 1\ny *= 2\nx -= 3\nreturn x + 1, y",
    "x[1:3] = 9\nreturn y.sum(), y",
    "v = x.view(-1)[1:]\nv.sub_(1)\nreturn y + 1, v",
    "x.zero_()\nreturn torch.stack((x, x)), y.flip(0) if y.numel() else y",
    "x.copy_(x.flip(0))\nreturn y + 0",
    "torch.add(x, 1, out=x)\nreturn y.to(torch.float64)",
    "x.uniform_() if x.is_floating_point() else x.add_(3)\nreturn y * 2",
    "x.index_put_((torch.tensor([0, 2]),), torch.tensor(5, dtype=x.dtype))\nreturn y - 1",
    "x[x > 2] = 0\nreturn y * 1",
    "x += 1\nif y.sum().item() > 11: return y * 2\nx *= 3\nreturn y - 1",
    "x += 1\na = y.tolist()\nx += 1\nreturn a, y + 1",
    "x += 1\na = x.numpy()\na[0] = 50\nreturn y + 1, torch.from_numpy(a) * 2",
    "for i in range(3): x += i\nreturn [y * i for i in range(2)]",
    "with torch.inference_mode(): x += 1\nreturn y * 2",
    "x += 1\nx *= 2\nreturn y + 1, x._version, y._version",
]
READERS = [
    "return y.view(-1), x[1:], y",
    "return x.view(2, 2), y",
    "x += 1\nreturn y.view(-1), x[1:], y",
    "v = y.view(-1)[1:]\nx += 1\nreturn v, v + 1",
    "x += 1\nreturn x.numpy(), y",
    "return torch.from_numpy(x.numpy()[1:]), y",
]


def function(body):
    scope = {"torch": torch}
    exec("def f(x, y):\n" + "".join(f"    {line}\n" for line in body.splitlines()), scope)
    return scope["f"]


@pytest.mark.parametrize("body", BODIES)
def test_pairs_come_and_go(body):
    f = function(body)
    for order, backend in ((list(PAIRS.values()), "braze"), (list(PAIRS.values())[::-1], "aten")):
        fast = braze.compile(f, backend=backend, recompile_limit=80)
        assert outcomes(fast, order) == outcomes(f, order)


@pytest.mark.parametrize("body", READERS)
def test_results_share_as_in_eager(body):
    f = function(body)
    pairs = [make for name, make in PAIRS.items() if name not in ("one element", "empty")]
    for order, backend in ((pairs, "braze"), (pairs[::-1], "aten")):
        fast = braze.compile(f, backend=backend, recompile_limit=80)
        assert outcomes(fast, order, grow=True) == outcomes(f, order, grow=True)


def parts(size, start, memory=None):
    def make():
        whole = torch.arange(1.0, 41.0) if memory is None else memory()
        return whole[:size], whole[start : start + size]

    return make


def array_parts(size, start, length=None):
    def make():
        whole = numbers(40)
        return twin(whole[:size]), twin(whole[start : start + (length or size)])

    return make


@pytest.mark.parametrize("dynamic", [True, None])
@pytest.mark.parametrize(
    "body",
    [
        "x += 2\nreturn y * 2, x.sum()",
        "x[1:] += 1\nreturn y[:-1] * 2, y",
        "z = y * 2\nx.mul_(3)\nreturn z, y.view(-1)",
    ],
)
@pytest.mark.parametrize(
    "calls",
    [
        [array_parts(n, 0) for n in (5, 4, 6, 7)],
        [array_parts(n, 8) for n in (4, 6, 8, 10, 5, 20)],
        [parts(n, 8) for n in (4, 6, 8, 10, 5, 20)],
        [array_parts(n, 8) for n in (20, 10, 6, 8, 4)],
        [array_parts(n, 0, m) for n, m in ((4, 7), (6, 6), (8, 3), (5, 5))],
        [array_parts(n, 0, 8) for n in (8, 3, 0, 2, 1)],
    ],
    ids=["twins", "grow", "grow in one storage", "shrink", "two sizes", "to nothing"],
)
def test_sizes_decide_what_overlaps(calls, body, dynamic):
    f = function(body)
    fast = braze.compile(f, dynamic=dynamic, recompile_limit=30)
    assert outcomes(fast, calls) == outcomes(f, calls)


PLACES = [
    "v = x.as_strided((2,), (2,))\nv += 1\nreturn v, x * 2",
    "v = x.as_strided((2,), (1,), 1)\nv += 1\nreturn v, x * 2",
    "v = x.as_strided((2,), (1,), 3)\nx += 1\nreturn v, v * 2",
    "v = x[1:].as_strided((2,), (2,))\nx += 1\nreturn v, v * 2",
    "v = x[1:].as_strided((2,), (2,))\nv += 1\nreturn x * 2, v",
    "y = x * 2\nv = y[1:].as_strided((2,), (2,))\nv += 1\ny *= 3\nreturn y, v + x",
    "return x.as_strided((2,), (1,)), x.as_strided((2,), (1,), 1) + x[0]",
]


@pytest.mark.parametrize("backend", ["braze", "aten"])
@pytest.mark.parametrize("body", PLACES)
def test_places_in_a_storage_are_those_of_the_call(body, backend):
    f = function(body)

    def part(start):
        def make():
            return torch.arange(1.0, 21.0)[start : start + 4], None

        return make

    calls = [part(start) for start in (0, 4, 2, 0)]
    assert outcomes(braze.compile(f, backend=backend), calls) == outcomes(f, calls)
    calls = calls[::-1][1:]
    assert outcomes(braze.compile(f, backend=backend), calls) == outcomes(f, calls)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name, dynamic):
    f, calls, *state = PROGRAMS[name]()
    expected = outcomes(f, calls, *state)
    f, calls, *state = PROGRAMS[name]()
    assert outcomes(braze.compile(f, dynamic=dynamic), calls, *state) == expected


def test_generator_over_twins():
    calls = [PAIRS[k] for k in ("two memories", "same place", "shifted by 1", "same place")]
    fast = braze.compile(generator)
    for make in calls:
        assert [t.tolist() for t in fast(*make())] == [t.tolist() for t in generator(*make())]


def test_nothing_is_guarded_where_nothing_is_written():
    guards = capture(lambda x, y: x + y, torch.ones(3), torch.ones(3))["guards"]
    assert not any("overlap" in guard or "shares memory" in guard for guard in guards), guards


def test_one_guard_for_all_that_may_not_overlap():
    def f(x, y, z):
        x += 1
        return y * z

    guards = capture(f, torch.ones(3), torch.ones(3), torch.ones(3))["guards"]
    assert [g for g in guards if "overlap" in g] == ["x no overlap: from y, z"]
    x, y = PAIRS["same place"]()
    guards = capture(f, x, y, torch.ones(4))["guards"]
    assert "y shares memory x" in guards and "x no overlap: from y, z" in guards


def test_what_lies_apart_is_compiled_once():
    def f(x, y):
        x += 1
        return y * 2

    fast = braze.compile(f)
    for name in ("two memories", "next to it", "further on", "one storage, apart", "two memories"):
        fast(*PAIRS[name]())
    assert len(fast._entries()) == 1


def test_results_kept_as_arrays_only():
    fast = braze.compile(lambda x: (x + 1, (x * 2).view(2, 2)))
    kept = []
    for n in range(20):
        a, b = fast(torch.full((4,), float(n)))
        kept.append((a.numpy(), numpy.from_dlpack(b), b[1:].untyped_storage()))
    for n, (a, b, storage) in enumerate(kept):
        assert a.tolist() == [n + 1.0] * 4 and b.tolist() == [[n * 2.0] * 2] * 2
        assert torch.empty(0).set_(storage).tolist() == [n * 2.0] * 4
