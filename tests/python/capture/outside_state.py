"""Ways to change outside state, most of them through native code: `WAYS` by name, each a function of
what `fresh` gives."""

import array
import bisect
import builtins
import collections
import contextvars
import copy
import decimal
import functools
import gc
import heapq
import io
import itertools
import operator
import os
import queue
import random
import sys
import threading
import types
import warnings
import weakref

import numpy
import torch
from outside_objects import Adds, HasCached, Slots

VARIABLE = contextvars.ContextVar("VARIABLE", default=0)
WRITTEN = None


class Plain:
    kind = 1

    def __init__(self, **values):
        self.__dict__.update(values)

    def __repr__(self):
        return "Plain"


def numbers():
    yield from range(5)


def fresh():
    s = Plain()
    s.list = [3, 1, 2]
    s.dict = {"a": 1}
    s.set = {1}
    s.deque = collections.deque([1, 2], maxlen=3)
    s.ordered = collections.OrderedDict(a=1, b=2)
    s.default = collections.defaultdict(list)
    s.counter = collections.Counter("aab")
    s.chain = collections.ChainMap({"a": 1}, {"b": 2})
    s.user = collections.UserDict(a=1)
    s.bytes = bytearray(b"abc")
    s.array = array.array("i", [1, 2])
    s.iterator = iter([1, 2, 3])
    s.generator = numbers()
    s.count = itertools.count()
    s.cycle = itertools.cycle([1, 2])
    s.zip = zip([1, 2], [3, 4])
    s.child = Plain(value=1)
    s.slots = Slots()
    s.cached = HasCached()
    s.seen = []
    s.adds = Adds(s.seen)
    s.local = threading.local()
    s.namespace = types.SimpleNamespace(a=1)
    s.text = io.StringIO("lines\nof text\n")
    s.queue = queue.SimpleQueue()
    s.lru = functools.lru_cache(lambda x: x + 1)
    s.weak = weakref.WeakValueDictionary()
    s.numpy = numpy.zeros(3)
    s.tensor = torch.zeros(3)
    s.tensors = [torch.zeros(2), torch.ones(2)]
    s.partial = functools.partial(s.list.append, 7)
    s.function = lambda x, y=[]: y
    s.module = types.ModuleType("made")
    s.linear = torch.nn.Linear(2, 2)
    s.generator_of_numbers = random.Random(0)
    s.torch_generator = torch.Generator()
    s.tuple = ([1], {"k": [2]})
    s.property = property(lambda self: 1)
    s.lock = threading.Lock()
    return s


def with_global(s):
    global WRITTEN
    WRITTEN = 5


def with_warning_filters(s):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        s.list.append(float(s.tensor.sum()))


def with_warning_filters_left(s):
    warnings.simplefilter("ignore", category=ResourceWarning)


def with_finaliser(s):
    class Dies:
        def __del__(self):
            s.seen.append("died")

    Dies()


def with_finally(s):
    def g():
        try:
            yield 1
        finally:
            s.seen.append("closed")

    next(g())


def with_weakref_callback(s):
    made = Plain()
    reference = weakref.ref(made, lambda r: s.seen.append("gone"))
    del made
    return reference() is None


def with_excepthook(s):
    try:
        raise ValueError
    except ValueError as error:
        s.child.error = type(error)


def with_descriptor(s):
    class D:
        def __set__(self, instance, value):
            s.seen.append(value)

    class Has:
        d = D()

    Has().d = 3


def with_init_subclass(s):
    class Parent:
        def __init_subclass__(cls):
            s.seen.append(cls.__name__)

    class Child(Parent):
        pass


def with_metaclass(s):
    class Meta(type):
        def __prepare__(name, bases):
            return s.dict

    class Made(metaclass=Meta):
        attribute = 1


def with_class_body(s):
    class Made:
        s.list.append(4)
        s.child.value = 9


def with_set_name(s):
    class D:
        def __set_name__(self, owner, name):
            s.seen.append(name)

    class Has:
        d = D()


