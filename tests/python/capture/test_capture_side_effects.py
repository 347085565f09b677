"""Nothing outside changes while tracing; what the traced code writes is replayed by its draft."""

import bisect
import collections
import functools
import heapq
import itertools
import operator
import os
import random
import threading
import time

import pytest
import torch
from capturing import capture


class Outside:
    pass


def fresh():
    s = Outside()
    s.l = [3, 1]
    s.d = {"a": 1}
    s.dq = collections.deque([1])
    s.it = iter([1, 2, 3])
    s.gen = (i for i in range(5))
    s.tls = threading.local()
    s.c = itertools.count()
    s.od = collections.OrderedDict(a=1)
    s.dd = collections.defaultdict(list)
    s.s = {1}
    s.ba = bytearray(b"a")
    s.obj = Outside()
    s.lru = functools.lru_cache(lambda x: x + 1)
    s.n = 1

    class HasCached:
        @functools.cached_property
        def cp(self):
            return 5

    s.p = HasCached()
    return s


def show(v):
    if isinstance(v, Outside):
        return {k: show(x) for k, x in v.__dict__.items()}
    if isinstance(v, dict):
        return {k: show(x) for k, x in v.items()}
    if isinstance(v, (list, tuple)):
        return [show(x) for x in v]
    return repr(v) if isinstance(v, (int, str, float)) else type(v).__name__


def state(s):
    return {
        "attributes": show(s),
        "deque": list(s.dq),
        "iterator": s.it.__length_hint__(),
        "generator": s.gen.gi_frame.f_lasti if s.gen.gi_frame else None,
        "count": repr(s.c),
        "thread": dict(s.tls.__dict__),
        "set": sorted(s.s),
        "bytes": bytes(s.ba),
        "cached": "cp" in s.p.__dict__,
        "class": hasattr(type(s), "class_attribute"),
        "global": globals().get("WRITTEN"),
        "environment": os.environ.get("BRAZE_TEST_WRITTEN"),
        "random": hash(random.getstate()),
    }


def clean():
    os.environ.pop("BRAZE_TEST_WRITTEN", None)
    globals().pop("WRITTEN", None)
    if hasattr(Outside, "class_attribute"):
        del Outside.class_attribute
    random.seed(0)


WRITES = []
REFUSED = []


def writes(fn):
    WRITES.append(pytest.param(fn, id=fn.__name__))
    return fn


def refused(name, fn):
    REFUSED.append(pytest.param(fn, id=name))


LOCK = threading.RLock()


@writes
def operator_setitem(s):
    operator.setitem(s.d, "k", 1)


@writes
def deque_append(s):
    return s.dq.append(2)


@writes
def list_append_unbound(s):
    list.append(s.l, 9)


@writes
def setattr_(s):
    setattr(s, "new", 1)


@writes
def defaultdict_missing(s):
    return s.dd["z"]


@writes
def move_to_end(s):
    s.od["b"] = 2
    s.od.move_to_end("a")


@writes
def sort_with_key(s):
    s.l.sort(key=lambda x: x)


@writes
def set_inplace_or(s):
    s.s.__ior__({5})


@writes
def alias_in_tuple(s):
    (s.l, 1)[0].append(4)


@writes
def alias_through_values(s):
    [v.append(1) for v in s.__dict__.values() if type(v) is list]


@writes
def instance_dict_item(s):
    s.__dict__.__setitem__("q", 1)


@writes
def vars_update(s):
    s.__dict__.update(q=2)


@writes
def object_setattr(s):
    object.__setattr__(s.obj, "a", 1)


@writes
def pop_item(s):
    return s.d.pop("a")


@writes
def cached_property(s):
    return s.p.cp


@writes
def iadd_function(s):
    operator.iadd(s.l, [5])


@writes
def slice_assignment(s):
    s.l.__setitem__(slice(0, 1), [9, 9])


@writes
def list_imul(s):
    s.l.__imul__(2)


@writes
def global_variable(s):
    global WRITTEN
    WRITTEN = 5
    return WRITTEN


@writes
def heap_and_bisect(s):
    heapq.heappush(s.l, 0)
    bisect.insort(s.l, 2)


@writes
def swap_attributes(s):
    s.l, s.d = s.d, s.l


@writes
def append_while_iterating(s):
    for v in s.l:
        if len(s.l) < 6:
            s.l.append(v)
    return list(s.l)