WAYS = {
    "list.append": lambda s: s.list.append(4),
    "list.append unbound": lambda s: list.append(s.list, 4),
    "list.sort with key": lambda s: s.list.sort(key=lambda v: -v),
    "list.__setitem__ of a slice": lambda s: s.list.__setitem__(slice(0, 1), [9, 9]),
    "list.__imul__": lambda s: s.list.__imul__(2),
    "list.__init__": lambda s: s.list.__init__([5]),
    "list.__iadd__ by operator": lambda s: operator.iadd(s.list, [5]),
    "getattr of append": lambda s: getattr(s.list, "append")(1),
    "method of a type": lambda s: type(s.list).extend(s.list, (1, 2)),
    "map of append": lambda s: list(map(s.list.append, [7])),
    "filter of a method": lambda s: list(filter(s.set.add, [7])),
    "sorted with an effect": lambda s: sorted([2, 1], key=s.list.append and s.seen.append),
    "min with an effect": lambda s: min([2, 1], key=lambda v: s.seen.append(v) or v),
    "reduce with an effect": lambda s: functools.reduce(lambda a, b: s.seen.append(b), [1, 2]),
    "partial of append": lambda s: functools.partial(s.list.append, 3)(),
    "partial from outside": lambda s: s.partial(),
    "methodcaller": lambda s: operator.methodcaller("append", 3)(s.list),
    "starmap": lambda s: list(itertools.starmap(s.list.insert, [(0, 1)])),
    "accumulate": lambda s: list(itertools.accumulate([1, 2], lambda a, b: s.seen.append(a) or b)),
    "alias in a tuple": lambda s: (s.list, 1)[0].append(4),
    "list inside a tuple": lambda s: s.tuple[0].append(4),
    "list in a dict in a tuple": lambda s: s.tuple[1]["k"].append(4),
    "alias through values": lambda s: [v.append(1) for v in vars(s).values() if type(v) is list],
    "heappush": lambda s: heapq.heappush(s.list, 0),
    "heappop": lambda s: heapq.heappop(s.list),
    "heapify": lambda s: heapq.heapify(s.list),
    "heapreplace": lambda s: heapq.heapreplace(s.list, 9),
    "insort": lambda s: bisect.insort(s.list, 2),
    "random.shuffle": lambda s: random.shuffle(s.list),
    "setitem by operator": lambda s: operator.setitem(s.dict, "k", 1),
    "delitem by operator": lambda s: operator.delitem(s.dict, "a"),
    "dict.update": lambda s: s.dict.update(b=2),
    "dict.pop": lambda s: s.dict.pop("a"),
    "dict.__ior__": lambda s: s.dict.__ior__({"z": 1}),
    "dict.setdefault": lambda s: s.dict.setdefault("l", []).append(1),
    "dict.fromkeys": lambda s: s.dict.update(dict.fromkeys("xy", 0)),
    "set.__ior__": lambda s: s.set.__ior__({5}),
    "set.pop": lambda s: s.set.pop(),
    "set.symmetric_difference_update": lambda s: s.set.symmetric_difference_update({1, 2}),
    "deque.append at its limit": lambda s: (s.deque.append(3), s.deque.append(4)),
    "deque.rotate": lambda s: s.deque.rotate(1),
    "OrderedDict.move_to_end": lambda s: s.ordered.move_to_end("a"),
    "OrderedDict.popitem": lambda s: s.ordered.popitem(last=False),
    "defaultdict missing": lambda s: s.default["z"],
    "defaultdict by getitem": lambda s: operator.getitem(s.default, "z"),
    "defaultdict by itemgetter": lambda s: operator.itemgetter("z")(s.default),
    "defaultdict in format": lambda s: "{0[z]}".format(s.default),
    "Counter.update": lambda s: s.counter.update("xyz"),
    "Counter.__iadd__": lambda s: s.counter.__iadd__(collections.Counter("q")),
    "_count_elements": lambda s: collections._count_elements(s.dict, "ab"),
    "ChainMap": lambda s: s.chain.__setitem__("z", 1),
    "UserDict": lambda s: s.user.update(z=1),
    "bytearray.append": lambda s: s.bytes.append(1),
    "bytearray item": lambda s: s.bytes.__setitem__(0, 9),
    "memoryview item": lambda s: memoryview(s.bytes).__setitem__(0, 9),
    "array.append": lambda s: s.array.append(1),
    "array item": lambda s: operator.setitem(s.array, 0, 5),
    "struct.pack_into": lambda s: __import__("struct").pack_into("b", s.bytes, 0, 7),
    "next of an iterator": lambda s: next(s.iterator),
    "next of a generator": lambda s: next(s.generator),
    "next of count": lambda s: next(s.count),
    "next of cycle": lambda s: next(s.cycle),
    "next of zip": lambda s: next(s.zip),
    "list of an iterator": lambda s: list(s.iterator),
    "sum of a generator": lambda s: sum(s.generator),
    "membership in an iterator": lambda s: 2 in s.iterator,
    "unpacked iterator": lambda s: (lambda *a: a)(*s.iterator),
    "iterator in zip": lambda s: list(zip(s.iterator, [1])),
    "iterator in join": lambda s: ",".join(map(str, s.iterator)),
    "iterator in extend": lambda s: [].extend(s.iterator),
    "iterator in islice": lambda s: list(itertools.islice(s.iterator, 1)),
    "iterator in tee": lambda s: next(itertools.tee(s.iterator)[0]),
    "iterator in deque": lambda s: collections.deque(s.iterator),
    "iterator in dict": lambda s: dict.fromkeys(s.iterator),
    "iterator in any": lambda s: any(s.iterator),
    "generator sent to": lambda s: (next(s.generator), s.generator.send(None)),
    "generator closed": lambda s: s.generator.close(),
    "generator thrown into": lambda s: s.generator.throw(StopIteration),
    "copy of an iterator": lambda s: next(copy.copy(s.iterator)),
    "setattr": lambda s: setattr(s, "new", 1),
    "setattr twice and delattr": lambda s: (setattr(s, "new", 1), delattr(s, "new")),
    "object.__setattr__": lambda s: object.__setattr__(s.child, "value", 7),
    "object.__delattr__": lambda s: object.__delattr__(s.child, "value"),
    "__dict__ item": lambda s: s.__dict__.__setitem__("new", 1),
    "vars().update": lambda s: vars(s.child).update(value=4, other=5),
    "__dict__ replaced": lambda s: setattr(s.child, "__dict__", {"x": 1}),
    "__class__ replaced": lambda s: setattr(s.child, "__class__", HasCached),
    "slot": lambda s: setattr(s.slots, "a", 5),
    "slot by its descriptor": lambda s: Slots.a.__set__(s.slots, 5),
    "namespace": lambda s: setattr(s.namespace, "b", 2),
    "thread local": lambda s: setattr(s.local, "x", 1),
    "cached_property": lambda s: s.cached.cached,
    "lru_cache": lambda s: s.lru(3),
    "lru_cache cleared": lambda s: s.lru.cache_clear(),
    "class attribute": lambda s: setattr(Plain, "kind", 2),
    "new class attribute": lambda s: setattr(type(s), "extra", 2),
    "type.__setattr__": lambda s: type.__setattr__(Plain, "extra", 2),
    "function default": lambda s: s.function(1).append(1),
    "function defaults replaced": lambda s: setattr(s.function, "__defaults__", (1,)),
    "function attribute": lambda s: setattr(s.function, "tag", 1),
    "function code": lambda s: setattr(Plain.__init__, "__code__", numbers.__code__),
    "function globals": lambda s: s.function.__globals__.__setitem__("WRITTEN", 6),
    "global": with_global,
    "globals()": lambda s: globals().__setitem__("WRITTEN", 7),
    "exec": lambda s: exec("s.list.append(1)"),
    "eval": lambda s: eval("s.list.append(1)"),
    "module attribute": lambda s: setattr(s.module, "x", 1),
    "module attribute by vars": lambda s: vars(s.module).update(x=1),
    "builtins": lambda s: setattr(builtins, "braze_written", 1),
    "sys.modules": lambda s: sys.modules.__setitem__("braze_made", s.module),
    "sys.setrecursionlimit": lambda s: sys.setrecursionlimit(5000),
    "sys.setswitchinterval": lambda s: sys.setswitchinterval(0.01),
    "gc.disable": lambda s: gc.disable(),
    "decimal context": lambda s: setattr(decimal.getcontext(), "prec", 5),
    "environment": lambda s: os.environ.__setitem__("BRAZE_TEST_WRITTEN", "1"),
    "putenv": lambda s: os.environ.setdefault("BRAZE_TEST_WRITTEN", "2"),
    "context variable": lambda s: VARIABLE.set(3),
    "context run": lambda s: contextvars.copy_context().run(s.list.append, 1),
    "StringIO.write": lambda s: s.text.write("more"),
    "StringIO.read": lambda s: s.text.readline(),
    "iteration over StringIO": lambda s: list(s.text),
    "queue.put": lambda s: s.queue.put(1),
    "io readinto": lambda s: io.BytesIO(b"zz").readinto(s.bytes),
    "lock": lambda s: s.lock.acquire(),
    "weak dictionary": lambda s: s.weak.__setitem__("k", s.child),
    "random.random": lambda s: random.random(),
    "own Random": lambda s: s.generator_of_numbers.random(),
    "numpy random": lambda s: numpy.random.rand(2),
    "numpy item": lambda s: s.numpy.__setitem__(0, 1),
    "numpy fill": lambda s: s.numpy.fill(2),
    "numpy ufunc out": lambda s: numpy.add(s.numpy, 1, out=s.numpy),
    "numpy of a tensor": lambda s: s.tensor.numpy().fill(3),
    "from_numpy": lambda s: torch.from_numpy(s.numpy).add_(1),
    "tensor in place": lambda s: s.tensor.add_(1),
    "tensor item": lambda s: s.tensor.__setitem__(0, 5),
    "tensor out": lambda s: torch.add(s.tensor, 1, out=s.tensor),
    "tensor view": lambda s: s.tensor[:2].mul_(0).add_(7),
    "tensor data": lambda s: s.tensor.data.add_(1),
    "tensor data replaced": lambda s: setattr(s.tensor, "data", torch.ones(3)),
    "tensor set_": lambda s: s.tensor.set_(torch.ones(3)),
    "tensor resize_": lambda s: s.tensor.resize_(1),
    "tensor storage": lambda s: s.tensor.untyped_storage().fill_(0),
    "tensor attribute": lambda s: setattr(s.tensor, "tag", 1),
    "tensor grad": lambda s: setattr(s.tensor, "grad", torch.ones(3)),
    "tensor requires_grad_": lambda s: s.tensor.requires_grad_(),
    "tensors by foreach": lambda s: torch._foreach_add_(s.tensors, 1),
    "tensor copy_ in a list": lambda s: s.tensors[0].copy_(s.tensors[1]),
    "tensor fill by init": lambda s: torch.nn.init.constant_(s.tensor, 2),
    "torch random": lambda s: torch.rand(2) * 0,
    "torch generator": lambda s: torch.rand(2, generator=s.torch_generator) * 0,
    "torch seed": lambda s: torch.manual_seed(4).device,
    "torch threads": lambda s: torch.set_num_threads(2),
    "torch default dtype": lambda s: torch.set_default_dtype(torch.float64),
    "torch deterministic": lambda s: torch.use_deterministic_algorithms(True),
    "grad mode": lambda s: torch.set_grad_enabled(True) and None,
    "module parameter": lambda s: setattr(s.linear, "bias", None),
    "module buffer": lambda s: s.linear.register_buffer("b", torch.ones(1)),
    "module mode": lambda s: s.linear.eval().training,
    "module frozen": lambda s: s.linear.requires_grad_(False) and None,
    "module state dict": lambda s: s.linear.load_state_dict(s.linear.state_dict()) and None,
    "len of an object": lambda s: len(s.adds),
    "hash of an object": lambda s: {s.adds: 1} and None,
    "== of an object": lambda s: s.adds == 3,
    "== inside a list": lambda s: [s.adds] == [3],
    "< in sorted": lambda s: len(sorted([s.adds, s.adds])),
    "repr of an object": lambda s: repr(s.adds),
    "repr inside a list": lambda s: repr([s.adds]),
    "format of an object": lambda s: f"{s.adds:3}",
    "format by str.format": lambda s: "{:3}".format(s.adds),
    "% of an object": lambda s: "%r" % (s.adds,),
    "truth of an object": lambda s: not s.adds,
    "membership in an object": lambda s: 3 in s.adds,
    "index of an object": lambda s: [1, 2][s.adds],
    "range of an object": lambda s: len(range(s.adds)),
    "iteration over an object": lambda s: list(s.adds),
    "item of an object": lambda s: s.adds[0],
    "call of an object": lambda s: s.adds(1),
    "+ of an object": lambda s: s.adds + 1,
    "sum with an object": lambda s: sum([1], s.adds),
    "float of an object": lambda s: float(s.adds),
    "int of an object": lambda s: int(s.adds),
    "round of an object": lambda s: round(s.adds),
    "abs of an object": lambda s: abs(s.adds),
    "reversed of an object": lambda s: list(reversed(s.adds)),
    "max of objects": lambda s: max([s.adds, s.adds]) and None,
    "count of an object": lambda s: [1, 2].count(s.adds),
    "index by comparison": lambda s: (1, 2).index(s.adds),
    "remove by comparison": lambda s: s.list.remove(s.adds),
    "warning filters": with_warning_filters,
    "warning filters left changed": with_warning_filters_left,
    "finaliser": with_finaliser,
    "finally of a generator": with_finally,
    "weak reference callback": with_weakref_callback,
    "exception type kept": with_excepthook,
    "descriptor of a local class": with_descriptor,
    "__init_subclass__": with_init_subclass,
    "__prepare__ gives an outside dict": with_metaclass,
    "class body": with_class_body,
    "__set_name__": with_set_name,
    "__import__": lambda s: setattr(__import__("outside_state"), "WRITTEN", 8),
    "copy.copy then write": lambda s: copy.copy(s.child).__dict__.update(value=3),
    "deepcopy then write": lambda s: copy.deepcopy(s.tuple)[0].append(3),
    "print": lambda s: print("printed", file=s.text),
}  # fmt: skip