@writes
def augmented(s):
    s.n += 1
    s.n *= 3
    return s.n


@writes
def delete_attribute(s):
    del s.n
    return hasattr(s, "n")


@writes
def nested_alias(s):
    s.d["k"] = s.l
    s.d["k"].append(9)
    return s.d


@writes
def new_objects(s):
    s.obj.child = Outside()
    s.obj.child.x = [s.l]
    return s.obj.child


@writes
def read_back_through_dict(s):
    s.zz = 4
    return (
        s.__dict__["zz"],
        "zz" in s.__dict__,
        sorted(k for k in s.__dict__ if len(k) < 2),
        vars(s)["zz"],
    )


@writes
def slices(s):
    s.l[1:] = [7, 8]
    del s.l[0]
    s.l.sort()
    s.l.reverse()
    return s.l


@writes
def dict_methods(s):
    s.d.update(b=2)
    s.d.setdefault("c", []).append(1)
    s.d.pop("a")
    return list(s.d.items())


@writes
def deque_methods(s):
    s.dq.extend([1, 2])
    s.dq.appendleft(0)
    return len(s.dq)


@writes
def set_methods(s):
    s.s.add(4)
    s.s |= {5}
    s.s.discard(1)
    return sorted(s.s)


@writes
def lock(s):
    with LOCK:
        s.n = 7


@writes
def closure_cell(s):
    n = 0

    def bump():
        nonlocal n
        n += 1
        return n

    bump()
    s.bump = bump()


refused("next_iterator", lambda s: next(s.it))
refused("next_generator", lambda s: next(s.gen))
refused("next_count", lambda s: next(s.c))
refused("list_of_iterator", lambda s: list(s.it))
refused("zip_of_generator", lambda s: list(zip(s.gen, [1, 2])))
refused("thread_local", lambda s: setattr(s.tls, "x", 1))
refused("random", lambda s: random.random())
refused("map_append", lambda s: list(map(s.l.append, [7])))
refused("bytearray_append", lambda s: s.ba.append(1))
refused("class_attribute", lambda s: setattr(type(s), "class_attribute", 1))
refused("partial_append", lambda s: functools.partial(s.l.append, 3)())
refused("methodcaller", lambda s: operator.methodcaller("append", 3)(s.l))
refused("time", lambda s: time.time())
refused("environment", lambda s: os.environ.__setitem__("BRAZE_TEST_WRITTEN", "1"))
refused("exec", lambda s: exec("s.n = 5"))
refused("open", lambda s: open("/dev/null"))


@pytest.mark.parametrize("fn", WRITES)
def test_replayed(fn):
    clean()
    traced, reference = fresh(), fresh()
    before = state(traced)
    captured = capture(fn, traced)
    assert state(traced) == before, "tracing changed something outside"
    assert captured["exit"] == "return", captured["reason"]
    result = captured["run"]()
    after = state(traced)
    clean()
    assert show(result) == show(fn(reference))
    assert after == state(reference)
    clean()


@pytest.mark.parametrize("fn", REFUSED)
def test_refused(fn):
    clean()
    traced = fresh()
    before = state(traced)
    captured = capture(fn, traced)
    assert state(traced) == before, "tracing changed something outside"
    assert not captured["traced"]
    clean()


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.history = []
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        self.calls += 1
        self.history.append(self.calls)
        self.last = x
        self.total = self.total + 1
        return self.linear(x) * self.calls + len(self.history) + self.total


def test_module_with_state():
    torch.manual_seed(0)
    module = Counter()
    torch.manual_seed(0)
    reference = Counter()
    x = torch.randn(2, 4)
    captured = capture(module, x)
    assert module.calls == 0 and not module.history and "last" not in vars(module)
    assert captured["exit"] == "return", captured["reason"]
    assert torch.equal(captured["run"](), reference(x))
    assert (module.calls, module.history) == (reference.calls, reference.history)
    assert torch.equal(module.total, reference.total) and module.last is x
    assert list(vars(module)) == list(vars(reference))


def test_in_place_on_an_argument():
    def f(x, y):
        x.mul_(2)
        return x, y + x

    x, y = torch.ones(3), torch.ones(3)
    captured = capture(f, x, y)
    assert x.tolist() == [1, 1, 1]
    assert any("no overlap" in guard for guard in captured["guards"])
    result, _ = captured["run"]()
    assert result is x and x.tolist() == [2, 2, 2]
